"""Exports with `refer=`: the client goes to the server that has them."""

import os
import subprocess

from check import EXPORT, ask, drop_caches, errno_of, restart_server, run

AWAY = "/mnt/a/away"


def server_of(path):
    """The address of the server that a path is mounted from."""
    mounts = [line.split() for line in open("/proc/mounts")]
    return next(row[0].split(":")[0] for row in reversed(mounts) if row[1] == path)


def the_client_goes_to_the_other_server():
    listing = subprocess.run(["ls", "-la", "/mnt/a"], capture_output=True, text=True)
    assert listing.returncode == 0 and not listing.stderr, listing
    assert "away" in os.listdir("/mnt/a")
    # the first location does not exist, the second one does
    assert sorted(os.listdir(AWAY)) == ["deep", "file"]
    assert open(AWAY + "/file").read() == "there\n"
    assert server_of(AWAY) == "10.77.0.2" and server_of("/mnt/a") == os.environ["SERVER"]
    assert os.stat(AWAY).st_dev != os.stat("/mnt/a").st_dev


def what_is_written_there_is_on_the_other_server():
    with open(AWAY + "/new", "w") as f:
        f.write("by the client")
    assert ask("cat there/new").strip() == "by the client"
    assert ask("ls a/away").strip() == "file", "the directory here is as it was"
    os.rename(AWAY + "/new", AWAY + "/deep/moved")
    os.unlink(AWAY + "/deep/moved")


def an_export_that_is_elsewhere_is_mounted_by_its_path():
    os.makedirs("/mnt/other", exist_ok=True)
    mount = ["mount", "-t", "nfs", "-o", "proto=tcp,port=2049", "%s:%s/other" % (os.environ["SERVER"], EXPORT)]
    subprocess.run(mount + ["/mnt/other"], check=True)
    try:
        assert os.listdir("/mnt/other") == []
        with open("/mnt/other/f", "w") as f:
            f.write("deep")
        assert ask("cat there/deep/f").strip() == "deep"
    finally:
        subprocess.run(["umount", "/mnt/other"], check=True)
    os.unlink(AWAY + "/deep/f")


def the_client_stays_there_while_the_first_server_is_restarted():
    f = open(AWAY + "/kept", "w+")
    restart_server()
    f.write("written after")
    f.flush()
    os.fsync(f.fileno())
    f.close()
    drop_caches()
    assert open(AWAY + "/kept").read() == "written after"
    os.unlink(AWAY + "/kept")


def what_is_not_elsewhere_any_more_is_served_here():
    control = "%s --control $KC_JOB/control.sock" % "$bowline reload"
    subprocess.run(["umount", AWAY], check=True)
    shown = ask("sed -i.bak 's/,refer=.*)/)/' $KC_JOB/exports && " + control)
    assert "no other locations instead of refer=" in shown, shown
    drop_caches()
    assert errno_of(os.stat, AWAY + "/file") == 0
    assert open(AWAY + "/file").read() == "here\n"
    assert ask("mv $KC_JOB/exports.bak $KC_JOB/exports && " + control).count("refer=") == 2


run([
    the_client_goes_to_the_other_server,
    what_is_written_there_is_on_the_other_server,
    an_export_that_is_elsewhere_is_mounted_by_its_path,
    the_client_stays_there_while_the_first_server_is_restarted,
    what_is_not_elsewhere_any_more_is_served_here,
])
