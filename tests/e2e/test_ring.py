"""The engine alone, killed at random instants: its ring has every request that was answered, once,
with what had been handed out of it; and the next engine knows them all."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import BINARY, IS_SANITIZED, MODEL, MODEL_NAME, UnixConnection, wait_until

pytestmark = pytest.mark.long

STREAMS, KILLS = 6, 4 if IS_SANITIZED else 12
FRAME = re.compile(rb'data: \{"n":(\d+),')


class Engine:
    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def start(self):
        command = [
            BINARY, "engine", "--model", MODEL, "--data-dir", self.folder, "--kv-memory", "256M",
            "--context", "1024", "--threads", "1", "--log-level", "error",
        ]  # fmt: skip
        self.process = subprocess.Popen([str(part) for part in command])
        wait_until(self.answers, seconds=120, what="the engine's start")

    def answers(self):
        assert self.process.poll() is None
        try:
            return self.get("/health") is not None
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=300)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=300)

    def ask(self, method, path, body=None):
        connection = UnixConnection(self.folder / "engine/engine.sock")
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def get(self, path):
        status, data = self.ask("GET", path)
        assert status == 200, data
        return data

    def finals(self, limit=1000):
        """All records that are not acknowledged, page by page."""
        after, records = 0, []
        while True:
            page = self.get(f"/internal/v1/finals?after={after}&limit={limit}")
            assert len(page["data"]) <= limit
            records += page["data"]
            after = page["last"]
            if not page["has_more"]:
                return records


class Stream(threading.Thread):
    """One generation, read to its end, whatever that is."""

    def __init__(self, engine, request_id, tokens):
        super().__init__()
        self.path = str(engine.folder / "engine/engine.sock")
        self.request_id = request_id
        self.tokens = tokens
        self.seen = b""
        self.start()

    def run(self):
        body = json.dumps(
            {
                "model": MODEL_NAME, "prompt": [504, 3575, 282], "max_tokens": self.tokens,
                "ignore_eos": True, "seed": 1,
            }  # fmt: skip
        ).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n"
            f"x-banyan-protocol: 1\r\nx-banyan-request-id: {self.request_id}\r\n"
            f"x-banyan-tenant: {'a1' * 16}\r\nx-banyan-key: {'b2' * 16}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(self.path)
                peer.sendall(head.encode() + body)
                while data := peer.recv(65536):
                    self.seen += data
        except OSError:
            pass  # killed in the middle

    @property
    def was_answered(self):
        return self.seen.startswith(b"HTTP/1.1 200") and b"banyan.start" in self.seen

    @property
    def is_whole(self):
        return b"event: banyan.final" in self.seen

    @property
    def count(self):
        return max((int(n) for n in FRAME.findall(self.seen)), default=0)


@pytest.fixture
def engine(tmp_path):
    engine = Engine(tmp_path / "data")
    yield engine
    if engine.process.poll() is None:
        engine.kill()


def test_killed_at_random_instants(engine):
    chance = random.Random(8)
    acked, instances, cut, whole, ahead = 0, set(), 0, 0, []
    engine.start()
    for round_ in range(KILLS):
        instance = engine.get("/internal/v1/stats")["instance"]
        assert instance not in instances
        instances.add(instance)
        streams = [
            Stream(engine, f"req_{round_}_{i}", 4 if i % 3 == 0 else 500) for i in range(STREAMS)
        ]
        # In the middle of a long one; every second time behind a short one's end.
        begun, ended = streams[1], streams[0]
        until = (lambda: ended.is_whole) if round_ % 2 else (lambda: begun.count >= 3)
        wait_until(lambda: until() or not begun.is_alive(), what="the streams' progress")
        time.sleep(chance.uniform(0.0, 0.2))
        engine.kill()
        for stream in streams:
            stream.join()
        engine.start()
        records = engine.finals(limit=chance.choice((1, 4, 1000)))
        sequences = [record["record_seq"] for record in records]
        assert sequences == list(range(acked + 1, acked + 1 + len(records)))
        by_id = {record["request_id"]: record for record in records}
        assert len(by_id) == len(records)
        for stream in streams:
            record = by_id.pop(stream.request_id, None)
            if record is None:
                assert not stream.was_answered
                continue
            assert record["tenant"] == "a1" * 16 and record["key"] == "b2" * 16
            assert record["prompt_tokens"] == 3 and not record["estimated"]
            if record["finish_reason"] == "error":
                # What stood in the ring was written before it was sent: one frame more at most.
                assert not stream.is_whole
                cut += record["completion_tokens"] > 0
                ahead.append(record["completion_tokens"] - stream.count)
                assert 0 <= record["completion_tokens"] - stream.count <= 4, stream.seen[-300:]
            else:
                assert record["completion_tokens"] == 4
                whole += 1
        assert not by_id
        if round_ % 2 == 1 and sequences:
            acked = sequences[-1]
            assert engine.ask("POST", "/internal/v1/ack", {"record_seq": acked})[0] == 200
            assert engine.finals() == []
        elif sequences:
            # Not acknowledged: they come again. Half of them now, cumulatively.
            acked = sequences[len(sequences) // 2]
            assert engine.ask("POST", "/internal/v1/ack", {"record_seq": acked})[0] == 200
            rest = engine.finals()
            assert [record["record_seq"] for record in rest] == [s for s in sequences if s > acked]
            acked = sequences[-1]
            assert engine.ask("POST", "/internal/v1/ack", {"record_seq": acked})[0] == 200
    # Both kinds were met.
    assert cut >= KILLS / 2 and whole >= KILLS / 2
    assert sum(ahead) <= 2 * cut  # most are nearly what was seen
    stats = engine.get("/internal/v1/stats")
    assert stats["finals_waiting"] == 0 and stats["finals_lost"] == 0 and stats["finals_live"] == 0
    assert engine.stop() == 0


def test_an_id_is_known_to_the_next_engine(engine):
    engine.start()
    first = Stream(engine, "req_once", 3)
    first.join()
    assert first.is_whole
    engine.kill()
    engine.start()
    again = Stream(engine, "req_once", 3)
    again.join()
    assert again.seen.startswith(b"HTTP/1.1 409")
    other = Stream(engine, "req_other", 3)
    other.join()
    assert other.is_whole
    assert [record["request_id"] for record in engine.finals()] == ["req_once", "req_other"]


def test_two_engines_on_one_directory(engine):
    engine.start()
    second = subprocess.run(
        [str(BINARY), "engine", "--model", str(MODEL), "--data-dir", str(engine.folder)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert second.returncode != 0
    assert "another engine" in second.stderr or "listens on" in second.stderr
    assert engine.answers()


def test_a_ring_of_the_first_version_is_set_aside(engine):
    """Its magic word, version 1, and something that stands for records."""
    os.makedirs(engine.folder / "engine", mode=0o700)
    engine.folder.chmod(0o700)
    old = (0x676E69724C4E4946).to_bytes(8, "little") + (1).to_bytes(4, "little") + b"\1" * 500
    (engine.folder / "engine/finals.ring").write_bytes(old)
    engine.start()
    assert (engine.folder / "engine/finals.ring.v1").read_bytes() == old
    stream = Stream(engine, "req_new", 2)
    stream.join()
    assert [record["record_seq"] for record in engine.finals()] == [1]
