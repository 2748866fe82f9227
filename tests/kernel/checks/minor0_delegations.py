"""A client of version 4.0 with delegations: it is called back at its address, returns what is recalled, and does without the server
meanwhile."""

import json
import os
import threading
import time

from check import ask, run

# as the test sets it; a recall that is answered takes much less
LEASE_S = 20


def asked(command):
    return ask("$bowline %s --control $KC_JOB/control.sock" % command)


def place():
    """The directory of this check on the server's side, below where `ask` runs."""
    return "a/" + os.path.basename(os.getcwd())


def locally(command):
    """Runs a command in that directory; how long it took."""
    began = time.time()
    said = ask("cd %s && %s" % (place(), command))
    assert not said, said
    return time.time() - began


def delegated():
    """The kind of the delegation of each file that this client has one of."""
    return {os.path.basename(row["file"]): row["kind"] for row in json.loads(asked("delegations --json"))}


def counter(name):
    lines = asked("metrics").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("bowline_" + name + " "))


def opens():
    """OPENs that this client has sent for the mount, of both kinds."""
    with open("/proc/self/mountstats") as f:
        text = f.read().split(" mounted on /mnt/a ")[1].split("device ")[0]
    lines = [line.split() for line in text.splitlines()]
    return sum(int(line[1]) for line in lines if line and line[0] in ("OPEN:", "OPEN_NOATTR:"))


def read(name):
    with open(name) as f:
        return f.read()


def held(name, act, kind):
    """Does something until it has given a delegation: of a file that was recalled there is none for a while."""
    end = time.time() + 60
    while delegated().get(name) != kind:
        assert time.time() < end, "no delegation of " + name
        act()
        time.sleep(0.1)


def the_callback_address_answers():
    end = time.time() + 60
    while [row["callback"] for row in json.loads(asked("sessions --json"))] != ["up"]:
        assert time.time() < end, asked("sessions")
        time.sleep(0.1)


def a_file_that_is_read_is_opened_without_the_server_and_recalled_for_a_local_writer():
    locally("printf old >file; chmod 666 file")
    # the first OPEN of an owner gives none
    held("file", lambda: read("file"), "read")
    before = opens()
    for _ in range(100):
        assert read("file") == "old"
    assert opens() == before, "%d OPENs" % (opens() - before)
    took = locally("printf new >file")
    assert read("file") == "new"
    assert took < LEASE_S / 2, "it took %.1f s" % took
    assert counter("delegations_revoked_total") == 0
    print("a local writer waited %.2f s" % took, flush=True)


def what_the_client_does_itself_does_not_wait():
    for name in ("cut", "removed", "renamed", "chmod"):
        locally("printf old >%s; chmod 666 %s" % (name, name))
        held(name, lambda: read(name), "read")
    began = time.time()
    with open("cut", "w") as f:
        f.write("new")
    os.unlink("removed")
    os.rename("renamed", "away")
    os.chmod("chmod", 0o640)
    took = time.time() - began
    assert read("cut") == "new" and read("away") == "old" and os.stat("chmod").st_mode & 0o777 == 0o640
    assert took < LEASE_S / 2, "it took %.1f s" % took
    assert counter("delegations_revoked_total") == 0


def a_file_that_is_written_is_recalled_for_a_local_reader():
    locally("printf old >file; chmod 666 file")
    fd = os.open("file", os.O_RDWR)
    held("file", lambda: os.close(os.open("file", os.O_RDWR)), "write")
    os.pwrite(fd, b"new data", 0)
    # its own looks at the attributes
    assert os.fstat(fd).st_size == 8 and os.stat("file").st_size == 8
    seen = []
    reader = threading.Thread(target=lambda: seen.append(ask("cat %s/file" % place())))
    reader.start()
    reader.join()
    assert seen == ["new data"], seen
    assert "file" not in delegated()
    # the open goes on without the delegation
    os.pwrite(fd, b"NEW", 0)
    os.fsync(fd)
    os.close(fd)
    assert ask("cat %s/file" % place()) == "NEW data"
    assert counter("delegations_revoked_total") == 0


def many_files_are_recalled_at_once():
    locally("for i in $(seq 200); do printf old >f$i; done")
    for i in range(1, 201):
        read("f%d" % i)
    count = len(delegated())
    assert count > 150, count
    took = locally("for i in $(seq 200); do printf new >f$i; done")
    assert all(read("f%d" % i) == "new" for i in range(1, 201))
    assert counter("delegations_revoked_total") == 0
    print("%d delegations were recalled in %.1f s" % (count, took), flush=True)


run([the_callback_address_answers, a_file_that_is_read_is_opened_without_the_server_and_recalled_for_a_local_writer,
     what_the_client_does_itself_does_not_wait, a_file_that_is_written_is_recalled_for_a_local_reader,
     many_files_are_recalled_at_once])
