#!/bin/bash
# quota.sh FS BOWLINE
# The guest's side of a quota test: makes an FS (ext4 or xfs) with quotas of users, groups and projects on the disk,
# serves it, mounts it, and compares quota(1) over the network with repquota(8) on the disk.
# Each check prints "ok NAME".
set -u
fs=$1 bowline=$2
case $fs in
  ext4) modprobe quota_v2; mkfs.ext4 -q -F -I 256 -O quota,project -E quotatype=usrquota:grpquota:prjquota /dev/ubda ;;
  xfs) mkfs.xfs -q -f /dev/ubda ;;
esac || exit 1
mkdir -p /mnt/disk /mnt/nfs /run/state
mount -t "$fs" -o usrquota,grpquota,prjquota /dev/ubda /mnt/disk || exit 1
chmod 1777 /mnt/disk
mkdir -m 1777 /mnt/disk/project
# in KiB: soft and hard limit, of space and of files
setquota -u 1001 1000 4000 3 90 /mnt/disk && setquota -u 1002 0 5000000000 0 0 /mnt/disk &&
  echo tree:77 >/etc/projid && setquota -g 2001 2000 3000 0 50 /mnt/disk && setquota -P 77 0 8000 0 40 /mnt/disk || exit 1
python3 - <<'END' || exit 1
import fcntl, os, struct
# FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR: new objects in the directory inherit its project
fd = os.open("/mnt/disk/project", os.O_RDONLY)
now = struct.unpack("5I8x", fcntl.ioctl(fd, 0x801C581F, bytes(28)))
fcntl.ioctl(fd, 0x401C5820, struct.pack("5I8x", now[0] | 0x200, now[1], now[2], 77, now[4]))
END
echo '/mnt/disk *(rw,no_root_squash)' >/run/exports
"$bowline" serve --exports /run/exports --listen 0.0.0.0 --portmap serve --state-dir /run/state \
  --control /run/control.sock >/run/server.log 2>&1 &
server=$!
for i in $(seq 200); do (: </dev/tcp/127.0.0.1/2049) 2>/dev/null && break; sleep 0.05; done
mount_again() {
  mount -t nfs -o vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=2049,nolock 127.0.0.1:/mnt/disk /mnt/nfs
}
mount_again || exit 1

failed=0
check() {
  if "$@" >/run/out 2>&1; then
    echo "ok $1"
  else
    failed=1
    sed 's/^/    /' /run/out
    echo "not ok $1"
  fi
}
as() {
  local uid=$1 gid=$2
  shift 2
  setpriv --reuid="$uid" --regid="$gid" --clear-groups "$@"
}
# space, limits, files and limits in one line, from the output of quota and of repquota; times are checked elsewhere
numbers() { awk -v skip="$1" '{ gsub(/\*/, ""); print $(1+skip), $(2+skip), $(3+skip), $(5+skip), $(6+skip), $(7+skip) }'; }
over_nfs() { quota -vwp "$@" | grep '^ *127.0.0.1:/mnt/disk ' | numbers 1; }
on_disk() {
  local kind=$1 id=$2
  sync
  repquota "-vnp$kind" /mnt/disk | grep "^#$id " | numbers 2
}
same() {
  local kind=$1 id=$2 disk nfs try
  # xfs frees preallocated blocks at any time, also between the two
  for try in 1 2 3 4 5 6 7 8 9 10; do
    disk=$(on_disk "$kind" "$id") nfs=$(over_nfs "-$kind" "${3:-$id}")
    echo "$kind $id: on the disk $disk, over the network $nfs"
    [ -n "$disk" ] && [ "$disk" = "$nfs" ] && return
    sleep 0.5
  done
  return 1
}

