#!/bin/bash
# server.sh BOWLINE KIND [BOWLINE ARG...]
# The server's side of a kernel-client test: makes an export of KIND in $KC_JOB/export, serves it
# with the binary BOWLINE, and serves requests of the guest through files in $KC_JOB:
#   ask      a shell command to run here (the guest's ask.py waits for the file answer)
#   restart  kill -9 the server and start it again
# KIND: ext4 (a plain directory), tmpfs, xfs and btrfs (an image of 2 GiB), small (a tmpfs of 8 MiB), user (an ordinary user's server),
# container (root without CAP_DAC_READ_SEARCH, as in containers), held (ext4, and the socket is one of this script's, as with
# systemd: it stays when the server is killed), crossing (file systems mounted below the exports, an
# export inside another; `a` has crossmnt), referral (exports that a second server at 10.77.0.2 has), names (owners have the
# names of a domain). tls and mtls are ext4 whose exports demand that, and behind another kind, as in crossing+tls, the same of
# its exports; the guest's certificates are in $KC_JOB/tls.
set -u
bowline=$1 kind=${2%+*} xprtsec=
case $2 in *+*tls) xprtsec=${2##*+} ;; tls | mtls) kind=ext4 xprtsec=$2 ;; *) ;; esac
shift 2
export_dir=$KC_JOB/export state=$KC_JOB/state
mkdir -p "$export_dir" "$state"
case $kind in
  tmpfs) mount -t tmpfs -o size=4g,nr_inodes=2m tmpfs "$export_dir" ;;
  small) mount -t tmpfs -o size=8m tmpfs "$export_dir" ;;
  xfs | btrfs)
    truncate -s 2G "$KC_JOB/$kind.image"
    "mkfs.$kind" -q "$KC_JOB/$kind.image"
    mount -o loop "$KC_JOB/$kind.image" "$export_dir"
    ;;
  *) ;;
esac
env | grep '^LOCK_' >"$KC_JOB/environment" # of whoever runs the test, for the guests
mkdir -p "$export_dir/a" "$export_dir/ro" "$export_dir/squash"
chmod 1777 "$export_dir/a" "$export_dir/squash"
cat >"$KC_JOB/exports" <<END
$export_dir/a       *(rw,no_root_squash,insecure)
$export_dir/ro      *(ro,no_root_squash,insecure)
$export_dir/squash  *(rw,root_squash,insecure)
END
if [ -n "$xprtsec" ]; then
  "$bowline" tls init --dir "$KC_JOB/tls" 10.77.0.1
  "$bowline" tls client --dir "$KC_JOB/tls" client.lab.test
  set -- "$@" --tls-cert "$KC_JOB/tls/server.pem" --tls-key "$KC_JOB/tls/server.key" --tls-client-ca "$KC_JOB/tls/ca.pem"
  echo "$TLSHD_TREE" >"$KC_JOB/tls/tree"
fi
if [ "$kind" = crossing ]; then
  for d in a/tmp a/ext a/btr a/own a/own/nohide ro/covered; do mkdir -p "$export_dir/$d"; done
  touch "$export_dir/ro/covered/below"
  for d in a/tmp ro/covered; do mount -t tmpfs -o mode=1777,size=64m tmpfs "$export_dir/$d"; done
  mkdir "$export_dir/a/tmp/deep"
  mount -t tmpfs -o mode=1777,size=64m tmpfs "$export_dir/a/tmp/deep"
  truncate -s 64m "$KC_JOB/ext"
  truncate -s 256m "$KC_JOB/btr"
  mkfs.ext4 -q "$KC_JOB/ext" && mount -o loop "$KC_JOB/ext" "$export_dir/a/ext"
  mkfs.btrfs -q "$KC_JOB/btr" && mount -o loop "$KC_JOB/btr" "$export_dir/a/btr"
  for s in one two; do
    btrfs -q subvolume create "$export_dir/a/btr/$s"
    echo "$s" >"$export_dir/a/btr/$s/f"
  done
  sed -i '1s/insecure/insecure,crossmnt/' "$KC_JOB/exports"
  cat >>"$KC_JOB/exports" <<END
