"""A flood of small requests while another tenant's answer is generated: the loops, which stand above
the compute threads, work on as many a second as small_requests_s says, and nobody is refused.

What is counted: answers, against the time that they took. tests/bench/text_bench.py has the rates.
"""

import json
import threading
import time

import pytest

from wire_kit import MODEL_NAME, Door

RATE, CONNECTIONS, SECONDS = 200, 4, 0.5
PART_BYTES = 64 * 1024  # of a refused body: as much as a request
TEXT = {"model": MODEL_NAME, "prompt": "a few words " * 16}
FLOODS = {  # method, path, body, code; a code of 401 comes without a key
    "tokenize": ("POST", "/v1/tokenize", TEXT, 200),
    "detokenize": ("POST", "/v1/detokenize", {"model": MODEL_NAME, "tokens": [1, 2]}, 200),
    "models": ("GET", "/v1/models", None, 200),
    "me": ("GET", "/v1/me", None, 200),
    "refused": ("POST", "/v1/chat/completions", {"messages": []}, 400),
    "refused word": ("POST", "/v1/completions", {"prompt": "x" * 200_000}, 400),
    "malformed": ("POST", "/v1/chat/completions", {"stream": "yes"}, 400),
    "limited": ("POST", "/v1/completions", {**TEXT, "max_tokens": 4}, 429),
    "stranger": ("GET", "/v1/me", None, 401),
    "nowhere": ("GET", "/v1/nowhere", None, 404),
}


@pytest.fixture(scope="module")
def limited(server):
    """A tenant that has used up its limit with its first answer."""
    tenant, key, _ = server.tenant("limited-small-floods")
    with server.admin() as admin:
        limits = {"output_tokens_per_minute": 1}
        assert admin.put(f"/admin/v1/tenants/{tenant}/limits", json=limits).status_code == 200
    return Door(server, key)


@pytest.fixture(scope="module")
def neighbour(server):
    return server.tenant("beside-small-floods")[1]


class Stream:
    """The neighbour's answers, one after the other, until it is left."""

    def __init__(self, server, key):
        self.server, self.key, self.tokens = server, key, 0
        self.is_over, self.has_begun = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        body = {
            "model": MODEL_NAME, "messages": [{"role": "user", "content": "Tell me a story."}],
            "max_tokens": 400, "ignore_eos": True, "stream": True,
        }  # fmt: skip
        with self.server.http(self.key) as http:
            while not self.is_over.is_set():
                with http.stream("POST", "/v1/chat/completions", json=body) as answer:
                    assert answer.status_code == 200
                    for line in answer.iter_lines():
                        self.tokens += line.startswith("data: {")
                        if self.tokens > 2:
                            self.has_begun.set()
                        if self.is_over.is_set():
                            break

    def __enter__(self):
        self.thread.start()
        assert self.has_begun.wait(60)
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def flood(door, request, end, codes):
    method, path, body, code = request
    data = b"" if body is None else json.dumps(body).encode()
    with door.h1(timeout=20) as wire:
        head = wire.head(method, path, [f"Content-Length: {len(data)}"] if data else [])
        if code == 401:
            head = head.replace(door.key.encode(), b"sk-by-nobody")
        while time.monotonic() < end:
            codes.append(wire.ask(head + data).code)


@pytest.mark.parametrize("name", FLOODS)
def test_the_loops_take_turns(door, limited, neighbour, name):
    door = limited if name == "limited" else door
    codes, threads = [], []
    with Stream(door.server, neighbour) as stream:
        begin, before = time.monotonic(), stream.tokens
        for _ in range(CONNECTIONS):
            arguments = (door, FLOODS[name], begin + SECONDS, codes)
            threads.append(threading.Thread(target=flood, args=arguments))
            threads[-1].start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begin
        assert stream.tokens > before
    assert codes[-1] == FLOODS[name][3] and set(codes) <= {200, codes[-1]}
    body = json.dumps(FLOODS[name][2])
    parts = 1 + len(body) // PART_BYTES if codes[-1] == 400 else 1
    assert len(codes) <= RATE * (took + 0.25) / parts + 2 * CONNECTIONS
