#!/usr/bin/env python3
"""cost.py PROGRAM [CLIENTS [EXPORTS [SECONDS]]]: what looking at a server costs, with so many connected clients (10,000) and exports (1,000).

Prints the server's processor time of a scrape of its metrics, and the processor time that `bowline top` takes of itself and of the
server while it shows each view for SECONDS (10). By hand, with an optimised program: every figure is a share of one processor."""
import fcntl
import os
import pty
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request

program = sys.argv[1]
clients, exports, seconds = (int(number) for number in (sys.argv[2:] + ["10000", "1000", "10"][len(sys.argv) - 2:]))
SCRAPES = 200


def cpu_s(pid):
    """Seconds of processor time of a process; threads that have ended count as well."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def top(control, view):
    """Runs `top` on a terminal of 80 by 24 for a while; its processor time and the server's, as shares."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(program, [program, "top", "--view", view, "--control", control])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    time.sleep(3)
    before, began = (cpu_s(pid), cpu_s(server.pid)), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    shares = [(now - then) / took for now, then in zip((cpu_s(pid), cpu_s(server.pid)), before)]
    os.write(terminal, b"q")
    os.waitpid(pid, 0)
    return shares


def drain(terminal):
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass  # it has ended


limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
with tempfile.TemporaryDirectory() as base:
    with open(f"{base}/exports", "w") as lines:
        for number in range(exports):
            os.makedirs(f"{base}/e/{number}")
            lines.write(f"{base}/e/{number} 127.0.0.0/8(ro,insecure)\n")
    port, metrics = free_port(), free_port()
    control = f"{base}/control"
    server = subprocess.Popen([program, "serve", "--exports", f"{base}/exports", "--port", str(port), "--metrics", f"127.0.0.1:{metrics}",
                               "--portmap", "off", "--state-dir", f"{base}/state", "--control", control],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while not server.stdout.readline().startswith(b"control: "):
            pass
        crowd = []
        for number in range(clients):
            one = socket.socket()
            one.bind((f"127.1.{number // 250}.{number % 250 + 1}", 0))
            one.connect(("127.0.0.1", port))
            crowd.append(one)
        while f"\nbowline_connections {clients}\n" not in urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics").read().decode():
            time.sleep(0.2)
        before = cpu_s(server.pid)
        for _ in range(SCRAPES):
            text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics").read()
        each = (cpu_s(server.pid) - before) / SCRAPES
        print(f"{clients} clients, {exports} exports: a scrape of {len(text)} bytes costs {each * 1e3:.2f} ms, each second {each:.2%} of a processor")
        for view in ("clients", "exports", "operations", "connections"):
            own, of_server = top(control, view)
            print(f"top, {view}: itself {own:.2%}, the server {of_server:.2%} of a processor")
    finally:
        server.terminate()
        server.wait()
