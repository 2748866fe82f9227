"""Every kind of object, its attributes, names and links, as a Linux client sees them."""

import errno
import os
import socket
import stat
import time

from check import VERSION, EXPORT, ask, drop_caches, errno_of, run


def files_and_contents():
    with open("f", "wb") as f:
        f.write(b"hello")
    drop_caches()
    assert open("f", "rb").read() == b"hello"
    with open("f", "ab") as f:
        f.write(b" world")
    assert ask("cat a/files_and_contents/f") == "hello world"
    os.truncate("f", 4)
    drop_caches()
    assert open("f", "rb").read() == b"hell"
    os.truncate("f", 10)
    assert open("f", "rb").read() == b"hell" + b"\0" * 6
    assert errno_of(os.open, "f", os.O_CREAT | os.O_EXCL) == errno.EEXIST
    assert errno_of(open, "none") == errno.ENOENT


def directories():
    os.makedirs("d/e/f")
    assert os.stat("d").st_nlink == 3
    assert errno_of(os.rmdir, "d") == errno.ENOTEMPTY
    assert errno_of(os.mkdir, "d") == errno.EEXIST
    os.removedirs("d/e/f")
    assert os.listdir(".") == []


def hard_links():
    open("f", "w").close()
    os.link("f", "g")
    assert os.stat("g").st_nlink == 2 and os.path.samefile("f", "g")
    os.unlink("f")
    assert os.stat("g").st_nlink == 1
    os.mkdir("d")
    assert errno_of(os.link, "d", "e") in (errno.EPERM, errno.EACCES)


def symbolic_links():
    for n, target in enumerate(["f", "/etc/passwd", "../" * 40 + "etc", "x" * 1023, "caf\u00e9"]):
        os.symlink(target, str(n))
        drop_caches()
        assert os.readlink(str(n)) == target
        assert os.lstat(str(n)).st_size == len(target.encode())
    # the server follows none of them: the client resolves /etc/passwd in its own tree
    assert open("1").read() == open("/etc/passwd").read()


def device_nodes_fifos_sockets():
    os.mknod("c", stat.S_IFCHR | 0o644, os.makedev(1, 3))
    os.mknod("b", stat.S_IFBLK | 0o600, os.makedev(259, 70000))
    os.mkfifo("p")
    s = socket.socket(socket.AF_UNIX)
    s.bind("s")
    drop_caches()
    assert os.lstat("c").st_rdev == os.makedev(1, 3) and stat.S_ISCHR(os.lstat("c").st_mode)
    assert os.lstat("b").st_rdev == os.makedev(259, 70000) and stat.S_ISBLK(os.lstat("b").st_mode)
    assert stat.S_ISFIFO(os.lstat("p").st_mode)
    assert stat.S_ISSOCK(os.lstat("s").st_mode)
    with open("c", "wb") as f:
        f.write(b"gone")
    assert open("c", "rb").read() == b""


def modes():
    open("f", "w").close()
    for mode in (0o000, 0o777, 0o4755, 0o2755, 0o1644, 0o600, 0o7777):
        os.chmod("f", mode)
        drop_caches()
        assert stat.S_IMODE(os.stat("f").st_mode) == mode, oct(mode)
    os.umask(0o027)
    open("g", "w").close()
    os.mkdir("d")
    os.umask(0o022)
    assert stat.S_IMODE(os.stat("g").st_mode) == 0o640
    assert stat.S_IMODE(os.stat("d").st_mode) == 0o750


def owners():
    open("f", "w").close()
    os.chown("f", 1234, 5678)
    os.symlink("f", "l")
    os.lchown("l", 77, 88)
    drop_caches()
    assert (os.stat("f").st_uid, os.stat("f").st_gid) == (1234, 5678)
    assert (os.lstat("l").st_uid, os.lstat("l").st_gid) == (77, 88)
    os.chown("f", -1, 4294967293)
    assert ask("stat -c %u:%g a/owners/f").strip() == "1234:4294967293"
    os.chmod("f", 0o6755)
    os.chown("f", 1, 1)
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o755


