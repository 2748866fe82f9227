#!/bin/bash
# kernel-client.sh [-n GUESTS] [-t SECONDS] [-d IMAGE] 'SERVER COMMAND' GUEST_SCRIPT [ARG...]
# Starts SERVER COMMAND in a private network namespace, boots GUESTS user-mode
# Linux kernels there, and runs GUEST_SCRIPT as root in each of them. The exit
# status is the first non-zero one of a guest, 124 for a guest over its time.
# In the guest: $SERVER server address, $GUEST 1..N, $GUESTS N, $JOB a directory
# shared by the guests and the host ($KC_JOB for the server command), and `barrier
# NAME` to wait for one another. With -d the file IMAGE is the guests' disk /dev/ubda, and
# $KC_JOB/disk.log records the writes and flushes (volatile.c). Each guest runs on one processor; $KC_SLOT, a number,
# says on which, so that guests of several of these scripts are spread. $KC_KERNELS gives guests other kernels than the
# installed one: for each guest, separated by commas, nothing or a directory with linux.uml, its modules and its C
# library in lib (that of linux.uml names its loader by a relative path); the last is that of all further guests.
# Needs a C compiler; what it makes is kept in $KC_LIBRARIES, if that is set.
set -u
guests=1 limit=120 image=
while getopts n:t:d: o; do
  case $o in n) guests=$OPTARG ;; t) limit=$OPTARG ;; d) image=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
server=$1 script=$(readlink -f "$2")
shift 2
[ "$(id -u)" = 0 ] || { echo "kernel-client: needs root" >&2; exit 2; }
export PATH=$PATH:/usr/sbin:/sbin
need=
for p in linux.uml:user-mode-linux mount.nfs:nfs-common rpcbind:rpcbind \
  busybox:busybox-static ip:iproute2 modprobe:kmod cc:gcc; do
  command -v "${p%:*}" >/dev/null || need="$need ${p#*:}"
done
if [ -n "$need" ]; then
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -y --no-install-recommends $need ||
    { apt-get update && apt-get install -y --no-install-recommends $need; }; } >/dev/null || exit 2
fi
ns=kc$$ job=$(mktemp -d /tmp/kc.XXXXXX) # not below /dev: the guest mounts its own there
cleanup() {
  exec 2>/dev/null # no "Terminated" lines
  for s in TERM KILL; do
    for p in $(ip netns pids $ns 2>/dev/null); do kill -$s "$p" 2>/dev/null; done
    for i in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(ip netns pids $ns 2>/dev/null)" ] || sleep 0.1; done
  done
  ip netns del $ns
  rm -rf "$job"
}
trap cleanup EXIT
trap 'exit 143' INT TERM HUP

# --- the network: a bridge that has the server's address, one tap for each guest
ip netns add $ns || exit 2
ip -n $ns link set lo up
ip -n $ns link add br0 type bridge forward_delay 0
ip -n $ns addr add 10.77.0.1/24 dev br0
ip -n $ns link set br0 up

# --- the server (with a /run of its own, so that an rpcbind in there is private)
KC_JOB=$job ip netns exec $ns sh -c "mount -t tmpfs tmpfs /run; mkdir /run/rpcbind; exec $server" \
  >"$job/server.log" 2>&1 </dev/null &

