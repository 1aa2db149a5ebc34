"""One unmodified Mooncake client in its own process, driven by JSON lines.

A request is one line on stdin, {"op": name, ...arguments}; its answer is one line on stdout,
{"ok": value} or {"error": text}.  Requests are answered in order.  Everything that the client
library prints goes to stderr.  The process ends on "exit", or when stdin closes.

Values never cross the pipe: a value is a function of key, size and seed (see `value_of`), so this
process checks every byte itself and answers with a verdict.

Needs only the standard library and the `mooncake` wheel.
"""

import ctypes
import hashlib
import json
import mmap
import os
import random
import sys
import threading
import time

# Answers of the library that say nothing about what the master did: RPC_FAIL and RPC_TIMEOUT.
LOST_ANSWERS = (-900, -901)
READ_BUFFER_BYTES = 9 << 20
# A read is tried again this long while the master is away before its verdict is "unavailable".
READ_RETRY_SECONDS = 15.0
DESCRIPTORS_A_CALL = 500
BATCH_KEYS = 8


def value_of(key, size, seed):
    """The bytes stored under `key`; any mix-up of keys, versions or offsets shows in them."""
    return hashlib.shake_128(f"{seed}/{key}".encode()).digest(size)


class ReadBuffer:
    """Registered memory of one reading thread."""

    def __init__(self, store):
        self.store = store
        self.map = mmap.mmap(-1, READ_BUFFER_BYTES)
        self.view = (ctypes.c_char * READ_BUFFER_BYTES).from_buffer(self.map)
        self.address = ctypes.addressof(self.view)
        rc = store.register_buffer(self.address, READ_BUFFER_BYTES)
        if rc != 0:
            raise RuntimeError(f"register_buffer answered {rc}")

    def read(self, key):
        """(bytes, None) or (None, error code)."""
        got = self.store.get_into(key, self.address, READ_BUFFER_BYTES)
        if got < 0:
            return None, int(got)
        return self.map[:got], None


