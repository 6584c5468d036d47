"""A full disk under the ledger, and an engine that dies: what was answered is what is billed. Who has an
answer has one row with its count and its price, as soon as there is room; who was refused has none, and who
heard nothing but an error of ours has a row of nothing."""

import concurrent.futures
import os
import re
import resource
import signal
import threading

import httpx
import pytest

from conftest import MODEL_NAME, Server, wait_until

PRICE = {"currency": "usd", "input_nano": 150, "cached_input_nano": 15, "output_nano": 600}
TOKENS = 120
REFUSED = {
    "/v1/completions": {"model": MODEL_NAME, "prompt": "Count:", "max_tokens": 4},
    "/v1/chat/completions": {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
    "/v1/generate": {"prompt": "Count:", "max_tokens": 4},
    "/v1/tokenize": {"model": MODEL_NAME, "prompt": "Count:"},
    "/v1/detokenize": {"model": MODEL_NAME, "tokens": [1, 2]},
}


@pytest.fixture
def priced(tmp_path):
    server = Server(tmp_path / "data")
    server.tenant_id, server.key, _ = server.tenant("acme")
    with server.admin() as admin:
        assert admin.post("/admin/v1/prices", json=PRICE).status_code == 201
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def fill(server):
    """From here on the edge cannot make any file longer. Its log is one, too."""
    edge = server.child("edge")
    _, hard = resource.prlimit(edge, resource.RLIMIT_FSIZE)
    resource.prlimit(edge, resource.RLIMIT_FSIZE, (1, hard))


def make_room(server):
    edge = server.child("edge")
    _, hard = resource.prlimit(edge, resource.RLIMIT_FSIZE)
    resource.prlimit(edge, resource.RLIMIT_FSIZE, (hard, hard))


def ask(server, is_stream, begun, is_chat=False):
    """(request id, completion tokens) of an answer that came whole, or (request id, None)."""
    prompt = {"messages": [{"role": "user", "content": "Count:"}]} if is_chat else {"prompt": "Count:"}
    body = {"model": MODEL_NAME, **prompt, "max_tokens": TOKENS, "ignore_eos": True, "stream": is_stream}
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    with server.http(server.key) as http:
        if not is_stream:
            begun.release()
            answer = http.post(path, json=body)
            tokens = answer.json()["usage"]["completion_tokens"] if answer.status_code == 200 else None
            return answer.headers["x-request-id"], tokens
        body["stream_options"] = {"include_usage": True}
        with http.stream("POST", path, json=body) as stream:
            text, is_begun = "", False
            for line in stream.iter_lines():
                text += line + "\n"
                if not is_begun and line:
                    is_begun = True
                    begun.release()
            found = re.search(r'"completion_tokens":(\d+)', text)
            return stream.headers["x-request-id"], int(found[1]) if "data: [DONE]" in text else None


def rows(server):
    found = server.ledger(
        "select request_id, http_code, finish, prompt_tokens, cached_tokens, completion_tokens, cost_nano from requests"
        " where service_class != 'text'"
    )
    assert len({row[0] for row in found}) == len(found)  # each request once
    return {row[0]: row[1:] for row in found}


def answers_over_a_full_disk(server):
    """Streams and whole answers that were under way when the disk became full."""
    begun = threading.Semaphore(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(ask, server, index % 2 == 0, begun, index % 4 < 2) for index in range(8)]
        for _ in futures:
            assert begun.acquire(timeout=60)
        fill(server)
        return dict(future.result() for future in futures)


def check_billed(server, told):
    answered = {request_id: tokens for request_id, tokens in told.items() if tokens is not None}
    wait_until(lambda: answered.keys() <= rows(server).keys(), 60, "the rows of what was answered")
    found = rows(server)
    for request_id, (code, finish, prompt, cached, completion, cost) in found.items():
        assert request_id in answered, f"billed without an answer: {request_id}"
        assert (code, finish, completion) == (200, "length", answered[request_id])
        assert cost == (prompt - cached) * 150 + cached * 15 + completion * 600


def tokenize(server):
    with server.http(server.key) as http:
        return http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": "Count to ten. " * 200000})


def test_what_was_under_way_is_answered_and_billed(priced):
    with concurrent.futures.ThreadPoolExecutor(1) as pool, priced.admin() as admin:
        text = pool.submit(tokenize, priced)  # beside the others it takes seconds
        wait_until(lambda: "/v1/tokenize" in admin.get("/admin/v1/requests").text or text.done(), what="the text")
        told = answers_over_a_full_disk(priced)
        assert text.result().status_code == 200, text.result().text[:1000]
    assert [tokens for tokens in told.values()] == [TOKENS] * 8  # nobody is refused behind the work
    assert not rows(priced)
    # Refused before it runs: no work, no row.
    with priced.http(priced.key) as http:
        wait_until(lambda: http.get("/ready").status_code == 503, 30, "the ledger's failure")
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/generate", "/v1/tokenize", "/v1/detokenize"):
            answer = http.post(path, json=REFUSED[path])
            assert answer.status_code == 503, answer.text
            told[answer.headers["x-request-id"]] = None
        make_room(priced)
        wait_until(lambda: http.get("/ready").status_code == 200, 60, "room")
    check_billed(priced, told)
    request_id = text.result().headers["x-request-id"]
    sql = "select request_id, http_code, finish, cost_nano from requests where service_class = 'text'"
    wait_until(lambda: priced.ledger(sql) == [(request_id, 200, "stop", 0)], 60, "the row of the text")


def test_an_answer_that_an_engine_takes_with_it(priced):
    """Of answers that are not streamed nothing has been told when the engine dies: nothing is billed, though the
    engine's records are found again. Of a stream the engine's own count is billed."""
    begun = threading.Semaphore(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool, priced.http() as http:
        futures = {pool.submit(ask, priced, index == 0, begun, index % 2 == 1): index for index in range(6)}
        for _ in futures:
            assert begun.acquire(timeout=60)
        wait_until(lambda: priced.engine_stats()["sequences_running"] == 6, 30, "six sequences")
        os.kill(priced.child("engine"), signal.SIGKILL)
        told = {future.result()[0]: index for future, index in futures.items()}
        wait_until(lambda: is_ready(http), 60, "the engine")
    wait_until(lambda: rows(priced).keys() == told.keys(), 60, "the rows")
    wait_until(lambda: priced.engine_stats()["finals_waiting"] == 0, 60, "every record acknowledged")
    found = rows(priced)
    assert found.keys() == told.keys()
    for request_id, index in told.items():
        if index == 0:
            code, finish, prompt, cached, completion, cost = found[request_id]
            assert (code, finish) == (200, "error") and prompt > 0
            assert cost == (prompt - cached) * 150 + cached * 15 + completion * 600
        else:
            assert found[request_id] == (503, "error", 0, 0, 0, 0), found


@pytest.mark.parametrize("halves", [("edge",), ("engine",), ("edge", "engine")])
def test_answers_outlive_processes_that_die_on_a_full_disk(priced, halves):
    told = answers_over_a_full_disk(priced)
    assert [tokens for tokens in told.values()] == [TOKENS] * 8
    assert not rows(priced)
    for half in halves:
        os.kill(priced.child(half), signal.SIGKILL)
    if "edge" in halves:  # the next one may write
        with priced.http() as http:
            wait_until(lambda: is_ready(http), 60, "the edge")
    else:
        make_room(priced)
    check_billed(priced, told)


def is_ready(http):
    try:
        return http.get("/ready").status_code == 200
    except httpx.TransportError:  # nobody listens yet
        return False
