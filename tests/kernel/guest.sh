#!/bin/bash
# guest.sh CHECKS[,CHECKS...] [MOUNT OPTION...[|MOUNT OPTION...]]
# The guest's side: mounts the exports of server.sh and runs checks/CHECKS.py there, one file after the other. Each
# check prints "ok NAME"; the last line of a file counts them. Warnings of the client's kernel fail the test. Mount options
# separated by a bar are those of one guest each; `newest` are none at all, as in the command that the server prints.
set -e
checks=$1
IFS='|' read -r -a options <<<"${2:-}"
extra=${options[$((GUEST - 1))]-${options[0]-}} extra=${extra:+,$extra}
for i in $(seq 200); do (: </dev/tcp/$SERVER/2049) 2>/dev/null && break; sleep 0.05; done
export_dir=$(cut -d' ' -f1 "$JOB/exports" | head -n 1)
here=$(dirname "$(cat "$JOB/script")")
o=proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock,hard$extra
case $checks in
  *locks* | *recovery* | *delegations*)
    # a default mount: all ports are looked up at the server's port mapper, and the client's own lock and
    # status managers are found by its
    o=hard$extra
    rpcbind -w
    # of a guest that was switched off and on again: what is on its disk
    [ ! -d "$JOB/nfs.$GUEST" ] || cp -a "$JOB/nfs.$GUEST/." /var/lib/nfs/
    rpc.statd --no-notify
    [ ! -d "$JOB/nfs.$GUEST" ] || sm-notify
    ;;
  *) ;;
esac
case $o in
  *,newest) attach() { mount -t nfs "$1" "$2"; } ;;
  *vers=2*)
    modprobe nfsv2
    attach() { python3 "$here/mount_v2.py" "$1" "$2" "$o,addr=$SERVER,mountaddr=$SERVER"; }
    ;;
  *vers=4*) attach() { mount -t nfs -o "proto=tcp,port=2049,hard$extra" "$1" "$2"; } ;;
  *) attach() { mount -t nfs -o "vers=3,$o" "$1" "$2"; } ;;
esac
if [ "$checks" = names ]; then
  # the client sends names as well, as without AUTH_SYS
  printf '[General]\nDomain = lab.example\n' >/etc/idmapd.conf
  echo N >/sys/module/nfs/parameters/nfs4_disable_idmapping
fi
mkdir -p /mnt/a /mnt/ro /mnt/squash
for d in a ro squash; do
  attach "$SERVER:${export_dir%/a}/$d" /mnt/$d
done
cd /mnt/a
status=0
for check in ${checks//,/ }; do
  echo "checks $check:"
  PYTHONDONTWRITEBYTECODE=1 python3 "$here/checks/$check.py" || status=$?
done
echo "checks over"
cd /
for d in a ro squash; do umount /mnt/$d || umount -f -l /mnt/$d; done
expected='not responding|server .* OK|Register|transport module'
# a check that takes a client's locks away
case $checks in recovery | delegations) expected="$expected|lost [0-9]+ locks" ;; *) ;; esac
if dmesg | grep -E 'NFS: |nfs: |RPC: ' | grep -vE "$expected"; then
  echo "not ok the client's kernel complained"
  status=1
fi
exit $status
