"""Two clients of version 3, which has no lease: what becomes of locks when a client cannot be called back, when its network is
cut, and when its power is."""

import os
import signal
import subprocess
import sys
import time

from check import JOB, ask, sh
from two import ME, await_file, in_processes, is_refused, meet, opened, run_guests, tell, told, whole

# the second guest has been switched off and on again
IS_BACK = ME == 2 and os.path.exists(JOB + "/nfs.2")
HOWS = ("flock", "fcntl")


def a_waiter_that_cannot_be_called_back_asks_again():
    """Its port mapper takes calls and answers none, as behind a firewall: the client asks every 30 s."""
    fds = {how: opened(how) for how in HOWS}
    if ME == 1:
        for how in HOWS:
            whole(how, fds[how], "x")
    meet("deaf-held")
    if ME == 2:
        # from now on the client's kernel does not need its port mapper itself, to have the server watched
        whole("fcntl", opened("own"), "x")
        rpcbind = int(sh("pidof rpcbind"))
        os.kill(rpcbind, signal.SIGSTOP)

        def wait(how):
            fd = opened(how)
            tell("deaf-asks-" + how, 1)
            whole(how, fd, "x", wait=True)
            tell("deaf-granted-" + how, 1)

        in_processes([lambda how=how: wait(how) for how in HOWS])
        os.kill(rpcbind, signal.SIGCONT)
    else:
        for how in HOWS:
            told("deaf-asks-" + how)
        time.sleep(1)
        let_go = time.time()
        for how in HOWS:
            whole(how, fds[how], "u")
        for how in HOWS:
            told("deaf-granted-" + how)
            waited_s = time.time() - let_go
            print("%s: a client that cannot be called back had the lock %.1f s after it was let go" % (how, waited_s))
            assert waited_s < 31, waited_s
    meet("deaf-over")


def cut(guest, state):
    """Cuts a guest's network, or connects it again."""
    answer = ask("bridge link set dev tap%d state %s" % (guest, {"down": "0", "up": "3"}[state]))
    assert not answer.strip(), answer


def a_holder_that_is_cut_off_keeps_its_lock():
    fd = opened("f")
    if ME == 2:
        whole("fcntl", fd, "x")
    meet("cut-held")
    if ME == 1:
        cut(2, "down")
        time.sleep(2)
        assert is_refused(whole, "fcntl", fd, "x")
        cut(2, "up")
    meet("cut-back")
    if ME == 2:
        os.pwrite(fd, b"guest 2", 0)
        whole("fcntl", fd, "u")
    else:
        whole("fcntl", fd, "x", wait=True)
        assert os.pread(fd, 7, 0) == b"guest 2"
        whole("fcntl", fd, "u")
    meet("cut-over")


def a_waiter_that_is_cut_off_gets_its_lock_when_it_is_back():
    fd = opened("f")
    if ME == 2:
        whole("fcntl", fd, "x")
        meet("away-held")
        told("away-cut")
        whole("fcntl", fd, "u")
        tell("away-let-go", 1)
    else:
        meet("away-held")

        def wait():
            again = opened("f")
            tell("away-asks", 1)
            whole("fcntl", again, "x", wait=True)
            print("a waiter that was cut off had the lock %.1f s after it was back" % (time.time() - told("away-back")))

        def away():
            told("away-asks")
            time.sleep(1)
            cut(1, "down")
            tell("away-cut", 1)
            told("away-let-go")
            time.sleep(1)
            cut(1, "up")
            tell("away-back", time.time())

        started = time.time()
        in_processes([wait, away])
        assert time.time() - started < 40
    meet("away-over")


def power_off(on_again):
    """As if the plug were pulled: nothing is unlocked, and the server hears nothing."""
    if on_again:
        # the disk
        sh("cp -a /var/lib/nfs $JOB/nfs.part; mv $JOB/nfs.part $JOB/nfs.2; touch $JOB/again.2")
    else:
        with open(JOB + "/rc.2", "w") as f:
            f.write("0\n")
    sys.stdout.flush()
    subprocess.run(["busybox", "poweroff", "-f"])
    time.sleep(100)


def what_a_client_without_power_held_others_get_when_it_is_back_or_released():
    fd = opened("f")
    if ME == 2 and not IS_BACK:
        whole("fcntl", fd, "x")
        tell("power-held", 1)
        power_off(on_again=True)
    if ME == 1:
        told("power-held")
        await_file("again.2.done")
        assert is_refused(whole, "fcntl", fd, "x"), "it is off, and nobody knows whether for ever"
        started = time.time()
        # it boots, and its sm-notify tells the server
        whole("fcntl", fd, "x", wait=True)
        print("a holder that was switched off: the lock was free %.1f s later, when it had booted" % (time.time() - started))
        assert '"client_reboots": 1' in ask('"$bowline" grace --json --control "$KC_JOB/control.sock" | tr -s " "')
    meet("power-back")
    fd = opened("g")
    if ME == 2:
        whole("fcntl", fd, "x")
        tell("power-held-again", 1)
        power_off(on_again=False)
    told("power-held-again")
    time.sleep(1)
    assert is_refused(whole, "fcntl", fd, "x"), "for ever"
    released = ask('"$bowline" release kc2 --control "$KC_JOB/control.sock"')
    whole("fcntl", fd, "x")
    print(released.strip())


checks = [a_waiter_that_cannot_be_called_back_asks_again, a_holder_that_is_cut_off_keeps_its_lock,
          a_waiter_that_is_cut_off_gets_its_lock_when_it_is_back,
          what_a_client_without_power_held_others_get_when_it_is_back_or_released]
run_guests(checks[-1:] if IS_BACK else checks)
