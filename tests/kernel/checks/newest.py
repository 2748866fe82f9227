"""A mount without options: the newest version that both have, opens, locks, and the root with all exports."""

import fcntl
import os
import subprocess

from check import EXPORT, ask, run


def options_of(place):
    lines = [line.split() for line in open("/proc/mounts")]
    return next(words[3].split(",") for words in lines if words[1] == place)


def the_newest_version_is_taken():
    options = options_of("/mnt/a")
    assert "vers=4.2" in options and "proto=tcp" in options, options
    assert "hard" in options and "nolock" not in options, options


def files_are_written_read_and_locked():
    with open("file", "wb") as f:
        f.write(b"0123456789" * 100000)
        f.flush()
        os.fsync(f.fileno())
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(f, fcntl.LOCK_UN)
    assert ask("wc -c <a/files_are_written_read_and_locked/file").strip() == "1000000"
    os.rename("file", "moved")
    assert os.listdir(".") == ["moved"]


def the_root_has_all_exports():
    os.makedirs("/mnt/root", exist_ok=True)
    subprocess.run(["mount", "-t", "nfs", os.environ["SERVER"] + ":/", "/mnt/root"], check=True)
    try:
        below = "/mnt/root" + EXPORT
        assert {"a", "ro", "squash"} <= set(os.listdir(below)), os.listdir(below)
        with open(below + "/a/by_the_root", "w") as f:
            f.write("x")
        assert os.path.exists("/mnt/a/by_the_root")
    finally:
        # the export's own mount, which the walk has made
        subprocess.run(["umount", "-R", "/mnt/root"], check=True)


run([the_newest_version_is_taken, files_are_written_read_and_locked, the_root_has_all_exports])
