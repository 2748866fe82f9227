"""mount_v2.py SOURCE DIRECTORY OPTIONS: mounts NFS by the kernel's own interface (fsopen, fsconfig, fsmount,
move_mount). The kernel still supports version 2; mount.nfs and mount(8) do not."""

import ctypes
import os
import sys

FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT = 430, 431, 432, 429
SET_FLAG, SET_STRING, CREATE = 0, 1, 6
AT_FDCWD, FROM_EMPTY_PATH = -100, 4

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *args):
    result = libc.syscall(number, *args)
    if result < 0:
        sys.exit("mount_v2: %d: %s" % (number, os.strerror(ctypes.get_errno())))
    return result


source, directory, options = (arg.encode() for arg in sys.argv[1:])
fs = call(FSOPEN, b"nfs", 0)
call(FSCONFIG, fs, SET_STRING, b"source", source, 0)
for option in options.split(b","):
    key, _, value = option.partition(b"=")
    call(FSCONFIG, fs, SET_STRING if value else SET_FLAG, key, value or None, 0)
call(FSCONFIG, fs, CREATE, None, None, 0)
call(MOVE_MOUNT, call(FSMOUNT, fs, 0, 0), b"", AT_FDCWD, directory, FROM_EMPTY_PATH)
