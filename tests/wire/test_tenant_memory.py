"""A tenant fills what it can of the edge's memory: answers that it does not read, bodies padded to
the limit, streams that it lets stand. It is refused in words of its own; a neighbour is refused
nothing, small or large, and the heap stays within --memory-limit times 1.2.

A few seconds each. BANYAN_TEST_ATTACK_S makes them longer (60 is what the house asks of a release).
"""

import json
import os
import socket
import struct
import threading
import time

import pytest

from conftest import OPEN, Server
from wire_kit import DATA, END_STREAM, HEADERS, MODEL_NAME, SETTINGS, Closed, Door, frame

MIB = 1024 * 1024
BODY_LIMIT = 4 * MIB
MEMORY_LIMIT = 256 * MIB
ATTACK_S = float(os.environ.get("BANYAN_TEST_ATTACK_S", "4"))
CHAT, TOKENIZE = "/v1/chat/completions", "/v1/tokenize"
SHARE_CODE = "memory_share_used"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("shares") / "data", *OPEN)
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


@pytest.fixture(scope="module")
def neighbour(own):
    return own.tenant("neighbour")[1]


@pytest.fixture(scope="module")
def attackers(own):
    """Three keys of one tenant, and one each of three more."""
    tenant, first, _ = own.tenant("attacker")
    keys = [first]
    with own.admin() as admin:
        for name in ("second", "third"):
            answer = admin.post(f"/admin/v1/tenants/{tenant}/keys", json={"name": name})
            keys.append(answer.json()["key"])
    return {"one": keys, "several": [own.tenant(f"attacker-{i}")[1] for i in range(8)]}


def chat(**fields):
    return json.dumps(
        {
            "model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 1, "temperature": 0, **fields,
        }
    ).encode()  # fmt: skip


def padded(size=BODY_LIMIT - 64, **fields):
    """A chat of a few words with blanks up to a size."""
    body = chat(**fields)
    return body[:-1] + b" " * (size - len(body)) + b"}"


