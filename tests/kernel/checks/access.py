"""ACCESS and squashing: permissions of other users, with modes, groups and ACLs."""

import errno
import os
import shutil
import stat
import subprocess

from check import ask, as_user, drop_caches, errno_of, run


def may(path):
    """The rights that the kernel grants: read 4, write 2, execute 1."""
    return sum(bit for bit, mode in ((4, os.R_OK), (2, os.W_OK), (1, os.X_OK)) if os.access(path, mode))


def access_follows_modes():
    os.chmod(".", 0o755)
    for mode in (0o000, 0o400, 0o040, 0o004, 0o640, 0o644, 0o750, 0o751, 0o777, 0o077, 0o007):
        open("f", "w").close()
        os.chown("f", 1001, 2001)
        os.chmod("f", mode)
        drop_caches()
        assert as_user(1001, 9, [], lambda: may("f")) == mode >> 6, oct(mode)
        assert as_user(1002, 2001, [], lambda: may("f")) == mode >> 3 & 7, oct(mode)
        assert as_user(1002, 9, [5, 2001, 7], lambda: may("f")) == mode >> 3 & 7, oct(mode)
        assert as_user(1002, 9, [5, 7], lambda: may("f")) == mode & 7, oct(mode)
        os.unlink("f")


def reading_and_writing_follow_modes():
    os.chmod(".", 0o755)
    open("f", "w").write("secret")
    os.chown("f", 1001, 2001)
    os.chmod("f", 0o640)
    drop_caches()

    def reads():
        return errno_of(lambda: open("f").read())

    def writes():
        return errno_of(lambda: open("f", "a").write("x"))

    assert as_user(1001, 9, [], reads) == 0 and as_user(1001, 9, [], writes) == 0
    assert as_user(1002, 2001, [], reads) == 0 and as_user(1002, 2001, [], writes) == errno.EACCES
    assert as_user(1002, 9, [], reads) == errno.EACCES


def programs_that_may_not_be_read_can_be_executed():
    os.chmod(".", 0o755)
    shutil.copy("/bin/true", "f")
    os.chown("f", 1001, 2001)
    for mode, uid, gid in ((0o100, 1001, 9), (0o010, 1002, 2001), (0o001, 1002, 9)):
        os.chmod("f", mode)
        drop_caches()
        assert as_user(uid, gid, [], lambda: errno_of(open, "f")) == errno.EACCES, oct(mode)
        assert as_user(uid, gid, [], lambda: subprocess.call(["./f"])) == 0, oct(mode)
    drop_caches()
    assert as_user(1001, 9, [], lambda: errno_of(subprocess.call, ["./f"])) == errno.EACCES


def directories_need_search_and_write():
    os.chmod(".", 0o755)
    os.mkdir("d")
    os.chown("d", 1001, 2001)
    os.chmod("d", 0o751)
    open("d/f", "w").write("x")
    os.chmod("d/f", 0o644)
    drop_caches()
    assert as_user(1002, 9, [], lambda: errno_of(os.listdir, "d")) == errno.EACCES
    assert as_user(1002, 9, [], lambda: errno_of(os.stat, "d/f")) == 0
    assert as_user(1002, 9, [], lambda: errno_of(open, "d/g", "w")) == errno.EACCES
    assert as_user(1002, 9, [], lambda: errno_of(os.unlink, "d/f")) == errno.EACCES
    assert as_user(1001, 9, [], lambda: errno_of(os.unlink, "d/f")) == 0
    os.chmod("d", 0o000)
    drop_caches()
    assert as_user(1002, 9, [], lambda: errno_of(os.stat, "d/f")) == errno.EACCES


def created_objects_belong_to_their_maker():
    os.chmod(".", 0o1777)
    assert as_user(1001, 2001, [], lambda: errno_of(os.mkdir, "d")) == 0
    assert as_user(1001, 2001, [], lambda: errno_of(lambda: open("d/f", "w").close())) == 0
    assert as_user(1001, 2001, [], lambda: errno_of(os.symlink, "x", "d/l")) == 0
    assert as_user(1001, 2001, [], lambda: errno_of(os.mkfifo, "d/p")) == 0
    for name in ("d", "d/f", "d/l", "d/p"):
        st = os.lstat(name)
        assert (st.st_uid, st.st_gid) == (1001, 2001), name
    os.chmod("d", 0o2777)
    os.chown("d", 1001, 3001)
    os.chmod("d", 0o2777)
    assert as_user(1002, 2002, [], lambda: errno_of(os.mkdir, "d/in")) == 0
    assert os.stat("d/in").st_gid == 3001 and os.stat("d/in").st_mode & stat.S_ISGID


