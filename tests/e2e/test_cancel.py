"""Who leaves, when, and how: whatever the state of the request, the protocol and the manner, the
engine is idle at once, the ledger has the row that the engine counted, and nothing is leaked."""

import itertools
import json
import os
import signal
import socket
import struct
import time

import h2.config
import h2.connection
import h2.events
import pytest

from conftest import MODEL_NAME, Server, pages_at_hand, wait_until

STATES = ("queued", "prefill", "gap", "decode", "last")
WAYS = ("close", "reset", "half")
PROMPTS = itertools.count()
TOKENS = {"queued": 1900, "prefill": 20, "gap": 1900, "decode": 1900, "last": 4}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One sequence computes at a time, so that a second request waits."""
    server = Server(
        tmp_path_factory.mktemp("cancel") / "data",
        "--sequences", "1", "--context", "2048", "--batch-rows", "16", "--kv-memory", "256M",
        "--threads", "1",
    )  # fmt: skip
    server.key = server.tenant("acme")[1]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


def request_body(state):
    # 94 steps of 16 rows, each time: no two begin alike, so that nothing is found in the cache.
    prompt = [504] if state != "prefill" else [3000 + next(PROMPTS), *range(504, 504 + 1499)]
    return json.dumps(
        {
            "model": MODEL_NAME, "prompt": prompt, "max_tokens": TOKENS[state], "stream": True,
            "temperature": 0, "ignore_eos": True,
        }  # fmt: skip
    ).encode()


class Client:
    """One request over a raw TLS socket, which can be left in any way."""

    def __init__(self, server, protocol, body):
        host, port = server.url.removeprefix("https://").split(":")
        context = server.context
        context.set_alpn_protocols(["h2"] if protocol == "h2" else ["http/1.1"])
        self.plain = socket.create_connection((host, int(port)))
        self.plain.settimeout(300)
        self.tls = context.wrap_socket(self.plain, server_hostname="localhost")
        self.seen = b""
        self.h2 = None
        headers = [
            ("authorization", f"Bearer {server.key}"),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
        ]
        if protocol == "h2":
            assert self.tls.selected_alpn_protocol() == "h2"
            self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
            self.h2.initiate_connection()
            pseudo = [
                (":method", "POST"), (":path", "/v1/completions"), (":scheme", "https"),
                (":authority", "localhost"),
            ]  # fmt: skip
            self.h2.send_headers(1, pseudo + headers)
            self.h2.send_data(1, body, end_stream=True)
            self.tls.sendall(self.h2.data_to_send())
        else:
            head = "".join(f"{name}: {value}\r\n" for name, value in headers)
            text = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n{head}\r\n"
            self.tls.sendall(text.encode() + body)

    def read_frames(self, count):
        """Until so many frames with text have come."""
        while self.seen.count(b'"finish_reason":null') < count:
            data = self.tls.recv(65536)
            assert data, self.seen
            if self.h2 is None:
                self.seen += data
                continue
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.seen += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, 1)
            self.tls.sendall(self.h2.data_to_send())

    def leave(self, way):
        if way == "stream":  # h2 alone: RST_STREAM, the connection stays
            self.h2.reset_stream(1)
            self.tls.sendall(self.h2.data_to_send())
        elif way == "reset":
            linger = struct.pack("ii", 1, 0)
            self.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.tls.close()
        elif way == "half":
            self.tls.shutdown(socket.SHUT_WR)
        else:
            self.tls.close()

    def said(self):
        """What has come by now: an answer where none was expected."""
        self.tls.settimeout(1)
        try:
            return self.tls.recv(65536)
        except OSError as error:
            return error

    def close(self):
        self.tls.close()


def idle(server):
    stats = server.engine_stats()
    return stats["requests"] == 0 and pages_at_hand(stats) == stats["pages_total"]


def rows(server):
    return server.ledger(
        "select id, finish, prompt_tokens, completion_tokens, is_estimated from requests"
        " order by id"
    )


def reach(server, client, state):
    if state == "queued":
        wait_until(lambda: server.engine_stats()["sequences_waiting"] == 1, what="the line")
    elif state == "prefill":
        try:
            wait_until(lambda: server.engine_stats()["sequences_running"] == 1, what="the prefill")
        except AssertionError as error:
            raise AssertionError(f"{error}: {client.said()}, {server.engine_stats()}") from error
    else:
        client.read_frames({"gap": 1, "decode": 3, "last": 3}[state])


CASES = [
    (state, protocol, way)
    for state in STATES
    for protocol in ("h1", "h2")
    for way in WAYS + (("stream",) if protocol == "h2" else ())
]


@pytest.mark.parametrize("state, protocol, way", CASES)
def test_leaving(small, state, protocol, way):
    wait_until(lambda: idle(small), what="an idle engine")
    before = small.engine_stats()
    counted = len(rows(small))
    first = None
    if state == "queued":
        first = Client(small, "h1", request_body("decode"))
        first.read_frames(1)
    client = Client(small, protocol, request_body(state))
    reach(small, client, state)
    if state == "gap":  # the engine is silent; its answer to the cancel comes when it wakes
        pid = small.child("engine")
        os.kill(pid, signal.SIGSTOP)
    try:
        client.leave(way)
        if state == "gap":
            time.sleep(0.3)
    finally:
        if state == "gap":
            os.kill(pid, signal.SIGCONT)
    if state == "queued":
        wait_until(lambda: small.engine_stats()["sequences_waiting"] == 0, what="the cancel")
        assert small.engine_stats()["sequences_running"] == 1  # the other one goes on
        first.leave("close")
    wait_until(lambda: idle(small), what="an idle engine")
    expected = 2 if state == "queued" else 1
    wait_until(lambda: len(rows(small)) >= counted + expected, what="the row")
    client.close()
    after = small.engine_stats()
    new = rows(small)[counted:]
    # The row is what the engine counted: not what the client saw, and no guess.
    made = after["tokens_generated"] - before["tokens_generated"]
    assert sum(row[3] for row in new) == made, new
    assert not any(row[4] for row in new), new
    assert len(new) == expected
    if state == "queued":  # it never began: its row says so, beside the other one's
        assert [row[1] for row in new] == ["cancelled", "cancelled"]
        assert [row[2:4] for row in new if row[3] == 0] == [(0, 0)]
        return
    _, finish, prompt, completion, _ = new[0]
    assert prompt == (1500 if state == "prefill" else 1)
    if state == "last":
        assert (finish, completion) == ("length", 4) or (finish == "cancelled" and completion >= 3)
    else:
        assert finish == "cancelled"
        assert completion < 1900  # some steps, not all that were asked for
    if state == "prefill":
        assert completion == 0
        assert after["steps"] - before["steps"] < 94  # it was not finished first


@pytest.mark.long
def test_nothing_is_left(small):
    """The whole table again, twice: sockets, pages and heaps are as before."""

    def round_of():
        for state in ("decode", "prefill"):
            for protocol, way in (("h1", "close"), ("h2", "reset"), ("h1", "half"), ("h2", "stream")):
                client = Client(small, protocol, request_body(state))
                reach(small, client, state)
                client.leave(way)
                wait_until(lambda: idle(small), what="an idle engine")
                client.close()

    def held():
        return len(small.sockets("edge")), len(small.sockets("engine"))

    def heaps():
        return small.metric("banyan_heap_bytes"), small.engine_stats()["heap_bytes"]

    round_of()
    time.sleep(0.5)
    sockets, (edge, engine) = held(), heaps()
    for _ in range(3):
        round_of()
    wait_until(lambda: held() <= sockets, what=f"the sockets' end: {held()} after {sockets}")

    def heaps_are_back():
        edge_after, engine_after = heaps()
        return edge_after - edge < 256 * 1024 and engine_after - engine < 256 * 1024

    wait_until(heaps_are_back, what=f"the heaps' return to {edge} and {engine}: {heaps()}")
    assert small.engine_stats()["finals_live"] == 0
