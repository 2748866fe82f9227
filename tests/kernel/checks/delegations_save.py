"""What read delegations save: the calls of programs that read the same files again and again, with and without them.
LOCK_ROUNDS for more than one round, LOCK_WORKS for some of the programs, LOCK_SETTINGS for off,read,write. The lines that begin with "measured" are for `bowline bench run delegations`."""

import json
import os
import time

from check import ask, run, sh
from two import ENVIRONMENT, calls_so_far

ROUNDS = int(ENVIRONMENT.get("LOCK_ROUNDS", "1"))
SETTINGS = ENVIRONMENT.get("LOCK_SETTINGS", "off,read").split(",")
ALL_WORKS = {
    "compile": "for n in 0 1 2 3 4 5 6 7; do cc -c c$n.c -o /tmp/c$n.o; done",
    "read": "cat *.h *.c >/dev/null",
    "git grep": "git grep --untracked -c include >/dev/null",
    "git status": "git status --porcelain",
    "rsync -n": "rsync -an . /tmp/nothing",
}
WORKS = {work: ALL_WORKS[work] for work in ENVIRONMENT.get("LOCK_WORKS", ",".join(ALL_WORKS)).split(",")}

GIT = "export GIT_CONFIG_GLOBAL=/tmp/gitconfig GIT_CONFIG_NOSYSTEM=1; "
# a client looks at the attributes of a file again after 3 s
ATTRIBUTES_S = 4


def measured(command):
    """The calls and the seconds of a command."""
    time.sleep(ATTRIBUTES_S)
    before, began = calls_so_far(), time.time()
    sh(command)
    took, after = time.time() - began, calls_so_far()
    calls = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    return sum(calls.values()), took, calls


def make_tree(place):
    os.mkdir(place)
    for n in range(40):
        with open("%s/h%d.h" % (place, n), "w") as f:
            f.write("int h%d(void);\n" % n)
    for n in range(8):
        with open("%s/c%d.c" % (place, n), "w") as f:
            f.write("".join('#include "h%d.h"\n' % h for h in range(40)) + "int c%d(void) { return h%d(); }\n" % (n, n))
    sh(GIT + """git config --global user.email a@b.c; git config --global user.name n
        git config --global --add safe.directory '*'; cd %s; git init -q; git add .; git commit -qm 1""" % place)


def programs_that_read_again_make_fewer_calls():
    saved = {}
    for number in range(ROUNDS):
        for setting in SETTINGS:
            ask("$bowline set delegations=%s --control $KC_JOB/control.sock" % setting)
            tree = "%s-%d" % (setting, number)
            make_tree(tree)
            for work, words in WORKS.items():
                command = "cd %s; %s" % (tree, (GIT if "git" in work else "") + words)
                sh(command)
                calls, took, of_each = measured(command)
                print("%s: %d calls, %.2f s: %s (%s)" % (setting, calls, took, work, of_each))
                result = {"program": work, "delegations": setting, "round": number, "calls": calls, "seconds": took}
                print("measured " + json.dumps(result), flush=True)
                saved.setdefault(work, []).append(calls)
    ask("$bowline set delegations=read --control $KC_JOB/control.sock")
    for work, calls in saved.items():
        without = sum(calls[::len(SETTINGS)])
        for at, setting in enumerate(SETTINGS[1:], 1):
            with_them = sum(calls[at::len(SETTINGS)])
            assert with_them <= without * 1.02, (work, setting, without, with_them)
    assert max(saved["compile"][1:len(SETTINGS)]) < saved["compile"][0] / 2, saved["compile"]


run([programs_that_read_again_make_fewer_calls])
