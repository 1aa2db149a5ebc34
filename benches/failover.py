#!/usr/bin/env python3
"""How soon stock clients go on after the leader is killed, stopped or paused; a line a round.

    benches/failover.py --bin target/release/mooncake-ha --rounds 10
    benches/failover.py --bin target/release/mooncake-ha --rounds 10 --signal TERM

Needs the `mooncake` wheel.  Three nodes run on 127.0.0.1, .2 and .3 with one RPC port, so that one
name with three addresses (`--name`, from /etc/hosts or a DNS server) can stand for all of them.

idle        A client that reaches the masters by discovery and makes no call until `--idle-pause`
            after a node serves: from "a node serves" to the end of its first put; then its first
            get.  A call made before the client has heard of the new leader goes to the old one,
            whose closed port the client tries for 4.3 s by itself.
discovery   The same kind of client, putting without pause: its longest put.
any_node    A client that knows one surviving node only, putting without pause: its longest put.
by_name     The same for a client that knows the name only (left out without --name).

Every value that was put is read back at the end of its round; a wrong or missing one is an error
(exit code 1).
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP}
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
VALUE_BYTES = 4096
LOOK_SECONDS = 0.02
START_SECONDS = 60
# For the node that was killed to catch up, before the next leader is killed.
REJOIN_SECONDS = 3


class Node:
    def __init__(self, options, number, directory):
        host, base = HOSTS[number - 1], options.port
        peers = ",".join(f"{i}={h}:{base + 7 + i}" for i, h in enumerate(HOSTS, 1))
        self.number, self.admin = number, f"{host}:{base + 1}"
        self.rpc, self.discovery = f"{host}:{base}", f"{host}:{base + 4 + number}"
        self.command = [
            options.bin, "serve", f"--node_id={number}", f"--peers={peers}",
            f"--data_dir={directory}/node_{number}", f"--rpc_address={host}",
            f"--rpc_port={base}", f"--metrics_host={host}", f"--metrics_port={base + 1}",
            f"--raft_address={host}",
            f"--discovery_port={base + 4 + number}",
        ]
        self.log = open(f"{directory}/node_{number}.log", "ab")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def end(self):
        self.process.kill()
        self.process.wait()

    def serves(self):
        try:
            with urllib.request.urlopen(f"http://{self.admin}/health", timeout=0.3) as answer:
                health = json.load(answer)
        except (OSError, ValueError):
            return False
        return bool(health.get("service_ready"))


class Client:
    """A stock client in a process of its own, driven by lines: a key puts it, `?key` reads it."""

    def __init__(self, address, port):
        command = [sys.executable, os.path.abspath(__file__), "--worker", address, str(port)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the client of {address} did not start")

    def ask(self, line):
        begun = time.monotonic()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        return answer, time.monotonic() - begun

    def close(self):
        self.process.kill()
        self.process.wait()


def worker(address, port):
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    rc = store.setup(f"127.0.0.1:{port}", "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", address)
    print("ready" if rc == 0 else f"setup answered {rc}", file=out)
    for line in sys.stdin:
        key = line.strip()
        if key.startswith("?"):
            good = store.get(key[1:]) == value(key[1:])
            print("ok" if good else "wrong", file=out)
        else:
            print(store.put(key, value(key)), file=out)
    os._exit(0)


def value(key):
    return (key.encode() * (VALUE_BYTES // len(key) + 1))[:VALUE_BYTES]


class Busy(threading.Thread):
    """Puts without pause until told to stop; keeps the longest put and what was acknowledged."""

    def __init__(self, client, tag):
        super().__init__(daemon=True)
        self.client, self.tag = client, tag
        self.stopping = threading.Event()
        self.longest, self.done, self.refused = 0.0, [], 0

    def run(self):
        number = 0
        while not self.stopping.is_set():
            key = f"{self.tag}/{number}"
            number += 1
            answer, seconds = self.client.ask(key)
            self.longest = max(self.longest, seconds)
            if answer == "0":
                self.done.append(key)
            else:
                self.refused += 1
            time.sleep(0.005)


def wait_for(what, look):
    begun = time.monotonic()
    while time.monotonic() - begun < START_SECONDS:
        found = look()
        if found:
            return found
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"{what}: not within {START_SECONDS} s")


def play(options, nodes, clients, round_number):
    leader = wait_for("a leader", lambda: next((n for n in nodes if n.serves()), None))
    survivor = next(n for n in nodes if n is not leader)
    idle = clients["idle"]
    busy = {
        "discovery": Busy(clients["busy"], f"{round_number}/found"),
        "any_node": Busy(clients[survivor.rpc], f"{round_number}/any"),
    }
    if options.name:
        busy["by_name"] = Busy(clients["name"], f"{round_number}/name")
    for thread in busy.values():
        thread.start()
    before = f"{round_number}/idle/before"
    wrong = [] if idle.ask(before)[0] == "0" else [before]
    time.sleep(2)
    leader.process.send_signal(SIGNALS[options.signal])
    sent = time.monotonic()
    others = [n for n in nodes if n is not leader]
    wait_for("a new leader", lambda: next((n for n in others if n.serves()), None))
    serves = time.monotonic()
    row = {"leader_serves_s": serves - sent}
    time.sleep(options.idle_pause)
    key = f"{round_number}/idle/after"
    answer, _ = idle.ask(key)
    row["idle_put_s"] = time.monotonic() - serves
    found, row["idle_get_s"] = idle.ask(f"?{key}")
    wrong += [key] if answer != "0" or found != "ok" else []
    time.sleep(5)
    for name, thread in busy.items():
        thread.stopping.set()
        thread.join(60)
        row[f"{name}_longest_put_s"], row[f"{name}_refused"] = thread.longest, thread.refused
        wrong += [k for k in thread.done if thread.client.ask(f"?{k}")[0] != "ok"]
        row[f"{name}_puts"] = len(thread.done)
    row["wrong"] = wrong
    leader.end()
    leader.start()
    wait_for("the killed node", lambda: answers(leader))
    time.sleep(REJOIN_SECONDS)
    return row


def answers(node):
    try:
        with urllib.request.urlopen(f"http://{node.admin}/health", timeout=0.3) as answer:
            return answer.status == 200
    except OSError:
        return False


def run(options):
    directory = tempfile.mkdtemp(prefix="mooncake-ha-failover-")
    nodes = [Node(options, number, directory) for number in (1, 2, 3)]
    clients, rows = {}, []
    try:
        for node in nodes:
            node.start()
        wait_for("a leader", lambda: any(n.serves() for n in nodes))
        discovery = "etcd://" + ";".join(n.discovery for n in nodes)
        clients["idle"] = Client(discovery, options.port + 11)
        clients["busy"] = Client(discovery, options.port + 12)
        for at, node in enumerate(nodes):
            clients[node.rpc] = Client(node.rpc, options.port + 13 + at)
        if options.name:
            clients["name"] = Client(f"{options.name}:{options.port}", options.port + 16)
        for number in range(options.rounds):
            rows.append(play(options, nodes, clients, number))
            print(json.dumps(rows[-1]), flush=True)
    finally:
        for client in clients.values():
            client.close()
        for node in nodes:
            if node.process:
                node.end()
        shutil.rmtree(directory, ignore_errors=True)
    medians = {
        name: round(statistics.median(row[name] for row in rows), 3)
        for name in rows[0] if name.endswith("_s")
    }
    worst = {name: round(max(row[name] for row in rows), 3) for name in medians}
    print(json.dumps({"rounds": len(rows), "median": medians, "worst": worst}))
    return 1 if any(row["wrong"] for row in rows) else 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--worker":
        return worker(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True, help="the mooncake-ha program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--signal", choices=SIGNALS, default="KILL", help="what the leader gets")
    parser.add_argument("--port", type=int, default=14100, help="first of 17 ports in a row")
    parser.add_argument("--idle-pause", type=float, default=0.1, metavar="SECONDS")
    parser.add_argument("--name", help="a host name that stands for 127.0.0.1, .2 and .3")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
