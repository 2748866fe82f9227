#!/usr/bin/env python3
"""every_call.py PATH
Each procedure of NFS 3 and 2, NFSACL 3 and 2, rquota 1 and 2, MOUNT 1 to 3 and the port mapper 2 to 4, once to succeed and
once to fail: over TCP in one fragment, over TCP in many, and over UDP. What is judged here is the
status; the bytes of the replies are for a dissector that listens. Nothing of Bowline is used."""
import itertools
import socket
import struct
import sys

PATH = sys.argv[1].encode()
HOST = "127.0.0.1"
NFS, MOUNT, PMAP, ACL, QUOTA = 100003, 100005, 100000, 100227, 100011
PORTS = {NFS: 2049, MOUNT: 2049, PMAP: 111, ACL: 2049, QUOTA: 2049}
# far from those of other clients in the same capture, so that replies are not mixed up
FIRST_XID = 0x4000_0000
xids = itertools.count(FIRST_XID)


def u32(*numbers):
    return struct.pack(">%dI" % len(numbers), *(n & 0xFFFFFFFF for n in numbers))


def u64(number):
    return struct.pack(">Q", number)


def opaque(data):
    return u32(len(data)) + data + bytes(-len(data) % 4)


AUTH = u32(0) + opaque(b"every-call") + u32(0, 0, 0)


class Line:
    """One transport; `fragment` is how many bytes a fragment has, 0 for a datagram."""

    def __init__(self, fragment):
        self.fragment, self.sockets = fragment, {}

    def socket(self, port):
        if port not in self.sockets:
            kind = socket.SOCK_STREAM if self.fragment else socket.SOCK_DGRAM
            sock = socket.socket(socket.AF_INET, kind)
            sock.settimeout(10)
            sock.connect((HOST, port))
            self.sockets[port] = sock
        return self.sockets[port]

    def exact(self, sock, size):
        data = b""
        while len(data) < size:
            more = sock.recv(size - len(data))
            if not more:
                raise EOFError("the server closed the connection")
            data += more
        return data

    def call(self, program, version, procedure, args):
        """The accept_stat and the results."""
        xid = next(xids)
        call = u32(xid, 0, 2, program, version, procedure, 1) + opaque(AUTH) + u32(0, 0) + args
        sock = self.socket(PORTS[program])
        if not self.fragment:
            sock.send(call)
            reply = sock.recv(65536)
        else:
            parts = [call[i:i + self.fragment] for i in range(0, len(call), self.fragment)]
            record = b""
            for n, part in enumerate(parts, 1):
                record += u32(len(part) | (n == len(parts)) << 31) + part
            sock.sendall(record)
            reply, last = b"", 0
            while not last:
                (head,) = struct.unpack(">I", self.exact(sock, 4))
                last = head >> 31
                reply += self.exact(sock, head & 0x7FFFFFFF)
        got = struct.unpack(">6I", reply[:24])
        assert got[:5] == (xid, 1, 0, 0, 0), got
        return got[5], reply[24:]


def status(reply):
    return struct.unpack(">I", reply[1][:4])[0] if reply[0] == 0 else -1


def expect(what, reply, good):
    got = status(reply)
    assert got != -1, f"{what}: accept_stat {reply[0]}"
    assert (got == 0) == good, f"{what}: status {got}"
    return reply[1]


def fails(what, line, program, version, procedure, args):
    expect(what + " that fails", line.call(program, version, procedure, args), False)


def handle_at(data, at):
    (size,) = struct.unpack(">I", data[at:at + 4])
    return data[at + 4:at + 4 + size]