def the_sticky_bit_protects():
    os.chmod(".", 0o1777)
    open("f", "w").close()
    os.chown("f", 1001, 1001)
    assert as_user(1002, 9, [], lambda: errno_of(os.unlink, "f")) in (errno.EPERM, errno.EACCES)
    assert as_user(1002, 9, [], lambda: errno_of(os.rename, "f", "g")) in (errno.EPERM, errno.EACCES)
    assert as_user(1001, 9, [], lambda: errno_of(os.unlink, "f")) == 0


def changing_attributes_needs_the_owner():
    os.chmod(".", 0o755)
    open("f", "w").close()
    os.chown("f", 1001, 2001)
    assert as_user(1002, 2001, [], lambda: errno_of(os.chmod, "f", 0o777)) == errno.EPERM
    assert as_user(1001, 2001, [], lambda: errno_of(os.chown, "f", 1002, -1)) == errno.EPERM
    assert as_user(1001, 2001, [2002], lambda: errno_of(os.chown, "f", -1, 2002)) == 0
    assert as_user(1001, 2001, [], lambda: errno_of(os.chmod, "f", 0o600)) == 0
    assert as_user(1002, 9, [], lambda: errno_of(os.utime, "f", (1, 1))) in (errno.EPERM, errno.EACCES)
    assert as_user(1001, 9, [], lambda: errno_of(os.utime, "f", (1, 1))) == 0


def an_open_file_stays_writable_for_its_owner():
    os.chmod(".", 0o1777)

    def work():
        fd = os.open("f", os.O_CREAT | os.O_RDWR, 0o400)
        os.write(fd, b"data")
        os.fsync(fd)
        drop = os.pread(fd, 4, 0)
        os.close(fd)
        return 0 if drop == b"data" else 1

    assert as_user(1001, 1001, [], work) == 0


def writing_clears_setuid():
    os.chmod(".", 0o1777)
    open("f", "w").write("x")
    os.chmod("f", 0o6777)
    drop_caches()
    assert as_user(1002, 1002, [], lambda: errno_of(lambda: open("f", "a").write("y"))) == 0
    drop_caches()
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o777


def acls_on_the_server_count():
    os.chmod(".", 0o755)
    open("f", "w").write("x")
    os.chmod("f", 0o640)
    if "Operation not supported" in ask("setfacl -m u:1005:rw,g:2005:r a/acls_on_the_server_count/f"):
        raise AssertionError("the file system has no ACLs")
    drop_caches()
    assert as_user(1005, 9, [], lambda: may("f")) == 6
    assert as_user(1006, 9, [2005], lambda: may("f")) == 4
    assert as_user(1006, 9, [], lambda: may("f")) == 0
    assert as_user(1005, 9, [], lambda: errno_of(lambda: open("f", "a").write("y"))) == 0
    assert as_user(1006, 9, [], lambda: errno_of(lambda: open("f").read())) == errno.EACCES
    ask("setfacl -m u:1005:- a/acls_on_the_server_count/f")
    drop_caches()
    assert as_user(1005, 9, [], lambda: may("f")) == 0


def root_is_squashed():
    os.chdir("/mnt/squash")
    open("f", "w").write("x")
    assert os.stat("f").st_uid == 65534
    ask("echo secret > squash/root; chmod 600 squash/root; mkdir -p squash/dir; chmod 700 squash/dir")
    assert errno_of(lambda: open("root").read()) == errno.EACCES
    assert errno_of(os.listdir, "dir") == errno.EACCES
    assert errno_of(os.chown, "f", 0, 0) == errno.EPERM
    assert as_user(1001, 1001, [], lambda: errno_of(lambda: open("mine", "w").close())) == 0
    assert os.stat("mine").st_uid == 1001


run([access_follows_modes, reading_and_writing_follow_modes, programs_that_may_not_be_read_can_be_executed,
     directories_need_search_and_write, created_objects_belong_to_their_maker, the_sticky_bit_protects, changing_attributes_needs_the_owner,
     an_open_file_stays_writable_for_its_owner, writing_clears_setuid, acls_on_the_server_count, root_is_squashed])