class Load:
    """Continuous traffic on keys of one prefix; every key belongs to one thread.

    `records` maps a key to what a correct master may answer for it afterwards:
    `seeds` (contents that may be read), `absent` (whether unreadable is allowed),
    `size`, and for a soft-pinned key `pin`: [earliest, latest] deadline in Unix ms.
    """

    def __init__(self, worker, options):
        self.worker = worker
        self.o = options
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.records = {}
        self.counts = {}
        self.findings = []
        self.threads = [
            threading.Thread(target=self.run, args=(i,), daemon=True)
            for i in range(options.get("threads", 2))
        ]
        for thread in self.threads:
            thread.start()

    def count(self, what, rc):
        name = f"{what} {rc}"
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def finding(self, what, key, detail):
        with self.lock:
            self.findings.append({"what": what, "key": key, "detail": detail})

    def run(self, index):
        try:
            self.loop(index)
        except Exception as error:
            self.finding("exception", str(index), repr(error))

    def loop(self, index):
        rng = random.Random(f"{self.o['seed']}/{index}")
        buffer = ReadBuffer(self.worker.store)
        mine = []
        for n in range(self.o.get("keys_max", 100000)):
            if self.stop.is_set():
                return
            key = f"{self.o['prefix']}/{index}/{n}"
            if rng.random() < self.o.get("batch_share", 0.0):
                keys = [f"{key}.{i}" for i in range(BATCH_KEYS)]
                self.put_batch(keys, rng)
                mine += keys
            else:
                self.put(key, rng, n)
                mine.append(key)
            if rng.random() < self.o.get("get_share", 0.3):
                self.check(rng.choice(mine), buffer)
            if rng.random() < self.o.get("upsert_share", 0.0):
                self.upsert(rng.choice(mine), rng)
            if rng.random() < self.o.get("remove_share", 0.0):
                self.remove(mine.pop(rng.randrange(len(mine))))
            self.stop.wait(self.o.get("gap_seconds", 0.002))

    def put(self, key, rng, n):
        size = int(self.o.get("size_max", 65536) ** rng.random())
        seed = rng.randrange(1 << 30)
        every = self.o.get("pin_every", 0)
        ttl = self.o.get("pin_ttl_ms")
        pinned = every and n % every == 0
        wish = {"soft_pin": "enable", "soft_pin_ttl_ms": ttl} if pinned else {}
        config = self.worker.config(wish)
        before = time.time()
        rc = self.worker.store.put(key, value_of(key, size, seed), config)
        after = time.time()
        self.count("put", rc)
        record = {"size": size, "seeds": [seed], "absent": rc != 0}
        if pinned and ttl is not None:
            record["pin"] = [int(before * 1000) + ttl, int(after * 1000) + 1 + ttl]
        with self.lock:
            self.records[key] = record

    def put_batch(self, keys, rng):
        """One answer for the whole batch: unless it is 0, any of its keys may be there or not."""
        seed = rng.randrange(1 << 30)
        sizes = [int(self.o.get("size_max", 65536) ** rng.random()) for _ in keys]
        values = [value_of(key, size, seed) for key, size in zip(keys, sizes)]
        rc = self.worker.store.put_batch(keys, values)
        self.count("put_batch", rc)
        with self.lock:
            for key, size in zip(keys, sizes):
                self.records[key] = {"size": size, "seeds": [seed], "absent": rc != 0}

    def upsert(self, key, rng):
        with self.lock:
            old = self.records[key]
        size = old["size"]
        if rng.random() < 0.5:
            size = int(self.o.get("size_max", 65536) ** rng.random())
        seed = rng.randrange(1 << 30)
        if size != old["size"] and (old["absent"] or len(old["seeds"]) > 1):
            return  # one size a record keeps the check simple
        rc = self.worker.store.upsert(key, value_of(key, size, seed))
        self.count("upsert", rc)
        new = dict(old)
        if old["absent"]:
            new.pop("pin", None)  # the object may be a new one, without a pin
        if rc == 0:
            new.update(size=size, seeds=[seed], absent=False)
        else:
            new.update(seeds=old["seeds"] + [seed], absent=True)
            if size != old["size"]:
                new["other_size"] = size
        with self.lock:
            self.records[key] = new

    def remove(self, key):
        rc = self.worker.store.remove(key, True)
        self.count("remove", rc)
        with self.lock:
            record = dict(self.records[key])
            certain = not record["absent"]
            record["absent"] = True
            if rc == 0:
                record["seeds"] = []
            self.records[key] = record
        if certain and rc != 0 and rc not in LOST_ANSWERS:
            self.finding("lost", key, f"a forced removal answered {rc}")

    def check(self, key, buffer):
        """Reads while the master comes and goes: an answer may be missing, never wrong."""
        with self.lock:
            record = self.records[key]
        verdict, detail = self.worker.judge(key, record, buffer, 0)
        self.count("get", verdict)
        if verdict in ("lost", "wrong", "risen"):
            self.finding(verdict, key, detail)

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                self.finding("hang", thread.name, "a client call did not return within 60 s")
        return self.peek()

    def peek(self):
        with self.lock:
            return {
                "records": dict(self.records),
                "counts": dict(self.counts),
                "findings": list(self.findings),
            }


