#!/bin/bash
# foreign.sh BOWLINE
# Foreign clients against one server in a private network namespace: rpcinfo,
# showmount, libnfs over TCP, U-Boot (NFS version 2 over UDP), a script that makes each
# call there is, all of it captured, and every reply checked by tshark's dissector. Each check prints
# "ok NAME"; the exit status counts the failures.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${INSIDE:-}" ]; then
  INSIDE=1 exec unshare -n -m --pid --fork --kill-child --mount-proc "$0" "$@"
fi
. "$here/rig.sh"
mkdir -p "$dir/sub/deep"
head -c 3000000 /dev/urandom >"$dir/boot.img"
head -c 100000 /dev/urandom >"$dir/sub/deep/file"
: >"$dir/empty"
for n in $(seq 300); do echo "$n" >"$dir/sub/n$n"; done
chmod -R a+rwX "$dir"

tcpdump -i lo -U -s 0 -w "$work/trace.pcap" 'port 2049 or port 111' >/dev/null 2>&1 &
tcpdump=$!
sleep 1
serve "$1" --listen ::1

url=nfs://127.0.0.1$dir
o='version=3&nfsport=2049&mountport=2049'

portmapper_lists_us() {
  rpcinfo -p 127.0.0.1 | tee /dev/stderr |
    awk '$1 == 100003 { seen[$2 $3] = 1 } END { exit !(seen["3tcp"] && seen["3udp"] && seen["2tcp"] && seen["2udp"] &&
      seen["4tcp"] && !seen["4udp"]) }'
}
null_by_the_portmapper() {
  for version in 2 3; do
    rpcinfo -t 127.0.0.1 nfs $version && rpcinfo -u 127.0.0.1 nfs $version || return 1
    rpcinfo -t 127.0.0.1 100227 $version && rpcinfo -u 127.0.0.1 100227 $version || return 1
  done
  rpcinfo -t 127.0.0.1 nfs 4 && ! rpcinfo -u 127.0.0.1 nfs 4 || return 1
  for version in 1 2; do
    rpcinfo -t 127.0.0.1 100011 $version && rpcinfo -u 127.0.0.1 100011 $version || return 1
  done
  for version in 1 3; do
    rpcinfo -t 127.0.0.1 mountd $version && rpcinfo -u 127.0.0.1 mountd $version || return 1
  done
}
null_at_a_universal_address() {
  rpcinfo -a 127.0.0.1.8.1 -T udp 100003 3 && rpcinfo -a 127.0.0.1.8.1 -T tcp 100003 2 &&
    rpcinfo -a ::1.8.1 -T tcp6 100003 3 && rpcinfo -a ::1.8.1 -T udp6 100003 3
}
rpcbind_lists_us() { rpcinfo -s 127.0.0.1 | tee /dev/stderr | grep -q 100005; }
a_wrong_version_is_refused() { ! rpcinfo -t 127.0.0.1 nfs 5 2>&1 | grep -q ready; }
showmount_lists_the_export() { showmount -e 127.0.0.1 | tee /dev/stderr | grep -q "^$dir "; }
showmount_shows_the_mount() { showmount -a 127.0.0.1 | tee /dev/stderr | grep -q "$dir"; }
libnfs_lists() { [ "$(nfs-ls "$url/sub?$o" | wc -l)" -ge 301 ]; }
libnfs_reads() {
  for f in boot.img sub/deep/file empty; do
    [ "$(nfs-cat "$url/$f?$o" | md5sum)" = "$(md5sum <"$dir/$f")" ] || return 1
  done
}
libnfs_writes() {
  nfs-cp "$dir/boot.img" "$url/copy?$o" && cmp "$dir/boot.img" "$dir/copy"
}
libnfs_lists_all_below() { [ "$(nfs-ls -R "$url/?$o" | wc -l)" -ge 304 ]; }
libnfs_reads_odd_names_in_odd_sizes() {
  local name size
  for name in $'bad\xff\xfename' "$(printf 'x%.0s' {1..255})"; do
    cp "$dir/sub/deep/file" "$dir/sub/$name"
    nfs-ls "$url/sub?$o" | grep -qaF "$name" || return 1
  done
  for size in rsize=4096 rsize=4194304 'readahead=4194304&pagecache=64' 'uid=1000&gid=1000'; do
    [ "$(nfs-cat "$url/boot.img?$o&$size" | md5sum)" = "$(md5sum <"$dir/boot.img")" ] || return 1
  done
}
# version 4.0, by the same library. That of Debian 12 (4.0.0) has 4 KiB for a call, and gives up on longer WRITEs by itself.
o4='version=4&nfsport=2049'
libnfs_lists_over_version_4() {
  [ "$(nfs-ls "$url/sub?$o4" | wc -l)" -ge 301 ] && nfs-ls "nfs://127.0.0.1/?$o4" | grep -q ${dir:1:3}
}
libnfs_reads_over_version_4() {
  for f in boot.img sub/deep/file empty; do
    [ "$(nfs-cat "$url/$f?$o4" | md5sum)" = "$(md5sum <"$dir/$f")" ] || return 1
  done
}
libnfs_writes_over_version_4() {
  head -c 3700 "$dir/boot.img" >"$dir/small"
  nfs-cp "$dir/small" "$url/small4?$o4" && cmp "$dir/small" "$dir/small4"
}
each_call_of_each_version() { python3 "$here/every_call.py" "$dir"; }
u_boot_loads_over_udp_v2() {
  python3 "$here/u_boot.py" "$dir/boot.img" "$(crc32_of "$dir/boot.img")"
}
crc32_of() { python3 -c 'import sys, zlib; print("%08x" % zlib.crc32(open(sys.argv[1], "rb").read()))' "$1"; }
no_reply_is_malformed() {
  kill $tcpdump
  wait $tcpdump 2>/dev/null
  local decode="-d tcp.port==2049,rpc -d udp.port==2049,rpc -d tcp.port==111,rpc -d udp.port==111,rpc"
  [ "$(tshark -r "$work/trace.pcap" $decode -Y 'nfs && rpc.msgtyp == 1' 2>/dev/null | wc -l)" -gt 400 ] || return 1
  [ "$(tshark -r "$work/trace.pcap" $decode -Y '(nfsacl || rquota) && rpc.msgtyp == 1' 2>/dev/null | wc -l)" -ge 75 ] || return 1
  # Wireshark reads no status in the results of NFSACL 2's GETATTR: those that failed are too short for it
  tshark -r "$work/trace.pcap" $decode -Y '_ws.malformed && !(rpc.msgtyp == 0) && !(nfsacl.procedure_v2 == 3)' 2>/dev/null | tee /dev/stderr | wc -l | grep -qx 0
}
the_server_is_still_there() { kill -0 $server && kill -TERM $server && wait $server; }

for name in portmapper_lists_us null_by_the_portmapper null_at_a_universal_address rpcbind_lists_us \
  a_wrong_version_is_refused libnfs_lists showmount_lists_the_export libnfs_reads libnfs_writes \
  libnfs_lists_all_below libnfs_reads_odd_names_in_odd_sizes libnfs_lists_over_version_4 libnfs_reads_over_version_4 \
  libnfs_writes_over_version_4 showmount_shows_the_mount each_call_of_each_version \
  u_boot_loads_over_udp_v2 no_reply_is_malformed the_server_is_still_there; do
  check $name $name
done
[ $failed = 0 ] || { echo "the server said:"; tail -n 20 "$work/server.log"; }
exit $failed
