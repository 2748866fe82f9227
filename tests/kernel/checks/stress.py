"""Stress: settings of the server change at random every 5 ms under this client and the load generator, TCP
and UDP, or TLS alone where the mount is over TLS. No call fails or hangs, and all data is as written."""

import hashlib
import json
import os
import random
import threading
import time

from check import ask, drop_caches, run
from two import ENVIRONMENT

SECONDS = int(ENVIRONMENT.get("LOCK_SECONDS", "10"))
SEED = int(ENVIRONMENT.get("LOCK_SEED", "0")) or random.randrange(1 << 30)
SHAKEN_BYTES = 6 << 20
# exports that demand TLS serve no datagrams
SEALED = any(" /mnt/a nfs" in line and "xprtsec=" in line for line in open("/proc/mounts"))
LOADS = ("tcp",) if SEALED else ("tcp", "udp")


def block(k, n):
    return hashlib.sha256(b"%d.%d" % (k, n)).digest() * 1024


def shake(name, end):
    """Writes, cuts, syncs and reads one file at random places until `end`; it must always equal a copy
    in memory. Writes are up to 3 MiB, so that WRITEs have their maximum size. Returns the number of changes."""
    chance, model, changes = random.Random(SEED), bytearray(), 0
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    while time.monotonic() < end:
        at, length = chance.randrange(SHAKEN_BYTES), chance.randrange(1, chance.choice((5000, 300000, 3 << 20)))
        what = chance.choice("wwwctrr")
        if what == "w":
            data = chance.randbytes(length)
            if at > len(model):
                model.extend(bytes(at - len(model)))
            model[at:at + length] = data
            assert os.pwrite(fd, data, at) == length
        elif what == "c":
            os.fsync(fd)
        elif what == "t":
            model[at:] = bytes(max(0, at - len(model)))
            os.ftruncate(fd, at)
        else:
            if chance.random() < 0.3:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            got = os.pread(fd, length, at)
            assert got == model[at:at + length], "%d bytes at %d of %d" % (length, at, len(model))
        changes += what in "wt"
    os.close(fd)
    return changes


def settings_change_under_load():
    here = os.path.dirname(open(os.environ["JOB"] + "/script").read().strip())
    # each load in a directory of its own: removals by others would be reported as errors
    ask("mkdir -m 777 $export_dir/a/tcp $export_dir/a/udp")
    load = "$bowline bench load --server 10.77.0.1 --quiet --keep --seconds %d --sec %s --export $export_dir/a" \
        % (SECONDS, "tls" if SEALED else "sys")
    ask("(python3 %s/restless.py $KC_JOB/control.sock %d >$KC_JOB/restless.log 2>&1; echo $? >$KC_JOB/restless.rc) "
        "</dev/null >/dev/null 2>&1 &" % (here, SECONDS))
    ask("(%s/tcp --workload mixed --clients 8 --depth 4 --size 64K --json $KC_JOB/tcp.json >$KC_JOB/tcp.log 2>&1; "
        "echo $? >$KC_JOB/tcp.rc) </dev/null >/dev/null 2>&1 &" % load)
    if not SEALED:
        ask("(%s/udp --workload read --proto udp --clients 4 --size 8K --retransmit-ms 200 --json $KC_JOB/udp.json "
            ">$KC_JOB/udp.log 2>&1; echo $? >$KC_JOB/udp.rc) </dev/null >/dev/null 2>&1 &" % load)
    end, wrong, done, shaken = time.monotonic() + SECONDS, [], [0] * 4, [0]

    def writer(k):
        try:
            while time.monotonic() < end:
                name = "w%d" % k
                with open(name, "wb") as f:
                    for n in range(32):
                        f.write(block(k, done[k] + n))
                with open(name, "rb") as f:
                    for n in range(32):
                        assert f.read(32768) == block(k, done[k] + n), "file %d block %d" % (k, n)
                done[k] += 32
                drop_caches()
        except BaseException as e:
            wrong.append("writer %d: %r" % (k, e))

    def maker():
        try:
            while time.monotonic() < end:
                n = done[3]
                os.mkdir("d%d" % n)
                open("d%d/f" % n, "w").close()
                os.rename("d%d/f" % n, "d%d/g" % n)
                assert os.listdir("d%d" % n) == ["g"]
                os.unlink("d%d/g" % n)
                os.rmdir("d%d" % n)
                done[3] += 1
        except BaseException as e:
            wrong.append("maker: %r" % e)

    def shaker():
        try:
            shaken[0] = shake("shaken", end)
        except BaseException as e:
            wrong.append("shaker, LOCK_SEED=%d: %r" % (SEED, e))

    threads = [threading.Thread(target=writer, args=(k,)) for k in range(3)]
    threads += [threading.Thread(target=maker), threading.Thread(target=shaker)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong
    assert all(done) and shaken[0] > 20, (done, shaken)
    for what in ("restless",) + LOADS:
        for _ in range(1000):
            code = ask("cat $KC_JOB/%s.rc 2>/dev/null || true" % what).strip()
            if code:
                break
            time.sleep(0.3)
        log = ask("cat $KC_JOB/%s.log" % what).strip()
        if code != "0":
            log += "\n" + ask("cat $KC_JOB/%s.json 2>/dev/null || true" % what)[-9000:]
        assert code == "0", "%s ended with %r: %s" % (what, code, log)
        print("%s: %s" % (what, log.splitlines()[-1] if log else ""))
    for what in LOADS:
        for load in json.loads(ask("cat $KC_JOB/%s.json" % what))["loads"]:
            assert load["calls"] > 100 and not load["errors"] and not load["wrong"] and not load["lost"], load
            print("%s: %d calls, %d sent again, none failed" % (what, load["calls"], load["retransmitted"]))
    print("%d blocks written and compared, %d directories made and removed, %d changes of one file"
          % (sum(done[:3]), done[3], shaken[0]))


run([settings_change_under_load])
