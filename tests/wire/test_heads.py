"""Request lines, names, values and hosts, on both protocols; what a client says about itself counts
for nothing.
"""

import pytest

from wire_kit import (
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, MODEL_NAME, PREFACE, PROTOCOL_ERROR, Closed, frame,
)  # fmt: skip

# Refused by libh2o's parser with its own short text, before any handler.
H1_UNPARSABLE = [
    ["X-A: a\rb"], ["X-A: a\0b"], ["X\0A: a"], ["X-A: a\x01b"], ["X-A : a"], [": a"], ["abc"],
    ["X-\xe9: a"], ["X(A): a"], ["X-A\t: a"], [f"X-{i}: a" for i in range(101)],
]  # fmt: skip


@pytest.mark.parametrize("headers", H1_UNPARSABLE, ids=lambda value: repr(value[0]))
def test_h1_unparsable_headers(door, headers):
    with door.h1() as wire:
        answer = wire.ask(wire.head(headers=headers))
        assert answer.code == 400 and wire.is_closed()


H1_LINES = [
    (b"GET /v1/models\r\n\r\n", "Bad Request"),
    (b"GET  /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GET\t/v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GE T /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GET /v1/models HTTP/2.0\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GET /v1/models HTTP/1.1x\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GET /v1/models http/1.1\r\nHost: x\r\n\r\n", "Bad Request"),
    (b" GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "Bad Request"),
    (b"GET /v1/models HTTP/1.1\r\n Host: x\r\n\r\n", "Bad Request"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "Bad Request"),
    (PREFACE, "Bad Request"),
    (b"GET /v1/models HTTP/1.1\nHost: x\n\n", "CR LF"),
    (b"GET /v1/models HTTP/1.1\r\nHost: x\n\r\n", "CR LF"),
    (b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\n", "CR LF"),
    (b"GET /v1/models HTTP/1.1\r\n\r\n", "no Host"),
    (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "more than one Host"),
    (b"GET /v1/models HTTP/1.1\r\nHost: \r\n\r\n", "Host"),
    (b"GET /v1/models HTTP/1.1\r\nHost: a b/c\r\n\r\n", "Host"),
    (b"GET /v1/models HTTP/1.1\r\nHost: user@x\r\n\r\n", "Host"),
    (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n", "next line"),
    (b"GET https:///v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", "Host"),
    (b"GET https://a@localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "Host"),
    (b"GET https://localhost/health HTTP/1.1\r\n\r\n", "no Host"),
    (b"GET file://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "must be a path"),
    (b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "must be a path"),
    (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "must be a path"),
    (b"GET v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", "must be a path"),
    (b"GET /v1/models/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", "must be a path"),
]


@pytest.mark.parametrize("data,word", H1_LINES, ids=lambda value: repr(value)[:60])
def test_h1_request_lines(door, data, word):
    with door.h1() as wire:
        answer = wire.ask(data)
        assert answer.code == 400 and word in answer.body.decode(), answer
        assert wire.is_closed()


@pytest.mark.parametrize(
    "target", ["https://localhost/health", "http://other:1/health", "HTTPS://x/health?a=http://y/"]
)
def test_targets_in_absolute_form(door, target):
    """RFC 9112, 3.2.2: taken, and the target's authority counts instead of Host's."""
    with door.h1() as wire:
        for _ in range(2):
            wire.send(f"GET {target} HTTP/1.1\r\nHost: elsewhere\r\n\r\n".encode())
            assert wire.answer().body == b'{"status":"ok"}'


GETS = ["/health", "/ready", "/v1/models", f"/v1/models/{MODEL_NAME}", "/v1/me", "/v1/usage"]
ADMIN_GETS = ["/metrics", "/admin/v1/tenants", "/admin/v1/config", "/admin/v1/openapi.json"]


@pytest.mark.parametrize("http2", [False, True])
def test_head_is_a_get_without_the_body(door, http2):
    """RFC 9110, 9.3.2, on both listeners; two on one connection, so that no byte stays behind."""
    server = door.server
    faces = [
        (server.http(door.key, http2=http2), GETS),
        (server.http(server.admin_key, server.admin_url, http2=http2), ADMIN_GETS),
        (server.http(http2=http2), ["/v1/models", "/nowhere"]),
    ]
    vary = ("date", "x-request-id", "content-length")
    for http, paths in faces:
        with http:
            for path in paths:
                got, head = http.get(path), http.head(path)
                again = http.head(path)
                assert head.status_code == again.status_code == got.status_code, path
                assert head.content == b"" and "content-length" in head.headers, path
                keep = [{k: v for k, v in x.headers.items() if k not in vary} for x in (got, head)]
                assert keep[0] == keep[1], path
            refused = http.head("/v1/chat/completions")
            assert refused.status_code in (404, 405) and refused.content == b""


@pytest.mark.parametrize(
    "path,code",
    [("/v1/../v1/models", 404), ("/v1/%6dodels", 404), ("/v1/models/%00", 404),
     ("/v1/models/a%0d%0aX-A:b", 404), ("//v1/models", 404), ("/v1/models#x", 404),
     ("/v1/models/", 404), ("/" + "a" * 1023, 404), ("/" + "a" * 1024, 414)],
)  # fmt: skip
def test_paths_are_not_interpreted(door, path, code):
    with door.h1() as wire:
        assert wire.ask(wire.head("GET", path)).code == code
    with door.h2() as wire:
        answer = wire.ask(wire.fields(path=path))
        assert answer.code == code
        assert b"\r\nX-A" not in answer.body
        assert wire.is_alive()


@pytest.mark.parametrize("method", ["get", "FOO", "TRACE", "A" * 300, "DELETE"])
def test_other_methods(door, method):
    with door.h1() as wire:
        answer = wire.ask(wire.head(method))
        assert answer.code == 405 and answer.headers["allow"] == "GET, HEAD"
    with door.h2() as wire:
        assert wire.ask(wire.fields(method)).code == 405
        assert wire.is_alive()


def test_head_sizes(door):
    """16 KiB of head are taken, more is 431; over HTTP/1 the connection ends."""
    with door.h1() as wire:
        short = len(wire.head(headers=["X-A: "]))
        assert wire.ask(wire.head(headers=["X-A: " + "a" * (16384 - short)])).code == 200
        answer = wire.ask(wire.head(headers=["X-A: " + "a" * (16385 - short)]))
        assert answer.code == 431 and answer.error()["code"] == "head_too_large"
        assert wire.is_closed()
    with door.h2() as wire:
        # In two frames, since a frame holds 16 KiB at most.
        stream = wire.stream()
        block = wire.block(wire.fields(extra=[("x-a", "a" * 17000)]))
        wire.send(
            frame(HEADERS, END_STREAM, stream, block[:16000])
            + frame(CONTINUATION, END_HEADERS, stream, block[16000:])
        )
        assert wire.answer(stream).code == 431
        assert wire.is_alive()


H2_REFUSED = [
    (lambda wire: wire.fields(extra=[("x a", "a")]), 400),
    (lambda wire: wire.fields(extra=[("x:a", "a")]), 400),
    (lambda wire: wire.fields(extra=[("", "a")]), 400),
    (lambda wire: wire.fields(extra=[("x\r\ny", "a")]), 400),
    (lambda wire: wire.fields(extra=[("x-a", "a\r\ny: b")]), 400),
    (lambda wire: wire.fields(extra=[("x-a", "a\0b")]), 400),
    (lambda wire: wire.fields(extra=[("keep-alive", "5")]), 400),
    (lambda wire: wire.fields(extra=[("proxy-connection", "close")]), 400),
    (lambda wire: wire.fields(path="/v1/models HTTP/1.1\r\nx: y"), 400),
    (lambda wire: wire.fields(path="/v1/mo dels"), 400),
    (lambda wire: wire.fields(path=""), 400),
    (lambda wire: wire.fields(path="*"), 400),
    (lambda wire: wire.fields(path="https://x/v1/models"), 400),
    (lambda wire: wire.fields(method="GET / HTTP/1.1\r\nx"), 400),
    (lambda wire: [f for f in wire.fields() if f[0] != ":method"], PROTOCOL_ERROR),
    (lambda wire: [f for f in wire.fields() if f[0] != ":path"], PROTOCOL_ERROR),
    (lambda wire: [f for f in wire.fields() if f[0] != ":scheme"], PROTOCOL_ERROR),
    (lambda wire: [(":method", "CONNECT"), (":authority", "x:443")], PROTOCOL_ERROR),
]


@pytest.mark.parametrize("fields,code", H2_REFUSED, ids=range(len(H2_REFUSED)))
def test_h2_heads_refused_alone(door, fields, code):
    """400, or the stream is reset; the connection goes on."""
    with door.h2() as wire:
        answer = wire.ask(fields(wire))
        assert (answer if isinstance(answer, int) else answer.code) == code
        assert wire.is_alive()


H2_BROKEN = [
    lambda wire: wire.fields(extra=[("X-Upper", "a")]),
    lambda wire: [(":method", "GET")] + wire.fields(),
    lambda wire: [(":path", "/x")] + wire.fields(),
    lambda wire: wire.fields()[:4] + [("x-a", "b"), (":evil", "x")],
    lambda wire: wire.fields()[:2] + [("x-a", "b")] + wire.fields()[2:],
    lambda wire: wire.fields()[:4] + [(":status", "200")],
]


@pytest.mark.parametrize("fields", H2_BROKEN, ids=range(len(H2_BROKEN)))
def test_h2_heads_that_end_the_connection(door, fields):
    with door.h2() as wire:
        with pytest.raises(Closed):
            wire.ask(fields(wire))
        assert wire.goaway == PROTOCOL_ERROR


def test_no_upgrade_to_http2(door):
    with door.h1() as wire:
        answer = wire.ask(wire.head(headers=[
            "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        ]))  # fmt: skip
        assert answer.code == 200 and "upgrade" not in answer.headers


FORGED = [
    ("x-banyan-protocol", "9"), ("x-banyan-tenant", "0" * 32), ("x-banyan-domain", "0" * 32),
    ("x-banyan-visible", "p:" + "0" * 32), ("x-banyan-cache-share", "1000"), ("x-banyan-class", "realtime"), ("x-banyan-model", "61"), ("x-banyan-weight", "1000"),
    ("x-banyan-deadline-ms", "1"), ("x-banyan-request-id", "req_forged"),
    ("x-banyan-key", "0" * 32),
]  # fmt: skip


def test_forged_headers_count_for_nothing(door):
    """What only the edge may say is dropped when a client says it: whose request it is, too."""
    rows = door.server.ledger("select count(*) from requests where request_id = 'req_forged'")
    with door.server.http(door.key) as http:
        for forged in FORGED:
            answer = http.post(
                "/v1/chat/completions", json=door.chat(), headers=dict([forged])
            )
            assert answer.status_code == 200, (forged, answer.text)
            assert answer.headers["x-request-id"] != "req_forged"
        answer = http.post("/v1/chat/completions", json=door.chat(), headers=dict(FORGED))
        assert answer.status_code == 200
    after = door.server.ledger("select count(*) from requests where request_id = 'req_forged'")
    assert rows == after


def test_two_keys_in_one_request(door):
    with door.h1() as wire:
        answer = wire.ask(wire.head(headers=["Authorization: Bearer x"]))
        assert answer.code == 401 and "more than one" in answer.error()["message"]
    with door.h2() as wire:
        answer = wire.ask(wire.fields(extra=[("authorization", "Bearer x")]))
        assert answer.code == 401
        assert wire.is_alive()
