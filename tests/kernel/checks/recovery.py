"""Two clients whose server is killed, and whose network is cut, under opens and locks: none is lost that nobody wanted, and
none is granted twice."""

import errno
import fcntl
import os
import random
import time

from check import JOB, errno_of, restart_server
from two import (ENVIRONMENT, ME, OTHER, await_file, count_of, cut, fcntl_lock, in_processes, increments, is_refused, meet,
                 opened, run_guests, tell, told)

KILLS = int(ENVIRONMENT.get("LOCK_KILLS", "20"))
# while both guests work
KILLS_UNDER_WORK = int(ENVIRONMENT.get("LOCK_KILLS_UNDER_WORK", "6"))
HELD = 50
# files that a guest has open, and locked, while the server is killed under its work
OPEN = 20
# as the test sets it
LEASE_S = 10
# leases for which a client is cut off that nobody is in conflict with
CUT_LEASES = float(ENVIRONMENT.get("LOCK_CUT_LEASES", "1.5"))


def locks_outlive_kills_of_the_server():
    """Each guest holds locks over all kills; the other never gets one of them; counters under locks lose no increment."""
    fd = opened("held")
    base = ME * 1000
    for n in range(HELD):
        fcntl_lock(fd, fcntl.F_WRLCK, True, base + n * 2, 1)
    meet("held")

    def look_for_lost():
        # by a process of its own: closing the file releases all locks of the process on it
        probe = opened("held")
        starts = [OTHER * 1000 + n * 2 for n in range(HELD)]
        lost = [start for start in starts if not is_refused(fcntl_lock, probe, fcntl.F_WRLCK, False, start, 1)]
        assert not lost, "locks of the other guest that are free: %s" % lost

    for kill in range(KILLS):
        if ME == 1:
            restart_server()
        meet("killed-%d" % kill)
        in_processes([lambda: increments("count", "fcntl", 5), lambda: increments("count", "fcntl", 5, 8)])
        in_processes([look_for_lost])
        meet("looked-%d" % kill)
    for offset in (0, 8):
        assert count_of("count", offset) == 2 * 5 * KILLS, (offset, count_of("count", offset))
    meet("kills-over")
    # no lock is left
    os.close(fd)
    meet("let-go")
    fd = opened("held")
    for n in range(HELD):
        fcntl_lock(fd, fcntl.F_WRLCK, False, OTHER * 1000 + n * 2, 1)
    meet("taken")
    os.close(fd)


def is_there(name):
    return os.path.exists(JOB + "/" + name)


def mark(name):
    open(JOB + "/" + name, "w").close()


def until_over(work):
    """Runs a part of the work; if that fails, the others end as well."""
    try:
        work()
    except BaseException:
        mark("work-over")
        raise


def count_until_over():
    """Increments a counter under a lock; says so after each kill; how often is told at the end."""
    kill = done = 0
    while not is_there("work-over"):
        is_after_a_kill = is_there("work-killed-%d" % kill)
        increments("work-count", "fcntl", 1)
        done += 1
        if is_after_a_kill:
            mark("work-on-%d.%d" % (kill, ME))
            kill += 1
    tell("work-count.%d" % ME, done)


def open_until_over():
    """Makes files of its own, locks them and has the last ones open, of which every third has lost its name."""
    held, n = [], 0

    def look(fd, data):
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(fd, 2 * len(data), 0) == data, "%r is not in its file" % data[:20]
        os.close(fd)

    while not is_there("work-over"):
        path = "work-%d-%d" % (ME, n)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl_lock(fd, fcntl.F_WRLCK, False)
        data = path.encode() * 100
        os.pwrite(fd, data, 0)
        # the server may be killed after it has done it: the client's second request then finds no such name
        if n % 3 == 0:
            assert errno_of(os.unlink, path) in (0, errno.ENOENT)
        held.append((fd, data))
        n += 1
        if len(held) > OPEN:
            look(*held.pop(0))
    for fd, data in held:
        look(fd, data)


def look_until_over():
    """What the other guest has locked since before the first kill is never free."""
    fd = opened("work-held")
    while not is_there("work-over"):
        for n in range(HELD):
            assert is_refused(fcntl_lock, fd, fcntl.F_WRLCK, False, OTHER * 1000 + n * 2, 1), "range %d is free" % n


