"""Urgent work beside batch work, through the real server: whoever is paused goes on to the same end,
and nobody is shut out."""

import contextlib
import http.client
import json
import random
import socket
import threading
import urllib.parse

import pytest

from conftest import MODEL_NAME, Server, pages_at_hand, wait_until

# 85 pages of 16 tokens: two streams of batch work hold 80 of them at their end, an urgent prompt
# needs 51, so one of the two has to give its pages as soon as both have got somewhere.
SMALL = ("--sequences", "4", "--context", "1024", "--kv-memory", "30M", "--threads", "1")
BATCH_TOKENS, URGENT_PROMPT = 600, 800
WAYS = {
    "swap": ("--preemption", "swap"),
    "recompute": ("--preemption", "recompute"),
    "no host memory": ("--preemption", "swap", "--kv-host-memory", "0"),
}
RANDOM = random.Random(6)


def fresh(count):
    """A prompt that never comes again."""
    return [RANDOM.randrange(300, 20000) for _ in range(count)]


@contextlib.contextmanager
def serving(folder, *options):
    server = Server(folder / "data", *SMALL, *options)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


class Stream(threading.Thread):
    """A stream that is read by a thread of its own, or by nobody when `reads` is false."""

    def __init__(self, server, key, prompt, tokens, tier, reads=True, **more):
        super().__init__(daemon=True)
        self.made, self.comments, self.tiers = [], [], set()
        self.usage, self.error, self.is_whole, self.request_id = {}, None, False, None
        url = urllib.parse.urlsplit(server.url)
        self.connection = http.client.HTTPSConnection(
            url.hostname, url.port, context=server.context, timeout=600
        )
        self.connection.connect()
        if not reads:
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        body = {
            "model": MODEL_NAME, "prompt": prompt, "max_tokens": tokens, "service_tier": tier,
            "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True,
            "return_token_ids": True, "logprobs": 2, "temperature": 0.9, "seed": 11, **more,
        }  # fmt: skip
        headers = {
            "authorization": f"Bearer {key}", "content-type": "application/json",
            "x-banyan-explain": "1",
        }  # fmt: skip
        self.socket = self.connection.sock  # which the connection gives to its response
        self.connection.request("POST", "/v1/completions", json.dumps(body), headers)
        if reads:
            self.start()

    def run(self):
        try:
            response = self.connection.getresponse()
            self.request_id = response.headers["x-request-id"]
            for line in response:
                self.take(line.decode().rstrip("\n"))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # leave()

    def take(self, line):
        if line.startswith(":"):
            self.comments.append(line)
        self.is_whole = self.is_whole or line == "data: [DONE]"
        if not line.startswith("data: {"):
            return
        event = json.loads(line[6:])
        self.error = event.get("error", self.error)
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            self.tiers.add(event["service_tier"])
            self.made.append((choice.get("token_ids"), choice.get("logprobs"), choice["text"]))

    def is_paused(self):
        return any("paused" in comment for comment in self.comments)

    def ended(self):
        """What was made, as one text of tokens and their log-probabilities."""
        self.join(600)
        assert not self.is_alive() and self.is_whole, self.error
        ids = [token for ids, _, _ in self.made for token in ids or ()]
        logprobs = [p for _, told, _ in self.made if told for p in told["token_logprobs"]]
        return ids, logprobs, "".join(text for _, _, text in self.made)

    def leave(self):
        self.socket.shutdown(socket.SHUT_RDWR)


class Pressure:
    """Urgent requests, one after the other, as long as it is entered."""

    def __init__(self, server, key):
        self.server, self.key = server, key
        self.stopping = threading.Event()
        self.answers = []
        self.thread = threading.Thread(target=self.press)

    def press(self):
        with self.server.http(self.key) as client:
            while not self.stopping.is_set():
                body = {
                    "model": MODEL_NAME, "prompt": fresh(URGENT_PROMPT), "max_tokens": 8,
                    "service_tier": "priority",
                }  # fmt: skip
                self.answers.append(client.post("/v1/completions", json=body, timeout=600))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        assert self.answers
        assert all(answer.status_code == 200 for answer in self.answers), self.answers[-1].text
        assert all(answer.json()["service_tier"] == "priority" for answer in self.answers)


