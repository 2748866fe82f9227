"""volatile.py IMAGE LOG SEED [late]

The host's side of a power cut on a disk with a cache, in the server's place. Whenever the guest leaves a number
in $KC_JOB/cut, $KC_JOB/cut.NUMBER becomes what a power cut at that moment could have left of its disk IMAGE: all that
was written before the last flush, and of what was written since some blocks, chosen by chance, whatever their order
was. LOG is what volatile.c notes. How many blocks were lost in all is in $KC_JOB/lost.

late: the disk lies, and has done nothing of its last flush.
"""

import os
import random
import struct
import subprocess
import sys
import time

# The unit of atomic writes of a disk.
BLOCK = 4096
# The share of unflushed writes that survive, for successive cuts.
KEPT = [0, 0.1, 0.5, 0.9]
HEAD = struct.Struct("=QQ")
FLUSH = 2**64 - 1


class Disk:
    def __init__(self, image, log, seed, late):
        self.durable = os.path.join(os.environ["KC_JOB"], "durable")
        copy(image, self.durable)
        self.log, self.at = log, 0
        # writes since each flush; the oldest ones are not on disk either if flushes are late
        self.since = [[]]
        self.flushes = 2 if late else 1
        self.dice = random.Random(seed)
        self.lost = 0

    def follow(self):
        """Reads the new records of the log."""
        if not os.path.exists(self.log):
            return
        with open(self.log, "rb") as log:
            log.seek(self.at)
            while len(head := log.read(HEAD.size)) == HEAD.size:
                at, length = HEAD.unpack(head)
                data = log.read(length)
                if len(data) < length:
                    break
                self.at += HEAD.size + length
                if at == FLUSH:
                    self.since.append([])
                else:
                    self.since[-1].append((at, data))
                while len(self.since) > self.flushes:
                    write(self.durable, self.since.pop(0))

    def cut(self, number):
        """The disk after the cut of this number."""
        self.follow()
        to = os.path.join(os.environ["KC_JOB"], f"cut.{number}")
        copy(self.durable, to)
        kept = KEPT[number // len(KEPT) % len(KEPT)]
        blocks = [block for writes in self.since for one in writes for block in split(*one)]
        left = [block for block in blocks if self.dice.random() < kept]
        self.lost += len(blocks) - len(left)
        write(to, left)


def split(at, data):
    """A write's blocks."""
    begin = 0
    while begin < len(data):
        end = begin + BLOCK - (at + begin) % BLOCK
        yield at + begin, data[begin:end]
        begin = end


def write(path, writes):
    with open(path, "r+b") as image:
        for at, data in writes:
            image.seek(at)
            image.write(data)


def copy(image, to):
    subprocess.run(["cp", "--sparse=always", image, to], check=True)


def main():
    image, log, seed = sys.argv[1:4]
    job = os.environ["KC_JOB"]
    disk = Disk(image, log, int(seed), "late" in sys.argv[4:])
    wanted = os.path.join(job, "cut")
    while True:
        if os.path.exists(wanted):
            with open(wanted) as number:
                disk.cut(int(number.read()))
            with open(os.path.join(job, "lost"), "w") as lost:
                lost.write(str(disk.lost))
            os.remove(wanted)
        time.sleep(0.005)


main()
