"""Streams that are cut at random tokens, by whoever reads them, by the death of the edge or of the
engine: the ledger has what the engine counted, to the token, and every lease, page and row is free.

BANYAN_TEST_CUTS=10000 python -m pytest -s tests/e2e/test_cuts.py says how long that takes.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import time

import h2.config
import h2.connection
import h2.events
import pytest

from conftest import BINARY, IS_SANITIZED, Server, pages_at_hand, wait_until

pytestmark = pytest.mark.usefixtures("one_day")

CUTS = int(os.environ.get("BANYAN_TEST_CUTS", "300"))
LANES = 12  # of each protocol, one stream at a time
LONG, SHORT = 1500, 12  # tokens of streams that are cut, and of those that are read to their end
CUT_MOST = 60
RESETS = 20  # of one connection: with many more it is taken for a flood
CONCURRENT, KV_TOKENS, BUDGET = 64, 10**6, 10**9
FRAME = b'"finish_reason":null'


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Some ten thousand tokens a second: what is shown does not depend on what is computed."""
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    subprocess.run([BINARY.parent / "make_llama", path], check=True)
    return path


@pytest.fixture
def limited(tmp_path, model):
    """A server and a tenant with limits of which a lease is taken by each request."""
    server = Server(tmp_path / "data", "--kv-memory", "64M", model=model)
    server.tenant_id, server.key, _ = server.tenant("cut")
    limits = {
        "concurrent_requests": CONCURRENT, "kv_tokens": KV_TOKENS, "tokens_per_day": BUDGET,
        "cached_input_percent": 100,
    }  # fmt: skip
    with server.admin() as admin:
        answer = admin.put(f"/admin/v1/tenants/{server.tenant_id}/limits", json=limits)
        assert answer.status_code == 200, answer.text
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


@dataclasses.dataclass
class Seen:
    """What a client has of its answer."""

    is_cut: bool
    data: bytes = b""
    request_id: str | None = None

    def take(self, data):
        self.data += data
        found = re.search(rb"\r\nx-request-id: (\S+)\r\n", self.data) if not self.request_id else None
        self.request_id = found[1].decode() if found else self.request_id

    @property
    def tokens(self):
        return self.data.count(FRAME)  # at least: a frame may have more than one

    @property
    def is_whole(self):
        return b"data: [DONE]" in self.data

    @property
    def completion(self):
        return int(re.findall(rb'"completion_tokens":(\d+)', self.data)[-1])


def request_body(tokens):
    return json.dumps(
        {
            "model": "random", "prompt": [300, 301, 302], "max_tokens": tokens, "stream": True,
            "ignore_eos": True, "temperature": 1, "stream_options": {"include_usage": True},
        }  # fmt: skip
    ).encode()


def address(server):
    host, port = server.url.removeprefix("https://").split(":")
    return host, int(port)


def context(server, protocol):
    made = ssl.create_default_context(cafile=server.ca)
    made.set_alpn_protocols([protocol])
    return made


async def read_h1(server, tls, cut, is_abrupt):
    """A connection of its own, which is left behind `cut` frames; None: read to the end."""
    reader, writer = await asyncio.open_connection(
        *address(server), ssl=tls, server_hostname="localhost"
    )
    seen = Seen(cut is not None)
    body = request_body(SHORT if cut is None else LONG)
    writer.write(
        f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
    await writer.drain()
    try:
        while not seen.is_whole and (cut is None or seen.tokens < cut):
            data = await reader.read(65536)
            if not data:
                break
            seen.take(data)
    except (ConnectionError, ssl.SSLError):
        pass  # the edge has gone
    if is_abrupt:
        own = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return seen


class H2:
    """One connection, whose streams are reset one after the other."""

    def __init__(self, server):
        self.server = server
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))

    async def open(self, tls):
        self.reader, self.writer = await asyncio.open_connection(
            *address(self.server), ssl=tls, server_hostname="localhost"
        )
        self.h2.initiate_connection()
        return self

    async def send(self):
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def read(self, cut):
        seen = Seen(cut is not None)
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(
            stream,
            [
                (":method", "POST"), (":path", "/v1/completions"), (":scheme", "https"),
                (":authority", "localhost"), ("authorization", f"Bearer {self.server.key}"),
                ("content-type", "application/json"),
            ],
        )  # fmt: skip
        self.h2.send_data(stream, request_body(SHORT if cut is None else LONG), end_stream=True)
        await self.send()
        is_over = False
        while not is_over and (cut is None or seen.tokens < cut):
            data = await self.reader.read(65536)
            assert data, "the connection was closed"
            for event in self.h2.receive_data(data):
                is_over = self.take(event, stream, seen) or is_over
            await self.send()
        if not is_over:
            self.h2.reset_stream(stream)
            await self.send()
        return seen

    def take(self, event, stream, seen):
        """True at the end of the stream."""
        if isinstance(event, h2.events.DataReceived):  # an older stream's counts for the window
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if getattr(event, "stream_id", None) != stream:
            return False
        if isinstance(event, h2.events.ResponseReceived):
            headers = dict(event.headers)
            assert headers[":status"] == "200", headers
            seen.request_id = headers["x-request-id"]
        elif isinstance(event, h2.events.DataReceived):
            seen.take(event.data)
        return isinstance(event, h2.events.StreamEnded)