def text(size):
    return json.dumps({"model": MODEL_NAME, "prompt": "1 " * (size // 2)}).encode()


# --- attacks: each has one connection; they return it, to be held open, when it was not refused ---


def is_refused(answer):
    if answer.code == 429 and answer.error()["code"] == SHARE_CODE:
        assert int(answer.headers["retry-after"]) >= 1
        return True
    assert answer.code == 200, answer.body[:300]
    return False


def h1(door, path, body, behind=b"", window=None):
    wire = door.h1(timeout=20)
    if window is not None:
        wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    wire.send(wire.head("POST", path, [f"Content-Length: {len(body)}"]) + body + behind)
    return wire


def h2(door, path, bodies):
    """Requests on one connection whose windows for answers are shut."""
    wire = door.h2(settings=struct.pack(">HI", 4, 0), timeout=20)
    sent = 0
    for body in bodies:
        stream = wire.stream()
        wire.send(wire.headers(stream, wire.fields("POST", path), False))
        for at in range(0, len(body), 16384):
            piece = body[at : at + 16384]
            last = END_STREAM if at + 16384 >= len(body) else 0
            wire.send(frame(DATA, last, stream, piece))
            sent += len(piece)
    return wire


def tokenize_unread(door):
    return h1(door, TOKENIZE, text(MIB), window=4096)


def tokenize_unread_h2(door):
    return h2(door, TOKENIZE, [text(MIB // 4)] * 4)


def tokenize_read_slowly(door):
    wire = tokenize_unread(door)
    for _ in range(20):
        wire.take(256)
        time.sleep(0.1)
    return wire


def tokenize_read(door):
    with h1(door, TOKENIZE, text(MIB)) as wire:
        is_refused(wire.answer())


def chats_unread(door):
    return h1(door, CHAT, padded())


def chats_unread_h2(door):
    return h2(door, CHAT, [padded(MIB)] * 8)


def chats_read(door):
    with h1(door, CHAT, padded()) as wire:
        is_refused(wire.answer())


def chats_streamed(door):
    """The stream goes on for long after the engine has the body."""
    return h1(door, CHAT, padded(stream=True, max_tokens=400, ignore_eos=True))


def chats_with_a_byte_behind(door):
    return h1(door, CHAT, padded(max_tokens=200, ignore_eos=True), behind=b"G")


def chats_refused(door):
    """Not JSON: refused behind the check, and the refusal is left unread."""
    return h2(door, CHAT, [b" " * (BODY_LIMIT - 64)] * 2)


def small_streams_unread(door):
    body = chat(stream=True, max_tokens=400, logprobs=True, top_logprobs=20, ignore_eos=True)
    return h1(door, CHAT, body, window=4096)


def answers_of_many_tokens(door):
    body = chat(max_tokens=300, logprobs=True, top_logprobs=20, ignore_eos=True, n=8)
    return h1(door, CHAT, body, window=4096)


def usage_unread(door):
    wire = door.h1(timeout=20)
    wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.send(wire.head("GET", "/v1/usage?start_time=0&bucket_width=1d&limit=31"))
    return wire


class Attack:
    """Threads that attack over and over until they are told to stop."""

    def __init__(self, server, keys, attack, threads):
        self.ends = threading.Event()
        self.done = 0
        self.held = []
        self.failures = []
        doors = [Door(server, key) for key in keys]
        self.threads = [
            threading.Thread(target=self.run, args=(attack, doors[i % len(doors)]))
            for i in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, attack, door):
        while not self.ends.is_set():
            try:
                wire = attack(door)
                if wire is not None:
                    self.held.append(wire)
                self.done += 1
            except (Closed, OSError):
                pass  # the door has its own bounds
            except AssertionError as error:
                self.failures.append(error)
                return
            self.ends.wait(0.2)

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        for wire in self.held:
            wire.close()
        assert not self.failures, self.failures[0]


def watch(server, key, seconds):
    """The neighbour's requests, small and large, one after the other: codes, and the largest heap."""
    codes = {"small": [], "large": []}
    heap = 0
    large = padded()
    limit = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < limit or turn < 6:
        kind = "large" if turn % 2 else "small"
        with server.http(key, http2=turn % 4 > 1) as http:
            answer = http.post(
                CHAT, content=large if kind == "large" else chat(),
                headers={"content-type": "application/json"},
            )  # fmt: skip
        codes[kind].append(answer.status_code)
        if answer.status_code != 200:
            print(kind, answer.status_code, answer.text[:300])
        heap = max(heap, server.metric("banyan_heap_bytes"))
        turn += 1
    return codes, heap


ATTACKS = [
    tokenize_unread, tokenize_unread_h2, tokenize_read_slowly, tokenize_read, chats_unread,
    chats_unread_h2, chats_read, chats_streamed, chats_with_a_byte_behind, chats_refused,
    small_streams_unread, answers_of_many_tokens, usage_unread,
]  # fmt: skip


def run_attack(own, neighbour, keys, attack, threads=18):
    attackers = Attack(own, keys, attack, threads)
    try:
        time.sleep(1)
        codes, heap = watch(own, neighbour, ATTACK_S)
    finally:
        attackers.stop()
    print(f"{attack.__name__}: {attackers.done} attacks, heap {heap / MIB:.0f} MiB, {codes}")
    assert attackers.done > 0
    assert set(codes["small"]) == {200}, codes
    assert set(codes["large"]) == {200}, codes
    assert heap < MEMORY_LIMIT * 1.2


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_one_tenant_fills_what_it_can(own, neighbour, attackers, attack):
    run_attack(own, neighbour, attackers["one"], attack)


@pytest.mark.parametrize(
    "attack", [tokenize_unread, chats_unread, chats_streamed], ids=lambda attack: attack.__name__
)
def test_several_tenants_together(own, neighbour, attackers, attack):
    keys = attackers["several"][:3] + attackers["one"]
    run_attack(own, neighbour, keys, attack, threads=18)


def upload_without_end(door):
    """Two announced bodies as large as the limit, of which a little comes now and then."""
    if time.monotonic() % 2 < 1:
        wire = door.h2(timeout=20)
        streams = [wire.stream() for _ in range(2)]
        fields = [*wire.fields("POST", CHAT), ("content-length", str(BODY_LIMIT))]
        for stream in streams:
            wire.send(wire.headers(stream, fields, end_stream=False))
        pieces = [frame(DATA, 0, stream, b" " * 16384) for stream in streams * 2]
    else:
        wire = door.h1(timeout=20)
        wire.send(wire.head("POST", CHAT, [f"Content-Length: {BODY_LIMIT}"]))
        pieces = [b" " * 65536] * 4
    for piece in pieces:
        wire.send(piece)
        time.sleep(0.05)
    return wire


def test_eight_tenants_upload_without_end(own, neighbour, attackers):
    """They hold all that they can get of the share of uploads: nobody could begin one more as large
    beside them. The neighbour's come in none the less, small and large."""
    most = []
    unfinished = 'banyan_unfinished_request_bytes{listener="public"}'
    door = Door(own, neighbour)
    attackers = Attack(own, attackers["several"], upload_without_end, 32)
    try:
        end = time.monotonic() + 10
        while own.metric(unfinished) < MEMORY_LIMIT / 4 - BODY_LIMIT and time.monotonic() < end:
            time.sleep(0.1)
        for turn in range(6):
            most.append(own.metric(unfinished))
            with h1(door, CHAT, padded() if turn % 2 else chat()) as wire:
                assert wire.answer().code == 200
        codes, heap = watch(own, neighbour, 0)
    finally:
        attackers.stop()
    print(f"{attackers.done} uploads, {max(most) / MIB:.0f} MiB unfinished, {codes}")
    assert max(most) > MEMORY_LIMIT / 4 - BODY_LIMIT, "the share was never full"
    assert set(codes["small"]) == set(codes["large"]) == {200}, codes
    assert heap < MEMORY_LIMIT * 1.2


def begin_upload(door, protocol):
    """(connection, its stream) when the body is waited for; else the refusal."""
    if protocol == "h2":
        wire = door.h2(timeout=20)
        stream = wire.stream()
        fields = [*wire.fields("POST", CHAT), ("content-length", str(BODY_LIMIT))]
        wire.send(wire.headers(stream, [*fields, ("expect", "100-continue")], end_stream=False))
        while True:
            kind, _, _, payload = wire.frame()
            if kind == HEADERS:
                break
        code = int(dict(wire.decoder.decode(payload))[":status"])
    else:
        wire, stream = door.h1(timeout=20), None
        length = f"Content-Length: {BODY_LIMIT}"
        wire.send(wire.head("POST", CHAT, [length, "Expect: 100-continue"]))
        code = int(wire.take_until(b"\r\n").split()[1])
        if code == 100:
            wire.take_until(b"\r\n")
    if code == 100:
        return wire, stream
    assert code == 503
    wire.close()
    return None


def test_one_upload_of_each_tenant(own, neighbour):
    """As many tenants as have room have one unfinished upload each. The next one that holds nothing
    is let in once the oldest has had the time that its length needs, and that one is told so."""
    held = []
    for number in range(64):
        door = Door(own, own.tenant(f"one-upload-{number}")[1])
        upload = begin_upload(door, "h1" if number % 2 else "h2")
        if upload is None:
            break
        held.append(upload)
    assert 8 < len(held) < 64, "the share of uploads is full"
    begin, newcomers = time.monotonic(), []
    for key in (neighbour, own.tenant("one-upload-more")[1]):
        while (upload := begin_upload(Door(own, key), "h1")) is None:
            assert time.monotonic() < begin + 20, "sooner than at the others' deadline"
            time.sleep(0.2)
        newcomers.append(upload[0])
    (over_h2, stream), (over_h1, _) = held[:2]  # the oldest
    for given_up in (over_h2.answer(stream), over_h1.answer()):
        assert (given_up.code, given_up.error()["code"]) == (408, "request_timeout")
    assert int(given_up.headers["retry-after"]) >= 1
    assert over_h1.is_closed(5)
    for wire in newcomers:
        wire.send(padded(BODY_LIMIT))
        assert wire.answer().code == 200
    for wire, _ in held:
        wire.close()


def test_it_is_refused_in_words_of_its_own(own, attackers):
    """Answers left unread until the share is used up; then a 429, until they are given up."""
    door = Door(own, attackers["one"][0])
    before = own.metric("banyan_memory_share_refused_total")
    everybody = own.metric("banyan_memory_refused_total")
    held = []
    refused = None
    while refused is None and len(held) < 60:
        wire = tokenize_unread(door)
        held.append(wire)
        time.sleep(0.05)
        if own.metric("banyan_memory_share_refused_total") > before:
            with h1(door, TOKENIZE, text(MIB)) as other:
                answer = other.answer()
            if answer.code == 429:
                refused = answer
    assert refused is not None
    assert refused.error()["code"] == SHARE_CODE
    assert refused.error()["type"] == "rate_limit_error"
    assert int(refused.headers["retry-after"]) >= 1
    assert own.metric("banyan_memory_refused_total") == everybody
    assert own.metric('banyan_memory_held_bytes{owner="tenants"}') > MEMORY_LIMIT / 16
    for wire in held:
        wire.close()
    limit = time.monotonic() + 60
    while own.metric('banyan_memory_held_bytes{owner="tenants"}') > 0:
        assert time.monotonic() < limit, "what was held is given back when its clients leave"
        time.sleep(0.1)
    with h1(door, TOKENIZE, text(MIB)) as wire:
        assert wire.answer().code == 200
