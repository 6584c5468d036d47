"""Everybody leaves in the same instant: every request is counted once, everything comes back."""

import json
import socket
import struct
import time

from wire_kit import DATA, END_STREAM, Door, frame

# All of one tenant's, of which the engine takes LIMIT_TENANT_REQUESTS_IN_ENGINE (256).
H1, H2, STREAMS = 100, 3, 50


def test_all_leave_at_once(door):
    server = door.server
    heap = door.heap()
    before = server.ledger("select coalesce(max(id), 0) from requests")[0][0]
    body = json.dumps(door.chat(stream=True, max_tokens=4000, ignore_eos=True)).encode()
    wires = []
    for _ in range(H1):
        wire = door.h1(timeout=300)
        wires.append(wire)
        head = wire.head("POST", "/v1/chat/completions", [f"Content-Length: {len(body)}"])
        wire.send(head + body)
    other = Door(server, server.tenant("leavers")[1])  # one tenant alone has not so many places
    for _ in range(H2):
        wire = other.h2(timeout=300)
        wires.append(wire)
        for _ in range(STREAMS):
            stream = wire.stream()
            wire.send(
                wire.headers(stream, wire.fields("POST", "/v1/chat/completions"), False)
                + frame(DATA, END_STREAM, stream, body)
            )
    limit = time.monotonic() + 300
    while server.engine_stats()["requests"] < H1 + H2 * STREAMS and time.monotonic() < limit:
        time.sleep(0.05)
    accepted = server.engine_stats()["requests"]
    assert accepted == H1 + H2 * STREAMS
    for wire in wires:  # RST instead of a polite end
        wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for wire in wires:
        wire.tls.close()
    limit = time.monotonic() + 300
    while server.engine_stats()["requests"] and time.monotonic() < limit:
        time.sleep(0.05)
    stats = server.engine_stats()
    assert stats["requests"] == 0
    # What no sequence holds: free, or the cache's alone.
    at_hand = stats["pages_free"] + stats["pages_cached"] + stats["pages_pinned"]
    assert at_hand == stats["pages_total"]
    limit = time.monotonic() + 300
    rows = []
    while time.monotonic() < limit:
        rows = server.ledger(
            "select request_id, finish, is_estimated from requests where id > ?", before
        )
        if len(rows) >= accepted:
            break
        time.sleep(0.1)
    assert len(rows) == accepted and len({row[0] for row in rows}) == accepted
    assert {row[1] for row in rows} <= {"cancelled", "length", "stop"}
    assert all(row[2] == 0 for row in rows), "the engine's word was waited for"
    limit = time.monotonic() + 120
    while door.heap() > heap + 1024 * 1024 and time.monotonic() < limit:
        time.sleep(0.1)
    assert door.heap() < heap + 1024 * 1024


def test_leaving_while_refused(door):
    """Without a key, with a body that never comes, gone by RST while the 401 is written: the edge lives on."""
    pid = door.server.child("edge")
    linger = struct.pack("ii", 1, 0)
    for turn in range(600):
        wire = door.h2(timeout=60)
        heads = b"".join(
            wire.headers(wire.stream(), wire.fields("POST", "/v1/chat/completions", key=False), False)
            for _ in range(8)
        )
        wire.send(heads + frame(DATA, 0, 1, b"{"))
        time.sleep(turn % 40 * 0.00002)
        wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        wire.tls.close()
    door.assert_serves()
    assert door.server.child("edge") == pid
