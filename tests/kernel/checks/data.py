"""Data: large, sparse, shared, mapped, direct, and on a full or failing disk."""

import hashlib
import mmap
import os
import threading

from check import ask, drop_caches, run


def pattern(block, size=65536):
    return hashlib.sha256(b"%d" % block).digest() * (size // 32)


def large_file_there_and_back():
    sums = hashlib.sha256()
    with open("f", "wb") as f:
        for block in range(2048):
            sums.update(pattern(block))
            f.write(pattern(block))
        f.flush()
        os.fsync(f.fileno())
    drop_caches()
    got = hashlib.sha256()
    with open("f", "rb") as f:
        while piece := f.read(1 << 20):
            got.update(piece)
    assert got.digest() == sums.digest()
    assert ask("sha256sum a/large_file_there_and_back/f").split()[0] == sums.hexdigest()


def sparse_file_beyond_4_gib():
    fd = os.open("f", os.O_CREAT | os.O_RDWR)
    far = 5 * (1 << 30) + 12345
    os.pwrite(fd, b"far", far)
    os.pwrite(fd, b"near", 10)
    os.fsync(fd)
    drop_caches()
    assert os.fstat(fd).st_size == far + 3
    assert os.fstat(fd).st_blocks * 512 < 1 << 20
    assert os.pread(fd, 3, far) == b"far"
    assert os.pread(fd, 8, (1 << 32) - 4) == b"\0" * 8
    assert os.pread(fd, 16, 8) == b"\0\0near" + b"\0" * 10
    assert os.pread(fd, 10, far + 3) == b""
    os.ftruncate(fd, (1 << 33) + 1)
    assert os.fstat(fd).st_size == (1 << 33) + 1
    os.close(fd)


def odd_offsets_and_sizes():
    model = bytearray(300000)
    fd = os.open("f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, len(model))
    seed = 12345
    for n in range(150):
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        at, size = seed % 290000, seed // 7 % 9999 + 1
        size = min(size, len(model) - at)
        data = bytes([n % 256]) * size
        model[at : at + size] = data
        os.pwrite(fd, data, at)
        if n % 30 == 0:
            os.fsync(fd)
            drop_caches()
    os.close(fd)
    drop_caches()
    assert open("f", "rb").read() == bytes(model)


def direct_and_synchronous_io():
    buffer = mmap.mmap(-1, 1 << 20)
    buffer.write(pattern(7, 1 << 20))
    fd = os.open("f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    assert os.writev(fd, [buffer]) == 1 << 20
    assert ask("wc -c < a/direct_and_synchronous_io/f").strip() == str(1 << 20)
    os.lseek(fd, 0, 0)
    back = mmap.mmap(-1, 1 << 20)
    assert os.readv(fd, [back]) == 1 << 20 and back[:] == buffer[:]
    os.close(fd)
    fd = os.open("g", os.O_CREAT | os.O_WRONLY | os.O_SYNC)
    os.write(fd, b"at once")
    assert ask("cat a/direct_and_synchronous_io/g") == "at once"
    os.close(fd)


def mapped_files():
    with open("f", "wb") as f:
        f.write(b"\0" * 100000)
    with open("f", "r+b") as f, mmap.mmap(f.fileno(), 100000) as m:
        m[50000:50005] = b"mmap!"
        m.flush()
    assert ask("dd if=a/mapped_files/f bs=1 skip=50000 count=5 2>/dev/null") == "mmap!"


def many_threads_one_connection():
    def work(k):
        for n in range(20):
            name = "t%d.%d" % (k, n)
            with open(name, "wb") as f:
                f.write(pattern(k * 100 + n))
            with open(name, "rb") as f:
                if f.read() != pattern(k * 100 + n):
                    wrong.append(name)
            os.rename(name, name + ".done")

    wrong = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong
    drop_caches()
    assert len(os.listdir(".")) == 160
    for k in range(8):
        for n in range(20):
            assert open("t%d.%d.done" % (k, n), "rb").read() == pattern(k * 100 + n)


def append_from_two_descriptors():
    a = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    b = os.open("f", os.O_WRONLY | os.O_APPEND)
    for n in range(50):
        os.write(a if n % 2 else b, b"%03d\n" % n)
    os.close(a)
    os.close(b)
    drop_caches()
    assert open("f").read().split() == ["%03d" % n for n in range(50)]


run([large_file_there_and_back, sparse_file_beyond_4_gib, odd_offsets_and_sizes, direct_and_synchronous_io,
     mapped_files, many_threads_one_connection, append_from_two_descriptors],
    beyond_version_2=[sparse_file_beyond_4_gib])
