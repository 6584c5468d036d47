"""Limits for each address: connections at once and new ones a second; a stranger's do not count.

Loopback has sixteen million addresses, so one machine is enough to be several.
"""

import socket
import ssl
import time

import pytest

from conftest import Server
from wire_kit import Door


RATE = 5


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    server = Server(
        tmp_path_factory.mktemp("strict") / "data",
        "--connections-per-address", "64", "--connects-per-address-s", "0",
    )  # fmt: skip
    yield Door(server, server.tenant("strict")[1])
    assert server.stop() == 0


@pytest.fixture(scope="module")
def brisk(tmp_path_factory):
    server = Server(
        tmp_path_factory.mktemp("brisk") / "data",
        "--connections-per-address", "0", "--connects-per-address-s", str(RATE),
    )  # fmt: skip
    yield Door(server, server.tenant("brisk")[1])
    assert server.stop() == 0


def connect(door, source):
    """A TLS connection from that address, or None when it was refused."""
    plain = socket.create_connection(door.address, timeout=120, source_address=(source, 0))
    context = ssl.create_default_context(cafile=door.ca)
    context.set_alpn_protocols(["http/1.1"])
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except (ConnectionError, ssl.SSLError, OSError):
        plain.close()
        return None


def is_served(door, tls):
    tls.sendall(
        f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {door.key}\r\n\r\n".encode()
    )
    data = tls.recv(65536)
    while data and not data.endswith(b"]}"):  # the list's end
        more = tls.recv(65536)
        data = data + more if more else b""
    return data.startswith(b"HTTP/1.1 200")


def test_connections_at_once(strict):
    open_ones = [connect(strict, "127.0.0.2") for _ in range(64)]
    assert all(open_ones), "the limit itself is allowed"
    assert all(is_served(strict, tls) for tls in open_ones)
    assert connect(strict, "127.0.0.2") is None, "one more is refused"
    other = connect(strict, "127.0.0.3")
    assert other is not None and is_served(strict, other), "another address is not concerned"
    assert is_served(strict, open_ones[0]), "those that are open go on"
    open_ones.pop().close()
    limit = time.monotonic() + 120
    again = None
    while again is None and time.monotonic() < limit:
        again = connect(strict, "127.0.0.2")
    assert again is not None and is_served(strict, again), "a place that was left is free again"
    for tls in [*open_ones, again, other]:
        tls.close()


def test_strangers_give_way(strict):
    """Somebody authenticated gets in although strangers behind the same address hold all its places,
    however many of them come after."""
    strangers = [connect(strict, "127.0.0.7") for _ in range(64)]
    first = connect(strict, "127.0.0.7")
    assert first is not None and is_served(strict, first)
    for _ in range(2):
        strangers += [connect(strict, "127.0.0.7") for _ in range(70)]
        assert all(strangers) and is_served(strict, first), "whoever is known keeps its place"
    second = connect(strict, "127.0.0.7")
    assert second is not None and is_served(strict, second)
    killed = 'banyan_connections_killed_total{listener="public",why="stranger"}'
    assert strict.server.metric(killed) == len(strangers) + 2 - 64
    for tls in [*strangers, first, second]:
        tls.close()


def test_places_come_back(strict):
    """Ten times the limit one after another: none is forgotten in the count."""
    for _ in range(640):
        tls = None
        limit = time.monotonic() + 120
        while tls is None and time.monotonic() < limit:
            tls = connect(strict, "127.0.0.4")
        assert tls is not None
        tls.close()


def test_new_ones_a_second(brisk):
    """A burst is cut at the bucket's depth; a second later there is room again."""
    begun = time.monotonic()
    taken = [connect(brisk, "127.0.0.5") for _ in range(100)]
    took = time.monotonic() - begun
    got = sum(tls is not None for tls in taken)
    assert RATE <= got <= RATE * (took + 2), f"{got} of 100 within {took:.1f} s"
    other = connect(brisk, "127.0.0.6")
    assert other is not None and is_served(brisk, other)
    time.sleep(1.2)
    again = connect(brisk, "127.0.0.5")
    assert again is not None and is_served(brisk, again)
    for tls in [*taken, again, other]:
        if tls is not None:
            tls.close()


def test_many_addresses(brisk):
    """A stranger with many addresses does not push others out of the table."""
    first = connect(brisk, "127.1.0.1")
    for i in range(2000):
        plain = socket.create_connection(
            brisk.address, timeout=120, source_address=(f"127.2.{i // 250}.{i % 250 + 1}", 0)
        )
        plain.close()
    assert is_served(brisk, first)
    last = connect(brisk, "127.1.0.2")
    assert last is not None and is_served(brisk, last)
    first.close()
    last.close()
