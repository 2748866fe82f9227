"""The operations that version 4.2 adds, through the client's system calls: space, holes, copies, extended attributes."""

import ctypes
import errno
import fcntl
import os
import random
import struct
import threading

from check import EXPORT, JOB, as_user, ask, drop_caches, errno_of, restart_server, run, sh

libc = ctypes.CDLL(None, use_errno=True)
FICLONERANGE = 0x4020940D
KEEP_SIZE, PUNCH_HOLE = 1, 2
MIB = 1 << 20
# a file system that can share blocks
CLONES = ask("stat -f -c %T a").strip() in ("xfs", "btrfs")


def here():
    return "a/" + os.path.basename(os.getcwd())


def fallocate(fd, mode, offset, length):
    call = libc.fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(fd, mode, offset, length):
        raise OSError(ctypes.get_errno(), "fallocate")


def clone(source, target, source_offset, length, target_offset):
    fcntl.ioctl(target, FICLONERANGE, struct.pack("qQQQ", source, source_offset, length, target_offset))


def calls(*names):
    """How often the client has sent these operations over all mounts."""
    rows = (line.split() for line in open("/proc/self/mountstats"))
    return sum(int(row[1]) for row in rows if row and row[0].rstrip(":") in names and len(row) > 8)


def server_blocks(name):
    return int(ask("stat -c %%b %s/%s" % (here(), name))) * 512


def space_is_allocated_and_freed():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    before = calls("ALLOCATE", "DEALLOCATE")
    fallocate(fd, 0, 0, 4 * MIB)
    assert os.fstat(fd).st_size == 4 * MIB
    assert server_blocks("f") >= 4 * MIB
    os.pwrite(fd, b"x" * 4 * MIB, 0)
    os.fsync(fd)
    sh("fallocate -p -o %d -l %d f" % (MIB, MIB))
    assert calls("ALLOCATE", "DEALLOCATE") == before + 2
    assert os.pread(fd, 4, MIB - 2) == b"xx\0\0" and os.pread(fd, 4, 2 * MIB - 2) == b"\0\0xx"
    assert server_blocks("f") <= 3 * MIB + 65536, server_blocks("f")
    assert os.fstat(fd).st_size == 4 * MIB
    # more than there is: nothing is taken, so that others can go on
    free = os.statvfs(".").f_frsize * os.statvfs(".").f_blocks
    assert errno_of(fallocate, fd, 0, 0, free * 4) in (errno.ENOSPC, errno.EFBIG)
    assert server_blocks("f") <= 4 * MIB + 65536
    os.close(fd)


def holes_are_found():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"a" * MIB, 0)
    os.pwrite(fd, b"b" * MIB, 3 * MIB)
    os.ftruncate(fd, 6 * MIB)
    os.fsync(fd)
    before = calls("SEEK")
    assert os.lseek(fd, 0, os.SEEK_HOLE) == MIB
    assert os.lseek(fd, MIB, os.SEEK_DATA) == 3 * MIB
    assert os.lseek(fd, 3 * MIB, os.SEEK_HOLE) == 4 * MIB
    assert errno_of(os.lseek, fd, 4 * MIB, os.SEEK_DATA) == errno.ENXIO
    assert os.lseek(fd, 5 * MIB, os.SEEK_HOLE) == 5 * MIB
    assert errno_of(os.lseek, fd, 6 * MIB, os.SEEK_HOLE) == errno.ENXIO
    assert calls("SEEK") > before
    os.ftruncate(fd, 3 * MIB + 5)
    assert os.lseek(fd, 3 * MIB, os.SEEK_HOLE) == 3 * MIB + 5, "the hole at the end"
    os.close(fd)


def a_large_file_is_copied_without_data_on_the_network():
    size = 256 * MIB
    block = os.urandom(MIB)
    ask("for i in $(seq 256); do cat %s; done >%s/large" % (shared(block), here()), 120)
    before = calls("READ", "WRITE"), calls("COPY"), network()
    copy_whole("large", "copy")
    moved = network() - before[2]
    assert calls("READ", "WRITE") == before[0], "READ or WRITE was sent"
    assert calls("COPY") > before[1]
    assert moved < MIB, "%d bytes on the network" % moved
    assert os.stat("copy").st_size == size
    ask("cmp %s/large %s/copy && echo same" % (here(), here()), 120) == "same\n" or fail("they differ")


def network():
    lines = [line.split(":") for line in open("/proc/net/dev") if ":" in line]
    fields = [line[1].split() for line in lines if line[0].strip() != "lo"]
    return sum(int(f[0]) + int(f[8]) for f in fields)


