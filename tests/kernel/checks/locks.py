"""Locks over a default mount, one client: flock, fcntl, and programs of the server's machine."""

import errno
import fcntl
import os
import struct

from check import ask, errno_of, run, sh


def lock(f, kind, start=0, length=0, wait=False):
    """fcntl(2)'s lock of a range."""
    command = fcntl.F_SETLKW if wait else fcntl.F_SETLK
    fcntl.fcntl(f, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def holder(f, kind, start=0, length=0):
    """The conflicting lock from fcntl(2): the kind, the start, the length and the process."""
    asked = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK, asked))
    return kind, start, length, pid


def in_child(function):
    """The value (an int, 0..200) of a function that another process runs."""
    child = os.fork()
    if child == 0:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def flock_of_a_command():
    sh("touch f; flock -n f true; flock -n f flock -n f true && exit 1; flock -n f true")


def ranges_of_two_processes():
    f = open("f", "w+")
    lock(f, fcntl.F_WRLCK, 10, 10)

    def child():
        g = open("f", "r+")
        assert errno_of(lock, g, fcntl.F_RDLCK, 0, 11) in (errno.EAGAIN, errno.EACCES)
        assert holder(g, fcntl.F_WRLCK, 0, 100)[:3] == (fcntl.F_WRLCK, 10, 10)
        lock(g, fcntl.F_WRLCK, 0, 10)
        lock(g, fcntl.F_WRLCK, 20, 0)
        return 7

    assert in_child(child) == 7
    lock(f, fcntl.F_WRLCK)


def far_ranges():
    f = open("f", "w+")
    lock(f, fcntl.F_WRLCK, 1 << 40, 5)
    lock(f, fcntl.F_UNLCK, (1 << 40) + 1, 1)

    def child():
        g = open("f", "r+")
        lock(g, fcntl.F_WRLCK, (1 << 40) + 1, 1)
        return 0 if errno_of(lock, g, fcntl.F_WRLCK, (1 << 40) + 2, 0) else 1

    assert in_child(child) == 0


def a_lock_is_gone_with_its_process():
    open("f", "w").close()

    def child():
        lock(open("f", "r+"), fcntl.F_WRLCK)
        return 0

    assert in_child(child) == 0
    lock(open("f", "r+"), fcntl.F_WRLCK)


def a_program_on_the_server_is_excluded():
    f = open("f", "w+")
    lock(f, fcntl.F_WRLCK, 0, 10)
    path = "a/a_program_on_the_server_is_excluded/f"
    program = (
        "import fcntl; f = open('%s', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, %d, %d); print('got it')"
    )
    assert "BlockingIOError" in ask('python3 -c "%s"' % (program % (path, 5, 9)))
    assert "got it" in ask('python3 -c "%s"' % (program % (path, 5, 10)))
    lock(f, fcntl.F_UNLCK)
    assert "got it" in ask('python3 -c "%s"' % (program % (path, 0, 0)))


def sqlite():
    sh("""
      python3 -c "
import sqlite3
db = sqlite3.connect('db'); db.execute('create table t(x)')
for n in range(20):
    with db: db.execute('insert into t values (?)', (n,))
print(db.execute('select count(*), sum(x) from t').fetchone())
" | grep -qx '(20, 190)'
    """)


run(
    [
        flock_of_a_command,
        ranges_of_two_processes,
        far_ranges,
        a_lock_is_gone_with_its_process,
        a_program_on_the_server_is_excluded,
        sqlite,
    ]
)
