"""POSIX ACLs through the client: getfacl and setfacl on the mount against those on the server."""

import errno
import os
import random
import subprocess

from check import ask, as_user, drop_caches, errno_of, restart_server, run, sh

IDS = (1001, 1002, 1003, 1004)


def here():
    return "a/" + os.path.basename(os.getcwd())


def both(name="."):
    """The output of getfacl on the mount, which must equal that on the server."""
    drop_caches()
    mounted = sh("getfacl -Rn %s" % name)
    local = ask("cd %s && getfacl -Rn %s" % (here(), name))
    assert mounted == local, "%s\n--- on the server:\n%s" % (mounted, local)
    return mounted


def acl_set_on_the_mount_is_that_of_the_server():
    open("f", "w").write("x")
    os.mkdir("d")
    sh("setfacl -m u:1001:rw,g:2001:r,m::r f; setfacl -m u:1002:rwx,d:u:1003:rx,d:g:2002:w d")
    text = both()
    assert "user:1001:rw-\t#effective:r--" in text and "default:user:1003:r-x" in text, text
    sh("setfacl -x u:1001 f; setfacl -k d")
    text = both()
    assert "user:1001" not in text and "default" not in text, text
    sh("setfacl -b f d")
    assert "mask" not in both() and "mask" not in ask("cd %s && getfacl -R ." % here())


def acl_set_on_the_server_is_that_of_the_mount():
    open("f", "w").write("x")
    assert sh("getfacl -cn f").split() == ["user::rw-", "group::r--", "other::r--"]
    ask("cd %s && setfacl -m u:1001:rw,g:2001:r f && mkdir d && setfacl -d -m u:1002:rwx d" % here())
    assert "user:1001:rw-" in both()


def hundreds_of_random_acls():
    rng = random.Random(25)

    def lines(prefix):
        def rwx():
            return "".join(c if rng.random() < 0.5 else "-" for c in "rwx")
        named = ["%s%s:%d:%s" % (prefix, tag, i, rwx()) for tag in ("user", "group") for i in IDS if rng.random() < 0.5]
        mask = [prefix + "mask::" + rwx()] if named else []
        return ["%suser::%s" % (prefix, rwx()), "%sgroup::%s" % (prefix, rwx())] + named + mask + ["%sother::%s" % (prefix, rwx())]

    with open("/tmp/restore", "w") as restore:
        for n in range(300):
            name = "o%d" % n
            if n % 3:
                open(name, "w").close()
            else:
                os.mkdir(name)
            text = lines("") + (lines("default:") if n % 3 == 0 and n % 2 else [])
            restore.write("# file: %s\n%s\n\n" % (name, "\n".join(text)))
    sh("setfacl --restore=/tmp/restore")
    text = both()
    wanted = open("/tmp/restore").read().split("\n\n")

    def plain(block):
        return sorted(line.split("\t")[0] for line in block.split("\n") if line and not line.startswith("#"))
    found = {block.split("\n")[0]: plain(block) for block in text.split("\n\n")}
    for block in wanted:
        if block:
            head = block.split("\n")[0]
            assert found[head] == plain(block), "%s\n%s" % (block, found[head])


def objects_inherit_as_on_the_server():
    os.mkdir("d")
    sh("setfacl -m d:u:1001:rwx,d:g:2001:r-x,d:o::- d")
    for umask in (0o022, 0o077):
        sh("umask %o; cd d; echo x >client%o; mkdir clientd%o; mkfifo clientp%o" % (umask, umask, umask, umask))
        ask("cd %s/d; umask %o; echo x >server%o; mkdir serverd%o; mkfifo serverp%o"
            % (here(), umask, umask, umask, umask))
    both()
    for kind in ("", "d", "p"):
        for umask in ("22", "77"):
            client, server = (sh("getfacl -cn d/%s%s%s" % (side, kind, umask)) for side in ("client", "server"))
            assert client == server, "%s\n%s" % (client, server)


