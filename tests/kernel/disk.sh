#!/bin/bash
# disk.sh IMAGE
# The host's side of a power cut, in the server's place: whenever the guest leaves a number in
# $KC_JOB/cut, the file IMAGE, its disk, is copied as it is at that moment to $KC_JOB/cut.NUMBER. What
# the guest's kernel has in its memory only is not in the copy.
set -eu
while :; do
  if [ -e "$KC_JOB/cut" ]; then
    cp --sparse=always "$1" "$KC_JOB/cut.$(<"$KC_JOB/cut")"
    rm "$KC_JOB/cut"
  fi
  sleep 0.005
done
