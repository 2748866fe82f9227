"""NFSv4 ACLs through the client: nfs4_getfacl and nfs4_setfacl on the mount against getfacl and setfacl on the server."""

import errno
import os
import random
import subprocess

from check import ask, as_user, drop_caches, errno_of, run, sh


def here():
    return "a/" + os.path.basename(os.getcwd())


def posix(name):
    """The lines of getfacl on the server."""
    shown = ask("cd %s && getfacl -cnE %s" % (here(), name))
    return [line for line in shown.splitlines() if line]


def shown(name):
    """The lines of nfs4_getfacl on the mount."""
    drop_caches()
    return [line for line in sh("nfs4_getfacl %s" % name).splitlines() if line and not line.startswith("#")]


def modes_are_shown():
    open("f", "w").write("x")
    for mode, expected in [
        (0o640, ["A::OWNER@:rwatTcCy", "A:g:GROUP@:rtcy", "A::EVERYONE@:tcy"]),
        (0o755, ["A::OWNER@:rwaxtTcCy", "A:g:GROUP@:rxtcy", "A::EVERYONE@:rxtcy"]),
        (0o604, ["A::OWNER@:rwatTcCy", "A:g:GROUP@:tcy", "D:g:GROUP@:r", "A::EVERYONE@:rtcy"]),
    ]:
        os.chmod("f", mode)
        assert shown("f") == expected, shown("f")


def entries_are_added_and_removed():
    open("f", "w").write("x")
    os.chmod("f", 0o600)
    sh("nfs4_setfacl -a A::1001:RX f; nfs4_setfacl -a A:g:2001:RW f")
    assert posix("f") == ["user::rw-", "user:1001:r-x", "group::---", "group:2001:rw-", "mask::rwx", "other::---"], posix("f")
    assert as_user(1001, 1001, [], lambda: open("f").read()) == "x"
    assert as_user(1002, 1002, [2001], lambda: open("f").read()) == "x"
    assert as_user(1002, 1002, [], lambda: errno_of(open, "f")) == errno.EACCES
    assert as_user(1001, 1001, [], lambda: errno_of(open, "f", "a")) == errno.EACCES
    # what the group has is still denied
    sh("nfs4_setfacl -x A::1001:rxtcy f")
    assert posix("f") == ["user::rw-", "user:1001:---", "group::---", "group:2001:rw-", "mask::rw-", "other::---"], posix("f")


def denied_is_denied():
    open("f", "w").write("x")
    os.chmod("f", 0o644)
    sh("nfs4_setfacl -a D::1001:r f")
    assert "user:1001:---" in posix("f"), posix("f")
    assert as_user(1001, 1001, [], lambda: errno_of(open, "f")) == errno.EACCES
    assert as_user(1002, 1002, [], lambda: open("f").read()) == "x"


def directories_pass_on_their_entries():
    os.mkdir("d")
    sh("nfs4_setfacl -s 'A:fd:OWNER@:rwaDxtTcCy A:fd:1001:rwaDxtcy A:fdg:GROUP@:rxtcy A::EVERYONE@:tcy' d".replace(" A:", ",A:"))
    assert "default:user:1001:rwx" in posix("d") and "default:other::---" in posix("d"), posix("d")
    open("d/f", "w").write("x")
    assert "user:1001:rw-" in posix("d/f") or "user:1001:rwx" in posix("d/f"), posix("d/f")
    sh("nfs4_setfacl -s A::OWNER@:rwaDxtTcCy,A:g:GROUP@:rxtcy,A::EVERYONE@:tcy d")
    assert posix("d") == ["user::rwx", "group::r-x", "other::---"], posix("d")


def what_posix_cannot_say_is_refused():
    open("f", "w").write("x")
    before = posix("f")
    # an audit entry, and the right to read attributes
    for ace in "U:S:1001:r", "D::1001:t":
        done = subprocess.run(["nfs4_setfacl", "-a", ace, "f"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode, (ace, done.stdout)
    assert posix("f") == before


def set_id_bits_survive():
    open("f", "w").write("x")
    os.chmod("f", 0o6755)
    sh("nfs4_setfacl -a A::1001:R f")
    assert os.stat("f").st_mode & 0o7000 == 0o6000, oct(os.stat("f").st_mode)


def random_acls_mean_the_same_when_they_are_set_again():
    rng = random.Random(8881)

    def rwx():
        return "".join(c if rng.random() < 0.5 else "-" for c in "rwx")

    for n in range(40):
        name = "o%d" % n
        is_directory = n % 4 == 0
        os.mkdir(name) if is_directory else open(name, "w").close()
        named = ["%s:%d:%s" % (tag, i, rwx()) for tag in ("user", "group") for i in (1001, 1002) if rng.random() < 0.6]
        # an ACL whose mask withholds nothing: what it withholds is not shown
        acl = ["user::" + rwx(), "group::" + rwx()] + named + ["other::" + rwx()] + (["mask::rwx"] if named else [])
        ask("cd %s && setfacl --set %s %s" % (here(), ",".join(acl), name))
        before, entries = posix(name), shown(name)
        with open("/tmp/acl4", "w") as f:
            f.write("\n".join(entries) + "\n")
        sh("nfs4_setfacl -S /tmp/acl4 %s" % name)
        after = posix(name)
        plain = [[line for line in lines if not line.startswith("mask")] for lines in (before, after)]
        assert plain[0] == plain[1], (before, entries, after)
        assert shown(name) == entries


run([
    modes_are_shown,
    entries_are_added_and_removed,
    denied_is_denied,
    directories_pass_on_their_entries,
    what_posix_cannot_say_is_refused,
    set_id_bits_survive,
    random_acls_mean_the_same_when_they_are_set_again,
])
