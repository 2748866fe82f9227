#!/bin/bash
# tls.sh BOWLINE KERNEL TREE [CHECKS]
# Runs the kernel client's checks over RPC with TLS, by hand and as root: exports that demand tls and ones that demand
# mtls, with the versions $VERSIONS (default: 3 4.1 4.2). KERNEL is a directory with a Linux that has TLS for NFS (7.2 was
# tried), as $KC_KERNELS of kernel-client.sh names it. TREE is a directory tree of a Debian with ktls-utils, whose tlshd
# shakes hands for the guest's kernel; one of Debian sid is put there by debootstrap if it does not exist. CHECKS are names
# of checks/*.py with commas between; recovery, delegations, write_delegations, crossing, names, storms, stress, full and unprivileged,
# which need another server or several guests, are given alone. Prints a line for each check and one for each run. KINDS (default:
# tls mtls) chooses. With SERVER_IN_GUEST=1 the server runs in the guest as well, and its TLS records are the kernel's (tls_server.sh).
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
# the server, the number of guests, the versions, and mount options besides
file_system=ext4 settings= guests=1 versions='3 4.1 4.2' more=
case $checks in
  recovery) settings='--set versions=4.1 --set lease=10 --set grace=10' guests=2 versions=4.1 ;;
  delegations) settings="--set delegations=${LOCK_DELEGATIONS:-read} --set lease=5 --set grace=5" guests=3 versions=4.2,4.1,3 ;;
  write_delegations) settings='--set delegations=write --set lease=5 --set grace=5' guests=2 versions=4.2,3 ;;
  crossing) file_system=crossing more=actimeo=1 ;;
  names) file_system=names more=actimeo=1 versions=4.1 ;;
  storms | stress) file_system=tmpfs ;;
  full) file_system=small versions=3 ;;
  unprivileged) file_system=user versions=3 ;;
  *) ;;
esac
case $checks in *delegations) more=acregmin=0,acdirmin=0,acdirmax=0 ;; *) ;; esac
# mount options of a guest: guest.sh mounts version 3 where nothing else is said, and wants xprtsec= at the end
options_of() {
  local version=vers=$1,
  [ "$1" != 3 ] || version=
  echo "$version${more:+$more,}xprtsec=$kind"
}
failed=0
for kind in ${KINDS:-tls mtls}; do
  for version in ${VERSIONS:-$versions}; do
    echo "xprtsec=$kind, version $version:"
    options=
    for one in ${version//,/ }; do options="${options:+$options|}$(options_of "$one")"; done
    run=("$here/server.sh $bowline $file_system+$kind $settings" "$here/guest.sh" "$checks" "$options")
    if [ -n "${SERVER_IN_GUEST:-}" ]; then
      run=("exec sleep 900" "$here/tls_server.sh" "$bowline" $kind "$TLSHD_TREE" "$checks" "$options")
    fi
    if "$here/kernel-client.sh" -n $guests -t 900 "${run[@]}"; then
      echo "passed: xprtsec=$kind, version $version"
    else
      failed=1
      echo "FAILED: xprtsec=$kind, version $version"
    fi
  done
done
exit $failed