def shared(data):
    """A file with this data that the server's side can read."""
    with open(JOB + "/block", "wb") as f:
        f.write(data)
    return '"$KC_JOB/block"'


def fail(why):
    raise AssertionError(why)


def copy_whole(source, target):
    source, target = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR | os.O_CREAT)
    left = os.fstat(source).st_size
    while left:
        count = os.copy_file_range(source, target, left)
        assert count > 0
        left -= count
    os.fsync(target)
    os.close(source)
    os.close(target)


def ranges_are_copied():
    data = os.urandom(3 * MIB)
    open("from", "wb").write(data)
    source, target = os.open("from", os.O_RDONLY), os.open("to", os.O_RDWR | os.O_CREAT)
    for offset, to, length in [(0, 0, 10), (4095, 3, 8194), (MIB + 1, 2 * MIB, MIB), (3 * MIB - 5, 0, 5)]:
        count = os.copy_file_range(source, target, length, offset, to)
        assert count == length, (count, length)
        drop_caches()
        assert os.pread(target, length, to) == data[offset : offset + length], (offset, to, length)
    assert os.copy_file_range(source, target, 10, 3 * MIB, 0) == 0, "the end"
    os.close(source)
    os.close(target)


def a_server_that_is_killed_while_it_copies_loses_nothing():
    ask("for i in $(seq 64); do cat %s; done >%s/large" % (shared(os.urandom(MIB)), here()), 120)
    source, target = os.open("large", os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
    size, done, killed = os.fstat(source).st_size, 0, threading.Thread(target=restart_server)
    while done < size:
        count = os.copy_file_range(source, target, min(MIB, size - done), done, done)
        assert count > 0
        done += count
        if done == 16 * MIB:
            killed.start()
    killed.join()
    os.fsync(target)
    os.close(source)
    os.close(target)
    assert ask("cmp %s/large %s/copy && echo same" % (here(), here()), 120) == "same\n"
    fd = os.open("space", os.O_RDWR | os.O_CREAT)
    fallocate(fd, 0, 0, 8 * MIB)
    os.setxattr("space", "user.answered", b"yes")
    restart_server()
    assert os.fstat(fd).st_size == 8 * MIB and server_blocks("space") >= 8 * MIB
    assert os.getxattr("space", "user.answered") == b"yes"
    os.close(fd)


def files_share_blocks():
    if not CLONES:
        open("a", "w").write("x")
        fd = os.open("b", os.O_RDWR | os.O_CREAT)
        source = os.open("a", os.O_RDONLY)
        assert errno_of(clone, source, fd, 0, 0, 0) == errno.EOPNOTSUPP
        return
    data = os.urandom(8 * MIB)
    open("a", "wb").write(data)
    before = calls("CLONE"), calls("READ", "WRITE")
    os.sync()
    before = calls("CLONE"), calls("READ", "WRITE")
    sh("cp --reflink=always a b")
    assert calls("CLONE") == before[0] + 1 and calls("READ", "WRITE") == before[1]
    assert open("b", "rb").read() == data
    assert "shared" in ask("sync; filefrag -v %s/b" % here())
    source, target = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR)
    clone(source, target, 4 * MIB, MIB, 0)
    assert os.pread(target, MIB, 0) == data[4 * MIB : 5 * MIB]
    assert errno_of(clone, source, target, 1, MIB, 0) == errno.EINVAL
    os.pwrite(target, b"changed", 0)
    os.fsync(target)
    assert open("a", "rb").read() == data
    os.close(source)
    os.close(target)


def listed(name):
    """The attributes of an object; the client shows its ACL as one more."""
    return sorted(n for n in os.listxattr(name) if n != "system.nfs4_acl")


def extended_attributes_are_those_of_the_server():
    open("f", "w").write("x")
    os.mkdir("d")
    for name in "f", "d":
        sh("setfattr -n user.comment -v 'of the mount' %s; setfattr -n user.empty %s" % (name, name))
        assert listed(name) == ["user.comment", "user.empty"]
        assert "of the mount" in ask("getfattr -d %s/%s" % (here(), name))
        ask("setfattr -n user.server -v 'of the server' %s/%s; setfattr -n trusted.hidden -v 1 %s/%s"
            % (here(), name, here(), name))
        os.setxattr(name, "user.x", b"1")  # and the client's cache is not valid any more
        assert os.getxattr(name, "user.server") == b"of the server"
        assert not [n for n in listed(name) if not n.startswith("user.")]
        os.removexattr(name, "user.x")
    assert errno_of(os.getxattr, "f", "user.x") == errno.ENODATA
    assert errno_of(os.removexattr, "f", "user.x") == errno.ENODATA
    assert errno_of(os.setxattr, "f", "user.comment", b"", os.XATTR_CREATE) == errno.EEXIST
    assert errno_of(os.setxattr, "f", "user.new", b"", os.XATTR_REPLACE) == errno.ENODATA
    value = bytes(range(256)) * 4
    os.setxattr("f", "user.binary", value)
    drop_caches()
    assert os.getxattr("f", "user.binary") == value
    os.symlink("f", "l")
    assert errno_of(lambda: os.setxattr("l", "user.a", b"", follow_symlinks=False)) != 0


