"""restless.py CONTROL_SOCKET SECONDS [SEED]
Changes a run-time setting of a running server, chosen at random, every 5 ms. Prints how many changes were
made of each; a refused change, or a server that does not answer, ends it with status 1."""

import json
import random
import socket
import sys
import time

SETTINGS = {
    "threads": ["1..4", "2..64", "8..128", "4..16"],
    "pool-mode": ["auto", "global", "percpu", "pernode"],
    "wake-policy": ["unlimited", "cap:1", "cap:5", "chain", "adaptive"],
    "udp-sockets": ["single", "interface", "cpu", "interface-cpu"],
    "udp-buffer": ["auto", "256K", "1M"],
    "zero-copy": ["on", "off", "auto"],
    "tcp-rcvbuf": ["auto", "0", "256K", "1M"],
    "tcp-sndbuf": ["auto", "0", "256K", "1M"],
    "tcp-congestion": ["auto", "system", "reno"],
    "max-read": ["64K", "256K", "1M"],
    "max-write": ["64K", "256K", "1M"],
    "memory": ["64M", "512M"],
    "log-level": ["error", "warn", "info"],
}
EVERY_S = 0.005


def main():
    path, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    print("seed %d" % seed, flush=True)
    chance, made, slowest = random.Random(seed), {}, 0.0
    control = socket.socket(socket.AF_UNIX)
    control.settimeout(20)
    control.connect(path)
    stream = control.makefile("rwb")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        key = chance.choice(sorted(SETTINGS))
        value = chance.choice(SETTINGS[key])
        asked = time.monotonic()
        stream.write(json.dumps({"command": "set", "key": key, "value": value}).encode() + b"\n")
        stream.flush()
        answer = json.loads(stream.readline())
        slowest = max(slowest, time.monotonic() - asked)
        if not answer["ok"]:
            sys.exit("%s=%s was refused: %s" % (key, value, answer.get("error")))
        made[key] = made.get(key, 0) + 1
        time.sleep(EVERY_S)
    print("changed %d times: %s; slowest %.0f ms" % (sum(made.values()), made, slowest * 1000))


main()