def nfs3(line, tag):
    def ok(number, args):
        return expect(f"v3 {number}", line.call(NFS, 3, number, args), True)

    def bad(number, args):
        fails(f"v3 {number}", line, NFS, 3, number, args)

    stale = opaque(bytes(24))
    root = opaque(handle_at(expect("MNT 3", line.call(MOUNT, 3, 1, opaque(PATH)), True), 4))
    name = lambda text: opaque((text + tag).encode())  # noqa: E731
    unset = u32(0, 0, 0, 0, 0, 0)
    mode = u32(1, 0o644, 0, 0, 0, 0, 0)
    line.call(NFS, 3, 0, b"")
    home = opaque(handle_at(ok(9, root + name("d3") + mode.replace(u32(0o644), u32(0o755))), 8))
    bad(9, root + name("d3") + mode)
    where = home + name("f")
    file = opaque(handle_at(ok(8, where + u32(0) + mode), 8))
    bad(8, where + u32(1) + mode)
    ok(8, home + name("x") + u32(2) + b"verifier")
    bad(8, home + name("x") + u32(2) + b"another.")
    ok(1, file), bad(1, stale)
    ok(2, file + u32(1, 0o600, 0, 0, 1) + u64(10) + u32(1, 2, 5, 6) + u32(0))
    bad(2, file + unset + u32(1, 1, 1))
    ok(3, where), bad(3, home + name("none"))
    ok(4, file + u32(0x3F)), bad(4, stale + u32(0x3F))
    for size, how in ((0, 0), (5, 0), (3, 1), (8001, 2)):
        ok(7, file + u64(3) + u32(size, how) + opaque(b"w" * size))
    bad(7, home + u64(0) + u32(1, 2) + opaque(b"w"))
    for size in (0, 1, 5000, 30000):
        ok(6, file + u64(1) + u32(size))
    bad(6, home + u64(0) + u32(9))
    ok(10, home + name("s") + unset + opaque(b"target" * 100))
    bad(10, home + name("s") + unset + opaque(b"x"))
    link = opaque(handle_at(ok(3, home + name("s")), 4))
    ok(5, link), bad(5, file)
    for kind, spec in ((6, b""), (7, b""), (4, u32(1, 3)), (3, u32(7, 0))):
        ok(11, home + name("n%d" % kind) + u32(kind) + unset + spec)
    bad(11, home + name("n7") + u32(7) + unset)
    bad(11, home + name("n1") + u32(1))
    ok(15, file + home + name("l")), bad(15, file + home + name("l"))
    ok(14, home + name("l") + home + name("m")), bad(14, home + name("l") + home + name("m"))
    ok(12, home + name("m")), bad(12, home + name("m"))
    for count in (200, 4096, 65536):
        ok(16, home + u64(0) + bytes(8) + u32(count))
        ok(17, home + u64(0) + bytes(8) + u32(count, count * 2))
    bad(16, home + u64(0) + bytes(8) + u32(8)), bad(17, file + u64(0) + bytes(8) + u32(512, 4096))
    for number in (18, 19, 20):
        ok(number, root), bad(number, stale)
    ok(21, file + u64(0) + u32(0)), bad(21, stale + u64(0) + u32(0))
    bad(13, root + name("d3")), ok(9, home + name("e") + unset), ok(13, home + name("e"))


def nfs2(line, tag):
    def ok(number, args):
        return expect(f"v2 {number}", line.call(NFS, 2, number, args), True)

    def bad(number, args):
        fails(f"v2 {number}", line, NFS, 2, number, args)

    stale = bytes(32)
    root = expect("MNT 1", line.call(MOUNT, 1, 1, opaque(PATH)), True)[4:36]
    expect("MNT 2", line.call(MOUNT, 2, 1, opaque(PATH)), True)
    name = lambda text: opaque((text + tag).encode())  # noqa: E731
    unset, mode = u32(*[-1] * 8), u32(0o755, *[-1] * 7)
    for number in (0, 3, 7):
        assert line.call(NFS, 2, number, b"") == (0, b""), number
    home = ok(14, root + name("d2") + mode)[4:36]
    bad(14, root + name("d2") + mode)
    file = ok(9, home + name("f") + mode)[4:36]
    bad(9, stale + name("f") + mode)
    ok(1, file), bad(1, stale)
    ok(2, file + u32(0o600, -1, -1, 10, 1, 2, 3, 4)), bad(2, stale + unset)
    ok(4, home + name("f")), bad(4, home + name("none"))
    for size in (0, 3, 8192):
        ok(8, file + u32(0, 1, size) + opaque(b"w" * size))
        ok(6, file + u32(1, size, size))
    bad(8, home + u32(0, 1, 1) + opaque(b"w")), bad(6, home + u32(0, 9, 9))
    ok(13, home + name("s") + opaque(b"target") + unset)
    bad(13, home + name("s") + opaque(b"x") + unset)
    link = ok(4, home + name("s"))[4:36]
    ok(5, link), bad(5, file)
    ok(12, file + home + name("l")), bad(12, file + home + name("l"))
    ok(11, home + name("l") + home + name("m")), bad(11, home + name("l") + home + name("m"))
    ok(10, home + name("m")), bad(10, home + name("m"))
    for count in (64, 4096):
        ok(16, home + u32(0, count))
    bad(16, file + u32(0, 512)), ok(17, root), bad(17, stale)
    bad(15, root + name("d2")), ok(14, home + name("e") + mode), ok(15, home + name("e"))