def kill_until_over():
    """Kills the server while both guests work, each time once both have gone on."""
    slowest = 0.0
    for kill in range(KILLS_UNDER_WORK):
        time.sleep(random.uniform(0, 1))
        restart_server()
        mark("work-killed-%d" % kill)
        started = time.time()
        for guest in (1, 2):
            await_file("work-on-%d.%d" % (kill, guest))
        slowest = max(slowest, time.time() - started)
    print("%d kills under work; both guests went on within %.1f s" % (KILLS_UNDER_WORK, slowest), flush=True)
    mark("work-over")


def work_survives_kills_of_the_server():
    """The server is killed at any moment of opens, locks, writes and removals of both guests."""
    fd = opened("work-held")
    for n in range(HELD):
        fcntl_lock(fd, fcntl.F_WRLCK, False, ME * 1000 + n * 2, 1)
    meet("work-held")
    works = [count_until_over, open_until_over, look_until_over] + ([kill_until_over] if ME == 1 else [])
    in_processes([lambda work=work: until_over(work) for work in works])
    meet("work-done")
    done = [told("work-count.%d" % guest) for guest in (1, 2)]
    assert count_of("work-count") == sum(done), (count_of("work-count"), done)
    meet("work-counted")
    os.close(fd)


def work_goes_on_soon_after_a_kill():
    """Both guests work when the server is killed; how long each is held up is printed."""
    fd = opened("file-%d" % ME)
    fcntl_lock(fd, fcntl.F_WRLCK, False, 0, 10)
    slowest = {"write": 0.0, "lock": 0.0, "open": 0.0}
    for kill in range(5):
        meet("soon-%d" % kill)
        if ME == 1:
            restart_server()
        meet("soon-killed-%d" % kill)
        started = time.time()
        os.pwrite(fd, b"%d" % kill, 0)
        os.fsync(fd)
        slowest["write"] = max(slowest["write"], time.time() - started)
        fcntl_lock(fd, fcntl.F_WRLCK, False, 100 + kill, 1)
        slowest["lock"] = max(slowest["lock"], time.time() - started)
        os.close(os.open("new-%d-%d" % (ME, kill), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        slowest["open"] = max(slowest["open"], time.time() - started)
    os.close(fd)
    print("after a kill the slowest %s" % ", ".join("%s took %.1f s" % item for item in slowest.items()), flush=True)


def a_client_that_is_cut_off_loses_what_another_wants():
    fd = opened("cut")
    if ME == 2:
        fcntl_lock(fd, fcntl.F_WRLCK, False, 0, 10)
        fcntl_lock(fd, fcntl.F_WRLCK, False, 50, 10)
    meet("cut-held")
    # half of a lease: nothing happens
    if ME == 1:
        cut("down")
        time.sleep(LEASE_S / 2)
        assert is_refused(fcntl_lock, fd, fcntl.F_WRLCK, False, 0, 1)
        cut("up")
    meet("cut-short")
    if ME == 2:
        os.fsync(fd)
        os.stat("cut")
    meet("cut-back")
    # one and a half, while somebody wants it
    if ME == 1:
        cut("down")
        time.sleep(1.5 * LEASE_S)
        fcntl_lock(fd, fcntl.F_WRLCK, False, 0, 10)
        os.pwrite(fd, b"guest 1", 0)
        os.fsync(fd)
        cut("up")
    meet("cut-long")
    if ME == 2:
        # the process that has lost its lock is told, and nobody here gets it a second time
        assert errno_of(os.pread, fd, 7, 0) == errno.EIO

        def look():
            again = opened("cut")
            assert is_refused(fcntl_lock, again, fcntl.F_WRLCK, False, 0, 10)
            assert os.pread(again, 7, 0) == b"guest 1"

        in_processes([look])
    meet("cut-known")
    os.close(fd)


def a_client_that_is_cut_off_keeps_what_nobody_wants():
    fd = opened("kept")
    if ME == 2:
        fcntl_lock(fd, fcntl.F_WRLCK, False, 0, 10)
    meet("kept-held")
    if ME == 1:
        cut("down")
        time.sleep(CUT_LEASES * LEASE_S)
        cut("up")
    meet("kept-long")
    if ME == 2:
        os.pwrite(fd, b"guest 2", 0)
        os.fsync(fd)
    meet("kept-written")
    if ME == 1:
        assert is_refused(fcntl_lock, fd, fcntl.F_WRLCK, False, 0, 10)
    meet("kept-over")
    os.close(fd)


run_guests([locks_outlive_kills_of_the_server, work_survives_kills_of_the_server, work_goes_on_soon_after_a_kill,
         a_client_that_is_cut_off_loses_what_another_wants, a_client_that_is_cut_off_keeps_what_nobody_wants])
