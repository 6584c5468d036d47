"""A realtime request takes the pages of batch work: the stream is told that it is paused, goes on to
the same end, and everybody who asks can see why it waited."""

import concurrent.futures
import json

import pytest

from conftest import MODEL_NAME, Server, wait_until

pytestmark = pytest.mark.long

PATH = "/v1/completions"
REQUESTS = "/admin/v1/requests"
# About 54 pages of 16 tokens: what the two requests need together is more.
SMALL = ("--kv-memory", "20M", "--context", "768", "--sequences", "8", "--prefix-cache=false")
WAYS = {
    "swap": ("--kv-host-memory", "64M", "--preemption", "swap"),
    "recompute": ("--kv-host-memory", "0", "--preemption", "recompute"),
}
BATCH = {
    "model": MODEL_NAME, "prompt": "Once upon a time", "max_tokens": 480, "temperature": 0,
    "ignore_eos": True, "service_tier": "flex",
}  # fmt: skip
URGENT = {
    "model": MODEL_NAME, "prompt": "one two three four " * 160, "max_tokens": 32, "temperature": 0,
    "ignore_eos": True, "service_tier": "priority",
}  # fmt: skip
ENOUGH = 256  # tokens of the batch work in pages when the urgent request comes
TRIES = 6  # batch work may be over before the urgent request is let in


@pytest.fixture(scope="module", params=list(WAYS))
def small(request, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp(request.param) / "data", *SMALL, *WAYS[request.param])
    server.way = request.param
    server.key = server.tenant("acme")[1]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def post(server, body, http2=False):
    with server.http(server.key, http2=http2) as http:
        answer = http.post(PATH, json=body, headers={"x-banyan-explain": "1"})
    assert answer.status_code == 200, answer.text
    return answer.text


def read(text, stream):
    """The whole text and the usage of an answer."""
    if not stream:
        answer = json.loads(text)
        return answer["choices"][0]["text"], answer["usage"]
    assert text.rstrip().endswith("data: [DONE]"), text[-500:]
    lines = [line for line in text.split("\n\n") if line.startswith("data: {")]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    whole = "".join(c["choices"][0]["text"] for c in chunks if c["choices"])
    return whole, chunks[-1]["usage"]


def rows(server, service_class):
    with server.admin() as admin:
        listed = admin.get(REQUESTS).json()["data"]
    return [row for row in listed if row["class"] == service_class]


def disturbed(server, stream, http2=False):
    """The batch request beside an urgent one that needs its pages; what was seen of it meanwhile."""
    seen = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        batch = pool.submit(post, server, {**BATCH, "stream": stream}, http2)

        def is_long():
            found = rows(server, "batch")
            return batch.done() or (found and found[0]["computed_tokens"] >= ENOUGH)

        wait_until(is_long, what="long batch work")
        urgent = pool.submit(post, server, URGENT)
        while not urgent.done():
            seen += rows(server, "batch")
        urgent.result()
        return batch.result(), seen


@pytest.fixture(scope="module")
def alone(small):
    return read(post(small, {**BATCH, "stream": False}), False)


def test_a_paused_stream_is_told_and_goes_on(small, alone):
    for _ in range(TRIES):  # what the pages become has nothing to do with the protocol
        text, seen = disturbed(small, True, http2=small.way == "recompute")
        whole, usage = read(text, True)
        assert whole == alone[0]
        how = usage["banyan"]
        assert how["service_tier"] == "flex"
        if how["preemptions"] > 0:
            break
    else:
        pytest.fail(f"never paused: {how}")
    assert ": paused\n\n" in text
    assert usage["completion_tokens"] == alone[1]["completion_tokens"]
    assert how["paused_ms"] > 0
    if small.way == "swap":
        assert how["swapped_pages"] > 0
    else:
        assert how["swapped_pages"] == 0 and how["recomputed_tokens"] > 0
    paused = [row for row in seen if row["state"] == "paused"]
    for row in paused:  # an urgent request that is over quickly may not be seen beside it
        assert row["explain"]["preempted_by"] == "realtime"


@pytest.mark.parametrize("small", ["swap"], indirect=True)
def test_an_answer_in_one_piece_hears_nothing(small, alone):
    for _ in range(TRIES):
        text, _ = disturbed(small, False)
        whole, usage = read(text, False)
        assert whole == alone[0] and "paused\n" not in text
        if usage["banyan"]["preemptions"] > 0:
            break
    else:
        pytest.fail("never paused")
    assert usage["banyan"]["paused_ms"] > 0


def test_nobody_was_charged_for_pauses(small, alone):
    found = small.ledger(
        "select distinct prompt_tokens, completion_tokens from requests where service_class = 'batch'"
    )
    assert found == [(alone[1]["prompt_tokens"], alone[1]["completion_tokens"])]
