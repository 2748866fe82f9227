#!/usr/bin/env python3
"""cost.py PROGRAM [CLIENTS [EXPORTS [SECONDS]]]: what looking at a server costs, with so many connected clients (10,000) and exports (1,000).

Prints the server's processor time of a scrape of its metrics and of an update of `bowline top`, and the processor time that `top` takes
of itself and of the server while it shows each view for SECONDS (10; 0: not). By hand, with an optimised program: every share is one of
one processor."""
import fcntl
import json
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
UPDATES = 20


def cpu_s(pid):
    """Seconds of processor time of a process; threads that have ended count as well."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def update_s(control, connections):
    """Seconds of the server's processor time for each update of `top`, which asks on one connection of the control socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(control)
        answers = client.makefile()

        def ask():
            client.sendall(json.dumps({"command": "rates", "conns": connections, "rows": 500}).encode() + b"\n")
            assert json.loads(answers.readline())["ok"]

        ask()
        before = cpu_s(server.pid)
        for _ in range(UPDATES):
            ask()
        return (cpu_s(server.pid) - before) / UPDATES


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
        with_connections, without = (update_s(control, connections) for connections in (True, False))
        print(f"an update of top costs the server {with_connections * 1e3:.1f} ms, {without * 1e3:.1f} ms of it without connections")
        for view in ("clients", "exports", "operations", "connections") if seconds else ():
            own, of_server = top(control, view)
            print(f"top, {view}: itself {own:.2%}, the server {of_server:.2%} of a processor")
    finally:
        server.terminate()
        server.wait()
