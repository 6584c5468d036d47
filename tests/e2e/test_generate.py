"""POST /v1/generate: the simple form gives the text that /v1/completions gives, and is counted."""

import json

import pytest

from conftest import MODEL_NAME, wait_until
from test_bad_input import check_error

ASKED = {"prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}


def test_the_same_text_as_a_completion(server, key, client, tenants):
    wanted = client.completions.create(model=MODEL_NAME, **ASKED)
    with server.http(key) as http:
        answer = http.post("/v1/generate", json=ASKED)
        assert answer.status_code == 200, answer.text
        request_id = answer.headers["x-request-id"]
        body = answer.json()
        named = http.post("/v1/generate", json={**ASKED, "model": MODEL_NAME}).json()
    assert set(body) == {
        "id", "object", "created", "model", "text", "finish_reason", "usage", "service_tier",
    }  # fmt: skip
    assert body["object"] == "generation" and body["model"] == MODEL_NAME
    assert body["id"].startswith("gen-") and body["id"][4:] == request_id[4:]
    assert body["text"] == named["text"] == wanted.choices[0].text
    assert body["finish_reason"] == wanted.choices[0].finish_reason
    assert body["usage"]["completion_tokens"] == wanted.usage.completion_tokens
    rows = server.ledger(
        "select route, model, completion_tokens from requests where request_id = ?", request_id
    )
    assert rows == [("/v1/generate", MODEL_NAME, body["usage"]["completion_tokens"])]


def test_a_stream_says_its_usage_last(server, key):
    with server.http(key) as http:
        whole = http.post("/v1/generate", json=ASKED).json()
        with http.stream("POST", "/v1/generate", json={**ASKED, "stream": True}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in stream.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    frames = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert {frame["object"] for frame in frames} == {"generation"}
    assert "".join(frame["text"] for frame in frames) == whole["text"]
    assert [frame.get("usage") is not None for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert frames[-1]["finish_reason"] == whole["finish_reason"]


@pytest.mark.parametrize(
    "body,status,param",
    [
        ({}, 400, "prompt"),
        ({"prompt": 7}, 400, "prompt"),
        ({"prompt": ["a", "b"]}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "x", "temperature": 2.1}, 400, "temperature"),
        ({"prompt": "x", "n": 2}, 400, "n"),
        ({"prompt": "x", "logprobs": 1}, 400, "logprobs"),
        ({"prompt": "x", "model": "nothing"}, 404, "model"),
    ],
)
def test_wrong_bodies(server, key, body, status, param):
    with server.http(key) as http:
        check_error(http.post("/v1/generate", json=body), status, None, param)


def test_a_client_that_leaves_is_counted(server, key):
    with server.http(key) as http:
        body = {"prompt": "Count:", "max_tokens": 1000, "stream": True, "seed": 1}
        with http.stream("POST", "/v1/generate", json=body) as stream:
            request_id = stream.headers["x-request-id"]
            next(stream.iter_lines())
    query = "select finish, completion_tokens from requests where request_id = ?"
    wait_until(lambda: server.ledger(query, request_id), what="the row")
    finish, tokens = server.ledger(query, request_id)[0]
    assert finish in ("cancelled", "stop") and tokens < 1000
