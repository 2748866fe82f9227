#!/bin/bash
# kerberos.sh BOWLINE
# The guest's side of the Kerberos test: a realm with its KDC, Bowline, and the kernel's client with rpc.gssd, all in
# one guest. alice has a ticket, bob has none. Each check prints "ok NAME". At the end the checks that other guests run
# over AUTH_SYS (checks/*.py) run over each service, as root, whom the machine's principal is then mapped to.
set -u
bowline=$1
realm=/run/realm
mkdir -p -m 700 /run/state
mkdir -p $realm /run/rpc_pipefs /mnt/nfs /srv/all/alice /srv/private
export KRB5_KDC_PROFILE=$realm/kdc.conf
echo server.lab.test >/proc/sys/kernel/hostname
printf '127.0.0.1 server.lab.test server localhost\n' >/etc/hosts
printf 'alice:x:61001:61001::/tmp:/bin/sh\nbob:x:61002:61002::/tmp:/bin/sh\n' >>/etc/passwd
printf 'alice:x:61001:\nbob:x:61002:\nwheat:x:61003:alice\n' >>/etc/group
cat >/etc/krb5.conf <<END
[libdefaults]
  default_realm = LAB.TEST
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
[realms]
  LAB.TEST = {
    kdc = 127.0.0.1:88
  }
[domain_realm]
  .lab.test = LAB.TEST
END
cat >$realm/kdc.conf <<END
[kdcdefaults]
  kdc_listen = 127.0.0.1:88
  kdc_tcp_listen = 127.0.0.1:88
[realms]
  LAB.TEST = {
    database_name = $realm/principal
    key_stash_file = $realm/stash
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }
[logging]
  kdc = FILE:$realm/kdc.log
