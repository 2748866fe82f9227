"""Shared by the checks of a guest: running them one by one, counting, and commands on the server's side."""

import os
import subprocess
import sys
import time
import traceback

JOB = os.environ.get("JOB", "/job")
VERSION = next(2 if "vers=2" in line else 3 for line in open("/proc/mounts") if " /mnt/a nfs" in line)
EXPORT = open(JOB + "/exports").read().split()[0].rsplit("/", 1)[0]


def run(checks, beyond_version_2=()):
    """Runs each function in a fresh directory; prints ok or not ok; exits with 1 if any failed."""
    failed = 0
    left_out = os.environ.get("LEFT_OUT", "").split()
    checks = [check for check in checks if check.__name__ not in left_out]
    if VERSION == 2:
        checks = [check for check in checks if check not in beyond_version_2]
    for check in checks:
        name = check.__name__
        place = "/mnt/a/" + name
        started = time.time()
        try:
            os.mkdir(place)
            os.chdir(place)
            check()
            print("ok %s (%.1f s)" % (name, time.time() - started), flush=True)
        except BaseException:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print("not ok %s" % name, flush=True)
        os.chdir("/")
    print("%d of %d kernel-client checks passed" % (len(checks) - failed, len(checks)), flush=True)
    sys.exit(1 if failed else 0)


def ask(command, timeout_s=60):
    """Runs a shell command on the server's side, in the directory that holds the exports."""
    part = JOB + "/ask.part"
    with open(part, "w") as f:
        f.write(command + "\n")
    os.rename(part, JOB + "/ask")
    end = time.time() + timeout_s
    while not os.path.exists(JOB + "/answer"):
        if time.time() > end:
            raise TimeoutError("the server's side did not answer: " + command)
        time.sleep(0.02)
    with open(JOB + "/answer") as f:
        answer = f.read()
    os.unlink(JOB + "/answer")
    return answer


def restart_server():
    """kill -9 and a new server on the same state directory."""
    try:
        open(JOB + "/restart", "w").close()
    except FileNotFoundError:
        # hostfs asks for the attributes of what it has made: the server's side may have seen and removed it by then
        pass
    while os.path.exists(JOB + "/restart"):
        time.sleep(0.02)


def drop_caches():
    """Drops the client's caches."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def sh(command):
    """Runs a shell command in the guest; fails with its output."""
    done = subprocess.run(["bash", "-ec", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise AssertionError("%s\n%s" % (command, done.stdout.decode(errors="replace")))
    return done.stdout.decode(errors="replace")


def as_user(uid, gid, groups, function):
    """Runs a function with another identity, in this process, as a fork takes long in the guest; returns its value."""
    before = os.getgroups()
    try:
        os.setgroups(groups)
        os.setresgid(gid, gid, 0)
        os.setresuid(uid, uid, 0)  # the capabilities are no longer effective
        return function()
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(before)


def errno_of(function, *args):
    """The errno of a call, 0 on success."""
    try:
        function(*args)
        return 0
    except OSError as e:
        return e.errno
