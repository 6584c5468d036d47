"""Strangers without a key hold what they can of the server's memory; a neighbour with a key, from
another address or from the same one, is refused nothing, small or large.

A few seconds each. BANYAN_TEST_ATTACK_S makes them longer (60 is what the house asks of a release),
and BANYAN_TEST_ATTACK_ADDRESSES has them come from more addresses.
"""

import itertools
import json
import multiprocessing
import os
import socket
import struct
import threading
import time

import pytest

from conftest import Server
from wire_kit import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, Closed, Door,
    frame, httpx,
)  # fmt: skip

MIB = 1024 * 1024
BODY_LIMIT = 4 * MIB
MEMORY_LIMIT = 256 * MIB
ATTACK_S = float(os.environ.get("BANYAN_TEST_ATTACK_S", "4"))
ADDRESSES = int(os.environ.get("BANYAN_TEST_ATTACK_ADDRESSES", "1"))
CONNECTIONS = 60  # of each address: a few below its limit, so that the neighbour gets in
PATH = "/v1/chat/completions"
FAKE_TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIn0." + "a" * 342


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(
        tmp_path_factory.mktemp("strangers") / "data",
        "--connections-per-address", "64", "--connects-per-address-s", "50", "--handshakes-s", "400",
    )  # fmt: skip
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture(scope="module")
def door(server):
    return Door(server, server.tenant("neighbour")[1])


@pytest.fixture(autouse=True)
def still_serves(door):
    """As of the suite's; who comes from the strangers' address waits until it may connect again."""
    yield
    end = time.monotonic() + 60
    while True:
        try:
            door.assert_serves()
            return
        except httpx.TransportError:
            assert time.monotonic() < end
            time.sleep(0.1)


# --- attacks: each has one connection to do with as it likes, until the server ends it ---


