"""Starts the optimised binary as an operator does: flags, environment, SIGKILL, restart, SIGTERM.

The other tests run the development build. This one holds what only optimisation can break, such as flags that were told
apart by the address of a constant and were all ignored in a release build. Usage: release_smoke.py BINARY
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

WAIT_SECONDS_MAX = 20


def start(binary, data_dir):
    """The process and the addresses of its ready line."""
    log = open(os.path.join(data_dir, "log"), "ab+")
    begin = log.seek(0, os.SEEK_END)
    environment = dict(os.environ, MOONCAKE_HA_CLUSTER_ID="smoke", MOONCAKE_HA_METRICS_PORT="0")
    flags = ["--data_dir", os.path.join(data_dir, "data"), "-port=0", "--discovery_port=0", "--durability=async"]
    process = subprocess.Popen([binary, "serve", *flags], stderr=log, env=environment)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        log.seek(begin)
        for line in log.read().decode().splitlines():
            if "ready: serving clients" in line:
                words = dict(word.split("=", 1) for word in line.split() if "=" in word)
                return process, words
        assert process.poll() is None, "the node ended before it was ready"
        time.sleep(0.02)
    raise AssertionError("no ready line")


def cluster(words):
    port = words["admin"].rsplit(":", 1)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/cluster", timeout=5) as answer:
        return json.load(answer)


def main(binary):
    with tempfile.TemporaryDirectory() as directory:
        for signal_number, code in [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)]:
            begun = time.monotonic()
            process, words = start(binary, directory)
            took = time.monotonic() - begun
            told = cluster(words)
            process.send_signal(signal_number)
            assert process.wait(WAIT_SECONDS_MAX) == code, f"exit code {process.returncode}"
            assert words["data_dir"].startswith(directory), words
            assert not words["rpc"].endswith(":50051") and not words["admin"].endswith(":9003"), words
            assert (told["cluster_id"], told["durability"]) == ("smoke", "async"), told
            print(f"ready after {took:.2f} s, {signal_number.name}, exit code {process.returncode}")


main(sys.argv[1])