END
{
  kdb5_util create -r LAB.TEST -s -P master
  kadmin.local <<END
addprinc -randkey nfs/server.lab.test
addprinc -randkey host/server.lab.test
addprinc -randkey alice
addprinc -randkey carol/office
ktadd -k $realm/nfs.keytab nfs/server.lab.test
ktadd -k /etc/krb5.keytab host/server.lab.test
ktadd -k $realm/alice.keytab alice
ktadd -k $realm/carol.keytab carol/office
END
} >$realm/log 2>&1
chmod 644 $realm/*.keytab
chmod 600 /etc/krb5.keytab $realm/nfs.keytab
start_kdc() {
  krb5kdc -n >>$realm/kdc.out 2>&1 &
  kdc=$!
}
start_kdc

chown 61001:61001 /srv/all/alice
chmod 700 /srv/all/alice
chmod 1777 /srv/private
head -c 3000000 /dev/urandom >/srv/all/large
chgrp 61003 /srv/all/large
chmod 640 /srv/all/large
echo '# who is who
carol/*@LAB.TEST alice' >$realm/principals
cat >/run/exports <<END
/srv/all *(rw,insecure,sec=sys:krb5:krb5i:krb5p)
/srv/private *(rw,insecure,sec=krb5p)
/srv/k/a *(rw,insecure,no_root_squash,sec=krb5:krb5i:krb5p)
/srv/k/ro *(insecure,no_root_squash,sec=krb5:krb5i:krb5p)
/srv/k/squash *(rw,insecure,sec=krb5:krb5i:krb5p)
/srv/k/mixed *(insecure,sec=sys,ro,all_squash,sec=krb5i,rw,no_all_squash)
END
mkdir -p /srv/k
mount -t tmpfs -o mode=755 tmpfs /srv/k
mkdir -m 1777 /srv/k/a /srv/k/ro /srv/k/squash /srv/k/mixed
serve() {
  "$bowline" serve --exports /run/exports --listen 0.0.0.0 --portmap serve --state-dir /run/state \
    --control /run/control.sock --set versions=2,3,4.1,4.2 --set keytab=$realm/nfs.keytab \
    --set principals=$realm/principals >>/run/server.log 2>&1 &
  server=$!
  for i in $(seq 200); do (: </dev/tcp/127.0.0.1/2049) 2>/dev/null && break; sleep 0.05; done
}
serve
modprobe -a auth_rpcgss rpcsec_gss_krb5 || exit 1
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
printf '[general]\npipefs-directory=/run/rpc_pipefs\n' >/etc/nfs.conf
rpc.gssd -f >/run/gssd.log 2>&1 &
for i in $(seq 100); do [ -e /run/rpc_pipefs/gssd/clntXX/gssd ] && break; sleep 0.05; done

failed=0
check() {
  if "$@" >/run/out 2>&1; then
    echo "ok $*"
  else
    failed=1
    sed 's/^/    /' /run/out
    echo "not ok $*"
  fi
}
as() {
  local uid=$1
  shift
  setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}
ticket() { as 61001 kinit -c FILE:/tmp/krb5cc_61001 -k -t "$realm/$1.keytab" "$2"; }
mount_with() {
  local vers=$1 sec=$2 path=${3:-/srv/all} more=
  [ "$vers" != 3 ] || more=,nolock,port=2049,mountproto=tcp,mountport=2049
  timeout 40 mount -t nfs -o "vers=$vers,proto=tcp,sec=$sec$more" "server.lab.test:$path" /mnt/nfs
}
works_as_alice() {
  as 61001 sh -ec 'cd /mnt/nfs/alice && rm -rf new && mkdir new && cd new && echo text >a && mv a b && ln b c
    ln -s b d && dd if=/dev/urandom of=data bs=64k count=32 conv=fsync status=none
    [ "$(stat -c %u,%g b)" = 61001,61001 ] && md5sum <data' >/run/sum || return
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(cat /run/sum)" = "$(as 61001 sh -c "md5sum </mnt/nfs/alice/new/data")" ] &&
    [ "$(md5sum </srv/all/alice/new/data)" = "$(cat /run/sum)" ] &&
    # by a group that only the server knows alice to be in
    [ "$(as 61001 md5sum /mnt/nfs/large | cut -d " " -f 1)" = "$(md5sum </srv/all/large | cut -d " " -f 1)" ]
}
flavour() {
  mount_with "$1" "$2" && grep " /mnt/nfs .*sec=$2," /proc/mounts || return
  works_as_alice
  local result=$?
  ! as 61002 ls /mnt/nfs/ || result=1
  umount /mnt/nfs
  return $result
}
ticket alice alice || exit 1
for vers in 3 4.1; do
  for sec in krb5 krb5i krb5p; do check flavour $vers $sec; done
done
# above this program has protected the messages
the_library_protects_messages_as_well() {
  "$bowline" set --control /run/control.sock gss-sealing=library || return
  flavour 3 krb5p && flavour 4.1 krb5i && flavour 4.1 krb5p || return
  "$bowline" set --control /run/control.sock gss-sealing=own && flavour 4.1 krb5p
}
check the_library_protects_messages_as_well
sys_is_refused_where_krb5p_is_asked_for() {
  mount_with "$1" krb5p /srv/private && as 61001 touch "/mnt/nfs/by-alice-$1" && umount /mnt/nfs || return
  if mount_with "$1" sys /srv/private; then
    ls /mnt/nfs && touch /mnt/nfs/by-root
    umount /mnt/nfs
  fi
  [ ! -e /srv/private/by-root ] && [ -e "/srv/private/by-alice-$1" ]
}
check sys_is_refused_where_krb5p_is_asked_for 3
check sys_is_refused_where_krb5p_is_asked_for 4.1
a_restarted_server_is_joined_again() {
  mount_with 4.1 krb5i && works_as_alice || return
  kill -9 $server
  wait $server
  serve
  works_as_alice && umount /mnt/nfs
}
check a_restarted_server_is_joined_again
operators_see_who_and_why() {
  mount_with 4.1 krb5i && works_as_alice || return
  "$bowline" clients --json --control /run/control.sock | grep -q '"alice@LAB.TEST"' || return
  umount /mnt/nfs
  "$bowline" explain --control /run/control.sock 127.0.0.1 /srv/private/alice --principal alice@LAB.TEST >/run/explained
  grep -q 'krb5p, of krb5p' /run/explained && grep -q 'alice@LAB.TEST acts as 61001:61001 with groups .*61003' /run/explained &&
    ! "$bowline" explain --control /run/control.sock 127.0.0.1 /srv/private --sec sys || return
  grep '/srv/private: a call of 127.0.0.1.* is refused: its security flavour' /run/server.log
}
check operators_see_who_and_why
the_doctor_finds_nothing_and_then_what_is_wrong() {
  doctor() { "$bowline" doctor krb5 --name server.lab.test --keytab "$1" --user "$2"; }
  doctor $realm/nfs.keytab alice@LAB.TEST >/run/well || { cat /run/well; return 1; }
  cat /run/well
  grep -q 'alice@LAB.TEST is user 61001 with group 61001 and groups .*61003' /run/well &&
    grep -q 'the KDC gave nfs/server.lab.test@LAB.TEST one for nfs/server.lab.test' /run/well || return
  # a keytab of somebody else, keys that are old, a clock that is wrong, no KDC
  ! doctor $realm/alice.keytab alice@LAB.TEST >/run/ill && grep -q 'no key of nfs/server.lab.test' /run/ill || return
  cp $realm/nfs.keytab $realm/old.keytab
  kadmin.local -q "ktadd -k $realm/nfs.keytab nfs/server.lab.test" || return
  ! doctor $realm/old.keytab alice@LAB.TEST >/run/ill && grep -q 'PROBLEM keys .*' /run/ill || { cat /run/ill; return 1; }
  sed -i s/:88/:89/ /etc/krb5.conf
  ! doctor $realm/nfs.keytab alice@LAB.TEST >/run/ill
  local result=$?
  sed -i s/:89/:88/ /etc/krb5.conf
  [ $result = 0 ] && grep -q 'PROBLEM KDC .*Cannot contact any KDC' /run/ill || { cat /run/ill; return 1; }
}
check the_doctor_finds_nothing_and_then_what_is_wrong
users_with_tickets_do_not_need_the_kdc() {
  mount_with 4.1 krb5i && works_as_alice || return
  kill $kdc
  wait $kdc
  works_as_alice
  local result=$?
  # one without a ticket is told so by the client, and the server is not asked
  ticket carol carol/office && result=1
  umount /mnt/nfs
  start_kdc
  for i in $(seq 100); do ticket alice alice && break; sleep 0.05; done
  return $result
}
check users_with_tickets_do_not_need_the_kdc
a_ticket_that_ends_is_replaced() {
  local seconds result
  # on a busy machine it may end before it was used
  for seconds in 5 10 20 40; do
    as 61001 kinit -l ${seconds}s -c FILE:/tmp/krb5cc_61001 -k -t "$realm/alice.keytab" alice && mount_with 4.1 krb5 || return
    as 61001 touch /mnt/nfs/alice/early && break
    umount /mnt/nfs
  done
  while as 61001 klist -s -c FILE:/tmp/krb5cc_61001; do sleep 0.5; done
  # the kernel counts the seconds of the context from when it was made
  sleep 3
  ! timeout 5 setpriv --reuid=61001 --regid=61001 --clear-groups touch /mnt/nfs/alice/late
  result=$?
  ticket alice alice || result=1
  # the client asks for the new one five seconds after it has learnt that the old one has ended
  for seconds in $(seq 60); do as 61001 touch /mnt/nfs/alice/again 2>/dev/null && break; sleep 0.5; done
  works_as_alice || result=1
  umount /mnt/nfs
  return $result
}
check a_ticket_that_ends_is_replaced
new_keys_count_at_once() {
  kadmin.local -q "ktadd -k $realm/nfs.keytab nfs/server.lab.test" && ticket alice alice || return
  mount_with 4.1 krb5 && works_as_alice && umount /mnt/nfs
}
check new_keys_count_at_once
the_table_says_who_a_principal_is() {
  ticket carol carol/office && mount_with 4.1 krb5p && works_as_alice && umount /mnt/nfs
}
check the_table_says_who_a_principal_is
nobody_is_root_by_a_ticket() {
  # root of the client is its machine's principal
  mount_with 4.1 krb5 || return
  local result=0
  touch /mnt/nfs/alice/by-root && result=1
  umount /mnt/nfs
  return $result
}
check nobody_is_root_by_a_ticket
without_a_keytab_the_other_flavours_are_served() {
  "$bowline" set --control /run/control.sock keytab=/nonexistent || return
  "$bowline" status --control /run/control.sock | grep -q 'keytab /nonexistent cannot be used' || return
  mount_with 4.1 sys && ls /mnt/nfs && umount /mnt/nfs || return
  "$bowline" set --control /run/control.sock keytab=$realm/nfs.keytab && mount_with 4.1 krb5i && umount /mnt/nfs
}
check without_a_keytab_the_other_flavours_are_served
# what is written behind each sec= of one rule
options_differ_between_the_flavours_of_a_rule() {
  ticket alice alice && mount_with 4.1 krb5i /srv/k/mixed && as 61001 touch /mnt/nfs/by-alice && umount /mnt/nfs || return
  [ "$(stat -c %u /srv/k/mixed/by-alice)" = 61001 ] && mount_with 4.1 sys /srv/k/mixed || return
  ls /mnt/nfs/by-alice && ! touch /mnt/nfs/by-root
  local result=$?
  umount /mnt/nfs
  "$bowline" explain --control /run/control.sock 127.0.0.1 /srv/k/mixed --sec krb5i | grep -q 'rw and root_squash apply' &&
    return $result
}
check options_differ_between_the_flavours_of_a_rule

checks=/run/checks
here=$(dirname "$(cat /job/script)")
mkdir -p $checks /mnt/a /mnt/ro /mnt/squash
head -n 5 /run/exports | tail -n 3 >$checks/exports
# does what the checks ask for on the server's side
mkfifo $checks/silence
exec {silence}<>$checks/silence
while [ ! -e $checks/end ]; do
  if [ -e $checks/ask ]; then
    mv $checks/ask $checks/asked
    (cd /srv/k && . $checks/asked) >$checks/answer.part 2>&1
    mv $checks/answer.part $checks/answer
  fi
  read -r -t 0.02 -u $silence || true
done &
standard_checks() {
  # what takes long and does not depend on the flavour
  local vers=$1 sec=$2 more= left_out='large_file_there_and_back names_of_every_byte' d list result=0
  if [ "$vers" = 3 ]; then
    more=,nolock,port=2049,mountproto=tcp,mountport=2049
  else
    # Linux sends owners by name where a mount uses Kerberos, and only numbers are known here
    left_out="$left_out owners"
  fi
  for d in a ro squash; do
    timeout 40 mount -t nfs -o "vers=$vers,proto=tcp,sec=$sec$more" "server.lab.test:/srv/k/$d" /mnt/$d || return
  done
  echo "checks over $sec, version $vers"
  cd /mnt/a
  for list in $3; do
    LEFT_OUT=$left_out JOB=$checks PYTHONDONTWRITEBYTECODE=1 python3 "$here/checks/$list.py" || result=1
  done
  cd /
  umount /mnt/a /mnt/ro /mnt/squash
  rm -rf /srv/k/a/*
  [ $result = 0 ] || failed=1
}
echo 'host/*@LAB.TEST root' >$realm/principals.root
"$bowline" set --control /run/control.sock principals=$realm/principals.root || failed=1
standard_checks 3 krb5 objects
standard_checks 4.2 krb5i objects
standard_checks 4.1 krb5p 'objects data'
touch $checks/end
# a worker that acts as alice has stored that the client has files open, in a directory that is the server's alone
records_are_stored_whoever_is_served() { ! grep 'cannot store' /run/server.log; }
check records_are_stored_whoever_is_served
kill $server
wait $server
[ $failed = 0 ] || { echo "the server said:"; tail -n 20 /run/server.log; tail -n 5 /run/gssd.log; tail -n 3 $realm/kdc.log; }
exit $failed
