"""Many at once, some cut; the same bits in company as alone; the ledger counts what left."""

import concurrent.futures
import json
import random
import socket
import threading

import httpx
import pytest

from conftest import IS_SANITIZED, MODEL_NAME, pages_at_hand, wait_until

STREAMS, CUT = (24, 6) if IS_SANITIZED else (100, 20)


def body(index, tokens, **more):
    return {
        "model": MODEL_NAME, "prompt": f"Story number {index}: Once upon a time", "seed": index,
        "max_tokens": tokens, "temperature": 0.9, "stream": True, "return_token_ids": True,
        "ignore_eos": True, "stream_options": {"include_usage": True}, **more,
    }  # fmt: skip


def read_stream(http, request, stop_after=None):
    """(request id, token ids seen, usage or None, complete?)"""
    tokens, usage, complete = [], None, False
    with http.stream("POST", "/v1/completions", json=request) as response:
        assert response.status_code == 200, response.read()
        request_id = response.headers["x-request-id"]
        for line in response.iter_lines():
            if line == "data: [DONE]":
                complete = True
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                assert "error" not in event, event
                for choice in event["choices"]:
                    tokens += choice.get("token_ids") or []
                usage = event.get("usage") or usage
            if stop_after is not None and len(tokens) >= stop_after:
                break
    return request_id, tokens, usage, complete


def quiet(server):
    stats = server.engine_stats()
    return stats["requests"] == 0 and pages_at_hand(stats) == stats["pages_total"]


def wave(server, key, tokens, cut):
    """STREAMS at once, those in `cut` left in the middle: what each saw."""
    gate = threading.Barrier(STREAMS)

    def one(index):
        # Where a machine is too slow for so many handshakes in their 10 s, some come again.
        transport = httpx.HTTPTransport(verify=server.context, trust_env=False, retries=5)
        with server.http(key, transport=transport) as http:
            gate.wait()
            return read_stream(http, body(index, tokens), 3 if index in cut else None)

    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        results = list(pool.map(one, range(STREAMS)))
    wait_until(lambda: quiet(server), what="every page free")
    return results


def held(server):
    """What a leak would make grow: descriptors of both halves, live heap of both."""
    return {
        "edge descriptors": server.descriptors("edge"),
        "engine descriptors": server.descriptors("engine"),
        "edge heap": server.metric("banyan_heap_bytes"),
        "engine heap": server.engine_stats()["heap_bytes"],
    }


def rows_of(server):
    return {
        row[0]: row[1:]
        for row in server.ledger(
            "select request_id, completion_tokens, finish, is_estimated from requests"
        )
    }


@pytest.mark.long
def test_many_streams_some_cut(server, key):
    """All others complete; the ledger equals what left the sockets; nothing is leaked."""
    tokens = 12 if IS_SANITIZED else 48
    cut = set(random.Random(1).sample(range(STREAMS), CUT))
    wave(server, key, tokens, cut)  # fills pools and caches, which stay
    wait_until(lambda: len(server.sockets("edge")) <= STREAMS + 16, what="connections closed")
    before = held(server)
    results = wave(server, key, tokens, cut)
    wait_until(
        lambda: set(r[0] for r in results) <= set(rows_of(server)), what="a row for each request"
    )
    rows = rows_of(server)
    for index, (request_id, seen, usage, complete) in enumerate(results):
        counted, finish, is_estimated = rows[request_id]
        assert not is_estimated
        if index in cut:
            assert not complete and finish == "cancelled"
            assert len(seen) <= counted < tokens, "no more is charged than was made"
        else:
            assert complete and finish == "length"
            assert len(seen) == counted == tokens == usage["completion_tokens"]

    def nothing_grew():
        after = held(server)
        return (
            all(after[n] <= before[n] + 4 for n in before if "descriptors" in n)
            and all(after[n] <= before[n] + 64 * 1024 for n in before if "heap" in n)
        )  # fmt: skip

    wait_until(nothing_grew, what=f"everything given back ({before}, {held(server)})")


def test_same_bits_alone_and_in_company(server, key):
    """Tokens and log-probabilities of a request do not depend on who else is served."""
    count = 4 if IS_SANITIZED else 12

    def ask(index):
        with server.http(key) as http:
            answer = http.post(
                "/v1/completions",
                json=body(
                    index, 6 + index, stream=False, stream_options=None, logprobs=3,
                    prompt="word " * (1 + 37 * index) + "and then",
                ),
            ).json()  # fmt: skip
        choice = answer["choices"][0]
        return choice["token_ids"], json.dumps(choice["logprobs"])

    alone = [ask(i) for i in range(count)]
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        together = list(pool.map(ask, range(count)))
    assert alone == together, f"{count} requests"


def test_client_that_leaves_frees_the_engine(server, key):
    with server.http(key) as http:
        read_stream(http, body(1, 2000), stop_after=2)
    wait_until(lambda: quiet(server), what="the sequence's end")


def test_client_that_leaves_while_waiting(server, key):
    """Gone before the first token: a long prompt, and the connection closed at once."""
    host, port = server.url.removeprefix("https://").split(":")
    data = json.dumps(body(1, 500, prompt="word " * 4000, stream=False, stream_options=None))
    with socket.create_connection((host, int(port))) as plain:
        tls = server.context.wrap_socket(plain, server_hostname="localhost")
        tls.sendall(
            f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n{data}".encode()
        )
        wait_until(lambda: server.engine_stats()["requests"] == 1, what="the request's arrival")
        tls.close()
    wait_until(lambda: quiet(server), what="the sequence's end")


@pytest.mark.slow
def test_slow_reader_is_paused_not_cut(server, key):
    """A reader that stops reading stops its own sequence and nobody else's."""
    pipe = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)]
    transport = httpx.HTTPTransport(verify=server.context, socket_options=pipe)
    fat = {
        "model": MODEL_NAME, "messages": [{"role": "user", "content": "Tell me a story."}],
        "max_tokens": 450, "logprobs": True, "top_logprobs": 20, "stream": True, "ignore_eos": True,
    }  # fmt: skip
    with server.http(key, transport=transport) as http:
        with http.stream("POST", "/v1/chat/completions", json=fat) as response:
            lines = response.iter_lines()
            next(lines)
            wait_until(lambda: server.engine_stats()["sequences_throttled"] > 0, 300, "the pause")
            with server.http(key) as other:
                assert read_stream(other, body(4, 8))[3]
            rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert sum('"logprobs":{' in line for line in rest) >= 448
