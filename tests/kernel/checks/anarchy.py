"""anarchy.py DIRECTORY SECONDS
Makes files and changes them, each in one of several ways, and tells all guests by a datagram which version of which file was
written and closed. As a program it does so on the server's machine; guests do it over their mounts."""

import errno
import os
import random
import socket
import sys
import time

SIZE = 6000
# of each writer: then they are made anew
FILES = 2000
GUESTS = ["10.77.0.%d" % n for n in (11, 12, 13)]
JOB = os.environ.get("KC_JOB")


def content(version):
    return b"%07d\n" % version * (SIZE // 8)


def version_of(path):
    """The least version that is in a file; of one that is being replaced, whichever is there."""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError as error:
        # in version 3 a file that was replaced is gone, also for those who have it open
        if error.errno != errno.ESTALE:
            raise
        return version_of(path)
    assert len(data) == SIZE, "%s has %d bytes" % (path, len(data))
    return int(min(data.split()))


class Writer:
    """One of those who write: each changes its own files."""

    def __init__(self, who, place):
        self.who, self.place, self.versions, self.made, self.changes = who, place, {}, 0, 0
        self.chance = random.Random(who + 100)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def path(self, name):
        return os.path.join(self.place, name)

    def write(self, name, version, how):
        fd = os.open(self.path(name), os.O_WRONLY | how, 0o666)
        assert os.write(fd, content(version)) == SIZE
        os.close(fd)

    def publish(self, name, version):
        self.versions[name] = version
        for guest in GUESTS:
            self.socket.sendto(b"%s %d" % (name.encode(), version), (guest, 9999))

    def replace(self, name, version):
        self.write(name + ".new", version, os.O_CREAT | os.O_EXCL)
        os.rename(self.path(name + ".new"), self.path(name))

    def step(self):
        """A new file, and a change of one that readers have had time to open."""
        new = "%d-%d" % (self.who, self.made % FILES)
        self.made += 1
        version = self.versions.get(new, 0) + 1
        if version == 1:
            self.write(new, 1, os.O_CREAT | os.O_EXCL)
        else:
            self.replace(new, version)
        self.publish(new, version)
        if self.made < 10:
            return
        at = (self.made - self.chance.choice([6, 7, 8, 9, 10])) % FILES
        name = "%d-%d" % (self.who, at)
        version = self.versions[name] + 1
        if self.chance.random() < 0.3:
            self.replace(name, version)
        else:
            self.write(name, version, 0)
        self.changes += 1
        self.publish(name, version)


def main():
    writer, end = Writer(0, sys.argv[1]), time.time() + float(sys.argv[2])
    slowest = 0.0
    while time.time() < end:
        began = time.time()
        writer.step()
        slowest = max(slowest, time.time() - began)
        time.sleep(0.05)
    print("here: %d files, %d changes, the slowest took %.2f s" % (len(writer.versions), writer.changes, slowest))
    with open(JOB + "/anarchy.part", "w") as f:
        f.write(repr(writer.versions))
    os.rename(JOB + "/anarchy.part", JOB + "/anarchy.done")


if __name__ == "__main__":
    main()