def many_extended_attributes_are_listed():
    open("f", "w").write("x")
    names = ["user.%s%d" % ("n" * 100, number) for number in range(25)]
    for name in names:
        os.setxattr("f", name, b"1")
    drop_caches()
    assert listed("f") == sorted(names)


def extended_attributes_need_permission():
    open("f", "w").write("x")
    os.setxattr("f", "user.a", b"1")
    os.chmod("f", 0o600)
    assert as_user(1001, 1001, [], lambda: errno_of(os.getxattr, "f", "user.a")) == errno.EACCES
    assert as_user(1001, 1001, [], lambda: errno_of(os.setxattr, "f", "user.a", b"2")) == errno.EACCES
    os.chmod("f", 0o604)
    assert as_user(1001, 1001, [], lambda: os.getxattr("f", "user.a")) == b"1"
    assert errno_of(os.setxattr, "/mnt/ro", "user.a", b"1") == errno.EROFS


def random_operations_agree_with_a_model():
    rng = random.Random(42)
    limit = 512 * 1024
    model = {"x": bytearray(), "y": bytearray()}
    files = {name: os.open(name, os.O_RDWR | os.O_CREAT) for name in model}

    def grow(name, size):
        model[name].extend(bytes(max(0, size - len(model[name]))))

    def put(name, offset, data):
        grow(name, offset + len(data))
        model[name][offset : offset + len(data)] = data

    for step in range(1500):
        name, other = rng.sample(["x", "y"], 2)
        fd, offset, length = files[name], rng.randrange(limit), rng.randrange(1, 64 * 1024)
        action = rng.choice(["write", "read", "read", "truncate", "punch", "allocate", "zero", "copy", "clone", "seek", "drop"])
        if action == "write":
            data = bytes([rng.randrange(1, 256)]) * length
            os.pwrite(fd, data, offset)
            put(name, offset, data)
        elif action == "truncate":
            os.ftruncate(fd, offset)
            del model[name][offset:]
            grow(name, offset)
        elif action == "punch":
            fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)
            end = min(offset + length, len(model[name]))
            model[name][offset:end] = bytes(max(0, end - offset))
        elif action == "allocate":
            fallocate(fd, 0, offset, length)
            grow(name, offset + length)
        elif action == "copy":
            size = len(model[other])
            if size:
                # the client writes back the range that it copies, and not what makes the file as long as it is
                os.fsync(files[other])
                start = rng.randrange(size)
                count = os.copy_file_range(files[other], fd, min(length, size - start), start, offset)
                put(name, offset, model[other][start : start + count])
        elif action == "clone" and CLONES:
            start, to = (n // 4096 * 4096 for n in (rng.randrange(limit), offset))
            count = length // 4096 * 4096
            if count and start + count <= len(model[other]):
                os.fsync(files[other])
                clone(files[other], fd, start, count, to)
                put(name, to, model[other][start : start + count])
        elif action == "seek":
            if offset < len(model[name]):
                try:
                    data = os.lseek(fd, offset, os.SEEK_DATA)
                except OSError as e:
                    assert e.errno == errno.ENXIO
                    data = len(model[name])
                assert not any(model[name][offset:data]), "step %d: data in a hole" % step
        elif action == "drop" and rng.random() < 0.2:
            drop_caches()
        found = os.pread(fd, length, offset)
        assert found == bytes(model[name][offset : offset + length]), "step %d: %s" % (step, action)
    for name in model:
        os.fsync(files[name])
        os.close(files[name])
        drop_caches()
        assert open(name, "rb").read() == bytes(model[name]), name


run([
    space_is_allocated_and_freed,
    holes_are_found,
    a_large_file_is_copied_without_data_on_the_network,
    ranges_are_copied,
    a_server_that_is_killed_while_it_copies_loses_nothing,
    files_share_blocks,
    extended_attributes_are_those_of_the_server,
    many_extended_attributes_are_listed,
    extended_attributes_need_permission,
    random_operations_agree_with_a_model,
])
