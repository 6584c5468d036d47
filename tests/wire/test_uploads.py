"""Bodies: unfinished ones, huge ones, expensive ones, and who has to pay for them."""

import json
import threading
import time

import pytest

from wire_kit import DATA, END_STREAM, Answer, Closed, frame

MIB = 1024 * 1024
BODY_LIMIT = 4 * MIB


class Prober(threading.Thread):
    """A well-behaved client's small requests while something large goes on."""

    def __init__(self, door):
        super().__init__(daemon=True)
        self.door, self.is_over, self.slowest_s, self.count = door, False, 0.0, 0

    def run(self):
        with self.door.h1() as wire:
            while not self.is_over:
                started = time.monotonic()
                assert wire.ask(wire.head("GET", "/health")).code == 200
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                self.count += 1
                time.sleep(0.001)

    def __enter__(self):
        self.start()
        deadline = time.monotonic() + 120
        while self.count == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join(120)


def assert_heap_back(door, heap, name=""):
    deadline = time.monotonic() + 120
    while door.heap() > heap + 2 * MIB and time.monotonic() < deadline:
        time.sleep(0.05)
    assert door.heap() <= heap + 2 * MIB, name


def test_unfinished_uploads_without_a_key_over_h2(door):
    """90 uploads of 4 MiB less a byte, never ended, no key: ended long before they are all held."""
    heap = door.heap()
    sent, most = 0, 0.0
    with door.h2(timeout=5, window=2**30) as wire:
        fields = wire.fields("POST", "/v1/chat/completions", key=False)
        try:
            for _ in range(90):
                stream = wire.stream()
                wire.send(wire.headers(stream, fields, end_stream=False))
                for _ in range(8):
                    wire.send(frame(DATA, 0, stream, b" " * 16384) * 4)
                    sent += 65536
                most = max(most, door.heap() - heap)
        except (Closed, TimeoutError):
            pass
        assert most < 40 * MIB, f"{most / MIB:.0f} MiB held of {sent / MIB:.0f} MiB sent"
    door.assert_serves()
    assert_heap_back(door, heap)


def test_unfinished_uploads_without_a_key_over_h1(door):
    heap = door.heap()
    wires = []
    try:
        for _ in range(90):
            wire = door.h1(timeout=5)
            wires.append(wire)
            head = wire.head("POST", "/v1/chat/completions", [f"Content-Length: {BODY_LIMIT}"])
            wire.send(head.replace(b"Authorization", b"X-Nothing"))
            wire.send(b" " * 65536)
        held = door.heap() - heap
        assert held < 40 * MIB, f"{held / MIB:.0f} MiB"
        door.assert_serves()
    finally:
        for wire in wires:
            wire.close()
    assert_heap_back(door, heap)


def bodies(door):
    deep = b'{"messages":' + b"[" * 100000 + b"]" * 100000 + b"}"
    many = b'{"messages":[' + b"{}," * ((BODY_LIMIT - 100) // 3) + b"{}]}"
    text = json.dumps(door.chat(max_tokens=1)).encode()
    return {
        "4 MiB of {},": (many, 400),
        "100,000 brackets": (deep, 400),
        "4 MiB of space": (b" " * (BODY_LIMIT - 2) + b"{}", 400),
        "4 MiB of a string": (b'{"model":"' + b"a" * (BODY_LIMIT - 30) + b'"}', None),
        "4 MiB that are no JSON": (b"\xff" * BODY_LIMIT, 400),
        "4 MiB of digits": (b'{"max_tokens":' + b"9" * (BODY_LIMIT - 40) + b"}", 400),
        "a small one behind them": (text, 200),
    }


@pytest.mark.parametrize("protocol", ["h1", "h2"])
def test_expensive_bodies(door, protocol):
    """Each refused for what it is; the heap is flat behind it, and others go on meanwhile."""
    for name, (body, code) in bodies(door).items():
        heap = door.heap()
        with Prober(door) as prober:
            wire = door.h1(timeout=300) if protocol == "h1" else door.h2(timeout=300, window=2**30)
            with wire:
                if protocol == "h1":
                    head = wire.head(
                        "POST", "/v1/chat/completions", [f"Content-Length: {len(body)}"]
                    )
                    answer = wire.ask(head + body)
                else:
                    stream = wire.stream()
                    wire.send(wire.headers(stream, wire.fields("POST", "/v1/chat/completions"), False))
                    for at in range(0, len(body), 16384):
                        wire.send(frame(DATA, 0, stream, body[at : at + 16384]))
                    wire.send(frame(DATA, END_STREAM, stream))
                    answer = wire.answer(stream)
        assert isinstance(answer, Answer), (name, answer)
        assert 400 <= answer.code < 500 if code is None else answer.code == code, (name, answer)
        assert prober.count > 0
        assert prober.slowest_s < 15, f"{name}: another waited for {prober.slowest_s:.3f} s"
        assert_heap_back(door, heap, name)


def test_ten_mebibytes(door):
    for wire in (door.h1(), door.h2(window=2**30)):
        heap = door.heap()
        with wire:
            try:
                if hasattr(wire, "stream"):
                    stream = wire.stream()
                    wire.send(wire.headers(stream, wire.fields("POST", "/v1/chat/completions"), False))
                    for _ in range(640):
                        wire.send(frame(DATA, 0, stream, b" " * 16384))
                    answer = wire.answer(stream)
                else:
                    wire.send(wire.head("POST", "/v1/chat/completions", ["Content-Length: 10485760"]))
                    answer = wire.answer()
                assert not isinstance(answer, Answer) or answer.code == 413
            except Closed:
                pass
            assert door.heap() < heap + 5 * MIB
        assert_heap_back(door, heap)


def test_body_at_the_limit(door):
    """4 MiB are read (and refused as text for being too long a prompt), one byte more is 413."""
    for extra, code in ((0, 400), (2, 413)):
        prefix = b'{"model":"SmolLM2-135M-Instruct.Q4_1","prompt":"'
        body = prefix + b"a " * ((BODY_LIMIT - len(prefix) - 2) // 2)
        body += b"a" * (BODY_LIMIT - len(body) - 2) + b'"}' + b" " * extra
        assert len(body) == BODY_LIMIT + extra
        with door.h1(timeout=300) as wire:
            try:
                wire.send(wire.head("POST", "/v1/completions", [f"Content-Length: {len(body)}"]))
                wire.send(body)
            except Closed:
                pass
            answer = wire.answer()
            assert answer.code == code, answer
            if code == 400:
                assert answer.error()["code"] == "context_length_exceeded", answer.body[:300]
