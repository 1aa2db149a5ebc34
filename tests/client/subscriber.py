"""A ZeroMQ subscriber of KV events in its own process: one line of JSON on stdout for each message.

Arguments are the endpoints to connect to. A line is {"sequence", "timestamp", "rank", "events"}, an event a
list of [name, value] pairs in the order sent. "ready" is printed once the subscription is asked for.
The process ends when stdin closes.

Needs pyzmq and msgpack.
"""

import json
import os
import sys
import threading

import msgpack
import zmq


def text(value):
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def main():
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 200)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    for endpoint in sys.argv[1:]:
        socket.connect(endpoint)
    print(json.dumps("ready"), flush=True)

    def until_closed():
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=until_closed, daemon=True).start()
    while True:
        topic, sequence, payload = socket.recv_multipart()
        assert topic == b"" and len(sequence) == 8, (topic, sequence)
        timestamp, events, rank = msgpack.unpackb(payload, raw=True, object_pairs_hook=list)
        events = [
            [[text(name), [text(v) for v in value] if isinstance(value, list) else text(value)]
             for name, value in event]
            for event in events
        ]
        line = {"sequence": int.from_bytes(sequence, "big"), "timestamp": timestamp,
                "rank": rank, "events": events}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