def batch_streams(server, key, prompts):
    return [Stream(server, key, prompt, BATCH_TOKENS, "flex") for prompt in prompts]


def one_is_paused(streams):
    """Waits until one has been told so; that one."""

    def paused():
        return [stream for stream in streams if stream.is_paused()]

    def over():
        return paused() or not any(stream.is_alive() for stream in streams)

    wait_until(over, 300, "a paused stream")
    assert paused(), "both ended and none was paused"
    return paused()[0]


def one_has_given_its_pages(server, streams):
    """Who is only put off for a second, by urgent rows on a slow machine, is told so too."""

    def given():
        stats = server.engine_stats()
        return stats["preemptions_swap"] + stats["preemptions_recompute"] > 0

    wait_until(lambda: given() or not any(s.is_alive() for s in streams), 300, "a preemption")
    assert given(), "both ended and none gave its pages"


def assert_all_is_given_back(server):
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="an idle engine")
    wait_until(
        lambda: pages_at_hand(server.engine_stats()) == server.engine_stats()["pages_total"],
        what="every page free",
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Two prompts, and what becomes of each when nobody else asks."""
    prompts = [fresh(40) for _ in range(2)]
    with serving(tmp_path_factory.mktemp("alone")) as server:
        key = server.tenant("batch")[1]
        ends = [Stream(server, key, p, BATCH_TOKENS, "flex").ended() for p in prompts]
    assert all(len(ids) == BATCH_TOKENS for ids, _, _ in ends)
    return prompts, ends


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_paused_stream_goes_on_to_the_same_end(tmp_path, alone, way):
    """Token by token, with their log-probabilities: as if nobody had come in between."""
    prompts, ends = alone
    with serving(tmp_path, *WAYS[way]) as server:
        batch, urgent = server.tenant("batch")[1], server.tenant("urgent")[1]
        streams = batch_streams(server, batch, prompts)
        with Pressure(server, urgent):
            one_has_given_its_pages(server, streams)
        assert [stream.ended() for stream in streams] == ends
        assert all(stream.tiers == {"flex"} for stream in streams)
        told = [stream.usage["banyan"] for stream in streams]
        assert any(t["preemptions"] > 0 for t in told), told
        assert all((t["paused_ms"] > 0) == (t["preemptions"] > 0) for t in told), told
        assert all(s.is_paused() for s, t in zip(streams, told) if t["preemptions"] > 0), told
        assert (sum(t["swapped_pages"] for t in told) > 0) == (way == "swap"), told
        usage = [stream.usage for stream in streams]
        assert all(u["completion_tokens"] == BATCH_TOKENS for u in usage), "counted once"
        assert all(u["prompt_tokens"] == 40 for u in usage)
        assert_all_is_given_back(server)


@pytest.mark.slow
def test_who_leaves_while_paused_leaves_nothing(tmp_path):
    prompts = [fresh(40) for _ in range(2)]
    with serving(tmp_path) as server:
        batch, urgent = server.tenant("batch")[1], server.tenant("urgent")[1]
        streams = batch_streams(server, batch, prompts)
        with Pressure(server, urgent), server.admin() as admin:
            gone = one_is_paused(streams)
            gone.leave()

            def listed():
                page = admin.get("/admin/v1/requests?limit=100").json()
                return gone.request_id in [row["id"] for row in page["data"]]

            wait_until(lambda: not listed(), what="the end of who left")
        other = streams[1 - streams.index(gone)]
        assert len(other.ended()[0]) == BATCH_TOKENS
        rows = "select finish, completion_tokens from requests where request_id = ?"
        wait_until(lambda: server.ledger(rows, gone.request_id), what="its row")
        (finish, tokens), = server.ledger(rows, gone.request_id)  # fmt: skip
        assert finish == "cancelled" and 1 <= tokens < BATCH_TOKENS
        assert_all_is_given_back(server)


@pytest.mark.slow
def test_a_drain_lets_paused_streams_end(tmp_path):
    prompts = [fresh(40) for _ in range(2)]
    with serving(tmp_path, "--drain-timeout-s", "600") as server:
        batch, urgent = server.tenant("batch")[1], server.tenant("urgent")[1]
        streams = batch_streams(server, batch, prompts)
        with Pressure(server, urgent):
            one_is_paused(streams)
        server.process.terminate()
        assert all(len(stream.ended()[0]) == BATCH_TOKENS for stream in streams)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("priority")) as server:
        yield server


@pytest.mark.slow
def test_readers_that_stop_shut_nobody_out(small):
    """More of them than the engine has places for; every class is served, theirs too."""
    deaf, batch, urgent = (small.tenant(name)[1] for name in ("deaf", "other", "urgent"))
    streams = [
        Stream(small, deaf, fresh(20), 950, "flex", reads=False, logprobs=5)
        for _ in range(12)
    ]
    wait_until(lambda: small.engine_stats()["sequences_throttled"] > 0, 300, "one that is held")
    for key, tier in ((urgent, "priority"), (batch, "default"), (batch, "flex")):
        body = {"model": MODEL_NAME, "prompt": fresh(64), "max_tokens": 8, "service_tier": tier}
        with small.http(key) as client:
            answer = client.post("/v1/completions", json=body, timeout=600)
        assert answer.status_code == 200, answer.text
        assert answer.json()["service_tier"] == tier
    for stream in streams:
        stream.leave()
    assert_all_is_given_back(small)


def test_answers_tell_the_tier_that_was_used(small):
    tenant, key, _ = small.tenant("tiers")
    body = {"model": MODEL_NAME, "prompt": fresh(8), "max_tokens": 2}
    told = []
    with small.http(key) as client, small.admin() as admin:
        for asked in ("priority", "default", "flex", "auto", None):
            answer = client.post("/v1/completions", json={**body, "service_tier": asked})
            told.append(answer.json()["service_tier"])
        assert told == ["priority", "default", "flex", "default", "default"]
        answer = client.post("/v1/completions", json={**body, "service_tier": "gold"})
        assert answer.status_code == 400
        best = {"best_class": "standard", "default_class": "batch"}
        answer = admin.patch(f"/admin/v1/tenants/{tenant}", json=best)
        assert answer.status_code == 200, answer.text
        told = []
        for asked in ("priority", "flex", "auto"):
            answer = client.post("/v1/completions", json={**body, "service_tier": asked})
            told.append(answer.json()["service_tier"])
        assert told == ["default", "flex", "flex"]
    stream = Stream(small, key, fresh(8), 3, "priority")
    stream.ended()
    assert stream.tiers == {"default"}
    rows = small.ledger("select service_class, count(*) from requests where tenant_id = ? group by 1", tenant)
    assert dict(rows) == {"realtime": 1, "standard": 5, "batch": 3}


def test_a_deadline_that_cannot_be_met_is_told_at_once(small):
    key = small.tenant("hurried")[1]
    body = {"model": MODEL_NAME, "prompt": fresh(URGENT_PROMPT), "max_tokens": 100, "ignore_eos": True}
    with small.http(key) as client:
        assert client.post("/v1/completions", json=body).status_code == 200  # rates are known now
        before = small.engine_stats()["rows"]
        late = {**body, "prompt": fresh(URGENT_PROMPT)}
        # A tenth of what the prompt takes: after one request the engine's estimate is a rough one.
        answer = client.post("/v1/completions", json=late, headers={"x-request-timeout-ms": "5"})
        assert answer.status_code in (503, 504), answer.text
        assert_all_is_given_back(small)
        assert small.engine_stats()["rows"] == before, "nothing of it was computed"