def h1_head(*lines, credential=None):
    lines = [f"POST {PATH} HTTP/1.1", "Host: localhost", *lines]
    if credential:
        lines.append(f"Authorization: Bearer {credential}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def pour(wire, data, pieces=64):
    """The data in pieces, since a server may well end the connection in the middle."""
    step = max(1, len(data) // pieces)
    for at in range(0, len(data), step):
        wire.send(data[at : at + step])


def upload(door, source, *lines, credential=None, body=b" " * (BODY_LIMIT - 1)):
    wire = door.h1(source=source, timeout=5)
    lines = lines or (f"Content-Length: {BODY_LIMIT}",)
    wire.send(h1_head(*lines, credential=credential))
    pour(wire, body)
    return wire


def upload_chunked(door, source):
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    return upload(door, source, "Transfer-Encoding: chunked", body=chunk * 63)


def upload_small_chunks(door, source):
    return upload(door, source, "Transfer-Encoding: chunked", body=b"1\r\na\r\n" * 200000)


def upload_behind_a_request(door, source):
    """The head comes in the same write as a request before it."""
    wire = door.h1(source=source, timeout=5)
    wire.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + h1_head("Content-Length: 4194304"))
    pour(wire, b" " * (BODY_LIMIT - 1))
    return wire


def upload_that_expects(door, source):
    return upload(door, source, "Content-Length: 4194304", "Expect: 100-continue")


def upload_in_trickles(door, source):
    wire = upload(door, source, "Content-Length: 4194304", body=b" " * 65536)
    for _ in range(50):
        wire.send(b" " * 20000)
        time.sleep(0.02)
    return wire


def head_without_end(door, source):
    wire = door.h1(source=source, timeout=5)
    pour(wire, b"POST / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 400000)
    return wire


def head_in_trickles(door, source):
    wire = door.h1(source=source, timeout=5)
    for piece in (b"POST / HTTP/1.1\r\n", *[b"X-A: " + b"a" * 500 + b"\r\n"] * 30):
        wire.send(piece)
        time.sleep(0.02)
    return wire


def idle(door, source):
    return door.h1(source=source, timeout=5)


TURNS = itertools.count()


def idle_and_uploads(door, source):
    """Connections of all kinds beside each other; each one tells nothing of what the others hold."""
    kinds = idle, upload, h2_upload, head_in_trickles, records_without_end, h2_many_streams
    return kinds[next(TURNS) % len(kinds)](door, source)


def h2_fields(credential=None, extra=()):
    fields = [
        (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", PATH),
    ]  # fmt: skip
    if credential:
        fields.append(("authorization", f"Bearer {credential}"))
    return fields + list(extra)


def h2_upload(door, source, streams=2, size=2 * MIB, credential=None, extra=()):
    wire = door.h2(source=source, timeout=5)
    for _ in range(streams):
        stream = wire.stream()
        wire.send(wire.headers(stream, h2_fields(credential, extra), end_stream=False))
        data = b" " * min(size, 16384)
        for _ in range(max(1, size // 16384)):
            wire.send(frame(DATA, 0, stream, data))
    return wire


def h2_many_streams(door, source):
    return h2_upload(door, source, streams=100, size=1)


def h2_many_headers(door, source):
    """Thousands of fields by their index, on each of a hundred streams."""
    wire = door.h2(source=source, timeout=5)
    for _ in range(100):
        stream = wire.stream()
        block = wire.block(h2_fields()) + wire.block([("x-a", "b")]) + b"\xbe" * 15000
        wire.send(frame(HEADERS, 4, stream, block))
    return wire


def h2_whole_heads(door, source, fields=0):
    """Heads of whole requests, a hundred at once until the attack is over, each with so many more
    fields of one byte. The answers are read."""
    wire = door.h2(source=source, timeout=5, window=2**30)
    first = wire.block([*h2_fields(), ("x-a", "b")])
    wire.send(frame(HEADERS, END_STREAM | END_HEADERS, wire.stream(), first))
    block = wire.block(h2_fields()) + b"\xbe" * fields
    while not door.is_over.is_set():
        streams = [wire.stream() for _ in range(100)]
        wire.send(b"".join(frame(HEADERS, END_STREAM | END_HEADERS, at, block) for at in streams))
        ended = 0
        while ended < len(streams):
            kind, flags, _, _ = wire.frame()
            ended += kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM)
    return wire


def h2_head_without_end(door, source):
    wire = door.h2(source=source, timeout=5)
    wire.send(frame(HEADERS, END_STREAM, 1, wire.block(h2_fields())))
    for _ in range(30):
        wire.send(frame(CONTINUATION, 0, 1, wire.block([("x-a", "a" * 14000)])))
    return wire


def h2_pings(door, source):
    wire = door.h2(source=source, timeout=1)
    for _ in range(1000):
        wire.send(frame(PING, 0, 0, b"a" * 8) * 100)
    return wire


def h2_settings(door, source):
    wire = door.h2(source=source, timeout=1)
    for _ in range(1000):
        wire.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 100)
    return wire


def records_without_end(door, source):
    """TLS records of a large write, less the last one's last byte."""
    wire = door.h1(source=source, timeout=5)
    plain = socket.socket(fileno=os.dup(wire.tls.fileno()))
    with plain:  # a record of 16 KiB that never becomes whole, behind the ones that are
        wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 10000)
        plain.settimeout(5)
        try:
            plain.sendall(b"\x17\x03\x03\x40\x11" + b"a" * 16000)
        except OSError as error:
            raise Closed() from error
    return wire


ATTACKS = {
    "h1 upload": upload,
    "h1 upload, wrong key": lambda door, source: upload(door, source, credential="sk-by-wrong"),
    "h1 upload, false token": lambda door, source: upload(door, source, credential=FAKE_TOKEN),
    "h1 chunked": upload_chunked,
    "h1 small chunks": upload_small_chunks,
    "h1 upload behind a request": upload_behind_a_request,
    "h1 upload that expects": upload_that_expects,
    "h1 trickle": upload_in_trickles,
    "h1 head without end": head_without_end,
    "h1 head in trickles": head_in_trickles,
    "h2 upload": h2_upload,
    "h2 upload, false token": lambda door, source: h2_upload(door, source, credential=FAKE_TOKEN),
    "h2 upload, length told": lambda door, source: h2_upload(
        door, source, streams=4, size=MIB, extra=[("content-length", str(MIB))]
    ),
    "h2 streams of one byte": h2_many_streams,
    "h2 many headers": h2_many_headers,
    "h2 whole heads": h2_whole_heads,
    "h2 whole large heads": lambda door, source: h2_whole_heads(door, source, fields=200),
    "h2 head without end": h2_head_without_end,
    "h2 pings": h2_pings,
    "h2 settings": h2_settings,
    "idle and uploads": idle_and_uploads,
    "records without end": records_without_end,
}


class Attack:
    """An address's connections, opened again as often as the server ends them."""

    def __init__(self, door, attack, addresses):
        self.door, self.attack = door, attack
        self.is_over = threading.Event()
        self.connected = 0  # let in by the server
        self.opened = 0  # and not ended by it before the attack had sent all it wanted
        self.threads = [
            threading.Thread(target=self.one, args=(address,), daemon=True)
            for address in addresses
            for _ in range(CONNECTIONS)
        ]

    def h1(self, **kwargs):
        wire = self.door.h1(**kwargs)
        self.connected += 1
        return wire

    def h2(self, **kwargs):
        wire = self.door.h2(**kwargs)
        self.connected += 1
        return wire

    def one(self, address):
        while not self.is_over.is_set():
            try:
                wire = self.attack(self, address)
            except (Closed, OSError):  # ended, or not let in: at most 50 a second are
                self.is_over.wait(0.2)
                continue
            self.opened += 1
            with wire:
                wire.tls.settimeout(0.5)
                while not self.is_over.is_set():
                    try:
                        wire.more()
                    except TimeoutError:
                        continue
                    except (Closed, OSError):
                        break

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(60)


FORK = multiprocessing.get_context("fork")


class Neighbour(FORK.Process):
    """Chats of a tenant, small and as large as the body limit in turn, on new connections. It is a
    process of its own, so that the attack's threads do not hold up its clock."""

    def __init__(self, door, source, http2):
        super().__init__(daemon=True)
        self.door, self.source, self.http2 = door, source, http2
        self.is_over = FORK.Event()
        self.count = FORK.Value("i", 0)
        self.pipe, self.end = FORK.Pipe(False)
        self.answers = []
        self.small_s = []  # from the connection to the answer's end, of small requests

    def connect(self):
        """Who comes from an address that opens 50 connections a second waits for its turn."""
        end = time.monotonic() + 60
        while True:
            try:
                make = self.door.h2 if self.http2 else self.door.h1
                return make(source=self.source, timeout=60)
            except (Closed, OSError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def once(self, size):
        body = json.dumps(self.door.chat(max_tokens=2)).encode()
        body += b" " * (size - len(body)) if size else b""
        if self.http2:
            with self.connect() as wire:
                stream = wire.stream()
                data = wire.headers(stream, wire.fields("POST", PATH), end_stream=False)
                for at in range(0, len(body), 16384):
                    data += frame(DATA, 0, stream, body[at : at + 16384])
                wire.send(data + frame(DATA, END_STREAM, stream))
                answer = wire.answer(stream)
                return answer if isinstance(answer, int) else answer.code
        with self.connect() as wire:
            head = wire.head("POST", PATH, [f"Content-Length: {len(body)}"])
            pour(wire, head + body)
            return wire.answer().code

    def run(self):
        sizes = [0, BODY_LIMIT, 65536 + 1]
        while not self.is_over.is_set():
            size = sizes[len(self.answers) % len(sizes)]
            begin = time.monotonic()
            try:
                self.answers.append(self.once(size))
                if size == 0:
                    self.small_s.append(time.monotonic() - begin)
            except (Closed, OSError) as error:
                self.answers.append(repr(error))
            self.count.value = len(self.answers)
        self.end.send((self.answers, self.small_s))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        if self.pipe.poll(120):
            self.answers, self.small_s = self.pipe.recv()
        self.join(10)


def show(name, attack, neighbours, most):
    counts = " ".join(str(len(n.answers)) for n in neighbours)
    small = sorted(s for n in neighbours for s in n.small_s)
    p50, p99 = (1e3 * small[len(small) * part // 100] for part in (50, 99))
    connections = f"{attack.connected} connections, {attack.opened} held, " if attack else ""
    print(
        f"{name}: {connections}neighbour {counts}, small p50 {p50:.0f} p99 {p99:.0f} ms, "
        f"heap {most / MIB:.0f} MiB"
    )


def assert_attacked(name, attack, killed):
    """All connections got in at least once; and each held what it could until the server, which
    says why, ended it."""
    assert attack.connected >= len(attack.threads)
    assert attack.opened + killed >= len(attack.threads) / 10, (name, killed)


def kills(door):
    """Connections that the server has ended for what they held or did."""
    with door.server.admin() as admin:
        lines = admin.get("/metrics").text.splitlines()
    return sum(
        float(line.split()[1])
        for line in lines
        if line.startswith("banyan_connections_killed_total{")
    )


def test_neighbour_alone(door):
    """What the attacks below are compared with."""
    with (
        Neighbour(door, "127.0.0.1", http2=False) as near,
        Neighbour(door, "127.0.2.1", http2=True) as far,
    ):
        end = time.monotonic() + ATTACK_S
        while time.monotonic() < end or min(near.count.value, far.count.value) < 4:
            time.sleep(0.02)
    show("alone", None, (near, far), door.heap())
    assert set(near.answers) == {200}, near.answers
    assert set(far.answers) == {200}, far.answers


@pytest.mark.parametrize("name", ATTACKS)
def test_neighbour_is_served(door, name):
    addresses = ["127.0.0.1", *[f"127.0.1.{i}" for i in range(2, ADDRESSES + 1)]]
    most = 0
    before = kills(door)
    with (
        Neighbour(door, "127.0.0.1", http2=False) as near,
        Neighbour(door, "127.0.2.1", http2=True) as far,
        Attack(door, ATTACKS[name], addresses) as attack,
    ):
        end = time.monotonic() + ATTACK_S
        while time.monotonic() < end or min(near.count.value, far.count.value) < 4:
            assert time.monotonic() < end + 120
            most = max(most, door.heap())
            time.sleep(0.02)
    show(name, attack, (near, far), most)
    assert_attacked(name, attack, kills(door) - before)
    assert set(near.answers) == {200}, near.answers
    assert set(far.answers) == {200}, far.answers
    assert most <= 1.2 * MEMORY_LIMIT


class AdminDoor(Door):
    """The listener of the operator."""

    def __init__(self, server):
        super().__init__(server, server.admin_key)
        host, port = server.admin_url.removeprefix("https://").split(":")
        self.address = (host, int(port))


def test_operator_is_served(server):
    """The same on the listener of the config API, from another address."""
    answers = []
    body = b" " * 200000
    with Attack(AdminDoor(server), idle_and_uploads, ["127.0.1.2"]) as attack:
        end = time.monotonic() + ATTACK_S
        while time.monotonic() < end or attack.connected < CONNECTIONS:
            assert time.monotonic() < end + 120
            with server.admin() as admin:
                name = json.dumps({"name": f"tenant-{len(answers)}"}).encode()
                answers.append(admin.post("/admin/v1/tenants", content=name + body).status_code)
                answers.append(admin.get("/metrics").status_code)
            time.sleep(0.05)
    print(f"{attack.connected} connections, {attack.opened} held, operator {len(answers)}")
    assert set(answers) == {200, 201}, answers
    assert attack.opened > 0
