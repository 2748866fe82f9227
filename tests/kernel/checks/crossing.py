"""Mounts and exports below an export: crossed with crossmnt, covered directories without, subvolumes, restarts."""

import errno
import os
import subprocess
import time

from check import ask, drop_caches, restart_server, run

# as server.sh mounts them
CROSSED = ["tmp", "ext", "btr", "tmp/deep"]


def mounts_of(prefix):
    return {line.split()[1] for line in open("/proc/mounts") if line.split()[1].startswith(prefix)}


def mounted_file_systems_are_part_of_the_export():
    devices = {os.stat("/mnt/a").st_dev}
    for name in CROSSED:
        path = "/mnt/a/" + name
        assert os.path.basename(name) in os.listdir(os.path.dirname(path))
        with open(path + "/file", "w") as f:
            f.write(name)
        devices.add(os.stat(path + "/.").st_dev)
        # on the server, it is in the file system that is mounted there
        assert ask("cat a/%s/file" % name).strip() == name
    assert len(devices) == len(CROSSED) + 1, "each is a file system of its own"
    assert "/mnt/a/tmp/deep" in mounts_of("/mnt/a")
    assert os.statvfs("/mnt/a/ext").f_blocks != os.statvfs("/mnt/a").f_blocks
    listing = subprocess.run(["ls", "-laR", "/mnt/a/tmp", "/mnt/a/ext"], capture_output=True, text=True)
    assert listing.returncode == 0 and "file" in listing.stdout, listing


def names_do_not_move_between_file_systems():
    for call in (os.rename, os.link):
        try:
            call("/mnt/a/tmp/file", "/mnt/a/ext/moved")
        except OSError as error:
            assert error.errno == errno.EXDEV
        else:
            raise AssertionError(call)


def handles_survive_a_restart():
    files = [open("/mnt/a/%s/kept" % name, "w+") for name in CROSSED]
    for f in files:
        f.write("before")
        f.flush()
        os.fsync(f.fileno())
    restart_server()
    for name, f in zip(CROSSED, files):
        drop_caches()
        f.seek(0)
        assert f.read() == "before"
        f.write(" after")
        f.flush()
        os.fsync(f.fileno())
        f.close()
        assert ask("cat a/%s/kept" % name).strip() == "before after"
        os.unlink("/mnt/a/%s/kept" % name)


def without_crossmnt_the_covered_directory_is_shown():
    assert os.listdir("/mnt/ro") == ["covered"]
    assert os.listdir("/mnt/ro/covered") == ["below"], "not what is mounted there"
    listing = subprocess.run(["ls", "-la", "/mnt/ro", "/mnt/ro/covered"], capture_output=True, text=True)
    assert listing.returncode == 0 and not listing.stderr, listing
    assert os.stat("/mnt/ro/covered").st_dev == os.stat("/mnt/ro").st_dev
    assert not [path for path in mounts_of("/mnt/ro") if path != "/mnt/ro"]


def an_export_inside_another_is_crossed_into():
    # crossmnt of the outer export holds for versions 2 and 3 as well
    for path in ("/mnt/a/own/x", "/mnt/a/own/nohide/x"):
        try:
            open(path, "w")
        except OSError as error:
            assert error.errno == errno.EROFS, error
        else:
            raise AssertionError("the options are those of the inner export")
    assert sorted(os.listdir("/mnt/a/own")) == ["nohide"]


def what_is_mounted_later_is_crossed_into_and_what_goes_is_not():
    os.mkdir("/mnt/a/late")
    ask("mount -t tmpfs -o mode=1777 tmpfs a/late && echo up >a/late/is")
    end = time.time() + 60
    while not os.path.exists("/mnt/a/late/is"):
        assert time.time() < end, "it does not appear"
        time.sleep(0.2)
        # a client that knows the directory below does not look again
        drop_caches()
    ask("umount -l a/late")
    end = time.time() + 60
    while True:
        try:
            if os.listdir("/mnt/a/late") == []:
                break
        except OSError as error:
            # the client has it mounted
            assert error.errno == errno.ESTALE, error
            subprocess.run(["umount", "-l", "/mnt/a/late"])
        assert time.time() < end, "it does not go"
        time.sleep(0.2)
        drop_caches()
    os.rmdir("/mnt/a/late")


def subvolumes_are_file_systems_of_their_own():
    for name in ("one", "two"):
        assert open("/mnt/a/btr/%s/f" % name).read() == name + "\n"
    one, two = (os.stat("/mnt/a/btr/%s/f" % name) for name in ("one", "two"))
    assert one.st_ino == two.st_ino, "btrfs numbers the files of each by itself"
    assert one.st_dev != two.st_dev
    found = subprocess.run(["find", "/mnt/a/btr"], capture_output=True, text=True)
    assert found.returncode == 0 and not found.stderr, found
    drop_caches()
    assert open("/mnt/a/btr/two/f").read() == "two\n"


run([
    mounted_file_systems_are_part_of_the_export,
    names_do_not_move_between_file_systems,
    handles_survive_a_restart,
    without_crossmnt_the_covered_directory_is_shown,
    an_export_inside_another_is_crossed_into,
    what_is_mounted_later_is_crossed_into_and_what_goes_is_not,
    subvolumes_are_file_systems_of_their_own,
])
