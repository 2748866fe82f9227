#!/bin/bash
# guest.sh CHECKS[,CHECKS...] [MOUNT OPTION...[|MOUNT OPTION...]]
# The guest's side: mounts the exports of server.sh and runs checks/CHECKS.py there, one file after the other. Each
# check prints "ok NAME"; the last line of a file counts them. Warnings of the client's kernel fail the test. Mount options
# separated by a bar are those of one guest each; `newest` are none at all, as in the command that the server prints.
# For `xprtsec=` the server's exports are of the kind tls or mtls (see tls.sh).
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
# The kernel leaves handshakes to tlshd, which this system may not have: it runs in the tree that the server's side names
handshakes() {
  local tree
  tree=$(<"$JOB/tls/tree")
  mkdir -p "$tree/run/tls"
  cp "$JOB/tls/"{ca.pem,client.lab.test.pem,client.lab.test.key} "$tree/run/tls"
  chown 0:0 "$tree"/run/tls/*
  cat >"$tree/run/tls/conf" <<END
[authenticate.client]
x509.truststore=/run/tls/ca.pem
x509.certificate=/run/tls/client.lab.test.pem
x509.private_key=/run/tls/client.lab.test.key
END
  mount -t proc proc "$tree/proc"
  mount --bind /dev "$tree/dev"
  modprobe tls
  chroot "$tree" tlshd -c /run/tls/conf -s >/run/tlshd.log 2>&1 &
  # ready when it is in a group of generic netlink; till then the kernel fails handshakes at once
  for i in $(seq 100); do
    awk '$2 == 16 && $4 != "00000000" {found = 1} END {exit !found}' /proc/net/netlink && return
    sleep 0.05
  done
  cat /run/tlshd.log
  return 1
}
case $extra in *xprtsec=*) handshakes ;; *) ;; esac
mkdir -p /mnt/a /mnt/ro /mnt/squash
for d in a ro squash; do
  attach "$SERVER:${export_dir%/a}/$d" /mnt/$d
done
case $extra in
  *xprtsec=*) [ "$(grep -c " /mnt/[a-z]* nfs.*${extra##*,}" /proc/mounts)" = 3 ] || { cat /proc/mounts; exit 1; } ;;
  *) ;;
esac
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
