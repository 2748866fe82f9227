# rig.sh, sourced by the scripts beside it inside of a network namespace of their own: $work, which is removed at the end,
# with the directory $dir for the server; `serve BOWLINE OPTION...`, whose process is $server; `check NAME COMMAND...`,
# which prints "ok NAME" or counts in $failed.
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
mount -t tmpfs none /run
mkdir -p /run/rpcbind
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dir=$work/export
mkdir "$dir"
chmod a+rx "$work"
chmod a+rwx "$dir"
failed=0

serve() {
  local bowline=$1
  shift
  printf '%s *(rw,no_root_squash,insecure)\n' "$dir" >"$work/exports"
  "$bowline" serve --exports "$work/exports" --listen 127.0.0.1 --portmap serve --state-dir "$work/state" \
    --control "$work/control.sock" "$@" >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do (: </dev/tcp/127.0.0.1/2049) 2>/dev/null && break; sleep 0.05; done
}

check() {
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then
    echo "ok $name"
  else
    failed=$((failed + 1))
    sed 's/^/    /' "$work/out" | tail -n 20
    echo "not ok $name"
  fi
}
