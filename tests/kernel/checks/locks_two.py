"""Two clients on one export, over default mounts: locks of one exclude the other, and programs that use them keep their data."""

import errno
import os
import sqlite3
import statistics
import subprocess
import sys
import time

from check import ask, errno_of, sh
from two import (ENVIRONMENT, LIMIT_S, ME, OTHER, count_of, in_processes, increments, is_refused, meet, opened, run_guests,
                 tell, told, whole)

# increments of each process of a guest
ROUNDS = int(ENVIRONMENT.get("LOCK_ROUNDS", "30"))


def each_excludes_the_other():
    for how in ("flock", "fcntl"):
        fd = opened(how)
        meet(how + "-open")
        for holder in (1, 2):
            for held, asked, free in (("x", "x", False), ("x", "s", False), ("s", "x", False), ("s", "s", True)):
                step = "%s-%d-%s%s" % (how, holder, held, asked)
                if ME == holder:
                    whole(how, fd, held)
                meet(step + "-held")
                if ME != holder:
                    assert is_refused(whole, how, fd, asked) != free, step
                    whole(how, fd, "u")
                meet(step + "-asked")
                if ME == holder:
                    whole(how, fd, "u")
                meet(step + "-over")


def a_waiter_is_granted_when_the_holder_lets_go():
    waited_ms = {"flock": [], "fcntl": []}
    for how in waited_ms:
        fd = opened(how)
        for turn in range(6):
            holder = 1 + turn % 2
            step = "wait-%s-%d" % (how, turn)
            if ME == holder:
                whole(how, fd, "x")
                meet(step)
                time.sleep(0.4)
                let_go = time.time()
                whole(how, fd, "u")
                granted = told(step + "-granted")
                waited_ms[how].append((granted - let_go) * 1000)
            else:
                meet(step)
                whole(how, fd, "x", wait=True)
                tell(step + "-granted", time.time())
                whole(how, fd, "u")
            meet(step + "-over")
    tell("waited-%d" % ME, waited_ms)
    others_ms = told("waited-%d" % OTHER)
    for how in waited_ms:
        # each has measured from its own clock to the other's, so that the difference of the clocks is in both, once either
        # way; the median, because a machine that is busy may hold up some of them
        both_ms = (statistics.median(waited_ms[how]) + statistics.median(others_ms[how])) / 2
        print("%s: a waiter had the lock %.0f ms after it was let go" % (how, both_ms))
        # without a callback a client asks again after up to 30 s
        assert both_ms < 100, (how, waited_ms, others_ms)


def counters_miss_nothing():
    meet("count")
    in_processes([lambda how=how: increments("count-" + how, how, ROUNDS) for how in ("flock", "fcntl") for _ in range(2)])
    meet("counted")
    for how in ("flock", "fcntl"):
        assert count_of("count-" + how) == 4 * ROUNDS, (how, count_of("count-" + how))


def sqlite_keeps_every_row():
    if ME == 1:
        with sqlite3.connect("db") as db:
            db.execute("create table t (who int, n int)")
    meet("sqlite")
    db = sqlite3.connect("db", timeout=LIMIT_S)
    assert db.execute("pragma journal_mode").fetchone() == ("delete",)
    for n in range(ROUNDS):
        with db:
            db.execute("begin immediate")
            (rows,) = db.execute("select count(*) from t").fetchone()
            db.execute("insert into t values (?, ?)", (ME, rows))
    meet("sqlite-done")
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    assert [n for (n,) in db.execute("select n from t order by n")] == list(range(2 * ROUNDS))