# --- the guests
cat >"$job/init" <<EOF2
#!/bin/sh
# pid 1; / is the host's / through hostfs, read-only; the real root is a
# copy-on-write view of it, so nothing the guest does reaches the host's files
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /mnt
insmod \$KC_MODULES/*/kernel/fs/overlayfs/overlay.ko
mkdir /mnt/u /mnt/w /mnt/n
mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w overlay /mnt/n
cd /mnt/n && mkdir -p job lib/modules
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mkdir -p dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs mnt
mount -t hostfs -o \$KC_MODULES none lib/modules
mount -t hostfs -o $job none job
exec chroot . /bin/bash /job/guest
EOF2
cat >"$job/guest" <<'EOF2'
export PATH=/job/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export SERVER=10.77.0.1 JOB=/job GUEST=$KC_GUEST GUESTS=$KC_GUESTS
unset TMPDIR
stty -F /dev/tty1 raw -echo
exec </dev/null >/dev/tty1 2>&1
echo kc$GUEST >/proc/sys/kernel/hostname
mkdir -p /run/lock /run/rpcbind
ip -batch - <<END
link set lo up
link set vec0 address 02:4b:43:00:00:0$GUEST
addr add 10.77.0.$((10 + GUEST))/24 dev vec0
link set vec0 up
END
modprobe -a nfsv3 nfsv4
cd /tmp
bash "$(</job/script)" $(</job/args)
echo $? >/job/rc.$GUEST
cd /
timeout 5 umount -a -t nfs,nfs4 || umount -a -f -l -t nfs,nfs4
sync -f /job/rc.$GUEST
busybox poweroff -f
EOF2
mkdir "$job/bin" "$job/uml"
cat >"$job/bin/barrier" <<'EOF2'
#!/bin/bash
: >"/job/bar.$1.$GUEST"
for ((i = 0; i < 1200; i++)); do
  [ "$(ls /job/bar.$1.* | wc -l)" = "$GUESTS" ] && exit 0
  sleep 0.05
done
exit 1
EOF2
chmod +x "$job/init" "$job/bin/barrier"
echo "$script" >"$job/script"
echo "$*" >"$job/args"

# library NAME: compiles NAME.c, once if $KC_LIBRARIES is a directory to keep it in; sets built
library() {
  local source=${0%/*}/$1.c
  built=${KC_LIBRARIES:-$job}/$1.so
  [ ! "$built" -nt "$source" ] || return 0
  cc -shared -fPIC -O2 -o "$built.$$" "$source" && mv "$built.$$" "$built"
}

# the guest's kernel, on processors with more registers than it knows, and with fewer requests for them: see xstate.c
library xstate || exit 2
preload=$built
if [ -n "$image" ]; then
  library volatile || exit 2
  preload=$preload:$built
fi

# At its start a guest's kernel would measure algorithms of RAID 6 for a third of a second, and its processor.
boot_quickly=(initcall_blacklist=raid6_select_algo)

# A guest's kernel and the processes in it are processes here that take turns at each system call and page fault. Woken
# on another processor, a turn takes two to three times as long.
cpus=()
IFS=, read -r -a ranges <<<"$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/self/status)"
for range in "${ranges[@]}"; do
  for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do cpus+=("$cpu"); done
done

IFS=, read -r -a kernels <<<"${KC_KERNELS:-,}"
pids=()
for ((g = 1; g <= guests; g++)); do
  ip -n $ns tuntap add tap$g mode tap
  ip -n $ns link set tap$g master br0 up
  kernel=${kernels[g - 1]-${kernels[-1]-}}
  boot=(LD_PRELOAD="$preload" linux.uml) modules=/usr/lib/uml/modules
  if [ -n "$kernel" ]; then
    boot=(-C "$kernel" LD_LIBRARY_PATH="$kernel/lib" ./linux.uml) modules=$kernel/modules
  fi
  # fd 3 is the guest's output; the kernel's own messages go to a file. A shell is
  # pid 1 of the guest's pid namespace: when it is killed, the whole guest is gone. A guest that has made the file again.N
  # and ends is booted once more.
  timeout -s KILL "$limit" ip netns exec $ns \
    taskset -c "${cpus[(${KC_SLOT:-$$} + g) % ${#cpus[@]}]}" unshare --pid --fork --kill-child -- \
    sh -c 'again=$1; shift; while :; do "$@"; r=$?; mv "$again" "$again.done" 2>/dev/null || exit $r; done' sh "$job/again.$g" \
    env -i PATH="$PATH" TMPDIR=/dev/shm DISK="$image" DISK_LOG="$job/disk.log" KC_GUEST=$g \
    env "${boot[@]}" mem=512M umid=g$g uml_dir="$job/uml/" \
    root=/dev/root rootfstype=hostfs rootflags=/ ro init="$job/init" \
    KC_GUEST=$g KC_GUESTS=$guests KC_MODULES=$modules ${image:+ubd0=$image} \
    quiet selinux=0 apparmor=0 panic=-1 noreboot "${boot_quickly[@]}" \
    con=null con0=null,fd:1 con1=null,fd:3 \
    vec0:transport=tap,ifname=tap$g,depth=128,gro=1 \
    3>&1 >"$job/console.$g" 2>&1 </dev/null &
  pids+=($!)
done
rc=0
for ((g = 1; g <= guests; g++)); do
  { wait "${pids[g - 1]}"; } 2>/dev/null
  r=$?
  if [ -s "$job/rc.$g" ]; then
    r=$(cat "$job/rc.$g")
  else
    [ $r = 137 ] && r=124 || r=125
    { echo "kernel-client: guest $g gave no status; its console, then the server's output:"
      tail -n 20 "$job/console.$g"; tail -n 20 "$job/server.log"; } >&2
  fi
  [ $rc = 0 ] && rc=$r
done
exit $rc
