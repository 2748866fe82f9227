"""Delegations of directories (RFC 8881 §10.9) of a kernel that asks for them: what a listing saves, and that changes by local
programs, by a client of version 3 and by the client itself are seen at once. The server's kernel must have F_SETDELEG: see
dir_delegations.sh. The lines that begin with "measured" count calls."""

import json
import os
import subprocess
import time

from check import EXPORT, ask, run
from two import calls_so_far

# no directory is delegated until it has been at rest for so long; a client looks at attributes again after 3 s
REST_S = 4
FILES = 40


def held():
    """The directories that clients have delegations of."""
    rows = json.loads(ask("$bowline delegations --json --control $KC_JOB/control.sock"))
    return {row["file"]: row for row in rows if row["kind"] == "directory"}


def counter(name):
    lines = ask("$bowline metrics --control $KC_JOB/control.sock").splitlines()
    return int(next(line.split()[1] for line in lines if line.split()[0] == "bowline_" + name))


def here():
    return EXPORT + "/a/" + os.path.basename(os.getcwd())


def filled(name):
    os.mkdir(name)
    for n in range(FILES):
        open("%s/f%d" % (name, n), "w").close()


def rested(name):
    """A directory with files that the client has a delegation of; its path on the server."""
    filled(name)
    return delegated(name)


def delegated(name):
    """The same of a directory that is there."""
    path = here() + "/" + name
    end = time.time() + 60
    while path not in held():
        assert time.time() < end, "no delegation: %s" % held()
        time.sleep(REST_S)
        os.stat(name)
        os.listdir(name)
    return path


def calls_of(work):
    before = calls_so_far()
    work()
    after = calls_so_far()
    return {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}


def look(name):
    """What a program does that looks at a directory again and again."""
    for _ in range(4):
        time.sleep(REST_S)
        os.stat(name)
        assert len(os.listdir(name)) == FILES
        assert not os.path.exists(name + "/missing")
        os.access(name, os.R_OK | os.X_OK)


def looking_again_makes_fewer_calls():
    saved = {}
    for setting in ("off", "read"):
        ask("$bowline set delegations=%s --control $KC_JOB/control.sock" % setting)
        if setting == "off":
            filled(setting)
        else:
            rested(setting)
        look(setting)
        calls = calls_of(lambda: look(setting))
        saved[setting] = sum(calls.values())
        print("measured " + json.dumps({"delegations": setting, "calls": calls}), flush=True)
    assert saved["read"] < saved["off"], saved


def timed(work):
    began = time.time()
    work()
    return time.time() - began


def a_local_programs_changes_are_held_back_and_seen_at_once():
    for n, change in enumerate(
        ["mkdir %s/new", "rm %s/f1", "mv %s/f2 %s/moved", "ln %s/f3 %s/link", "ln -s x %s/symlink", "touch %s/other", "chmod 711 %s"]
    ):
        name = "local%d" % n
        path = rested(name)
        took = timed(lambda: ask(change.replace("%s", path)))
        assert path not in held()
        there = sorted(ask("ls -A " + path).split())
        assert sorted(os.listdir(name)) == there, (change, os.listdir(name), there)
        assert not change.startswith("chmod") or os.stat(name).st_mode & 0o777 == 0o711
        print("%s: %.2f s" % (change, took))
        assert took < 20, took


def a_local_rename_or_removal_of_the_directory_itself_is_told():
    path = rested("itself")
    ask("mv %s %s-away" % (path, path))
    end = time.time() + 30
    while any("itself" in file.rsplit("/", 1)[1] for file in held()):
        assert time.time() < end, held()
        time.sleep(0.1)
    assert os.path.isdir("itself-away")
    path = rested("removed")
    ask("rm -r " + path)
    end = time.time() + 30
    while os.path.exists("removed"):
        assert time.time() < end, "it is still there"
        time.sleep(0.1)


def mount_by_version_3(more=""):
    os.makedirs("/mnt/old", exist_ok=True)
    options = "vers=3,nolock,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nosharecache"
    subprocess.run(["mount", "-t", "nfs", "-o", options + more, os.environ["SERVER"] + ":" + EXPORT + "/a", "/mnt/old"], check=True)


