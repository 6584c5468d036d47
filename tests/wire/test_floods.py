"""Floods on one connection: frames that ask for work, heads without end, streams that are reset.

What is counted: steps of the engine, the edge's live heap, connections that were ended.
"""

import json
import struct
import time

import pytest

from wire_kit import (
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, Closed, frame,
)  # fmt: skip

ROOM = 2 * 1024 * 1024  # the heap may move by this much: caches, one connection's buffers
RESETS = 10000


def settled_heap(door):
    """The heap once what is being torn down is gone: it has not fallen for a second."""
    least, since = door.heap(), time.monotonic()
    while time.monotonic() < since + 1:
        time.sleep(0.05)
        now = door.heap()
        if now < least - 65536:
            since = time.monotonic()
        least = min(least, now)
    return least


FLOODS = {
    "ping": (frame(PING, 0, 0, b"a" * 8), 20000),
    "settings": (frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)), 20000),
    "empty settings": (frame(SETTINGS), 20000),
    "priority": (frame(PRIORITY, 0, 9, struct.pack(">IB", 0, 5)), 20000),
    "window": (frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), 20000),
    "unknown": (frame(0x42, 0, 0, b"a" * 100), 20000),
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_ask_for_answers(door, name):
    """20,000 of them, none of the answers read: a bounded buffer, then the connection waits or ends."""
    data, count = FLOODS[name]
    heap = door.heap()
    with door.h2(timeout=5) as wire:
        try:
            for _ in range(count // 100):
                wire.send(data * 100)
        except (Closed, TimeoutError):
            pass
        assert door.heap() < heap + 2 * ROOM
        door.assert_serves()
    assert settled_heap(door) < heap + ROOM


def test_empty_data_frames(door):
    heap, steps = door.heap(), door.steps()
    with door.h2(timeout=5) as wire:
        stream = wire.stream()
        wire.send(wire.headers(stream, wire.fields("POST", "/v1/chat/completions"), False))
        try:
            for _ in range(200):
                wire.send(frame(DATA, 0, stream) * 100)
        except (Closed, TimeoutError):
            pass
        assert door.heap() < heap + ROOM
    assert door.steps() == steps


@pytest.mark.parametrize("piece", [b"", b"a" * 4000], ids=["empty", "large"])
def test_continuations_without_end(door, piece):
    heap = door.heap()
    with door.h2(timeout=5) as wire:
        filler = wire.block([("x-a", piece.decode())]) if piece else b""
        wire.send(frame(HEADERS, END_STREAM, 1, wire.block(wire.fields())))
        try:
            for _ in range(20000 if piece == b"" else 1000):
                wire.send(frame(CONTINUATION, 0, 1, filler))
        except Closed:
            return
        assert wire.end() is not None
    assert settled_heap(door) < heap + ROOM


def test_header_bomb(door):
    """A large header named again and again by its index: 431, or with more than 256 fields the end
    of the connection. The heap does not grow by it."""
    heap = door.heap()
    for times in (200, 3000):
        with door.h2() as wire:
            block = wire.block(wire.fields())
            block += wire.block([("x-b", "b" * 3900)])
            block += wire.block([("x-b", "b" * 3900)]) * times
            wire.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, block))
            if times < 256:
                assert wire.answer(1).code == 431
                continue
            with pytest.raises(Closed):
                wire.answer(1)
    assert settled_heap(door) < heap + ROOM


def test_empty_lines_before_a_request(door):
    heap = door.heap()
    with door.h1(timeout=5) as wire:
        try:
            for _ in range(100):
                wire.send(b"\r\n" * 32768)
        except (Closed, TimeoutError):
            pass
        assert door.heap() < heap + 2 * ROOM


def test_pipelined_without_reading(door):
    """Requests sent ahead while their answers are not read: bounded, then the socket is not read."""
    heap = door.heap()
    with door.h1(timeout=2) as wire:
        try:
            for _ in range(2000):
                wire.send(wire.head() * 20)
        except (Closed, TimeoutError):
            pass
        assert door.heap() < heap + 2 * ROOM
        door.assert_serves()


# --- streams that are reset: four kinds ---


def reset(stream):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


def resets(door, make, count, pause=0.0):
    """Sends `make(wire, stream)` for `count` streams, over new connections as old ones are ended.
    Returns how many connections it took."""
    connections, sent = 0, 0
    while sent < count:
        connections += 1
        with door.h2(timeout=10, window=2**30) as wire:
            try:
                while sent < count:
                    batch = b""
                    for _ in range(50):
                        batch += make(wire, wire.stream())
                        sent += 1
                    wire.send(batch)
                    if pause:
                        time.sleep(pause)
            except (Closed, TimeoutError):
                pass
    return connections


def chat_headers(door, wire, stream):
    body = json.dumps(door.chat(max_tokens=64)).encode()
    fields = wire.fields("POST", "/v1/chat/completions")
    return wire.headers(stream, fields, False) + frame(DATA, END_STREAM, stream, body)


KINDS = {
    "headers and reset in one write": lambda door, w, s: chat_headers(door, w, s) + reset(s),
    "server made to reset": lambda door, w, s: (
        chat_headers(door, w, s) + frame(WINDOW_UPDATE, 0, s, struct.pack(">I", 0))
    ),
    "headers without an end, reset": lambda door, w, s: (
        w.headers(s, w.fields("POST", "/v1/chat/completions"), False) + reset(s)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_resets_cost_the_engine_nothing(door, kind):
    heap, steps = settled_heap(door), door.steps()
    resets(door, lambda wire, stream: KINDS[kind](door, wire, stream), RESETS)
    assert settled_heap(door) < heap + ROOM
    assert door.steps() == steps, "no step of the engine for a stream that was reset at once"
    assert door.server.engine_stats()["requests"] == 0


def test_late_resets_are_bounded(door):
    """A reset 1 ms behind its request: some are begun, the connections are ended, nothing stays."""
    heap = settled_heap(door)
    waiting = []

    def late(wire, stream):
        waiting.append(stream)
        data = chat_headers(door, wire, stream)
        return data + (reset(waiting.pop(0)) if len(waiting) > 20 else b"")

    connections = 0
    sent = 0
    while sent < RESETS // 10:
        connections += 1
        waiting.clear()
        with door.h2(timeout=10, window=2**30) as wire:
            try:
                while sent < RESETS // 10:
                    wire.send(late(wire, wire.stream()))
                    sent += 1
                    time.sleep(0.0005)
            except (Closed, TimeoutError):
                pass
    assert connections > 1, "a connection that resets nearly all of its streams is ended"

    def is_idle():  # the edge first: what it has may still go to the engine
        running = door.server.metric("banyan_requests_running")
        return running == 0 and door.server.engine_stats()["requests"] == 0

    deadline = time.monotonic() + 300
    while not is_idle() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert is_idle()
    assert settled_heap(door) < heap + 2 * ROOM