def chmod_changes_the_mask():
    open("f", "w").close()
    sh("setfacl -m u:1001:rwx f; chmod 640 f")
    text = both("f")
    assert "mask::r--" in text and "user:1001:rwx" in text, text
    assert os.stat("f").st_mode & 0o777 == 0o640
    sh("setfacl -m m::rwx f")
    assert os.stat("f").st_mode & 0o777 == 0o670


def rights_given_are_rights():
    os.chmod(".", 0o755)
    open("f", "w").write("secret")
    sh("chmod 600 f; setfacl -m u:1001:rw,g:2001:r f")

    def reads():
        return errno_of(lambda: open("f").read())

    def writes():
        return errno_of(lambda: open("f", "a").write("x"))
    assert as_user(1001, 9, [], reads) == 0 and as_user(1001, 9, [], writes) == 0
    assert as_user(1002, 9, [2001], reads) == 0 and as_user(1002, 9, [2001], writes) == errno.EACCES
    assert as_user(1003, 9, [], reads) == errno.EACCES
    sh("setfacl -m m::r f")
    assert as_user(1001, 9, [], writes) == errno.EACCES and as_user(1001, 9, [], reads) == 0


def only_the_owner_sets_acls():
    os.chmod(".", 0o755)
    open("f", "w").close()
    os.chown("f", 1001, 1001)

    def setfacl():
        return subprocess.run(["setfacl", "-m", "u:1003:r", "f"], stderr=subprocess.DEVNULL).returncode
    assert as_user(1002, 1002, [], setfacl) == 1
    assert "1003" not in both("f")
    assert as_user(1001, 1001, [], setfacl) == 0
    assert "user:1003:r--" in both("f")


def squashed_root_and_read_only_exports_set_none():
    ask("echo x >squash/roots; echo x >ro/f; chmod 644 squash/roots ro/f")
    for path, why in (("/mnt/squash/roots", "Operation not permitted"), ("/mnt/ro/f", "Read-only file system")):
        done = subprocess.run(["setfacl", "-m", "u:1001:r", path], stderr=subprocess.PIPE)
        assert done.returncode == 1 and why in done.stderr.decode(), done.stderr
    assert "1001" not in ask("getfacl -n squash/roots ro/f")


def default_acl_of_a_file_is_refused():
    open("f", "w").close()
    done = subprocess.run(["setfacl", "-d", "-m", "u:1001:r", "f"], stderr=subprocess.PIPE)
    assert done.returncode == 1, done


def copies_keep_acls():
    os.mkdir("from")
    open("from/f", "w").write("x")
    sh("setfacl -m u:1001:rw,d:u:1002:rx from; setfacl -m g:2001:r from/f; cp -a from to; tar --acls -cf t from")
    sh("mkdir out; tar --acls -xf t -C out")
    text = both()
    sides = [sh("cd %s && getfacl -Rn ." % d) for d in ("from", "to", "out/from")]
    assert sides[0] == sides[1] == sides[2], "\n".join(sides)
    assert "user:1001" in text


def acls_survive_a_restart():
    open("f", "w").close()
    sh("setfacl -m u:1001:rw f")
    restart_server()
    assert "user:1001:rw-" in both("f")
    sh("setfacl -m u:1002:r f")
    assert "user:1002:r--" in both("f")


def an_acl_of_many_entries():
    open("f", "w").close()
    entries = ["u:%d:r" % (10_000 + n) for n in range(200)]
    sh("setfacl -m %s f" % ",".join(entries))
    assert both("f").count("user:1") == 200


run([acl_set_on_the_mount_is_that_of_the_server, acl_set_on_the_server_is_that_of_the_mount, hundreds_of_random_acls,
     objects_inherit_as_on_the_server, chmod_changes_the_mask, rights_given_are_rights, only_the_owner_sets_acls,
     squashed_root_and_read_only_exports_set_none, default_acl_of_a_file_is_refused, copies_keep_acls,
     acls_survive_a_restart, an_acl_of_many_entries])
