"""Files that are open when they lose their last name, on a server with preserve-unlinked: the client removes them instead of
renaming them to .nfsXXXX, and they outlive a killed server."""

import fcntl
import os
import time

from check import ask, drop_caches, errno_of, restart_server, run


def on_the_server(path):
    """The names there, hidden ones as well."""
    return ask("ls -A a/%s" % path).split()


def hidden():
    """The files that the server keeps; other checks have left none."""
    return on_the_server(".bowline-open 2>/dev/null")


def until(condition):
    end = time.time() + 60
    while not condition():
        assert time.time() < end, "waited in vain"
        time.sleep(0.1)


def made(name, data):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, data)
    return fd


def a_removed_file_is_used_through_restarts():
    here = "a_removed_file_is_used_through_restarts"
    fd = made("f", b"first")
    os.unlink("f")
    assert os.listdir(".") == [] and on_the_server(here) == [], on_the_server(here)
    assert os.fstat(fd).st_nlink == 0
    assert len(hidden()) == 1, hidden()
    for n in range(2):
        restart_server()
        os.pwrite(fd, b"%d" % n * 100000, 0)
        os.fsync(fd)
        drop_caches()
        assert os.pread(fd, 200000, 0) == b"%d" % n * 100000
        assert os.fstat(fd).st_nlink == 0
    assert os.listdir(".") == [] and on_the_server(here) == []
    os.close(fd)
    until(lambda: hidden() == [])


def a_replaced_file_is_used_through_a_restart():
    here = "a_replaced_file_is_used_through_a_restart"
    fd = made("f", b"old")
    os.close(made("new", b"new"))
    os.rename("new", "f")
    names = on_the_server(here)
    print("on the server after the rename: %s, kept: %d" % (names, len(hidden())))
    restart_server()
    os.fsync(fd)
    drop_caches()
    assert os.pread(fd, 10, 0) == b"old"
    with open("f", "rb") as f:
        assert f.read() == b"new"
    os.pwrite(fd, b"more", 0)
    os.fsync(fd)
    os.close(fd)
    until(lambda: hidden() == [] and on_the_server(here) == ["f"])


def a_directory_is_empty_and_removed_while_its_file_is_open():
    os.mkdir("d")
    fd = made("d/f", b"data")
    os.unlink("d/f")
    os.rmdir("d")
    restart_server()
    drop_caches()
    assert os.pread(fd, 10, 0) == b"data"
    os.close(fd)
    until(lambda: hidden() == [])


def a_locked_file_without_a_name_stays_locked():
    fd = made("f", b"data")
    other = os.open("f", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.unlink("f")
    restart_server()
    os.pwrite(fd, b"more", 0)
    os.fsync(fd)
    drop_caches()
    assert os.pread(other, 10, 0) == b"more"
    fcntl.lockf(fd, fcntl.LOCK_UN)
    os.close(other)
    os.close(fd)
    until(lambda: hidden() == [])


def one_of_two_names_goes_and_then_the_other():
    fd = made("f", b"data")
    os.link("f", "g")
    os.unlink("f")
    assert os.fstat(fd).st_nlink == 1 and hidden() == []
    os.unlink("g")
    assert os.fstat(fd).st_nlink == 0 and len(hidden()) == 1
    os.close(fd)
    until(lambda: hidden() == [])


def the_servers_directory_is_not_seen():
    fd = made("f", b"data")
    os.unlink("f")
    assert len(hidden()) == 1
    assert ".bowline-open" not in os.listdir("/mnt/a")
    assert errno_of(os.stat, "/mnt/a/.bowline-open") == 2
    assert errno_of(os.mkdir, "/mnt/a/.bowline-open") != 0
    os.close(fd)
    until(lambda: hidden() == [])


run([a_removed_file_is_used_through_restarts, a_replaced_file_is_used_through_a_restart,
     a_directory_is_empty_and_removed_while_its_file_is_open, a_locked_file_without_a_name_stays_locked,
     one_of_two_names_goes_and_then_the_other, the_servers_directory_is_not_seen])
