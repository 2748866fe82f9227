"""Owners by name (`idmap-domain`): the client maps NAME@DOMAIN by its own users (nfsidmap)."""

import errno
import os
import subprocess

from check import ask, drop_caches, errno_of, run

# users and groups that the server's machine and the guest both have, by the same numbers
DAEMON, MAIL = 1, 8


def owners_are_names_of_the_domain():
    ask("touch a/theirs && chown daemon:mail a/theirs")
    stat = os.stat("/mnt/a/theirs")
    assert (stat.st_uid, stat.st_gid) == (DAEMON, MAIL), stat
    # it was the client's own table of names that said so
    keys = open("/proc/keys").read()
    assert "uid:daemon@lab.example" in keys and "gid:mail@lab.example" in keys, keys


def an_owner_without_a_name_is_a_number():
    ask("touch a/strange && chown 54321:54322 a/strange")
    stat = os.stat("/mnt/a/strange")
    assert (stat.st_uid, stat.st_gid) == (54321, 54322), stat


def the_client_sets_owners_by_name():
    open("by_name", "w").close()
    os.chown("by_name", DAEMON, MAIL)
    assert ask("stat -c %U:%G a/the_client_sets_owners_by_name/by_name").strip() == "daemon:mail"
    drop_caches()
    stat = os.stat("by_name")
    assert (stat.st_uid, stat.st_gid) == (DAEMON, MAIL), stat


def acls_have_names():
    open("guarded", "w").close()
    done = subprocess.run(["nfs4_setfacl", "-a", "A::daemon@lab.example:R", "guarded"], capture_output=True, text=True)
    assert done.returncode == 0, done
    shown = subprocess.run(["nfs4_getfacl", "guarded"], capture_output=True, text=True).stdout
    assert "A::daemon@lab.example:r" in shown, shown
    acl = ask("getfacl -p a/acls_have_names/guarded")
    assert "user:daemon:r--" in acl, acl
    done = subprocess.run(["nfs4_setfacl", "-a", "A::nobody-of-this-name@lab.example:R", "guarded"], capture_output=True)
    assert done.returncode != 0


def numbers_again_without_the_domain():
    ask("$bowline set --control $KC_JOB/control.sock idmap-domain=off")
    open("plain", "w").close()
    assert errno_of(os.chown, "plain", DAEMON, MAIL) == errno.EINVAL, "the client sends names, which are refused"
    ask("$bowline set --control $KC_JOB/control.sock idmap-domain=lab.example")
    os.chown("plain", DAEMON, MAIL)


run([
    owners_are_names_of_the_domain,
    an_owner_without_a_name_is_a_number,
    the_client_sets_owners_by_name,
    acls_have_names,
    numbers_again_without_the_domain,
])
