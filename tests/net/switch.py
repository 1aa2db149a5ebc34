"""A network switch of a few ports, every one of which is the network card of a namespace.

The kernel hands each Ethernet frame that a namespace sends to this program, which hands it to the namespace it is
for: at once, late, or not at all. So a packet between any two of them can be lost in one direction only, which
neither a bridge nor a link that is down can do, and no module of the kernel is needed but TUN/TAP.

    switch.py DEVICE...

makes one TAP device for each name and says "ready". The cards must have the addresses 02:00:00:00:00:01 and so on, in
the order of the names. Each line on stdin is then a JSON object {"rules": [{"from": 1, "to": 2, "lose": 0.1,
"delay_ms": 200}, ...]} that replaces all rules; "ok" is the answer. It ends when stdin does.
"""

import fcntl
import heapq
import json
import os
import random
import selectors
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
FRAME_MAX = 65_536
LATE_FRAMES_MAX = 100_000
FRAMES_AT_ONCE = 64


def open_device(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


class Switch:
    def __init__(self, names):
        self.ports = {number: open_device(name) for number, name in enumerate(names, 1)}
        self.rules = {}
        self.late = []
        self.count = 0
        self.dice = random.Random(7)

    def obey(self, line):
        rules = json.loads(line)["rules"]
        self.rules = {(r["from"], r["to"]): (r.get("lose", 0), r.get("delay_ms", 0)) for r in rules}

    def take(self, source):
        """Takes what a port has sent, a bounded number of frames."""
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = os.read(self.ports[source], FRAME_MAX)
            except (BlockingIOError, OSError):
                return
            if frame[0] & 1:
                targets = [port for port in self.ports if port != source]
            else:
                targets = [frame[5]] if frame[5] in self.ports and frame[5] != source else []
            for target in targets:
                self.pass_on(source, target, frame)

    def pass_on(self, source, target, frame):
        lose, delay_ms = self.rules.get((source, target), (0, 0))
        if lose and self.dice.random() < lose:
            return
        if not delay_ms:
            self.give(target, frame)
        elif len(self.late) < LATE_FRAMES_MAX:
            self.count += 1
            heapq.heappush(self.late, (time.monotonic() + delay_ms / 1000, self.count, target, frame))

    def give(self, target, frame):
        try:
            os.write(self.ports[target], frame)
        except OSError:
            pass  # The card is down, or its queue is full: the packet is lost, as packets are.

    def give_late(self):
        """Hands over what is due; answers how long nothing else will be."""
        while self.late:
            left = self.late[0][0] - time.monotonic()
            if left > 0:
                return left
            _, _, target, frame = heapq.heappop(self.late)
            self.give(target, frame)
        return None


def main():
    switch = Switch(sys.argv[1:])
    watched = selectors.DefaultSelector()
    for number, device in switch.ports.items():
        watched.register(device, selectors.EVENT_READ, number)
    watched.register(sys.stdin.fileno(), selectors.EVENT_READ, 0)
    print("ready", flush=True)
    while True:
        for key, _ in watched.select(switch.give_late()):
            if key.data:
                switch.take(key.data)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            switch.obey(line)
            print("ok", flush=True)


main()