def times():
    open("f", "w").close()
    # a client of version 3 drops the nanoseconds of second 0, and has no time before it
    for t in (1000000001, 1999999999, 1700000000123456789, 4102444800000000000, 2**31 * 10**9 + 5):
        os.utime("f", ns=(t, t + 1))
        drop_caches()
        st = os.stat("f")
        if VERSION == 2:  # which knows microseconds
            assert (st.st_atime_ns, st.st_mtime_ns) == (t // 1000 * 1000, (t + 1) // 1000 * 1000), (t, st)
        else:
            assert (st.st_atime_ns, st.st_mtime_ns) == (t, t + 1), (t, st)
    os.utime("f")
    assert abs(os.stat("f").st_mtime - time.time()) < 120
    os.symlink("f", "l")
    os.utime("l", ns=(5000000005, 6000000006), follow_symlinks=False)
    drop_caches()
    assert os.lstat("l").st_mtime_ns == (6000000000 if VERSION == 2 else 6000000006)
    before = os.stat(".").st_mtime_ns
    time.sleep(0.02)
    open("g", "w").close()
    assert os.stat(".").st_mtime_ns > before


def renames():
    open("f", "w").write("f")
    open("g", "w").write("g")
    os.rename("f", "g")
    assert open("g").read() == "f" and not os.path.exists("f")
    os.mkdir("d")
    os.mkdir("e")
    open("e/x", "w").close()
    assert errno_of(os.rename, "d", "e") == errno.ENOTEMPTY
    assert errno_of(os.rename, "g", "d") == errno.EISDIR
    assert errno_of(os.rename, "d", "g") == errno.ENOTDIR
    assert errno_of(os.rename, "d", "d/in") == errno.EINVAL
    os.rename("g", "d/g")
    os.rename("d", "e/d")
    assert open("e/d/g").read() == "f"
    os.unlink("e/x")


def unlinked_but_open():
    f = open("f", "w+")
    f.write("still here")
    f.flush()
    os.unlink("f")
    drop_caches()
    f.seek(0)
    assert f.read() == "still here"
    f.close()
    # the client removes it beside, by a call that nobody waits for
    end = time.monotonic() + 30
    while os.listdir(".") != [] and time.monotonic() < end:
        time.sleep(0.05)
    assert os.listdir(".") == []


def names_of_every_byte():
    names = [bytes([b]) + b"x" + bytes([b]) for b in range(1, 256) if b != ord("/")]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    drop_caches()
    assert sorted(os.listdir(b".")) == sorted(names)
    for name in names:
        os.stat(name)
        os.unlink(name)


def long_names():
    name = "n" * 255
    open(name, "w").write("x")
    os.mkdir("d" * 255)
    drop_caches()
    assert sorted(os.listdir(".")) == ["d" * 255, name]
    assert open(name).read() == "x"
    assert errno_of(open, "n" * 256, "w") == errno.ENAMETOOLONG
    deep = "/".join(["p" * 200] * 15)
    os.makedirs(deep)
    assert os.path.isdir(deep)


def stale_after_deletion_on_the_server():
    open("f", "w").write("x")
    os.mkdir("d")
    f = os.open("f", os.O_RDONLY)
    d = os.open("d", os.O_RDONLY)
    ask("rm a/stale_after_deletion_on_the_server/f; rmdir a/stale_after_deletion_on_the_server/d")
    time.sleep(0.1)
    drop_caches()
    # version 4 keeps a file that is open
    keeps = " nfs4 " in open("/proc/mounts").read()
    assert errno_of(os.pread, f, 1, 0) == (0 if keeps else errno.ESTALE)
    assert errno_of(os.open, "x", os.O_CREAT, 0o600) == 0
    os.close(f)
    os.close(d)
    assert errno_of(os.stat, "f") == errno.ENOENT


def changes_on_the_server_are_seen():
    open("f", "w").write("old")
    ask("echo -n newer > a/changes_on_the_server_are_seen/f; touch a/changes_on_the_server_are_seen/g")
    time.sleep(3.2)
    assert open("f").read() == "newer"
    end = time.time() + 35
    while "g" not in os.listdir("."):
        assert time.time() < end
        time.sleep(0.5)


def nothing_leads_out():
    ask("ln -s /etc a/nothing_leads_out/out; ln -s ../../.. a/nothing_leads_out/up")
    assert os.readlink("out") == "/etc"
    assert os.path.realpath("/mnt/a/..") == "/mnt"


def filesystem_figures():
    v = os.statvfs(".")
    real = [int(n) for n in ask("stat -f -c '%S %b %c' a").split()]
    # the client rounds up to its own block size
    assert 0 <= v.f_frsize * v.f_blocks - real[0] * real[1] < v.f_frsize
    assert v.f_namemax == 255


def read_only_export():
    ask("echo x > ro/f")
    assert open("/mnt/ro/f").read() == "x\n"
    assert errno_of(open, "/mnt/ro/g", "w") == errno.EROFS
    assert errno_of(os.unlink, "/mnt/ro/f") == errno.EROFS
    assert errno_of(os.chmod, "/mnt/ro/f", 0) == errno.EROFS


CHECKS = [
    files_and_contents, directories, hard_links, symbolic_links, device_nodes_fifos_sockets, modes, owners, times,
    renames, unlinked_but_open, names_of_every_byte, long_names, stale_after_deletion_on_the_server,
    changes_on_the_server_are_seen, nothing_leads_out, filesystem_figures, read_only_export,
]  # fmt: skip

if __name__ == "__main__":
    assert EXPORT
    run(CHECKS)
