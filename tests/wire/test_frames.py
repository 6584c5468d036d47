"""HTTP/2 frames that break the protocol: each ends with the error that RFC 9113 names, and what may
go on goes on.
"""

import struct

import pytest

from wire_kit import (
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY,
    HEADERS, PADDED, PING, PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS,
    STREAM_CLOSED, WINDOW_UPDATE, WITH_PRIORITY, Closed, Wire, frame,
)  # fmt: skip

COMPRESSION_ERROR = 9


def setting(name, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))


def number(value):
    return struct.pack(">I", value)


def whole(wire, flags=END_HEADERS | END_STREAM):
    return frame(HEADERS, flags, 1, wire.block(wire.fields()))


def post(wire):
    return wire.headers(1, wire.fields("POST", "/v1/chat/completions"), end_stream=False)


# name: (frames, error of the GOAWAY)
FATAL = {
    "data on stream 0": (lambda w: frame(DATA, END_STREAM, 0, b"x"), PROTOCOL_ERROR),
    "data on an idle stream": (lambda w: frame(DATA, END_STREAM, 7, b"x"), PROTOCOL_ERROR),
    "data padded beyond": (lambda w: post(w) + frame(DATA, PADDED, 1, b"\xffa"), PROTOCOL_ERROR),
    "headers on stream 0": (
        lambda w: frame(HEADERS, 5, 0, w.block(w.fields())), PROTOCOL_ERROR),
    "headers on an even stream": (
        lambda w: frame(HEADERS, 5, 2, w.block(w.fields())), PROTOCOL_ERROR),
    "headers twice": (lambda w: w.headers(1) + w.headers(1), STREAM_CLOSED),
    "headers padded beyond": (
        lambda w: frame(HEADERS, 5 | PADDED, 1, b"\xff" + w.block(w.fields())), PROTOCOL_ERROR),
    "stream depends on itself": (
        lambda w: frame(HEADERS, 5 | WITH_PRIORITY, 1, struct.pack(">IB", 1, 1)
                        + w.block(w.fields())), PROTOCOL_ERROR),
    "priority size": (lambda w: frame(PRIORITY, 0, 1, b"abc"), FRAME_SIZE_ERROR),
    "priority on stream 0": (lambda w: frame(PRIORITY, 0, 0, b"abcde"), PROTOCOL_ERROR),
    "reset on stream 0": (lambda w: frame(RST_STREAM, 0, 0, number(8)), PROTOCOL_ERROR),
    "reset of an idle stream": (lambda w: frame(RST_STREAM, 0, 9, number(8)), PROTOCOL_ERROR),
    "reset size": (lambda w: post(w) + frame(RST_STREAM, 0, 1, b"abc"), FRAME_SIZE_ERROR),
    "settings size": (lambda w: frame(SETTINGS, 0, 0, b"abc"), FRAME_SIZE_ERROR),
    "settings on a stream": (lambda w: frame(SETTINGS, 0, 1), PROTOCOL_ERROR),
    "settings ack with a body": (lambda w: frame(SETTINGS, ACK, 0, b"abcdef"), FRAME_SIZE_ERROR),
    "settings push 2": (lambda w: setting(2, 2), PROTOCOL_ERROR),
    "settings window": (lambda w: setting(4, 2**31), FLOW_CONTROL_ERROR),
    "settings small frames": (lambda w: setting(5, 100), PROTOCOL_ERROR),
    "settings large frames": (lambda w: setting(5, 2**24), PROTOCOL_ERROR),
    "push promise": (
        lambda w: frame(PUSH_PROMISE, 4, 1, number(2) + w.block(w.fields())), PROTOCOL_ERROR),
    "ping size": (lambda w: frame(PING, 0, 0, b"abc"), FRAME_SIZE_ERROR),
    "ping on a stream": (lambda w: frame(PING, 0, 1, b"a" * 8), PROTOCOL_ERROR),
    "goaway size": (lambda w: frame(GOAWAY, 0, 0, b"a"), FRAME_SIZE_ERROR),
    "window of 0": (lambda w: frame(WINDOW_UPDATE, 0, 0, number(0)), PROTOCOL_ERROR),
    "window too large": (
        lambda w: frame(WINDOW_UPDATE, 0, 0, number(2**31 - 1)) * 2, FLOW_CONTROL_ERROR),
    "window of an idle stream": (lambda w: frame(WINDOW_UPDATE, 0, 77, number(1)), PROTOCOL_ERROR),
    "window size": (lambda w: frame(WINDOW_UPDATE, 0, 0, b"abc"), FRAME_SIZE_ERROR),
    "continuation alone": (lambda w: frame(CONTINUATION, 4, 1), PROTOCOL_ERROR),
    "continuation of another": (
        lambda w: whole(w, END_STREAM) + frame(CONTINUATION, 4, 3), PROTOCOL_ERROR),
    "ping between headers": (
        lambda w: whole(w, END_STREAM) + frame(PING, 0, 0, b"a" * 8), PROTOCOL_ERROR),
    "hpack index 0": (lambda w: frame(HEADERS, 5, 1, b"\x80"), COMPRESSION_ERROR),
    "hpack index beyond": (
        lambda w: frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\x0f"), COMPRESSION_ERROR),
    "hpack cut": (
        lambda w: frame(HEADERS, 5, 1, w.block(w.fields())[:-3]), COMPRESSION_ERROR),
    "hpack table too large": (
        lambda w: frame(HEADERS, 5, 1, b"\x3f\xff\xff\xff\x07" + w.block(w.fields())),
        COMPRESSION_ERROR),
    "hpack huffman padding": (
        lambda w: frame(HEADERS, 5, 1, b"\x00\x01a\x84\xff\xff\xff\xff"), COMPRESSION_ERROR),
}  # fmt: skip


@pytest.mark.parametrize("name", FATAL)
def test_frames_that_end_the_connection(door, name):
    frames, code = FATAL[name]
    steps = door.steps()
    with door.h2() as wire:
        wire.send(frames(wire))
        assert wire.end() == code
    assert door.steps() == steps


HARMLESS = {
    "unknown frame": lambda w: frame(0x42, 0, 0, b"abc"),
    "unknown frame on a stream": lambda w: frame(0x42, 0, 1, b"abc"),
    "unknown setting": lambda w: setting(99, 1),
    "no header table": lambda w: setting(1, 0),
    "a header table of 4 GiB": lambda w: setting(1, 2**32 - 1),
    "reserved bit": lambda w: frame(PING, 0, 0, b"a" * 8).replace(b"\0\0\0\0aaaa", b"\x80\0\0\0aaaa"),
    "ping": lambda w: frame(PING, 0, 0, b"a" * 8),
    "priority of a stream to come": lambda w: frame(PRIORITY, 0, 9, struct.pack(">IB", 0, 5)),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_frames_without_effect(door, name):
    with door.h2() as wire:
        wire.send(HARMLESS[name](wire))
        assert wire.is_alive()


STREAM_ERRORS = {
    "window of 0": (lambda w: w.headers(1) + frame(WINDOW_UPDATE, 0, 1, number(0)), PROTOCOL_ERROR),
    "window too large": (
        lambda w: post(w) + frame(WINDOW_UPDATE, 0, 1, number(2**31 - 1)), FLOW_CONTROL_ERROR),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAM_ERRORS)
def test_frames_that_end_their_stream(door, name):
    frames, code = STREAM_ERRORS[name]
    with door.h2() as wire:
        wire.send(frames(wire))
        assert wire.answer(1) == code
        wire.next_stream = 3
        assert wire.is_alive()


def test_streams_go_up(door):
    for again in (1, 3):
        with door.h2() as wire:
            wire.send(wire.headers(5))
            assert wire.answer(5).code == 200
            wire.send(wire.headers(again))
            assert wire.end() == STREAM_CLOSED


def test_frames_larger_than_agreed(door):
    with door.h2() as wire:
        wire.send(frame(DATA, 0, 1, b"a" * 20000))
        assert wire.end() in (None, FRAME_SIZE_ERROR)


def test_headers_in_pieces(door):
    with door.h2() as wire:
        block = wire.block(wire.fields())
        pieces = [frame(HEADERS, END_STREAM, 1, block[:1])]
        pieces += [frame(CONTINUATION, 0, 1, block[i : i + 1]) for i in range(1, len(block) - 1)]
        pieces += [frame(CONTINUATION, END_HEADERS, 1, block[-1:])]
        for piece in pieces:
            wire.send(piece)
        assert wire.answer(1).code == 200


@pytest.mark.parametrize("preface", [b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_other_prefaces(door, preface):
    with Wire(door, "h2") as raw:
        raw.send(preface.ljust(len(PREFACE), b"x"))
        assert raw.is_closed()


def test_more_streams_than_announced(door):
    """The 101st stream at once is refused by itself: REFUSED_STREAM, or 429."""
    with door.h2(window=2**30) as wire:
        settings = None
        while settings is None:
            kind, flags, _, payload = wire.frame()
            if kind == SETTINGS and not flags & ACK:
                settings = dict(struct.unpack_from(">HI", payload, i) for i in range(0, len(payload), 6))
        most = settings[3]
        assert 1 <= most <= 100
        fields = wire.fields("POST", "/v1/chat/completions")
        streams = [wire.stream() for _ in range(most + 1)]
        for stream in streams:
            wire.send(wire.headers(stream, fields, end_stream=False))
        code = wire.answer(streams[-1])
        assert code == 7 if isinstance(code, int) else code.code == 429
        for stream in streams[:-1]:
            wire.send(frame(RST_STREAM, 0, stream, number(8)))


def test_closed_stream_is_left_alone(door):
    """Frames that were on their way when a stream ended."""
    with door.h2() as wire:
        assert wire.ask().code == 200
        wire.send(frame(WINDOW_UPDATE, 0, 1, number(1)))
        wire.send(frame(RST_STREAM, 0, 1, number(8)))
        assert wire.is_alive()


def test_client_that_says_goodbye(door):
    """After a GOAWAY of the client its streams are still answered."""
    with door.h2() as wire:
        stream = wire.stream()
        wire.send(wire.headers(stream) + frame(GOAWAY, 0, 0, number(0) + number(0)))
        assert wire.answer(stream).code == 200


def test_closed_exception_is_real(door):
    """The kit sees an ended connection (a check of the instrument)."""
    with door.h2() as wire:
        wire.send(frame(PING, 0, 0, b"abc"))
        wire.end()
        with pytest.raises(Closed):
            for _ in range(100):
                wire.ask()
