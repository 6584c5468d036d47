"""Clients that take their time: heads and bodies in drips, handshakes that stop, readers that stop."""

import re
import socket
import ssl
import subprocess
import threading
import time

import pytest

from wire_kit import CONTINUATION, DATA, END_STREAM, HEADERS, PREFACE, Closed, Wire, frame

ARRIVAL_S = 30  # for a request to arrive whole
HANDSHAKE_S = 10
MARGIN_S = 30


class Slow(threading.Thread):
    """One attacker: `drip` is called once a second until the server ends the connection."""

    def __init__(self, name, most_s, begin):
        super().__init__(daemon=True)
        self.name, self.most_s, self.begin = name, most_s, begin
        self.lasted_s = None

    def run(self):
        wire, drip = self.begin()
        started = time.monotonic()
        sock = getattr(wire, "tls", wire)
        sock.settimeout(0.2)
        while time.monotonic() < started + self.most_s + 3 * MARGIN_S:
            try:
                if drip is not None:
                    drip()
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    try:
                        if sock.recv(65536) == b"":
                            raise Closed()
                    except TimeoutError:
                        pass
            except (Closed, ConnectionError, ssl.SSLError, OSError):
                self.lasted_s = time.monotonic() - started
                break
        sock.close()


def slow_head(door):
    wire = door.h1()
    wire.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
    return wire, lambda: wire.send(b"X-A: b\r\n")


def slow_body(door):
    wire = door.h1()
    wire.send(wire.head("POST", "/v1/chat/completions", ["Content-Length: 100000"]))
    return wire, lambda: wire.send(b" " * 10)


def slow_chunks(door):
    wire = door.h1()
    wire.send(wire.head("POST", "/v1/chat/completions", ["Transfer-Encoding: chunked"]))
    return wire, lambda: wire.send(b"1\r\n \r\n")


def slow_trailers(door):
    wire = door.h1()
    wire.send(wire.head("POST", "/v1/chat/completions", ["Transfer-Encoding: chunked"]))
    wire.send(b"2\r\n{}\r\n0\r\n")
    return wire, lambda: wire.send(b"X-A: b\r\n")


def slow_second_request(door):
    wire = door.h1()
    assert wire.ask(wire.head()).code == 200
    return wire, lambda: wire.send(b"\r\n")


def slow_h2_body(door):
    wire = door.h2()
    wire.send(wire.headers(1, wire.fields("POST", "/v1/chat/completions"), False))
    return wire, lambda: wire.send(frame(DATA, 0, 1, b" "))


def slow_h2_headers(door):
    wire = door.h2()
    block = wire.block(wire.fields())
    wire.send(frame(HEADERS, END_STREAM, 1, block[:5]))
    return wire, lambda: wire.send(frame(CONTINUATION, 0, 1, b""))


def slow_h2_preface(door):
    wire = Wire(door, "h2")
    rest = list(PREFACE)
    return wire, lambda: wire.send(bytes([rest.pop(0)])) if rest else None


def idle_h1(door):
    return door.h1(), None


def idle_h2(door):
    return door.h2(), None


def half_handshake(door):
    sock = socket.create_connection(door.address)
    sock.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    return sock, None


def no_handshake(door):
    return socket.create_connection(door.address), None


def dripped_handshake(door):
    sock = socket.create_connection(door.address)
    sock.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    return sock, lambda: sock.send(b"\x00")


ATTACKS = {
    slow_head: ARRIVAL_S, slow_body: ARRIVAL_S, slow_chunks: ARRIVAL_S, slow_trailers: ARRIVAL_S,
    slow_second_request: ARRIVAL_S, slow_h2_body: ARRIVAL_S, slow_h2_headers: ARRIVAL_S,
    slow_h2_preface: ARRIVAL_S, idle_h1: ARRIVAL_S, idle_h2: ARRIVAL_S,
    half_handshake: HANDSHAKE_S, no_handshake: HANDSHAKE_S, dripped_handshake: HANDSHAKE_S,
}  # fmt: skip


@pytest.mark.slow
def test_each_has_its_deadline(door):
    """All at once, so that the test lasts as long as one; others are served meanwhile."""
    attackers = [
        Slow(begin.__name__, most_s, lambda begin=begin: begin(door))
        for begin, most_s in ATTACKS.items()
    ]
    for attacker in attackers:
        attacker.start()
    while any(attacker.is_alive() for attacker in attackers):
        door.assert_serves()
        time.sleep(1)
    late = {
        attacker.name: attacker.lasted_s for attacker in attackers
        if attacker.lasted_s is None or attacker.lasted_s > attacker.most_s + MARGIN_S
    }  # fmt: skip
    assert not late, f"not ended in time (None = never): {late}"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [["-H"], ["-B"], ["-X"]], ids=["heads", "bodies", "reads"])
def test_slowhttptest(door, mode, tmp_path):
    """The tool's own verdict: the service was available to its probe throughout."""
    host, port = door.address
    run = subprocess.run(
        ["slowhttptest", *mode, "-c", "300", "-r", "100", "-i", "2", "-l", "8", "-p", "30",
         "-u", f"https://{host}:{port}/v1/models", "-o", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", run.stdout)
    available = re.findall(r"service available: *(\w+)", said)
    assert available and set(available) == {"YES"}, said[-1500:]
    door.assert_serves()