class Worker:
    def __init__(self):
        from mooncake import store

        self.api = store
        self.store = store.MooncakeDistributedStore()
        self.buffer = None
        self.load = None

    # ------------------------------------------------------------ life

    def op_setup(self, m):
        more = {"tenant_id": m["tenant"]} if "tenant" in m else {}
        if "disk_path" in m:
            more |= {"enable_ssd_offload": True, "ssd_offload_path": m["disk_path"]}
        rc = self.store.setup(
            m["hostname"],
            m.get("metadata", "P2PHANDSHAKE"),
            m["segment_bytes"],
            m.get("buffer_bytes", 32 << 20),
            "tcp",
            "",
            m["master"],
            **more,
        )
        if rc == 0:
            self.buffer = ReadBuffer(self.store)
        return rc

    def op_close(self, m):
        return self.store.close()

    def op_mount(self, m):
        """Mounts one more segment of `bytes`; answers its id."""
        got = self.store.allocate_and_mount_segment(m["bytes"])
        return {"rc": int(got.get("ret", 0)), "ids": [str(i) for i in got.get("segment_ids", [])]}

    def op_unmount(self, m):
        return self.store.unmount_and_free_segment(m["ids"], m.get("grace_seconds", 0))

    # ------------------------------------------------------------ writes

    def config(self, m):
        c = self.api.ReplicateConfig()
        if "replica_num" in m:
            c.replica_num = m["replica_num"]
        if "soft_pin" in m:
            if hasattr(c, "soft_pin_action"):
                c.soft_pin_action = getattr(self.api.SoftPinAction, m["soft_pin"].upper())
            else:
                c.with_soft_pin = m["soft_pin"] == "enable"  # as release 0.3.12 has it
        if m.get("soft_pin_ttl_ms") is not None:
            c.soft_pin_ttl_ms = m["soft_pin_ttl_ms"]
        if "hard_pin" in m:
            c.with_hard_pin = m["hard_pin"]
        if "preferred_segment" in m:
            c.preferred_segment = m["preferred_segment"]
        if "group_ids" in m:
            c.group_ids = m["group_ids"]
        if "data_type" in m:
            c.data_type = getattr(self.api.ObjectDataType, m["data_type"].upper())
        return c

    def op_put(self, m):
        value = value_of(m["key"], m["size"], m["seed"])
        return self.store.put(m["key"], value, self.config(m.get("config", {})))

    def op_upsert(self, m):
        value = value_of(m["key"], m["size"], m["seed"])
        return self.store.upsert(m["key"], value, self.config(m.get("config", {})))

    def op_put_batch(self, m):
        values = [value_of(k, s, m["seed"]) for k, s in zip(m["keys"], m["sizes"])]
        return self.store.put_batch(m["keys"], values, self.config(m.get("config", {})))

    def op_upsert_batch(self, m):
        values = [value_of(k, s, m["seed"]) for k, s in zip(m["keys"], m["sizes"])]
        return self.store.upsert_batch(m["keys"], values, self.config(m.get("config", {})))

    def op_session_start(self, m):
        return self.store.batch_put_session_start(
            m["keys"], m["sizes"], self.config(m.get("config", {}))
        )

    def op_session_write(self, m):
        """Writes the values of a started session into the reserved memory."""
        answers = []
        for key, size in zip(m["keys"], m["sizes"]):
            value = ctypes.create_string_buffer(value_of(key, size, m["seed"]), size)
            address = ctypes.addressof(value)
            self.store.register_buffer(address, size)
            answers += self.store.batch_put_from_multi_buffer_ranges(
                [key], [[address]], [[size]], [[0]]
            )
            self.store.unregister_buffer(address)
        return [int(a) for a in answers]

    def op_session_end(self, m):
        return self.store.batch_put_session_end(m["keys"])

    def op_session_revoke(self, m):
        return self.store.batch_put_session_revoke(m["keys"])

    # ------------------------------------------------------------ reads

    def verdict(self, got, key, size, seed):
        if got == value_of(key, size, seed):
            return "right"
        return f"wrong: {len(got)} bytes, sha256 {hashlib.sha256(got).hexdigest()[:16]}"

    def op_get(self, m):
        """"right", "wrong: ..." or the error code."""
        got, code = self.buffer.read(m["key"])
        if got is None:
            return code
        return self.verdict(got, m["key"], m["size"], m["seed"])

    def op_get_plain(self, m):
        """The same through `get`, which says "missing" for any error."""
        got = self.store.get(m["key"])
        if not got:
            return "missing"
        return self.verdict(got, m["key"], m["size"], m["seed"])

    def op_get_batch(self, m):
        got = self.store.get_batch(m["keys"])
        if len(got) != len(m["keys"]):
            return [f"wrong: {len(got)} answers"] * len(m["keys"])
        return [
            self.verdict(v, k, s, m["seed"]) if v else "missing"
            for v, k, s in zip(got, m["keys"], m["sizes"])
        ]

    def op_is_exist(self, m):
        return self.store.is_exist(m["key"])

    def op_batch_is_exist(self, m):
        return self.store.batch_is_exist(m["keys"])

    def op_get_size(self, m):
        return self.store.get_size(m["key"])

    def descriptor(self, d):
        memory = d.is_memory_replica()
        out = {"memory": memory, "status": d.status.name}
        if memory:
            b = d.get_memory_descriptor().buffer_descriptor
            out.update(address=b.buffer_address, size=b.size, endpoint=b.transport_endpoint)
        return out

    def op_replicas(self, m):
        found = self.store.get_replica_desc(m["key"])
        return [self.descriptor(d) for d in found if d.is_memory_replica()]

    def op_batch_replicas(self, m):
        out = {}
        for at in range(0, len(m["keys"]), DESCRIPTORS_A_CALL):
            got = self.store.batch_get_replica_desc(m["keys"][at : at + DESCRIPTORS_A_CALL])
            for key, replicas in got.items():
                out[key] = [self.descriptor(d) for d in replicas]
        return out

    # ------------------------------------------------------------ removal, tasks

    def op_remove(self, m):
        return self.store.remove(m["key"], m.get("force", False))

    def op_batch_remove(self, m):
        return self.store.batch_remove(m["keys"], m.get("force", False))

    def op_remove_by_regex(self, m):
        return self.store.remove_by_regex(m["pattern"], m.get("force", False))

    def op_remove_all(self, m):
        return self.store.remove_all(m.get("force", False))

    def op_batch_replica_clear(self, m):
        return self.store.batch_replica_clear(m["keys"], m.get("segment", ""))

    def op_create_copy_task(self, m):
        task, rc = self.store.create_copy_task(m["key"], m["targets"])
        return {"rc": rc, "task": list(task)}

    def op_create_move_task(self, m):
        task, rc = self.store.create_move_task(m["key"], m["source"], m["target"])
        return {"rc": rc, "task": list(task)}

    def op_query_task(self, m):
        answer, rc = self.store.query_task(tuple(m["task"]))
        if rc != 0 or answer is None:
            return {"rc": rc}
        return {"rc": rc, "status": answer.status.name, "message": answer.message}

    # ------------------------------------------------------------ load

    def judge(self, key, record, buffer, patience):
        """What one read says about a record: right, absent, unavailable, lost, wrong or risen.

        "lost": an acknowledged value is gone.  "risen": a removed value is back.
        """
        end = time.monotonic() + patience
        while True:
            got, code = buffer.read(key)
            if code not in LOST_ANSWERS or time.monotonic() >= end:
                break
            time.sleep(0.05)
        if got is not None:
            for seed in record["seeds"]:
                if got == value_of(key, len(got), seed):
                    if len(got) in (record["size"], record.get("other_size")):
                        return "right", ""
            if not record["seeds"]:
                return "risen", f"{len(got)} bytes of a removed key"
            return "wrong", f"{len(got)} bytes instead of {record['size']}"
        if code in LOST_ANSWERS:
            return "unavailable", str(code)
        if record["absent"]:
            return "absent", str(code)
        return "lost", str(code)

    def op_load_start(self, m):
        self.load = Load(self, m)
        return True

    def op_load_peek(self, m):
        return self.load.peek()

    def op_load_acknowledged(self, m):
        """How many operations of the running load were acknowledged so far."""
        with self.load.lock:
            return sum(n for what, n in self.load.counts.items() if what.endswith(" 0"))

    def op_load_stop(self, m):
        return self.load.finish()

    def op_verify(self, m):
        """Reads every record of a load; answers how many got which verdict, and the bad ones."""
        counts, findings = {}, []
        for key, record in m["records"].items():
            verdict, detail = self.judge(key, record, self.buffer, READ_RETRY_SECONDS)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict not in ("right", "absent"):
                findings.append({"what": verdict, "key": key, "detail": detail})
        return {"counts": counts, "findings": findings}


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # the library also writes to fd 1
    os.dup2(2, 1)
    worker = Worker()
    answers.write(json.dumps({"ok": "ready"}) + "\n")
    for line in sys.stdin:
        m = json.loads(line)
        if m["op"] == "exit":
            answers.write(json.dumps({"ok": True}) + "\n")
            break
        try:
            answer = {"ok": getattr(worker, "op_" + m["op"])(m)}
        except Exception as error:
            answer = {"error": repr(error)}
        answers.write(json.dumps(answer) + "\n")
    answers.flush()
    os._exit(0)  # the library's own threads must not delay the end


if __name__ == "__main__":
    main()
