"""Shared by the checks that run in several guests at once: meeting, telling each other, locks, processes.

`ME` is the number of this guest, `OTHER` the other of two; `meet` waits for all. A check that fails in one guest goes on in
the others until they wait for it."""

import errno
import fcntl
import os
import struct
import sys
import time
import traceback

from check import JOB, ask

ENVIRONMENT = dict(line.rstrip("\n").split("=", 1) for line in open(JOB + "/environment"))
ME, GUESTS = int(os.environ["GUEST"]), int(os.environ["GUESTS"])
OTHER = 2 if ME == 1 else 1
# a limit on waiting that keeps a failure from hanging; what takes longer by wish leaves guests further apart
LIMIT_S = 100 + int(ENVIRONMENT.get("LOCK_SECONDS", "0"))


def meet(name):
    """Waits until all guests are here."""
    open("%s/met.%s.%d" % (JOB, name, ME), "w").close()
    for guest in range(1, GUESTS + 1):
        await_file("met.%s.%d" % (name, guest))


def await_file(name):
    end = time.time() + LIMIT_S
    while not os.path.exists(JOB + "/" + name):
        assert time.time() < end, "waited in vain for " + name
        assert not os.path.exists(JOB + "/failed"), "another guest has failed before " + name
        time.sleep(0.01)


def tell(name, value):
    with open(JOB + "/" + name + ".part", "w") as f:
        f.write(repr(value))
    os.rename(JOB + "/" + name + ".part", JOB + "/" + name)


def told(name):
    await_file(name)
    with open(JOB + "/" + name) as f:
        return eval(f.read())  # of the other guest


def fcntl_lock(fd, kind, wait, start=0, length=0):
    command = fcntl.F_SETLKW if wait else fcntl.F_SETLK
    fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def whole(how, fd, kind, wait=False):
    """Locks a whole file (or unlocks it) by flock(2) or fcntl(2)."""
    if how == "fcntl":
        return fcntl_lock(fd, {"x": fcntl.F_WRLCK, "s": fcntl.F_RDLCK, "u": fcntl.F_UNLCK}[kind], wait)
    what = {"x": fcntl.LOCK_EX, "s": fcntl.LOCK_SH, "u": fcntl.LOCK_UN}[kind]
    return fcntl.flock(fd, what | (0 if wait or kind == "u" else fcntl.LOCK_NB))


def is_refused(function, *args):
    try:
        function(*args)
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.EACCES), error
        return True
    return False


def cut(state):
    """Cuts the second guest's network, or connects it again."""
    answer = ask("bridge link set dev tap2 state " + {"down": "0", "up": "3"}[state])
    assert not answer.strip(), answer


def calls_so_far():
    """How many calls of each operation the mount has made."""
    counts, here = {}, False
    for line in open("/proc/self/mountstats"):
        if line.startswith("device "):
            here = " mounted on /mnt/a " in line
        elif here and line.startswith("\t") and ": " in line:
            name, numbers = line.strip().split(": ", 1)
            if name.isupper() and numbers.split()[0].isdigit():
                counts[name] = int(numbers.split()[0])
    return counts


def opened(name):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o666)


def increments(path, how, rounds, offset=0):
    """Counts in a file under an exclusive lock: reads, adds one, writes."""
    fd = opened(path)
    for _ in range(rounds):
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX)
        else:
            fcntl_lock(fd, fcntl.F_WRLCK, True, offset, 8)
        (count,) = struct.unpack("q", os.pread(fd, 8, offset) or bytes(8))
        os.pwrite(fd, struct.pack("q", count + 1), offset)
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            fcntl_lock(fd, fcntl.F_UNLCK, True, offset, 8)
    os.close(fd)


def in_processes(works):
    """Runs each in a process of its own; all must end."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.stdout)
                sys.stdout.flush()
            os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert not any(codes), codes


def count_of(path, offset=0):
    fd = opened(path)
    fcntl_lock(fd, fcntl.F_RDLCK, True, offset, 8)
    (count,) = struct.unpack("q", os.pread(fd, 8, offset))
    os.close(fd)
    return count


def run_guests(checks):
    """Runs each check in all guests at the same time, in a directory of its own; `LOCK_CHECKS` names some."""
    only = ENVIRONMENT.get("LOCK_CHECKS", "").split()
    failed = 0
    checks = [check for check in checks if not only or check.__name__ in only]
    for check in checks:
        name, started = check.__name__, time.time()
        place = "/mnt/a/" + name
        try:
            os.makedirs(place, exist_ok=True)
            os.chmod(place, 0o777)
            os.chdir(place)
            meet("begin-" + name)
            check()
            print("ok %s (guest %d, %.1f s)" % (name, ME, time.time() - started), flush=True)
        except BaseException:
            failed += 1
            open(JOB + "/failed", "w").close()
            traceback.print_exc(file=sys.stdout)
            print("not ok %s (guest %d)" % (name, ME), flush=True)
            # the other guests must not wait for ever
            break
        finally:
            os.chdir("/")
    print("%d of %d kernel-client checks passed in guest %d" % (len(checks) - failed, len(checks), ME), flush=True)
    sys.exit(1 if failed else 0)

