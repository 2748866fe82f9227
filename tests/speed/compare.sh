#!/bin/bash
# compare.sh [ROUNDS [SECONDS]]
# Server CPU per call of Bowline and of Debian's nfs-ganesha, interleaved in one run over loopback in
# a private network namespace; both export the same directory. Needs root and the package
# nfs-ganesha-vfs. Prints a table; see crates/client/examples/speed.rs for what is measured.
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "compare.sh: needs root (a network namespace, nfs-ganesha)" >&2; exit 2; }
command -v ganesha.nfsd >/dev/null || { echo "compare.sh: install nfs-ganesha-vfs and rpcbind" >&2; exit 2; }
if [ -z "${INSIDE:-}" ]; then
  cargo build --release --quiet --package bowline
  cargo build --release --quiet --package bowline-client --example speed
  INSIDE=1 exec unshare -n -m --kill-child --fork --pid --mount-proc "$0" "$@"
fi
ip link set lo up
mount -t tmpfs none /run
mkdir -p /run/rpcbind /run/ganesha /run/dbus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/export"
head -c 65536 /dev/urandom >"$work/export/f"
rpcbind -w
cat >"$work/ganesha.conf" <<END
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 12049; MNT_Port = 12050; Enable_NLM = false; Enable_RQUOTA = false; }
EXPORT { Export_Id = 1; Path = $work/export; Pseudo = /x; Access_Type = RW; Squash = No_Root_Squash;
  Protocols = 3; SecType = sys; FSAL { Name = VFS; } }
LOG { Default_Log_Level = CRIT; }
END
ganesha.nfsd -F -L "$work/ganesha.log" -f "$work/ganesha.conf" -p "$work/ganesha.pid" &
ganesha=$!
printf '%s *(rw,no_root_squash,insecure)\n' "$work/export" >"$work/exports"
target/release/bowline serve --exports "$work/exports" --port 2049 --portmap off \
  --state-dir "$work/state" --control "$work/control.sock" >"$work/bowline.log" 2>&1 &
bowline=$!
for port in 2049 12049 12050; do
  for _ in $(seq 100); do (: </dev/tcp/127.0.0.1/$port) 2>/dev/null && break; sleep 0.1; done
done
target/release/examples/speed "${1:-5}" "${2:-2}" \
  "bowline=2049,2049,$work/export,$bowline" "ganesha=12049,12050,$work/export,$ganesha"
kill $bowline $ganesha
