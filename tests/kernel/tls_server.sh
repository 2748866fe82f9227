#!/bin/bash
# tls_server.sh BOWLINE KIND TREE CHECKS [MOUNT OPTIONS]
# In a guest whose kernel has TLS for NFS: Bowline and the kernel's client both, so that the server's TLS records are the
# kernel's too. Runs the checks of guest.sh over exports of KIND (tls or mtls), and then prints which connections the kernel has
# taken over and how many bytes READ has not copied; none of either fails. See tls.sh, $SERVER_IN_GUEST.
set -u
bowline=$1 kind=$2 checks=$4 options=${5:-xprtsec=$2}
here=$(dirname "$(<"$JOB/script")")
export TLSHD_TREE=$3 KC_JOB=/run/server SERVER=127.0.0.1
mkdir -p $KC_JOB
mount -t tmpfs tmpfs $KC_JOB
echo "$here/guest.sh" >$KC_JOB/script
modprobe tls || exit 1
cc -shared -fPIC -o $KC_JOB/vdso.so "$here/vdso.c" || exit 1
printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$KC_JOB/vdso.so" "$bowline" >$KC_JOB/bowline
chmod +x $KC_JOB/bowline
bowline=$KC_JOB/bowline
"$here/server.sh" "$bowline" "$kind" >$KC_JOB/log 2>&1 &
export JOB=$KC_JOB
"$here/guest.sh" "$checks" "$options"
status=$?
control() { "$bowline" "$@" --control $KC_JOB/control.sock; }
control conns --wide
control status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
counters = {row["name"]: row["value"] for row in status["counters"]}
print("kernel TLS:", status["kernel_tls"])
for name in ("tls-handshakes", "tls-in-kernel", "bytes-not-copied", "copied-sealed"):
    print(name, counters.get(name, 0))
if not (counters.get("tls-in-kernel") == counters.get("tls-handshakes") and counters.get("bytes-not-copied")):
    sys.exit("the kernel was not used")' || status=1
[ $status = 0 ] || tail -n 20 $KC_JOB/log
exit $status
