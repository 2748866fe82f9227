#!/bin/bash
# clock.sh BOWLINE
# The guest's side of a test with a clock that jumps by days: serves a directory, mounts it by versions 3 and 4.1, and
# sets the clock forwards and backwards while files are open and locked. Each check prints "ok NAME".
set -u
bowline=$1
mkfs.ext4 -q -F -I 256 /dev/ubda && mkdir -p /mnt/disk /mnt/three /mnt/four /run/state && mount /dev/ubda /mnt/disk || exit 1
mkdir -m 1777 /mnt/disk/d
echo '/mnt/disk/d *(rw,no_root_squash)' >/run/exports
"$bowline" serve --exports /run/exports --listen 0.0.0.0 --portmap serve --state-dir /run/state \
  --control /run/control.sock --set versions=2,3,4.1 >/run/server.log 2>&1 &
server=$!
for i in $(seq 200); do (: </dev/tcp/127.0.0.1/2049) 2>/dev/null && break; sleep 0.05; done
mount -t nfs -o vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=2049,nolock,actimeo=0 \
  127.0.0.1:/mnt/disk/d /mnt/three || exit 1
mount -t nfs -o vers=4.1,proto=tcp,port=2049,actimeo=0 127.0.0.1:/mnt/disk/d /mnt/four || exit 1

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
sessions() { "$bowline" sessions --json --control /run/control.sock; }
opens() { "$bowline" opens --json --control /run/control.sock | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; }

# an open file with a lock of version 4.1, held all the time
exec 9<>/mnt/four/locked
flock -n 9 || exit 1
opened=$(opens)

works() {
  local by
  for by in three four; do
    echo "data $1" >"/mnt/$by/f" && [ "$(cat /mnt/disk/d/f)" = "data $1" ] || return
    # changed on the server, behind the client's cache
    echo "more $1 $by" >/mnt/disk/d/f && [ "$(cat "/mnt/$by/f")" = "more $1 $by" ] || return
    mkdir "/mnt/$by/dir" && mv "/mnt/$by/f" "/mnt/$by/dir/g" && ls "/mnt/$by/dir" | grep -qx g || return
    rm -r "/mnt/$by/dir" || return
  done
  echo kept >&9 || return
  # twice the time of a look at idle connections and files
  sleep 4
}
# the clock of the server is that of the file
times_follow() {
  touch /mnt/three/t && [ "$(($(date +%s) - $(stat -c %Y /mnt/disk/d/t)))" -le 5 ]
}
state_is_kept() {
  sessions | grep -q 127.0.0.1 && [ "$(opens)" = "$opened" ] && ! flock -n /mnt/four/locked true
}
answers_its_operator() {
  "$bowline" status --control /run/control.sock && "$bowline" conns --control /run/control.sock &&
    ! grep -iE 'panick|has slept|lease' /run/server.log
}
jump() {
  date -s "@$(($(date +%s) + $1))" >/dev/null
  check works "after $1 s"
  check times_follow "after $1 s"
  check state_is_kept "after $1 s"
  check answers_its_operator "after $1 s"
}
check works before
jump $((3 * 86400))
jump $((-10 * 86400))
jump $((365 * 86400))
exec 9>&-
umount /mnt/four
umount /mnt/three
ends() {
  kill $server
  for i in $(seq 150); do kill -0 $server 2>/dev/null || return 0; sleep 0.1; done
  return 1
}
check ends
[ $failed = 0 ] || { echo "the server said:"; tail -n 20 /run/server.log; }
exit $failed
