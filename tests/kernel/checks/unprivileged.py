"""An ordinary user's server: all checks of objects.py except those that need other users or root."""

import os

import objects
from check import ask, drop_caches, errno_of, restart_server, run

OTHER_USERS = {"device_nodes_fifos_sockets", "owners"}


def all_is_the_servers_own():
    open("f", "w").write("x")
    os.mkdir("d")
    assert ask("stat -c %u:%g a/all_is_the_servers_own/f a/all_is_the_servers_own/d").split() == ["65534:65534"] * 2
    assert errno_of(os.chown, "f", 0, 0) != 0


def fifos_and_sockets():
    os.mkfifo("p")
    drop_caches()
    assert ask("stat -c %F a/fifos_and_sockets/p").strip() == "fifo"


def handles_survive_a_restart():
    os.makedirs("d/e")
    with open("d/e/f", "w") as f:
        f.write("before")
    f = open("d/e/f")
    d = os.open("d/e", os.O_RDONLY)
    restart_server()
    assert f.read() == "before"
    assert os.listdir(d) == ["f"]
    os.rename("d", "g")
    drop_caches()
    f.seek(0)
    assert f.read() == "before"
    os.close(d)


def handles_survive_a_rename_on_the_server():
    os.makedirs("d")
    open("d/f", "w").write("x")
    f = open("d/f")
    ask("mv a/handles_survive_a_rename_on_the_server/d/f a/handles_survive_a_rename_on_the_server/d/g")
    drop_caches()
    assert f.read() == "x"


run([c for c in objects.CHECKS if c.__name__ not in OTHER_USERS]
    + [all_is_the_servers_own, fifos_and_sockets, handles_survive_a_restart, handles_survive_a_rename_on_the_server])
