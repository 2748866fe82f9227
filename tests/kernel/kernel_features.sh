#!/bin/bash
# kernel_features.sh [DIRECTORY PROGRAM TEST]...
# In the guest: runs single tests of Rust test programs that need modules of its kernel, each in the directory of its
# crate. The programs of nfs-kernel-server are those that `./do test` has unpacked.
set -u
here=$(dirname "$(cat "$JOB/script")")
export PATH=$here/../../target/tools/nfs-kernel-server/usr/sbin:$PATH CI=true NO_COLOR=1
modprobe -a loop sch_netem quota_v2 nfsd tls || exit 1
mount -t tmpfs none /tmp
failed=0
while [ $# -ge 3 ]; do
  (cd "$1" && "$2" --exact "$3" --include-ignored --color never) || failed=1
  shift 3
done
exit $failed