def a_client_of_version_3_waits_for_the_return():
    mount_by_version_3()
    try:
        old = "/mnt/old/" + os.path.basename(os.getcwd()) + "/"
        for n, change in enumerate(
            [
                lambda d: os.mkdir(d + "/new"),
                lambda d: os.unlink(d + "/f1"),
                lambda d: os.rename(d + "/f2", d + "/moved"),
                lambda d: os.link(d + "/f3", d + "/link"),
                lambda d: os.symlink("x", d + "/symlink"),
                lambda d: open(d + "/created", "w").close(),
                lambda d: os.mkfifo(d + "/fifo"),
                lambda d: os.chmod(d, 0o711),
            ]
        ):
            name = "old%d" % n
            path = rested(name)
            recalls = counter("delegation_recalls_total")
            took = timed(lambda: change(old + name))
            assert path not in held()
            assert counter("delegation_recalls_total") > recalls
            there = sorted(ask("ls -A " + path).split())
            assert sorted(os.listdir(name)) == there, (n, os.listdir(name), there)
            print("%d: %.2f s" % (n, took))
    finally:
        subprocess.run(["umount", "/mnt/old"], check=True)


def the_clients_own_changes_keep_its_delegation():
    name = "own"
    path = rested(name)
    recalls = counter("delegation_recalls_total")
    changes = [
        lambda d: os.mkdir(d + "/new"),
        lambda d: open(d + "/created", "w").close(),
        lambda d: os.rename(d + "/f2", d + "/moved"),
        lambda d: os.unlink(d + "/f1"),
        lambda d: os.link(d + "/f3", d + "/link"),
        lambda d: os.symlink("x", d + "/symlink"),
        lambda d: os.rmdir(d + "/new"),
    ]
    for n, change in enumerate(changes):
        change(name)
        time.sleep(0.5)
        assert path in held(), "change %d" % n
    there = sorted(ask("ls -A " + path).split())
    assert sorted(os.listdir(name)) == there, (os.listdir(name), there)
    print("recalled %d times, held: %s" % (counter("delegation_recalls_total") - recalls, path in held()))
    assert path in held() and counter("delegation_recalls_total") == recalls
    ask("touch %s/by_another" % path)
    assert os.path.exists(name + "/by_another") and "by_another" in os.listdir(name)


def without_recalls_nothing_changes_under_many_own_and_local_changes():
    """What the client lists is what is there, whoever has changed the directory just before."""
    name = "busy"
    path = rested(name)
    for n in range(60):
        if n % 3:
            open("%s/own%d" % (name, n), "w").close()
        else:
            ask("touch %s/local%d; rm -f %s/local%d" % (path, n, path, n - 6))
        there = sorted(ask("ls -A " + path).split())
        assert sorted(os.listdir(name)) == there, n


def what_the_server_kept_from_before_is_not_shown():
    """With attr-cache the server shows names that it has seen a moment ago, but not whom it gives a delegation."""
    reload = "$bowline reload --control $KC_JOB/control.sock"
    ask("sed -i s/insecure/insecure,attr-cache=60000/ $KC_JOB/exports; " + reload)
    # which asks after each second
    mount_by_version_3(",actimeo=1")
    try:
        old = "/mnt/old/" + os.path.basename(os.getcwd()) + "/"
        for n in range(4):
            name = "kept%d" % n
            filled(name)
            path = here() + "/" + name
            # all that can be kept is
            for _ in range(2):
                os.listdir(old + name)
                time.sleep(REST_S)
            ask("touch %s/late; rm %s/f1" % (path, path))
            time.sleep(REST_S)
            assert "late" not in os.listdir(old + name), "nothing was kept"
            delegated(name)
            there = sorted(ask("ls -A " + path).split())
            assert sorted(os.listdir(name)) == there, (os.listdir(name), there)
            assert os.path.exists(name + "/late") and not os.path.exists(name + "/f1")
            assert path in held()
    finally:
        subprocess.run(["umount", "/mnt/old"], check=True)
        ask("sed -i s/,attr-cache=60000// $KC_JOB/exports; " + reload)


run(
    [
        looking_again_makes_fewer_calls,
        a_local_programs_changes_are_held_back_and_seen_at_once,
        a_local_rename_or_removal_of_the_directory_itself_is_told,
        a_client_of_version_3_waits_for_the_return,
        the_clients_own_changes_keep_its_delegation,
        without_recalls_nothing_changes_under_many_own_and_local_changes,
        what_the_server_kept_from_before_is_not_shown,
    ]
)
