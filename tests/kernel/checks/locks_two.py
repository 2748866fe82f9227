"""Two clients on one export, over default mounts: locks of one exclude the other, and programs that use them keep their data."""

import os
import sqlite3
import time

from check import sh
from two import (ENVIRONMENT, LIMIT_S, ME, OTHER, count_of, in_processes, increments, is_refused, meet, opened, run_two,
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
    waited_ms = []
    for how in ("flock", "fcntl"):
        fd = opened(how)
        for turn in range(4):
            holder = 1 + turn % 2
            step = "wait-%s-%d" % (how, turn)
            if ME == holder:
                whole(how, fd, "x")
                meet(step)
                time.sleep(0.7)
                let_go = time.time()
                whole(how, fd, "u")
                granted = told(step + "-granted")
                waited_ms.append(int((granted - let_go) * 1000))
            else:
                meet(step)
                whole(how, fd, "x", wait=True)
                tell(step + "-granted", time.time())
                whole(how, fd, "u")
            meet(step + "-over")
    tell("waited-%d" % ME, waited_ms)
    both = waited_ms + told("waited-%d" % OTHER)
    # each has measured from the other's clock to its own, so that the difference of the clocks is in both, once either way
    print("a waiter had the lock %.0f ms after it was let go, the mean of %d" % (sum(both) / len(both), len(both)))
    # without a callback a client retries after 30 s
    assert sum(both) / len(both) < 10_000, both


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


run_two([each_excludes_the_other, a_waiter_is_granted_when_the_holder_lets_go, counters_miss_nothing,
          sqlite_keeps_every_row, git_keeps_every_commit, dotlocks_exclude, one_makes_the_pid_file,
          maildir_loses_no_mail])
