#!/usr/bin/env python3
"""Puts a second of three nodes that keep every entry on disk before they answer; a line a measurement.

    benches/three_nodes.py --bin target/release/mooncake-ha --rounds 5

Starts three nodes on 127.0.0.1 with `--durability=sync`, each with a data directory of its own, and
has `mooncake-ha bench run put` call the leader: with 64 and 1,024 connections, depth 1, keys of 21
bytes.  A put is PutStart and PutEnd, so two commands.  Nodes and load share the machine's cores and
its disk, which three hosts would not.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HOST = "127.0.0.1"
START_SECONDS = 60
LOOK_SECONDS = 0.05


class Node:
    def __init__(self, options, number, directory):
        base = options.port
        peers = ",".join(f"{i}={HOST}:{base + i}" for i in (1, 2, 3))
        self.rpc, self.admin = f"{HOST}:{base + 10 + number}", f"{HOST}:{base + 20 + number}"
        self.command = [
            options.bin, "serve", f"--node_id={number}", f"--peers={peers}",
            f"--data_dir={directory}/node_{number}", f"--rpc_port={base + 10 + number}",
            f"--metrics_port={base + 20 + number}", f"--discovery_port={base + 30 + number}",
            f"--durability={options.durability}",
        ]
        self.log = open(f"{directory}/node_{number}.log", "ab")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def leads(self):
        try:
            with urllib.request.urlopen(f"http://{self.admin}/health", timeout=0.3) as answer:
                return bool(json.load(answer).get("service_ready"))
        except (OSError, ValueError):
            return False

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def leader_of(nodes):
    begun = time.monotonic()
    while time.monotonic() - begun < START_SECONDS:
        for node in nodes:
            if node.leads():
                return node
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"no node serves within {START_SECONDS} s")


def measure(options, connections):
    """One fresh cluster, one run of puts; the figures that the load generator printed."""
    directory = tempfile.mkdtemp(prefix="mooncake-ha-three-")
    nodes = []
    try:
        for number in (1, 2, 3):
            nodes.append(Node(options, number, directory))
        command = [
            options.bin, "bench", "run", "put", "--address", leader_of(nodes).rpc,
            "--connections", str(connections), "--seconds", str(options.seconds),
            "--keys", "1k", "--count", "10m", "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)
    finally:
        for node in nodes:
            node.end()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True, help="the mooncake-ha program")
    parser.add_argument("--connections", default="64,1024", help="numbers of connections")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--durability", choices=["sync", "async"], default="sync")
    parser.add_argument("--port", type=int, default=14200, help="first of 34 ports in a row")
    options = parser.parse_args()
    for connections in options.connections.split(","):
        rates = []
        for _ in range(options.rounds):
            found = measure(options, int(connections))
            print(json.dumps(found), file=sys.stderr, flush=True)
            rates.append(found["rows"][0]["keys_per_second"])
        print(json.dumps({
            "connections": int(connections),
            "puts_per_second": round(statistics.median(rates)),
            "lowest": round(min(rates)),
            "highest": round(max(rates)),
        }), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
