"""Write delegations of a client of version 4.2 (guest 1), beside one of version 3 (guest 2) and programs of the server's
machine: it opens and writes its files without asking, and all others see what it has written when they look."""

import json
import os
import time

from check import ask
from two import ME, calls_so_far, meet, run_guests

ROUNDS = 50
PATIENCE_S = 30


def place():
    """The directory of this check on the server's side, below where `ask` runs."""
    return "a/" + os.path.basename(os.getcwd())


def kinds(name):
    """The kinds of the delegations of a file. In guest 1, which alone may ask."""
    rows = json.loads(ask("$bowline delegations --json --control $KC_JOB/control.sock"))
    return [row["kind"] for row in rows if os.path.basename(row["file"]) == name]


def write(name, text, how=os.O_CREAT):
    fd = os.open(name, os.O_RDWR | how, 0o666)
    os.write(fd, text.encode())
    os.close(fd)


def write_delegated(name, text):
    """Until there is a delegation: the server may have closed the new file too late for one."""
    end = time.time() + PATIENCE_S
    write(name, text)
    while kinds(name) != ["write"]:
        assert time.time() < end, (name, kinds(name))
        write(name, text, 0)


def read(name):
    with open(name) as f:
        return f.read()


def writing_again_makes_fewer_calls():
    """A file is opened, written and closed over and over."""
    opens = {}
    if ME == 1:
        for setting in ("read", "write"):
            ask("$bowline set delegations=%s --control $KC_JOB/control.sock" % setting)
            name = "again-" + setting
            if setting == "write":
                write_delegated(name, "x" * 100)
            else:
                write(name, "x" * 100)
            before = calls_so_far()
            for n in range(ROUNDS):
                write(name, "%03d" % n, 0)
            after = calls_so_far()
            calls = {call: count - before.get(call, 0) for call, count in after.items() if count != before.get(call, 0)}
            print("delegations=%s: %d calls: %s" % (setting, sum(calls.values()), calls), flush=True)
            opens[setting] = calls.get("OPEN", 0) + calls.get("OPEN_NOATTR", 0) + calls.get("CLOSE", 0)
            assert kinds(name) == ["write"] * (setting == "write"), kinds(name)
            assert ask("cat %s/%s" % (place(), name)) == "%03d" % (ROUNDS - 1) + "x" * 97
        assert opens["write"] < 10 <= ROUNDS <= opens["read"], opens
    meet("again-over")


def everybody_sees_what_was_written():
    """What the client has closed is there for whoever looks next, in whatever way."""
    looks = {
        "size": (lambda name: os.stat(name).st_size == 9, "stat -c %%s %s", "9"),
        "data": (lambda name: read(name) == "newer, it", "cat %s", "newer, it"),
        "listing": (lambda name: [e.stat().st_size for e in os.scandir() if e.name == name] == [9], "cat %s", "newer, it"),
    }
    for look, (by_client, locally, found) in looks.items():
        for who in (2, 0):
            name = "%s-%d" % (look, who)
            if ME == 1:
                write_delegated(name, "old")
                write(name, "newer, it", 0)
            meet("written-" + name)
            if ME == who:
                assert by_client(name), name
            elif who == 0 and ME == 1:
                said = ask("cd %s; %s" % (place(), locally % name)).strip()
                assert said == found, (name, said)
            meet("seen-" + name)
            # and the other way round
            if ME == who:
                write(name, "others wrote", 0)
            elif who == 0 and ME == 1:
                ask("cd %s; printf 'others wrote' >%s" % (place(), name))
            meet("changed-" + name)
            if ME == 1:
                assert read(name) == "others wrote", name
            meet("over-" + name)


def attributes_are_told_without_a_recall():
    """What the client has written and not sent shows in the file's attributes, and it keeps the file."""
    kept = 0
    for n in range(5):
        name, text = "told-%d" % n, "longer than it was before"
        if ME == 1:
            write_delegated(name, "old")
            fd = os.open(name, os.O_RDWR)
            os.write(fd, text.encode())
        meet("unsent-" + name)
        if ME == 2:
            seen = os.stat(name)
            assert seen.st_size == len(text), (name, seen)
        meet("seen-" + name)
        if ME == 1:
            # a busy machine answers too late now and then
            kept += kinds(name) == ["write"]
            os.close(fd)
        meet("over-" + name)
    if ME == 1:
        print("%d of 5 kept their delegation" % kept, flush=True)
        assert kept > 0


def what_is_written_while_others_look_is_not_lost():
    """The client has the file open and goes on writing while its delegation is recalled."""
    for who in (2, 0):
        name = "open-%d" % who
        if ME == 1:
            write_delegated(name, "first ")
            fd = os.open(name, os.O_RDWR)
            os.write(fd, b"first ")
        meet("open-" + name)
        if ME == who:
            read(name)
        elif who == 0 and ME == 1:
            ask("cat %s/%s" % (place(), name))
        if ME == 1:
            os.write(fd, b"second ")
            os.fsync(fd)
            os.write(fd, b"third")
            os.close(fd)
        meet("closed-" + name)
        assert read(name) == "first second third", read(name)
        meet("compared-" + name)
        if ME == 1:
            assert ask("cat %s/%s" % (place(), name)) == "first second third"
        meet("over-" + name)


run_guests([writing_again_makes_fewer_calls, everybody_sees_what_was_written, attributes_are_told_without_a_recall, what_is_written_while_others_look_is_not_lost])