def acl_and_quota(line, tag):
    """NFSACL 2 and 3 and rquota 1 and 2, on a directory of their own."""
    root2 = expect("MNT 1", line.call(MOUNT, 1, 1, opaque(PATH)), True)[4:36]
    name = opaque(("acl" + tag).encode())
    made = expect("v2 MKDIR", line.call(NFS, 2, 14, root2 + name + u32(0o755, *[-1] * 7)), True)
    handle2, stale2 = made[4:36], bytes(32)
    root = opaque(handle_at(expect("MNT 3", line.call(MOUNT, 3, 1, opaque(PATH)), True), 4))
    handle = opaque(handle_at(expect("v3 LOOKUP", line.call(NFS, 3, 3, root + name), True), 4))
    stale = opaque(bytes(24))

    def entries(flag):
        rows = ((1, 0, 7), (2, 1001, 5), (4, 0, 5), (8, 2001, 4), (16, 0, 7), (32, 0, 0))
        return u32(len(rows), len(rows)) + b"".join(u32(kind | flag, who, bits) for kind, who, bits in rows)

    lists = u32(5) + entries(0) + entries(0x1000)
    for version, good, bad in ((3, handle, stale), (2, handle2, stale2)):
        assert line.call(ACL, version, 0, b"") == (0, b"")
        for mask in (0, 1, 10, 15):
            expect(f"acl {version} GETACL", line.call(ACL, version, 1, good + u32(mask)), True)
        expect(f"acl {version} SETACL", line.call(ACL, version, 2, good + lists), True)
        got = expect(f"acl {version} GETACL", line.call(ACL, version, 1, good + u32(15)), True)
        assert u32(2, 1001, 5) in got and u32(0x1008, 2001, 4) in got, got
        fails(f"acl {version} GETACL", line, ACL, version, 1, bad + u32(15))
        fails(f"acl {version} SETACL", line, ACL, version, 2, good + u32(1) + u32(1, 1, 64, 0, 7) + u32(0, 0))
    expect("acl 2 GETATTR", line.call(ACL, 2, 3, handle2), True), fails("GETATTR", line, ACL, 2, 3, stale2)
    expect("acl 2 ACCESS", line.call(ACL, 2, 4, handle2 + u32(63)), True), fails("ACCESS", line, ACL, 2, 4, stale2 + u32(1))
    limits = u32(*range(8))
    for version in (1, 2):
        kind = u32(0) if version == 2 else b""
        assert line.call(QUOTA, version, 0, b"") == (0, b"")
        for number in (1, 2):
            # the file system may have quotas or none
            reply = line.call(QUOTA, version, number, opaque(PATH) + kind + u32(0))
            assert status(reply) in (1, 2), reply
            reply = line.call(QUOTA, version, number, opaque(b"/nowhere") + kind + u32(0))
            assert status(reply) == 2, reply
        for number in (3, 4):
            args = u32(0) + opaque(PATH) + u32(7) + kind + limits
            assert line.call(QUOTA, version, number, args) == (0, u32(3))


def mount_and_port_mapper(line):
    def answered(program, version, number, args, results=None):
        accept, body = line.call(program, version, number, args)
        assert accept == 0 and results in (None, body), (program, version, number, accept, body)

    for version in (1, 2, 3):
        fails(f"MNT {version}", line, MOUNT, version, 1, opaque(PATH + b"/none"))
        for number in (0, 2, 3, 5):
            # lists go to this machine by datagram as well
            answered(MOUNT, version, number, opaque(PATH) if number == 3 else b"")
        answered(MOUNT, version, 4, b"", b"")
    answered(PMAP, 2, 3, u32(NFS, 3, 6, 0), u32(2049))
    answered(PMAP, 2, 3, u32(NFS, 4, 6, 0))
    answered(PMAP, 2, 3, u32(395648, 1, 6, 0), u32(0))
    for number in (1, 2):
        answered(PMAP, 2, number, u32(395648, 1, 6, 9), u32(0))
    # a client in Python sends this after DUMP
    for args in (b"", u32(2, 4)):
        answered(PMAP, 2, 4, args)
    rpcb = u32(NFS, 3) + opaque(b"tcp") + opaque(b"") + opaque(b"")
    other = u32(395648, 1) + opaque(b"tcp") + opaque(b"") + opaque(b"")
    for version in (3, 4):
        for args in (rpcb, other):
            answered(PMAP, version, 3, args)
        for number in (1, 2):
            answered(PMAP, version, number, other, u32(0))
        for number in (0, 4, 6):
            answered(PMAP, version, number, b"")
        answered(PMAP, version, 7, opaque(b"127.0.0.1.8.1"))
        answered(PMAP, version, 8, u32(16) + opaque(struct.pack("=H", 2) + b"\x08\x01\x7f\0\0\1" + bytes(8)))
    for number in (9, 11):
        for args in (rpcb, other):
            answered(PMAP, 4, number, args)


def refusals(line):
    """Errors of RFC 5531 §9: no such program, version, procedure; invalid arguments."""
    for want, call in ((1, (395648, 1, 0, b"")), (2, (NFS, 5, 0, b"")), (3, (NFS, 3, 22, b"")),
                       (3, (MOUNT, 3, 9, b"")), (4, (NFS, 3, 1, b"\0\0"))):
        PORTS.setdefault(395648, 2049)
        accept, _ = line.call(*call)
        assert accept == want, (call, accept)


for fragment, tag in ((1 << 20, "-whole"), (96, "-cut"), (0, "-udp")):
    transport = Line(fragment)
    nfs3(transport, tag)
    nfs2(transport, tag)
    acl_and_quota(transport, tag)
    mount_and_port_mapper(transport)
    refusals(transport)
print(f"{next(xids) - FIRST_XID} calls")
