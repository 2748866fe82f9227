#!/bin/bash
# power.sh FS EXPORT_OPTIONS KIND BOWLINE PROGRAM SEED STEPS
# The guest's side of a power cut: serves its disk, a new FS, to PROGRAM (the test power_cut), which
# changes it call by call and has the disk copied after each reply; then PROGRAM checks all copies.
# At first the kernel writes nothing by itself, so that what was not synced is in no copy.
# KIND: root, container (without CAP_DAC_READ_SEARCH), or tls (root, and the client comes over TLS).
set -eu
fs=$1 options=$2 kind=$3 bowline=$4 program=$5
export SEED=$6 STEPS=$7 FS=$fs
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
mkdir -p /mnt/disk /mnt/cut /run/state
# as rarely as possible, if the journal's interval can be set
mount -t "$fs" -o commit=900 /dev/ubda /mnt/disk 2>/dev/null || mount -t "$fs" /dev/ubda /mnt/disk
mkdir -m 777 /mnt/disk/served
sync
echo "/mnt/disk/served *(rw,no_root_squash,insecure,$options)" >/run/exports
cut_caps=
[ "$kind" = container ] && cut_caps="setpriv --bounding-set=-dac_read_search --inh-caps=-dac_read_search"
certificate=()
if [ "$kind" = tls ]; then
  "$bowline" tls init localhost --dir /run/tls >/dev/null
  certificate=(--tls-cert /run/tls/server.pem --tls-key /run/tls/server.key --set tls=require)
  export CA=/run/tls/ca.pem
fi
$cut_caps "$bowline" serve --exports /run/exports --port 2049 --portmap off --state-dir /run/state \
  --control /run/control.sock "${certificate[@]}" &
server=$!
for i in $(seq 200); do (: </dev/tcp/127.0.0.1/2049) 2>/dev/null && break; sleep 0.05; done
part() { PART=$1 "$program" --ignored --exact power_cut::in_the_guest --nocapture; }
part work
kill $server
wait $server
umount /mnt/disk
modprobe loop
part check
