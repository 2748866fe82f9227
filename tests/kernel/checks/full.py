"""A full disk: the client gets ENOSPC, nothing else fails, and freed space is used."""

import errno
import os

from check import ask, drop_caches, errno_of, run


def write_until_full():
    fd = os.open("f", os.O_CREAT | os.O_WRONLY)

    def fill():
        for _ in range(64):
            os.write(fd, b"x" * 262144)
        os.fsync(fd)

    assert errno_of(fill) == errno.ENOSPC
    os.close(fd) if errno_of(os.fsync, fd) in (0, errno.ENOSPC) else None
    assert errno_of(os.stat, "f") == 0
    os.unlink("f")
    drop_caches()
    with open("g", "wb") as f:
        f.write(b"y" * 1000000)
        f.flush()
        os.fsync(f.fileno())
    drop_caches()
    assert open("g", "rb").read() == b"y" * 1000000
    os.unlink("g")


def read_only_file_system():
    ask("echo x > a/read_only_file_system/f; mount -o remount,ro .")
    try:
        assert open("f").read() == "x\n"
        assert errno_of(os.mkdir, "d") == errno.EROFS
        assert errno_of(os.unlink, "f") == errno.EROFS
        assert errno_of(os.chmod, "f", 0o600) == errno.EROFS
    finally:
        ask("mount -o remount,rw .")
    os.mkdir("d")


run([write_until_full, read_only_file_system])
