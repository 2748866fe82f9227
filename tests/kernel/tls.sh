#!/bin/bash
# tls.sh BOWLINE KERNEL TREE [CHECKS]
# Runs the kernel client's checks over RPC with TLS, by hand and as root: exports that demand tls and ones that demand
# mtls, with the versions $VERSIONS (default: 3 4.1 4.2). KERNEL is a directory with a Linux that has TLS for NFS (7.2 was
# tried), as $KC_KERNELS of kernel-client.sh names it. TREE is a directory tree of a Debian with ktls-utils, whose tlshd
# shakes hands for the guest's kernel; one of Debian sid is put there by debootstrap if it does not exist. CHECKS are names
# of checks/*.py with commas between. Prints a line for each check and one for each run. With SERVER_IN_GUEST=1 the server runs
# in the guest as well, and its TLS records are the kernel's (tls_server.sh).
set -u
bowline=$1 kernel=$2 tree=$3 checks=${4:-objects,access,data,tools}
here=$(dirname "$(readlink -f "$0")")
bowline=$(readlink -f "$bowline")
if [ ! -x "$tree/usr/sbin/tlshd" ]; then
  mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
  debootstrap --variant=minbase --include=ktls-utils sid "$tree" "$mirror" >"$tree.log" 2>&1 ||
    { echo "tls: no tree of Debian sid: see $tree.log" >&2; exit 2; }
fi
export TLSHD_TREE KC_KERNELS=$kernel
TLSHD_TREE=$(readlink -f "$tree")
failed=0
for kind in tls mtls; do
  for version in ${VERSIONS:-3 4.1 4.2}; do
    echo "xprtsec=$kind, version $version:"
    # guest.sh mounts version 3 where nothing else is said
    options=vers=$version,xprtsec=$kind
    [ "$version" != 3 ] || options=xprtsec=$kind
    run=("$here/server.sh $bowline $kind" "$here/guest.sh" "$checks" "$options")
    if [ -n "${SERVER_IN_GUEST:-}" ]; then
      run=("exec sleep 900" "$here/tls_server.sh" "$bowline" $kind "$TLSHD_TREE" "$checks" "$options")
    fi
    if "$here/kernel-client.sh" -t 900 "${run[@]}"; then
      echo "passed: xprtsec=$kind, version $version"
    else
      failed=1
      echo "FAILED: xprtsec=$kind, version $version"
    fi
  done
done
exit $failed