a_user_has_a_quota() { same u 1001; }
# xfs allocates ahead of what is written
what_users_write_is_counted() {
  as 1001 2001 dd if=/dev/zero of=/mnt/nfs/f bs=100k count=7 conv=fsync status=none && same u 1001 && same g 2001 &&
    over_nfs -u 1001 | awk '{ exit !($1 >= 700 && $1 < 2000 && $4 == 1) }'
}
users_see_their_own() {
  local own try
  # xfs gives back what it has allocated beyond a file's end some time after the last close
  for try in $(seq 20); do
    own=$(as 1001 2001 quota -wpf /mnt/nfs | tail -n 1 | numbers 1)
    [ "$own" != "$(on_disk u 1001)" ] || return 0
    sleep 0.2
  done
  echo "$own after $try tries"
  return 1
}
# 5,000,000,000 KiB do not fit 32 bits in blocks of 1 KiB
limits_of_terabytes_fit() { same u 1002 && over_nfs -u 1002 | grep -q ' 5000000000 '; }
groups_have_quotas() { same g 2001; }
projects_have_quotas() {
  as 1003 2003 dd if=/dev/zero of=/mnt/nfs/project/f bs=100k count=5 conv=fsync status=none && same P 77 tree &&
    over_nfs -P tree | awk '{ exit !($1 >= 500) }'
}
over_the_soft_limit_time_runs() {
  as 1001 2001 dd if=/dev/zero of=/mnt/nfs/f bs=100k count=15 conv=fsync status=none && same u 1001 || return
  local disk nfs
  disk=$(repquota -npu /mnt/disk | grep '^#1001 ' | awk '{ print $6 }')
  nfs=$(quota -wp -u 1001 | grep '^ *127.0.0.1:/mnt/disk ' | awk '{ print $5 }')
  echo "the time ends at $disk, over the network $nfs"
  [ "$disk" -gt 0 ] && [ $((disk - nfs)) -le 3 ] && [ $((nfs - disk)) -le 3 ]
}
nobody_goes_over_the_hard_limit() {
  ! as 1001 2001 dd if=/dev/zero of=/mnt/nfs/f bs=100k count=60 conv=fsync status=none 2>/run/dd &&
    grep 'Disk quota exceeded' /run/dd && same u 1001
}
# four processes of one user fill the quota at once, by files and by space: each error is EDQUOT, and what was
# accepted (fsync and close succeeded) is on the disk
what_was_accepted_under_load_is_there() {
  rm -f /mnt/nfs/f
  mkdir -m 777 /mnt/nfs/load && as 1001 2001 python3 - <<'END' 2>/run/accepted || { cat /run/accepted; return 1; }
import errno, multiprocessing, os, sys

def data(name):
    return (name.encode() * 16384)[: 96 << 10]

def work(worker):
    accepted, refused = [], 0
    for n in range(40):
        name = f"{worker}-{n}"
        try:
            fd = os.open("/mnt/nfs/load/" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            try:
                left = memoryview(data(name))
                while left:
                    left = left[os.write(fd, left):]
                os.fsync(fd)
            finally:
                os.close(fd)
            accepted.append(name)
        except OSError as error:
            if error.errno != errno.EDQUOT:
                sys.exit(f"{name}: {error}")
            refused += 1
    return accepted, refused

with multiprocessing.Pool(4) as pool:
    results = pool.map(work, range(4))
accepted = [name for names, _ in results for name in names]
refused = sum(count for _, count in results)
print(len(accepted), "files accepted,", refused, "refused")
assert accepted and refused, "the quota was reached"
print(*accepted, file=sys.stderr)
END
  umount /mnt/nfs
  echo 3 >/proc/sys/vm/drop_caches
  python3 - <<'END' || return
names = open("/run/accepted").read().split()
for name in names:
    got = open("/mnt/disk/load/" + name, "rb").read()
    assert got == (name.encode() * 16384)[: 96 << 10], f"{name}: {len(got)} bytes"
print(len(names), "files compared")
END
  mount_again && same u 1001
}
for name in a_user_has_a_quota what_users_write_is_counted users_see_their_own limits_of_terabytes_fit \
  groups_have_quotas projects_have_quotas over_the_soft_limit_time_runs nobody_goes_over_the_hard_limit \
  what_was_accepted_under_load_is_there; do
  check "$name"
done
umount /mnt/nfs
kill $server
wait $server
umount /mnt/disk
[ $failed = 0 ] || { echo "the server said:"; tail -n 20 /run/server.log; }
exit $failed