$export_dir/a/own        *(ro,no_root_squash,insecure)
$export_dir/a/own/nohide *(ro,no_root_squash,insecure,nohide)
END
fi
[ -z "$xprtsec" ] || sed -i "s/insecure/insecure,xprtsec=$xprtsec/" "$KC_JOB/exports"
run="$bowline serve --exports $KC_JOB/exports --listen 0.0.0.0 --port 2049 \
  --state-dir $state --control $KC_JOB/control.sock $*"
[ "$kind" = names ] && run="$run --set idmap-domain=lab.example"
if [ "$kind" = referral ]; then
  mkdir -p "$export_dir/a/away" "$export_dir/there/deep" "$KC_JOB/state2"
  chmod 1777 "$export_dir/there"
  echo here >"$export_dir/a/away/file"
  echo there >"$export_dir/there/file"
  ip addr add 10.77.0.2/24 dev br0
  cat >>"$KC_JOB/exports" <<END
$export_dir/a/away *(rw,no_root_squash,insecure,refer=$export_dir/gone@10.77.0.2:$export_dir/there@10.77.0.2)
$export_dir/other  *(rw,no_root_squash,insecure,refer=$export_dir/there/deep@10.77.0.2)
END
  mkdir "$export_dir/other"
  echo "$export_dir/there *(rw,no_root_squash,insecure)" >"$KC_JOB/exports2"
  "$bowline" serve --exports "$KC_JOB/exports2" --listen 10.77.0.2 --port 2049 --state-dir "$KC_JOB/state2" \
    --control "$KC_JOB/control2.sock" &
  run=${run/0.0.0.0/10.77.0.1}
fi
if [ "$kind" = user ]; then
  # for the port mapper, which clients need for locking
  echo 111 >/proc/sys/net/ipv4/ip_unprivileged_port_start
  chmod 755 "$KC_JOB"
  chown -R 65534:65534 "$export_dir" "$state" "$KC_JOB/exports"
  [ -z "$xprtsec" ] || chown -R 65534:65534 "$KC_JOB/tls"
  install -d -o 65534 -g 65534 -m 700 "$KC_JOB/run"
  cp "$bowline" "$KC_JOB/bowline"
  run="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
    ${run/$bowline/$KC_JOB/bowline}"
  run=${run/control.sock/run\/control.sock}
fi
if [ "$kind" = container ]; then
  run="setpriv --bounding-set=-dac_read_search --inh-caps=-dac_read_search $run"
fi
if [ "$kind" = held ]; then
  # descriptor 3 of this script from here on
  if [ -z "${HELD:-}" ]; then
    export HELD=1
    exec python3 - "$0" "$bowline" "$kind" "$@" <<'END'
import os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 2049))
listener.listen(128)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.execv(sys.argv[1], sys.argv[1:])
END
  fi
  printf '#!/bin/sh\nLISTEN_PID=$$ LISTEN_FDS=1 exec "$@"\n' >"$KC_JOB/held"
  chmod +x "$KC_JOB/held"
  run="$KC_JOB/held $run"
fi
# waits by reading what nobody writes: fifty processes a second for sleep(1) would cost more than the server
mkfifo "$KC_JOB/silence"
exec {silence}<>"$KC_JOB/silence"
while :; do
  $run {silence}<&- &
  pid=$!
  while [ ! -e "$KC_JOB/restart" ]; do
    if [ -e "$KC_JOB/ask" ]; then
      mv "$KC_JOB/ask" "$KC_JOB/asked"
      (cd "$export_dir" && . "$KC_JOB/asked") >"$KC_JOB/answer.part" 2>&1
      mv "$KC_JOB/answer.part" "$KC_JOB/answer"
    fi
    if ! kill -0 $pid 2>/dev/null; then
      wait $pid
      echo "server.sh: the server ended by itself, status $?"
      exit 1
    fi
    read -r -t 0.02 -u $silence || true
  done
  kill -9 $pid
  wait $pid 2>/dev/null
  rm "$KC_JOB/restart"
done