async def cut_many(server, count):
    """What each of so many clients has seen."""
    seen = []
    left = [count]

    def draw(dice):
        left[0] -= 1
        return None if dice.random() < 0.1 else dice.randrange(CUT_MOST)

    async def lane_h1(dice, tls):
        while left[0] > 0:
            seen.append(await read_h1(server, tls, draw(dice), dice.random() < 0.5))

    async def lane_h2(dice, tls):
        while left[0] > 0:
            connection = await H2(server).open(tls)
            for _ in range(RESETS):
                if left[0] > 0:
                    seen.append(await connection.read(draw(dice)))
            connection.writer.transport.abort()

    await asyncio.gather(
        *(lane_h1(random.Random(i), context(server, "http/1.1")) for i in range(LANES)),
        *(lane_h2(random.Random(-1 - i), context(server, "h2")) for i in range(LANES)),
    )
    return seen


def rows(server):
    return {
        row[0]: row[1:]
        for row in server.ledger(
            "select request_id, prompt_tokens, completion_tokens, finish, is_estimated from requests"
        )
    }


def standing(server):
    """What is left of concurrent requests, of KV tokens and of the day's budget."""
    with server.http(server.key) as http:
        limits = http.get("/v1/me").json()["limits"]
    return [limits[n]["remaining"] for n in ("concurrent_requests", "kv_tokens", "tokens_per_day")]


def is_given_back(server):
    """No request, page, record or lease is held by anybody."""
    stats = server.engine_stats()
    return (
        stats["requests"] == 0 and stats["finals_live"] == 0 and stats["finals_waiting"] == 0
        and pages_at_hand(stats) == stats["pages_total"]
        and server.metric("banyan_requests_running") == 0
        and standing(server)[:2] == [CONCURRENT, KV_TOKENS]
    )  # fmt: skip


def accounts(server, before):
    """What was made, as it stands in five places, which are to be the same."""
    made, after = rows(server), server.engine_stats()
    sums = "select sum(requests), sum(prompt_tokens), sum(completion_tokens) from usage_minutes"
    prompt, completion = (sum(row[i] for row in made.values()) for i in (0, 1))
    return {
        "rows": (prompt, completion),
        "engine": tuple(after[n] - before[n] for n in ("tokens_prompt", "tokens_generated")),
        "roll-ups": server.ledger(sums)[0],
        "of rows": (len(made), prompt, completion),
        "budget": standing(server)[2],
        "of budget": BUDGET - prompt - completion,
    }


def is_exact(told):
    return (told["rows"], told["roll-ups"], told["budget"]) == (
        told["engine"], told["of rows"], told["of budget"]
    )  # fmt: skip


def assert_rows(made, seen):
    for one in seen:
        if one.request_id is None:
            assert one.is_cut and one.tokens == 0
            continue
        prompt, completion, finish, _ = made[one.request_id]
        assert prompt in (0, 3) and one.tokens <= completion, (one, made[one.request_id])
        if one.is_whole:
            assert (one.completion, finish) == (completion, "length")
        else:  # all of it may have been on its way when its client left
            assert one.is_cut and (finish == "cancelled" or completion == LONG), made[one.request_id]


