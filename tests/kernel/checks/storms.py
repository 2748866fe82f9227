"""Storms: many renames, creations and deletions at once, and a large directory."""

import os
import threading
import time

from check import ask, drop_caches, run

# files of the large directory
ENTRIES = 20000


def together(count, work):
    wrong = []

    def guarded(k):
        try:
            work(k)
        except BaseException as e:
            wrong.append((k, repr(e)))

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def create_and_delete_storm():
    def work(k):
        for n in range(100):
            name = "%d.%d" % (k, n)
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if n % 2:
                os.unlink(name)

    together(6, work)
    drop_caches()
    assert sorted(os.listdir(".")) == sorted("%d.%d" % (k, n) for k in range(6) for n in range(0, 100, 2))


def rename_storm():
    for k in range(4):
        open("f%d" % k, "w").write(str(k))
    os.mkdir("other")

    def work(k):
        for n in range(60):
            os.rename("f%d" % k, "other/f%d.%d" % (k, n))
            os.rename("other/f%d.%d" % (k, n), "f%d" % k)

    together(4, work)
    drop_caches()
    assert sorted(os.listdir(".")) == ["f0", "f1", "f2", "f3", "other"] and os.listdir("other") == []
    assert [open("f%d" % k).read() for k in range(4)] == ["0", "1", "2", "3"]


def replace_storm():
    """One name that always exists, replaced by concurrent renames while it is read."""
    open("f", "w").write("whole\n")

    def work(k):
        for n in range(40):
            if k % 2:
                tmp = "t%d.%d" % (k, n)
                with open(tmp, "w") as f:
                    f.write("whole\n")
                os.rename(tmp, "f")
            else:
                assert open("f").read() in ("whole\n",)

    together(4, work)
    assert os.listdir(".") == ["f"]


def large_directory_listed_and_removed():
    """Many more names than one READDIR takes."""
    ask("cd a/large_directory_listed_and_removed; mkdir big; cd big; seq -f %%06g %d | xargs touch" % ENTRIES, 120)
    names = os.listdir("big")
    assert len(names) == ENTRIES and len(set(names)) == ENTRIES
    drop_caches()
    with os.scandir("big") as entries:
        assert sum(1 for e in entries if e.is_file(follow_symlinks=False)) == ENTRIES
    # removal while listing, as rm -r does, of every fourth; the rest goes on the server's side
    fd = os.open("big", os.O_RDONLY)
    gone = 0
    for n, name in enumerate(sorted(names)):
        if n % 4 == 0 and gone < ENTRIES // 20:
            os.unlink(name, dir_fd=fd)
            gone += 1
    os.close(fd)
    assert len(os.listdir("big")) == ENTRIES - gone
    ask("cd a/large_directory_listed_and_removed/big; ls | tail -n +2001 | xargs rm", 120)
    end = 0
    while len(os.listdir("big")) > 2000 and end < 80:
        end += 1
        drop_caches()
        time.sleep(0.5)
    for name in os.listdir("big"):
        os.unlink("big/" + name)
    os.rmdir("big")


def listing_under_change():
    """Unchanged entries are listed exactly once during concurrent changes."""
    for n in range(600):
        os.close(os.open("stay%d" % n, os.O_CREAT))
    stop = []

    def change():
        n = 0
        while not stop:
            name = "come%d" % (n % 50)
            os.close(os.open(name, os.O_CREAT))
            os.unlink(name)
            n += 1

    t = threading.Thread(target=change)
    t.start()
    try:
        for _ in range(8):
            drop_caches()
            seen = [n for n in os.listdir(".") if n.startswith("stay")]
            assert len(seen) == 600 and len(set(seen)) == 600, len(seen)
    finally:
        stop.append(1)
        t.join()


run([create_and_delete_storm, rename_storm, replace_storm, listing_under_change,
     large_directory_listed_and_removed])
