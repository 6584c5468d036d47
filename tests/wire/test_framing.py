"""Where a request's body ends: what two readers could read differently is refused, on both protocols.

Each row of HTTP/1.1 is refused with 400 and a sentence of its own, and its connection is closed, so
that nothing behind it is taken for a request. Over HTTP/2 a wrong length resets its stream alone.
"""

import json
import struct

import pytest

from wire_kit import (
    DATA, END_HEADERS, END_STREAM, HEADERS, PROTOCOL_ERROR, STREAM_CLOSED, Answer, Closed, frame,
)  # fmt: skip

SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

H1_HEADS = [
    (["Content-Length: {n}", "Transfer-Encoding: chunked"], "both a Content-Length"),
    (["Transfer-Encoding: chunked", "Content-Length: {n}"], "both a Content-Length"),
    (["Transfer-Encoding: chunked", "Content-Length: 0"], "both a Content-Length"),
    (["Content-Length: 0", "Transfer-Encoding: chunked"], "both a Content-Length"),
    (["Content-Length: {n}", "Content-Length: {n}"], "more than one Content-Length"),
    (["Content-Length: {n}", "Content-Length: 5"], "more than one Content-Length"),
    (["Content-Length: {n}, {n}"], "ambiguous"),
    (["Content-Length: -1"], "ambiguous"),
    (["Content-Length: +{n}"], "ambiguous"),
    (["Content-Length: 0x10"], "ambiguous"),
    (["Content-Length: "], "ambiguous"),
    (["Content-Length: 1 0"], "ambiguous"),
    (["Content-Length: {n} "], "ambiguous"),
    (["Content-Length: 1e3"], "ambiguous"),
    (["Content-Length: 18446744073709551616"], "ambiguous"),
    (["Content-Length: 99999999999999999999999"], "ambiguous"),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], "more than one Transfer"),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "ambiguous"),
    (["Transfer-Encoding: identity", "Transfer-Encoding: chunked"], "more than one Transfer"),
    (["Transfer-Encoding: xchunked"], "ambiguous"),
    (["Transfer-Encoding: identity"], "ambiguous"),
    (["Transfer-Encoding: gzip, chunked"], "ambiguous"),
    (["Transfer-Encoding: chunked, identity"], "ambiguous"),
    (["Transfer-Encoding: chunked, chunked"], "ambiguous"),
    (['Transfer-Encoding: "chunked"'], "ambiguous"),
    (["Transfer-Encoding: "], "ambiguous"),
    (["Transfer-Encoding:\r\n chunked"], "ambiguous"),
    (["Transfer-Encoding: \x0bchunked"], "Bad Request"),
    (["Transfer-Encoding : chunked"], "Bad Request"),
    (["Content-Length : {n}"], "Bad Request"),
    (["Content-Length: {n}\r\n\tx"], "continues in the next line"),
]


def post(wire, headers, body):
    return wire.head("POST", "/v1/chat/completions", headers) + body


@pytest.mark.parametrize("headers,word", H1_HEADS, ids=lambda value: str(value)[:60])
def test_h1_heads_in_doubt(door, headers, word):
    body = json.dumps(door.chat()).encode()
    headers = [header.format(n=len(body)) for header in headers]
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with door.h1() as wire:
        answer = wire.ask(post(wire, headers, chunked + SMUGGLED))
        assert answer.code == 400 and word in answer.body.decode(), answer
        assert answer.headers.get("connection") == "close"
        assert wire.is_closed()


H1_CHUNKS = [
    b"-1\r\nabc",
    b"\r\n\r\n",
    b"g\r\nabc\r\n0\r\n\r\n",
    b" 3\r\nabc\r\n0\r\n\r\n",
    b"\xef\xbc\x93\r\nabc\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\nabc",
    b"0" * 40 + b"3\r\nabc\r\n0\r\n\r\n",
    b"3\r\nabcXX0\r\n\r\n",
]


@pytest.mark.parametrize("chunks", H1_CHUNKS, ids=repr)
def test_h1_broken_chunks(door, chunks):
    with door.h1() as wire:
        answer = wire.ask(post(wire, ["Transfer-Encoding: chunked"], chunks + SMUGGLED))
        assert answer.code == 400, answer
        assert wire.is_closed()


