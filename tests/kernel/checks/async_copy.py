"""Copies that the server answers before they are done (`copy=async`), through the client's copy_file_range. LOCK_MIB for larger files."""

import os
import threading
import time

from check import ask, restart_server, run
from two import ENVIRONMENT

MIB = 1 << 20
SIZE = int(ENVIRONMENT.get("LOCK_MIB", "256")) * MIB


def here():
    return "a/" + os.path.basename(os.getcwd())


def calls(*names):
    """How often the client has sent these operations over all mounts."""
    rows = (line.split() for line in open("/proc/self/mountstats"))
    return sum(int(row[1]) for row in rows if row and row[0].rstrip(":") in names and len(row) > 8)


def network():
    lines = [line.split(":") for line in open("/proc/net/dev") if ":" in line]
    fields = [line[1].split() for line in lines if line[0].strip() != "lo"]
    return sum(int(f[0]) + int(f[8]) for f in fields)


def counted(name):
    """A counter of the server's."""
    line = ask("$bowline metrics --control $KC_JOB/control.sock | grep '^bowline_%s '" % name)
    return int(float(line.split()[1]))


def make(name, sparse=False):
    """A file that the server's side makes."""
    if sparse:
        ask("truncate -s %d %s/%s && echo end >>%s/%s" % (SIZE - 4, here(), name, here(), name))
    else:
        ask("head -c %d /dev/urandom >%s/%s" % (SIZE, here(), name), 300)


def same(one, other):
    answer = ask("cmp %s/%s %s/%s && echo same" % (here(), one, here(), other), 300)
    assert answer == "same\n", answer


def copy_whole(source, target):
    source, target = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR | os.O_CREAT)
    left, parts = os.fstat(source).st_size, 0
    while left:
        count = os.copy_file_range(source, target, left)
        assert count > 0
        left -= count
        parts += 1
    os.fsync(target)
    os.close(source)
    os.close(target)
    return parts


def a_large_file_is_copied_by_one_call_without_data_on_the_network():
    for kind in "data", "sparse":
        make(kind, kind == "sparse")
        before = calls("READ", "WRITE"), calls("COPY"), network()
        begun, done = counted("async_copies_begun_total"), counted("async_copies_done_total")
        started = time.time()
        parts = copy_whole(kind, kind + ".copy")
        took = time.time() - started
        moved = network() - before[2]
        assert calls("READ", "WRITE") == before[0], "READ or WRITE was sent"
        assert (calls("COPY") - before[1], parts) == (1, 1), (calls("COPY") - before[1], parts)
        assert counted("async_copies_begun_total") == begun + 1, "it was done when it was answered"
        assert counted("async_copies_done_total") == done + 1
        assert moved < MIB // 16, "%d bytes on the network" % moved
        assert os.stat(kind + ".copy").st_size == SIZE
        same(kind, kind + ".copy")
        print("# %s: %d MiB in %.2f s, %d bytes on the network" % (kind, SIZE // MIB, took, moved), flush=True)


def a_server_that_is_killed_while_it_copies_loses_nothing():
    make("large")
    begun = counted("async_copies_begun_total")
    killed = threading.Thread(target=lambda: (time.sleep(0.05), restart_server()))
    killed.start()
    copy_whole("large", "copy")
    killed.join()
    same("large", "copy")
    print("# copies begun before: %d, since the restart: %d" % (begun, counted("async_copies_begun_total")), flush=True)


def many_copies_at_once_are_complete():
    ask("for i in 1 2 3 4; do head -c %d /dev/urandom >%s/f$i; done" % (24 * MIB, here()), 120)
    names = ["f%d" % (1 + number % 4) for number in range(24)]
    copies = [threading.Thread(target=copy_whole, args=(name, "%s.%d" % (name, at))) for at, name in enumerate(names)]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    for at, name in enumerate(names):
        same(name, "%s.%d" % (name, at))


run([
    a_large_file_is_copied_by_one_call_without_data_on_the_network,
    a_server_that_is_killed_while_it_copies_loses_nothing,
    many_copies_at_once_are_complete,
])
