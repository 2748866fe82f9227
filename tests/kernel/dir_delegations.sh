#!/bin/bash
# dir_delegations.sh BOWLINE KERNEL [CHECKS]
# The checks of delegations of directories, by hand and as root: Bowline and the kernel's client both run in a guest, whose
# Linux, the directory KERNEL as $KC_KERNELS of kernel-client.sh names it, has F_SETDELEG and asks for such delegations (7.2 was
# tried). CHECKS are names of checks/*.py with commas between.
set -u
here=$(dirname "$(readlink -f "$0")")
if [ -z "${GUEST:-}" ]; then
  bowline=$(readlink -f "$1")
  export KC_KERNELS=$2
  exec "$here/kernel-client.sh" -t 1500 'exec sleep 1500' "$here/dir_delegations.sh" "$bowline" "$2" "${3:-delegated_directories}"
fi
# in the guest, with its arguments as they were
bowline=$1 checks=$3
here=$(dirname "$(<"$JOB/script")")
export KC_JOB=/run/server SERVER=127.0.0.1
mkdir -p $KC_JOB
mount -t tmpfs tmpfs $KC_JOB
echo "$here/guest.sh" >$KC_JOB/script
cc -shared -fPIC -o $KC_JOB/vdso.so "$here/vdso.c" || exit 1
printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$KC_JOB/vdso.so" "$bowline" >$KC_JOB/bowline
chmod +x $KC_JOB/bowline
"$here/server.sh" "$KC_JOB/bowline" tmpfs >$KC_JOB/log 2>&1 &
export JOB=$KC_JOB
"$here/guest.sh" "$checks" vers=4.2
status=$?
[ $status = 0 ] || tail -n 30 $KC_JOB/log
exit $status