H1_LAX_CHUNKS = [
    b"%x;a=b\r\n%s\r\n0\r\n\r\n",
    b"%x;a\n%s\r\n0\r\n\r\n",
    b"%x\n%s\n0\n\n",
    b"%x \r\n%s\r\n0\r\n\r\n",
    b"%x;" + b"a" * 70000 + b"\r\n%s\r\n0\r\n\r\n",
    b"%x\r\n%s\r\n0\r\nX-A: b\r\nContent-Length: 9\r\n\r\n",
    b"%x\r\n%s\r\n0\r\n" + b"X-A: " + b"b" * 70000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("chunks", H1_LAX_CHUNKS, ids=lambda value: repr(value)[:40])
def test_h1_nothing_follows_a_chunked_body(door, chunks):
    """libh2o reads these; whatever stands behind them is never read as a request."""
    body = json.dumps(door.chat()).encode()
    with door.h1() as wire:
        chunked = ["Transfer-Encoding: chunked"]
        answer = wire.ask(post(wire, chunked, chunks % (len(body), body) + SMUGGLED))
        assert answer.code == 200 and answer.headers["connection"] == "close", answer
        assert wire.is_closed()


def test_h1_size_in_hex_form(door):
    """"0x10" is a last chunk followed by junk for libh2o: an empty body, and nothing after it."""
    with door.h1() as wire:
        chunked = ["Transfer-Encoding: chunked"]
        answer = wire.ask(post(wire, chunked, b"0x10\r\n{}\r\n0\r\n\r\n" + SMUGGLED))
        assert answer.code == 400 and "empty" in answer.error()["message"]
        assert wire.is_closed()


def test_h1_transfer_encoding_needs_http_11(door):
    body = json.dumps(door.chat()).encode()
    with door.h1() as wire:
        data = post(wire, ["Transfer-Encoding: chunked"], b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        answer = wire.ask(data.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert answer.code == 400 and "HTTP/1.1" in answer.error()["message"]
        assert wire.is_closed()


def test_h1_rest_of_a_short_length_is_no_request(door):
    """A length smaller than the body: what is left over is no request either."""
    body = json.dumps(door.chat()).encode()
    with door.h1() as wire:
        assert wire.ask(post(wire, ["Content-Length: 5"], body)).code == 400
        assert wire.answer().code == 400
        assert wire.is_closed()


@pytest.mark.parametrize("length", ["4194306", "10485760", "9223372036854775807"])
def test_h1_declared_too_long(door, length):
    """Refused on the head alone, before a byte of the body."""
    with door.h1() as wire:
        answer = wire.ask(post(wire, [f"Content-Length: {length}"], b""))
        assert answer.code == 413 and answer.error()["code"] == "request_too_large"
        assert wire.is_closed()


@pytest.mark.parametrize("size", [b"ffffffffffffffff", b"7fffffffffffffff", b"500000"])
def test_h1_chunk_too_long(door, size):
    """A chunk's announced size is not believed; the body limit holds."""
    heap = door.heap()
    with door.h1() as wire:
        try:
            wire.send(post(wire, ["Transfer-Encoding: chunked"], size + b"\r\n"))
            for _ in range(90):
                wire.send(b"a" * 65536)
        except Closed:
            pass
        try:
            assert wire.answer().code in (400, 413)  # the chunk's end may be looked for first
        except Closed:
            pass
        assert wire.is_closed()
    assert door.heap() < heap + 2 * 1024 * 1024


def test_h1_right_ones_are_served(door):
    body = json.dumps(door.chat()).encode()
    with door.h1() as wire:
        for length in (f"{len(body)}", f"000{len(body)}"):
            assert wire.ask(post(wire, [f"Content-Length: {length}"], body)).code == 200
        expect = [f"Content-Length: {len(body)}", "Expect: 100-continue"]
        assert wire.ask(post(wire, expect, body)).code == 200
        assert wire.ask(wire.head("GET", "/v1/models", ["Content-Length: 3"]) + b"abc").code == 200
        wire.send(wire.head() * 3)
        assert [wire.answer().code for _ in range(3)] == [200, 200, 200]


def test_h1_other_expectations(door):
    with door.h1() as wire:
        answer = wire.ask(post(wire, ["Content-Length: 2", "Expect: 200-ok"], b"{}"))
        assert answer.code == 417 and wire.is_closed()


def test_expectations_are_answered(door):
    """Who sends Expect: 100-continue waits for it: a 100 for who has a key, over both protocols, and
    a stranger hears at once that there is no use in sending."""
    body = json.dumps(door.chat()).encode()
    with door.h1(timeout=20) as wire:
        wire.send(post(wire, [f"Content-Length: {len(body)}", "Expect: 100-continue"], b""))
        assert wire.take_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(body)
        assert wire.answer().code == 200
    with door.h2(timeout=20) as wire:
        stream, other = wire.stream(), wire.stream()
        expect = [("expect", "100-continue"), ("content-length", str(len(body)))]
        wire.send(wire.headers(stream, wire.fields("POST", "/v1/chat/completions", expect), False))
        kind = None
        while kind != HEADERS:
            kind, flags, at, payload = wire.frame()
        assert at == stream and not flags & END_STREAM
        assert wire.decoder.decode(payload) == [(":status", "100")]
        wire.send(frame(DATA, END_STREAM, stream, body))
        assert wire.answer(stream).code == 200
        fields = wire.fields("POST", "/v1/chat/completions", expect, key=False)
        wire.send(wire.headers(other, fields, False))
        assert wire.answer(other).code == 401
        assert wire.is_alive()


H2_LENGTHS = [
    ([("content-length", "{less}")], PROTOCOL_ERROR),
    ([("content-length", "{more}")], PROTOCOL_ERROR),
    ([("content-length", "{n}"), ("content-length", "5")], PROTOCOL_ERROR),
    ([("content-length", "10000000")], 413),  # which is told before the body has come
]


@pytest.mark.parametrize("fields,code", H2_LENGTHS, ids=repr)
def test_h2_lengths_that_differ(door, fields, code):
    body = json.dumps(door.chat()).encode()
    n = len(body)
    fields = [(name, value.format(n=n, less=n - 1, more=n + 1)) for name, value in fields]
    with door.h2() as wire:
        answer = wire.ask(wire.fields("POST", "/v1/chat/completions", fields), body)
        assert (answer if isinstance(answer, int) else answer.code) == code
        assert wire.is_alive()


@pytest.mark.parametrize(
    "field",
    [("content-length", "-5"), ("content-length", "abc"), ("transfer-encoding", "chunked"),
     ("te", "gzip"), ("connection", "keep-alive"), ("upgrade", "h2c")],
    ids=repr,
)  # fmt: skip
def test_h2_fields_that_end_the_connection(door, field):
    body = json.dumps(door.chat()).encode()
    with door.h2() as wire:
        with pytest.raises(Closed):
            wire.ask(wire.fields("POST", "/v1/chat/completions", [field]), body)
        assert wire.goaway == PROTOCOL_ERROR


def test_h2_body_after_its_end(door):
    with door.h2() as wire:
        stream = wire.stream()
        fields = wire.fields("POST", "/v1/chat/completions")
        wire.send(wire.headers(stream, fields) + frame(DATA, END_STREAM, stream, b"x"))
        assert wire.answer(stream) == STREAM_CLOSED
        assert wire.is_alive()


def test_h2_trailers(door):
    body = json.dumps(door.chat()).encode()
    for trailer, flags, is_fine in [
        (("x-t", "1"), END_HEADERS | END_STREAM, True),
        (("x-t", "1"), END_HEADERS, False),
        ((":path", "/x"), END_HEADERS | END_STREAM, False),
    ]:
        with door.h2() as wire:
            stream = wire.stream()
            fields = wire.fields("POST", "/v1/chat/completions")
            wire.send(
                wire.headers(stream, fields, end_stream=False) + frame(DATA, 0, stream, body)
                + frame(HEADERS, flags, stream, wire.block([trailer]))
            )  # fmt: skip
            if is_fine:
                assert wire.answer(stream).code == 200
            else:
                with pytest.raises(Closed):
                    wire.answer(stream)
                assert wire.goaway == PROTOCOL_ERROR


def test_h2_body_over_the_limit(door):
    """Refused on its way, with a flat heap; the connection's other streams go on."""
    heap = door.heap()
    with door.h2() as wire:
        stream = wire.stream()
        wire.send(wire.headers(stream, wire.fields("POST", "/v1/chat/completions"), False))
        for _ in range(320):
            wire.send(frame(DATA, 0, stream, b"a" * 16384))
        answer = wire.answer(stream)
        assert not isinstance(answer, Answer) or answer.code == 413
        assert wire.is_alive()
    assert door.heap() < heap + 2 * 1024 * 1024


def test_h2_padding_counts_for_nothing(door):
    """Padded frames carry the body's bytes alone."""
    body = json.dumps(door.chat()).encode()
    with door.h2() as wire:
        stream = wire.stream()
        fields = wire.fields("POST", "/v1/chat/completions", [("content-length", str(len(body)))])
        padded = struct.pack("B", 200) + body + b"\0" * 200
        wire.send(wire.headers(stream, fields, False) + frame(DATA, END_STREAM | 8, stream, padded))
        assert wire.answer(stream).code == 200
