"""Readers that stop: their sequence waits, nobody else does, and nothing is lost when they go on.

The texts are made large (log-probabilities of 20 tokens each) so that few tokens fill the pipes
between engine and client.
"""

import json
import socket
import struct
import time

import pytest

from wire_kit import DATA, END_STREAM, SETTINGS, WINDOW_UPDATE, frame

TOKENS = 450


def fat(door, **fields):
    return door.chat(
        stream=True, max_tokens=TOKENS, logprobs=True, top_logprobs=20, ignore_eos=True, **fields
    )


def stable_tokens(door, seconds=1.5):
    """The engine's count of tokens once it has not moved for that long."""
    last, since = -1, time.monotonic()
    limit = since + 300
    while time.monotonic() < limit:
        now = door.server.engine_stats()["tokens_generated"]
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > seconds:
            return now
        time.sleep(0.1)
    raise AssertionError("the sequence goes on though nobody reads")


def assert_others_go_on(door):
    with door.server.http(door.key) as http:
        answer = http.post("/v1/chat/completions", json=door.chat(max_tokens=8))
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] >= 1


@pytest.mark.slow
def test_h1_reader_that_stops_and_goes_on(door):
    before = door.server.engine_stats()["tokens_generated"]
    wire = door.h1(timeout=300)
    wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    body = json.dumps(fat(door)).encode()
    wire.send(wire.head("POST", "/v1/chat/completions", [f"Content-Length: {len(body)}"]) + body)
    made = stable_tokens(door) - before
    assert made < TOKENS, "it was throttled"
    assert_others_go_on(door)
    assert stable_tokens(door) - before <= made + 16, "no token more for the one who does not read"
    answer = wire.answer()
    assert answer.code == 200
    assert answer.body.count(b'"logprobs":{') >= TOKENS - 2
    assert answer.body.endswith(b"data: [DONE]\n\n")
    wire.close()


@pytest.mark.slow
def test_h2_stream_without_a_window(door):
    """Two streams on one connection: the one whose window is shut waits, the other is served."""
    before = door.server.engine_stats()["tokens_generated"]
    window = 2048
    with door.h2(settings=struct.pack(">HI", 4, window), timeout=300, window=2**30) as wire:
        body = json.dumps(fat(door)).encode()
        shut = wire.stream()
        wire.send(
            wire.headers(shut, wire.fields("POST", "/v1/chat/completions"), False)
            + frame(DATA, END_STREAM, shut, body)
        )
        made = stable_tokens(door) - before
        assert made < TOKENS
        other = wire.stream()
        wire.send(wire.headers(other))
        got, read = b"", 0
        while True:
            kind, flags, at, payload = wire.frame()
            if at == other and kind == DATA:
                got += payload
                if flags & END_STREAM:
                    break
            elif at == shut and kind == DATA:
                read += len(payload)
        assert read <= window and json.loads(got)["object"] == "list"
        wire.send(frame(WINDOW_UPDATE, 0, shut, struct.pack(">I", 2**30)))
        text = b""
        while True:
            kind, flags, at, payload = wire.frame()
            if kind == DATA and at == shut:
                text += payload
                if flags & END_STREAM:
                    break
        assert text.endswith(b"data: [DONE]\n\n")
        assert text.count(b'"logprobs":{') >= TOKENS - 20


@pytest.mark.slow
def test_many_readers_that_stop_hold_nobody_up(door):
    """More of them than the engine runs at once; each is dropped when its client leaves."""
    wires = []
    for _ in range(16):
        wire = door.h1(timeout=300)
        wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps(fat(door)).encode()
        head = wire.head("POST", "/v1/chat/completions", [f"Content-Length: {len(body)}"])
        wire.send(head + body)
        wires.append(wire)
    stable_tokens(door)
    assert_others_go_on(door)
    for wire in wires:
        wire.close()
    limit = time.monotonic() + 300
    while door.server.engine_stats()["requests"] and time.monotonic() < limit:
        time.sleep(0.05)
    assert door.server.engine_stats()["requests"] == 0


def test_settings_frame_is_known():
    """A check of the instrument: a frame is nine bytes and its payload."""
    assert frame(SETTINGS, 0, 0, b"abcdef") == b"\0\0\x06\x04\0\0\0\0\0abcdef"
