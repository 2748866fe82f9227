#!/bin/bash
# registries.sh BOWLINE
# Clients that come from package registries, against one server in a private network namespace: a client in Go
# with its own test, one in Python (registries.py: every procedure of version 3), qemu's. Run by hand, with access
# to the network: needs go, python3 with venv, and qemu-img with its NFS driver (qemu-block-extra), and fetches the
# others into a directory that it removes. Each check prints "ok NAME"; the exit status counts the failures.
set -u
bowline=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${INSIDE:-}" ]; then
  fetched=$(mktemp -d)
  trap 'chmod -R u+w "$fetched"; rm -rf "$fetched"' EXIT
  export GOPATH=$fetched/go GOFLAGS=-modcacherw
  go install github.com/willscott/go-nfs-client/nfs/example/test@v0.0.0-20251022144359-801f10d98886 || exit 2
  python3 -m venv "$fetched/python" && "$fetched/python/bin/pip" --quiet install pyNfsClient==0.1.5 || exit 2
  INSIDE=$fetched unshare -n -m --pid --fork --kill-child --mount-proc "$0" "$bowline"
  exit
fi
. "$here/rig.sh"
serve "$bowline"

go_client() { (cd "$work" && "$INSIDE/go/bin/test" "127.0.0.1:$dir" tried) && [ ! -e "$dir/tried" ]; }
python_client() { "$INSIDE/python/bin/python" "$here/registries.py" "$dir" && [ -z "$(ls -A "$dir")" ]; }
qemu() {
  local image=nfs://127.0.0.1$dir/disk.qcow2
  head -c 30000000 /dev/urandom >"$work/raw"
  qemu-img convert -f raw -O qcow2 "$work/raw" "$image" && qemu-img compare -f raw -F qcow2 "$work/raw" "$image" &&
    qemu-img snapshot -c before "$image" && qemu-img bench -w -t none -c 400 -d 16 -s 65536 -f qcow2 "$image" &&
    qemu-img check "$image" && qemu-img snapshot -a before "$image" &&
    qemu-img compare -f raw -F qcow2 "$work/raw" "$image"
}
check "the client in Go" go_client
check "the client in Python" python_client
check "qemu's disk image" qemu
exit $failed