def git_keeps_every_commit():
    os.environ.update(GIT_CONFIG_GLOBAL="/tmp/gitconfig", GIT_CONFIG_NOSYSTEM="1")
    sh("git config --global user.email a@b.c; git config --global user.name n; "
       "git config --global --add safe.directory '*'; git config --global init.defaultBranch main")
    if ME == 1:
        sh("git init -q --bare bare; git clone -q bare first 2>/dev/null; cd first; git commit -q --allow-empty -m 0; "
           "git push -q origin HEAD:main")
    meet("git")
    sh("""git clone -q bare mine%d; cd mine%d
          for n in $(seq 2); do
            echo $n >f%d-$n; git add .; git commit -qm "%d $n"
            until git push -q 2>/dev/null; do git pull -q --rebase; done
          done""" % (ME, ME, ME, ME))
    meet("git-done")
    if ME == 1:
        assert sh("cd bare && git fsck --strict >/dev/null && git rev-list --count main").split() == ["5"]
    meet("git-over")


def dotlock(path):
    """Locks as mail programs do it over NFS (see open(2), O_EXCL): a link to a file of one's own."""
    own = "%s.%d.%d" % (path, ME, os.getpid())
    os.close(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    end = time.time() + LIMIT_S
    while True:
        try:
            os.link(own, path + ".lock")
        except FileExistsError:
            pass
        if os.stat(own).st_nlink == 2:
            break
        assert time.time() < end, "no dotlock"
        time.sleep(0.01)
    os.unlink(own)


def dotlocks_exclude():
    meet("dotlock")

    def work():
        for _ in range(ROUNDS // 3):
            dotlock("count")
            count = int(open("count").read()) if os.path.exists("count") else 0
            with open("count.new", "w") as f:
                f.write(str(count + 1))
                f.flush()
                os.fsync(f.fileno())
            os.rename("count.new", "count")
            os.unlink("count.lock")

    in_processes([work, work])
    meet("dotlock-done")
    assert int(open("count").read()) == 4 * (ROUNDS // 3)


def a_replaced_file_that_is_still_open_is_not_opened_again():
    """One has a file open that a program of the server's machine replaces; the other opens the name and gets the new one,
    though it knows the old one's handle."""
    for n in range(4):
        name, holder = "held-%d" % n, 1 + n % 2
        if ME == holder:
            with open(name, "w") as f:
                f.write("old")
        meet("made-" + name)
        with open(name) as f:
            assert f.read() == "old"
        meet("known-" + name)
        held = open(name) if ME == holder else None
        meet("held-" + name)
        if ME == 1:
            ask("cd a/%s; printf new >new; mv new %s" % (os.path.basename(os.getcwd()), name))
        meet("replaced-" + name)
        if ME != holder:
            with open(name) as f:
                assert f.read() == "new", name
        meet("opened-" + name)
        if ME == holder:
            assert held.read() == "old"
            held.close()


def one_makes_the_pid_file():
    """As PostgreSQL creates postmaster.pid: only one process succeeds."""
    made = []
    for n in range(ROUNDS):
        meet("pid-%d" % n)
        try:
            fd = os.open("postmaster.pid.%d" % n, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(fd, b"%d\n" % ME)
            os.fsync(fd)
            os.close(fd)
            made.append(n)
        except FileExistsError:
            pass
    tell("pid-made-%d" % ME, made)
    other = told("pid-made-%d" % OTHER)
    assert sorted(made + other) == list(range(ROUNDS)), (made, other)
    for n in range(ROUNDS):
        assert open("postmaster.pid.%d" % n).read() == "%d\n" % (ME if n in made else OTHER)


def pid_file(path):
    """As PostgreSQL's CreateLockFile: makes the file, or takes it over if nobody has its process number. Only a process of
    the same machine can be found by its number: against another machine the file alone helps, and PostgreSQL's manual warns."""
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            pass
        with open(path) as f:
            other = int(f.readline())
        try:
            os.kill(other, 0)
            return other
        except ProcessLookupError:
            os.unlink(path)
    os.write(fd, b"%d\n/data\n" % os.getpid())
    os.fsync(fd)
    os.close(fd)
    return os.getpid()


def a_stale_pid_file_is_taken_over():
    path = "postmaster.pid.%d" % ME
    meet("stale")
    assert pid_file(path) == os.getpid()
    for _ in range(3):
        in_processes([lambda: pid_file(path) == os.getppid() or sys.exit(1)] * 2)
    os.unlink(path)
    dead = os.fork()
    if dead == 0:
        pid_file(path)
        os._exit(0)
    assert os.waitpid(dead, 0)[1] == 0
    assert int(open(path).readline()) == dead
    assert pid_file(path) == os.getpid()
    meet("stale-taken")
    # the other's is there, whole, and cannot be made
    other = "postmaster.pid.%d" % OTHER
    assert errno_of(os.open, other, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) == errno.EEXIST
    assert open(other).read().endswith("\n/data\n")
    meet("stale-over")


def dotlocks_by_lockfile():
    """lockfile(1), as in mail programs and scripts."""
    meet("lockfile")
    sh("""for n in 1 2 3; do
            lockfile -1 -r 60 count.lock
            echo $(($(cat count 2>/dev/null || echo 0) + 1)) >count.new; mv count.new count
            rm -f count.lock
          done""")
    meet("lockfile-done")
    assert sh("cat count").split() == ["6"]


def mail_is_delivered_by_procmail():
    """Into a Maildir, and into an mbox by a dotlock and fcntl(2)."""
    with open("/tmp/procmailrc", "w") as f:
        f.write("MAILDIR=%s\nLOCKSLEEP=1\nSHELL=/bin/sh\n:0 c\ninbox/\n:0 :\nmbox\n" % os.getcwd())
    meet("procmail")
    for n in range(5):
        body = "".join("mail %d of %d, line %d\n" % (n, ME, line) for line in range(200))
        mail = "From g%d  Tue Nov 24 12:00:00 2026\nFrom: g%d\nSubject: %d\n\n%s\n" % (ME, ME, n, body)
        subprocess.run(["procmail", "-m", "/tmp/procmailrc"], input=mail.encode(), check=True)
    meet("procmail-done")
    names = os.listdir("inbox/new")
    assert len(names) == 10 and not os.listdir("inbox/tmp"), names
    mails = open("mbox").read().split("\nFrom g")
    assert len(mails) == 10, len(mails)
    for mail in mails + [open("inbox/new/" + name).read() for name in names]:
        assert mail.count(", line ") == 200, mail[:100]
    meet("procmail-over")


def maildir_loses_no_mail():
    for d in ("tmp", "new", "cur"):
        os.makedirs(d, exist_ok=True)
    meet("maildir")
    for n in range(ROUNDS):
        name = "%d.%d.kc%d" % (time.time(), n, ME)
        with open("tmp/" + name, "w") as f:
            f.write("mail %d of %d\n" % (n, ME) * 100)
            f.flush()
            os.fsync(f.fileno())
        os.link("tmp/" + name, "new/" + name)
        os.unlink("tmp/" + name)
        # and reads its share, as a mail program does
        for mail in os.listdir("new")[:1]:
            try:
                os.rename("new/" + mail, "cur/" + mail + ":2,S")
            except FileNotFoundError:
                pass
    meet("maildir-done")
    mails = [d + "/" + mail for d in ("new", "cur") for mail in os.listdir(d)]
    assert len(mails) == 2 * ROUNDS and not os.listdir("tmp"), mails
    for mail in mails:
        lines = open(mail).read().splitlines()
        assert len(lines) == 100 and len(set(lines)) == 1, mail
    meet("maildir-over")


run_guests([each_excludes_the_other, a_waiter_is_granted_when_the_holder_lets_go, counters_miss_nothing,
          sqlite_keeps_every_row, git_keeps_every_commit, dotlocks_exclude, dotlocks_by_lockfile,
          a_replaced_file_that_is_still_open_is_not_opened_again, one_makes_the_pid_file,
          a_stale_pid_file_is_taken_over, maildir_loses_no_mail, mail_is_delivered_by_procmail])
