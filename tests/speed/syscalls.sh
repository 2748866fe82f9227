#!/bin/bash
# syscalls.sh [SERVER_BINARY]
# System calls of the server per call of each hot procedure: strace -c -f around a fixed number of
# calls on one warm connection, less those that the same number of NULL calls costs (receive, send,
# wait). Prints the table of docs/bench/syscalls.md. Needs strace; works without root, but root
# shows the server as most run it.
set -eu
cd "$(dirname "$0")/../.."
command -v strace >/dev/null || { echo "syscalls.sh: install strace" >&2; exit 2; }
server=${1:-}
if [ -z "$server" ]; then
  cargo build --release --quiet --package bowline
  server=${CARGO_TARGET_DIR:-target}/release/bowline
fi
cargo build --release --quiet --package bowline-client --example calls
calls=${CARGO_TARGET_DIR:-target}/release/examples/calls
work=$(mktemp -d)
trap 'kill $pid 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/export" "$work/export/dir"
head -c 65536 /dev/urandom >"$work/export/f"
for n in $(seq 100); do echo "$n" >"$work/export/dir/entry$n"; done
chmod -R a+rwX "$work/export"
printf '%s *(rw,async,no_root_squash,insecure)\n' "$work/export" >"$work/exports"
"$server" serve --exports "$work/exports" --port 22049 --portmap off --state-dir "$work/state" \
  --control "$work/control.sock" >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 100); do (: </dev/tcp/127.0.0.1/22049) 2>/dev/null && break; sleep 0.1; done
count=1000
# trace PROCEDURE UID: one line "name calls" for each system call of the server
trace() {
  "$calls" 127.0.0.1:22049 "$work/export" "$1" "$2" 200 # warm
  strace -c -f -o "$work/trace" -p "$pid" 2>/dev/null &
  local tracer=$!
  sleep 1
  "$calls" 127.0.0.1:22049 "$work/export" "$1" "$2" $count
  sleep 0.2
  kill -INT $tracer
  wait $tracer 2>/dev/null || true
  awk '$1 ~ /^[0-9.]+$/ && $NF != "total" { print $NF, $4 }' "$work/trace"
}
printf '| call | caller | system calls | which |\n| --- | --- | --- | --- |\n'
for uid in 0 1000; do
  for procedure in null getattr access lookup lookup-none read-4k write-32k create-remove readdirplus-100; do
    [ $uid = 1000 ] && [ $procedure = null ] && continue
    trace "$procedure" "$uid" | awk -v n=$count -v what="$procedure" -v uid=$uid '
      # what belongs to the connection, and to the threads that wake each second
      $1 ~ /^(recvfrom|recvmsg|sendto|sendmsg|writev|epoll_wait|epoll_pwait|epoll_pwait2|futex|accept4|epoll_ctl|shutdown)$/ { next }
      $2 / n >= 0.05 { sum += $2 / n; list = list sprintf("%s%s %.1f", list == "" ? "" : ", ", $1, $2 / n) }
      END { printf "| %s | uid %s | %.1f | %s |\n", what, uid, sum, list == "" ? "none" : list }'
  done
done