def test_cut_at_random_tokens(limited):
    before = limited.engine_stats()
    began = time.monotonic()
    seen = asyncio.run(cut_many(limited, CUTS))
    ended = time.monotonic()
    known = {one.request_id for one in seen} - {None}
    wait_until(lambda: is_given_back(limited), what="everything given back")
    took = time.monotonic() - ended
    wait_until(lambda: known <= rows(limited).keys(), what="a row for each request")
    # Whoever left before its answer began may be heard of only now.
    with contextlib.suppress(AssertionError):
        wait_until(lambda: is_given_back(limited) and is_exact(accounts(limited, before)), 30)
    made, told = rows(limited), accounts(limited, before)
    assert is_exact(told), told
    assert len(known) <= len(made) <= len(seen), "a row each, once, but for who left unheard"
    assert [row for row in made.values() if row[3]] == [], "an estimated row"
    assert_rows(made, seen)
    whole = sum(one.is_whole for one in seen)
    tokens = sum(row[1] for row in made.values())
    assert whole > 0 and len(made) > whole
    print(
        f"\n{len(seen)} streams in {ended - began:.1f} s, {whole} of them whole, {len(made)} rows, "
        f"{tokens} tokens, drift 0; all given back after {took:.2f} s"
    )


async def cut_by_death(server, name, count):
    """`count` streams, each of which has begun when a half dies; what they saw."""

    async def one(tls, begun, dead):
        plain = socket.socket()  # what is not read must not be over before the death
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, address(server))
        reader, writer = await asyncio.open_connection(
            sock=plain, ssl=tls, server_hostname="localhost", limit=4096
        )
        seen = Seen(True)
        body = request_body(LONG)
        writer.write(
            f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.key}"
            f"\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        try:
            while data := await reader.read(4096):
                seen.take(data)
                if seen.tokens >= 2 and not begun.done():
                    begun.set_result(True)
                    await dead.wait()
                if b'"error"' in seen.data or seen.is_whole:
                    break
        except (ConnectionError, ssl.SSLError):
            pass
        writer.transport.abort()
        return seen

    dead = asyncio.Event()
    begun = [asyncio.get_running_loop().create_future() for _ in range(count)]
    tls = context(server, "http/1.1")
    tasks = [asyncio.create_task(one(tls, b, dead)) for b in begun]
    await asyncio.gather(*begun)
    old = server.child(name)
    os.kill(old, signal.SIGKILL)
    dead.set()
    seen = await asyncio.gather(*tasks)
    return old, seen


def is_ready(server):
    try:
        with server.http() as http:
            return http.get("/ready").status_code == 200
    except Exception:
        return False


@pytest.mark.parametrize("name", ["edge", "engine"])
def test_killed_with_leases_held(limited, name):
    """Between reserve and settle, or in the middle of streams: budgets are charged what was made,
    what was held is free again, and the next request is let in."""
    count = 8
    before = limited.engine_stats()
    old, seen = asyncio.run(cut_by_death(limited, name, count))
    wait_until(lambda: limited.child(name) not in (None, old), what=f"another {name}")
    wait_until(lambda: is_ready(limited), what="ready again")
    assert not any(one.is_whole for one in seen), "what was cut looks whole"
    if name == "engine":
        assert all(b'"error"' in one.data for one in seen)
    ids = {one.request_id for one in seen}
    assert len(ids) == count
    wait_until(lambda: rows(limited).keys() >= ids, what="a row for each")
    made = rows(limited)
    assert made.keys() == ids and [row for row in made.values() if row[3]] == []
    for one in seen:
        assert one.tokens <= made[one.request_id][1] < LONG
    wait_until(lambda: is_given_back(limited), what="everything given back")
    if name == "edge":  # the engine has lived through it, and says what it made
        assert sum(row[1] for row in made.values()) == (
            limited.engine_stats()["tokens_generated"] - before["tokens_generated"]
        )
    with limited.http(limited.key) as http:
        answer = http.post("/v1/completions", content=request_body(4)).text
    assert answer.endswith("data: [DONE]\n\n")
    wait_until(lambda: len(rows(limited)) == count + 1, what="its row")
    charged = sum(row[0] + row[1] for row in rows(limited).values())
    wait_until(
        lambda: standing(limited) == [CONCURRENT, KV_TOKENS, BUDGET - charged], what="exact limits"
    )
