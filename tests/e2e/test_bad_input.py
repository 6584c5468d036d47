"""Each wrong request gets its status, type, code, param and a sentence, and leaves nothing behind."""

import json

import pytest

from conftest import MODEL_NAME, pages_at_hand

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f"}}


def chat(**fields):
    return {"model": MODEL_NAME, "messages": HI, "max_tokens": 1, **fields}


def text(**fields):
    return {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 1, **fields}


# (path, body, status, code, param)
CASES = [
    (CHAT, chat(max_tokens=-1), 400, None, "max_tokens"),
    (CHAT, chat(max_tokens=0), 400, None, "max_tokens"),
    (TEXT, text(max_tokens=0), 400, None, "max_tokens"),
    (TEXT, text(prompt=["Hi"] * 33), 400, None, "prompt"),
    (TEXT, text(prompt=["Hi"] * 17, n=2), 400, None, "n"),
    (CHAT, chat(max_tokens=1.5), 400, None, "max_tokens"),
    (CHAT, chat(max_tokens="1"), 400, None, "max_tokens"),
    (CHAT, chat(temperature=9), 400, None, "temperature"),
    (CHAT, chat(temperature=-0.1), 400, None, "temperature"),
    (CHAT, chat(temperature="hot"), 400, None, "temperature"),
    (CHAT, chat(top_p=-0.1), 400, None, "top_p"),
    (CHAT, chat(top_p=1.1), 400, None, "top_p"),
    (CHAT, chat(top_k=-2), 400, None, "top_k"),
    (CHAT, chat(min_p=2), 400, None, "min_p"),
    (CHAT, chat(n=0), 400, None, "n"),
    (CHAT, chat(n=1000), 400, None, "n"),
    (CHAT, chat(seed=1e30), 400, None, "seed"),
    (CHAT, chat(presence_penalty=3), 400, None, "presence_penalty"),
    (CHAT, chat(frequency_penalty=-3), 400, None, "frequency_penalty"),
    (CHAT, chat(logprobs=True, top_logprobs=21), 400, None, "top_logprobs"),
    (CHAT, chat(top_logprobs=2), 400, None, "top_logprobs"),
    (CHAT, chat(logit_bias={"99999999": 1}), 400, None, "logit_bias"),
    (CHAT, chat(logit_bias={"x": 1}), 400, None, "logit_bias"),
    (CHAT, chat(logit_bias={"1": 101}), 400, None, "logit_bias"),
    (CHAT, chat(stop=["a", "b", "c", "d", "e"]), 400, None, "stop"),
    (CHAT, chat(stop=[""]), 400, None, "stop"),
    (CHAT, chat(stop=7), 400, None, "stop"),
    (CHAT, chat(messages=[]), 400, None, "messages"),
    (CHAT, chat(messages="Hi"), 400, None, "messages"),
    (CHAT, chat(messages=[{"role": "king", "content": "Hi"}]), 400, None, "messages[0].role"),
    (CHAT, chat(messages=[{"role": "user"}]), 400, None, "messages[0].content"),
    (CHAT, chat(messages=[{"role": "user", "content": 7}]), 400, None, "messages[0].content"),
    (CHAT, chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
     400, None, "messages[0].content[0].type"),
    (CHAT, chat(tools=[TOOL, TOOL]), 400, None, "tools[1].function.name"),
    (CHAT, chat(tools=[TOOL] * 129), 400, None, "tools"),
    (CHAT, chat(tools=[{"type": "web_search"}]), 400, None, "tools[0].type"),
    (CHAT, chat(tool_choice="required"), 400, None, "tool_choice"),
    (CHAT, chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}), 400, None,
     "tool_choice.function.name"),
    (CHAT, chat(messages=[{"role": "tool", "tool_call_id": "call_1", "content": "21"}]), 400, None,
     "messages[0].tool_call_id"),
    (CHAT, chat(response_format={"type": "xml"}), 400, None, "response_format.type"),
    (CHAT, chat(priority=1), 400, None, "priority"),
    (CHAT, chat(repetition_penalty=0), 400, None, "repetition_penalty"),
    (CHAT, chat(repetition_penalty=2.1), 400, None, "repetition_penalty"),
    (CHAT, chat(min_tokens=2), 400, None, "min_tokens"),
    (CHAT, {"model": MODEL_NAME, "messages": HI, "min_tokens": 8192}, 400, None, "min_tokens"),
    (CHAT, chat(thinking_token_budget=5), 400, None, "thinking_token_budget"),
    (CHAT, chat(stop_token_ids=[49152]), 400, None, "stop_token_ids[0]"),
    (CHAT, chat(reasoning_effort="high"), 400, None, "reasoning_effort"),
    (CHAT, chat(verbosity="low"), 400, None, "verbosity"),
    (CHAT, chat(bad_words=["x"]), 400, None, "bad_words"),
    (CHAT, chat(cache_salt="x"), 400, None, "cache_salt"),
    (CHAT, chat(frobnicate=1), 400, None, "frobnicate"),
    (CHAT, chat(stream="yes"), 400, None, "stream"),
    (CHAT, chat(stream_options={"include_usage": True}), 400, None, "stream_options"),
    (CHAT, chat(model="gpt-5"), 404, "model_not_found", "model"),
    (CHAT, {"messages": HI}, 400, None, "model"),
    (CHAT, {"model": MODEL_NAME}, 400, None, "messages"),
    (CHAT, chat(messages=[{"role": "user", "content": "word " * 9000}]), 400,
     "context_length_exceeded", "messages"),
    (CHAT, chat(max_tokens=8192), 400, "context_length_exceeded", None),
    (TEXT, text(prompt=[]), 400, None, "prompt"),
    (TEXT, text(prompt=[49152]), 400, None, "prompt"),
    (TEXT, text(prompt=[-1]), 400, None, "prompt"),
    (TEXT, text(prompt=[1.5]), 400, None, "prompt"),
    (TEXT, text(prompt={"a": 1}), 400, None, "prompt"),
    (TEXT, text(suffix="x"), 400, None, "suffix"),
    (TEXT, text(best_of=9), 400, None, "best_of"),
    (TEXT, text(logprobs=99), 400, None, "logprobs"),
    (TEXT, text(prompt="word " * 9000), 400, "context_length_exceeded", "prompt"),
    ("/v1/tokenize", {"model": MODEL_NAME}, 400, None, "prompt"),
    ("/v1/detokenize", {"model": MODEL_NAME, "tokens": [49152]}, 400, None, "tokens"),
    ("/v1/detokenize", {"model": MODEL_NAME, "tokens": "x"}, 400, None, "tokens"),
]  # fmt: skip


def check_error(response, status, code, param):
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-request-id"].startswith("req_")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) > 10
    assert "/" not in error["message"] or "http" in error["message"] or "/v1" in error["message"]
    if code is not None:
        assert error["code"] == code, error
    if param is not None:
        assert (error["param"] or "").startswith(param), error


@pytest.mark.parametrize("path,body,status,code,param", CASES)
def test_wrong_fields(server, key, path, body, status, code, param):
    with server.http(key) as http:
        check_error(http.post(path, json=body), status, code, param)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"{} {}", b'{"model":"a","model":"b"}', b"\xff\xfe{}",
        b'{"model":"\x00"}', b'{"model":1e999}', b"[" * 5000, b'{"a":' * 200 + b"1" + b"}" * 200,
        b'{"model": "' + MODEL_NAME.encode() + b'", "messages": [{"role":"user","content":"\xed\xa0\x80"}]}',
    ],
)  # fmt: skip
def test_malformed_json(server, key, raw):
    with server.http(key) as http:
        response = http.post(CHAT, content=raw, headers={"content-type": "application/json"})
    check_error(response, 400, None, None)


def test_keys(server, key, tenants):
    def ask(**headers):
        with server.http() as http:
            return http.post(CHAT, json=chat(), headers=headers)

    check_error(ask(), 401, "invalid_api_key", None)
    check_error(ask(authorization="Bearer"), 401, "invalid_api_key", None)
    check_error(ask(authorization="Basic eDp5"), 401, "invalid_api_key", None)
    check_error(ask(authorization="Bearer sk-by-x"), 401, "invalid_api_key", None)
    mistyped = key[:-1] + ("A" if key[-1] != "A" else "B")
    answer = ask(authorization=f"Bearer {mistyped}")
    check_error(answer, 401, "invalid_api_key", None)
    assert "check" in answer.json()["error"]["message"] or "typ" in answer.json()["error"]["message"]
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["x-should-retry"] == "false"
    assert ask(authorization=f"Bearer {key}").status_code == 200
    assert ask(**{"x-api-key": key}).status_code == 200
    check_error(ask(authorization=f"Bearer {server.admin_key}"), 401, "invalid_api_key", None)


def test_revoked_key(server):
    tenant_id, value, key_id = server.tenant("revoked")
    with server.http(value) as http, server.admin() as admin:
        assert http.post(CHAT, json=chat()).status_code == 200
        gone = admin.delete(f"/admin/v1/tenants/{tenant_id}/keys/{key_id}")
        assert gone.status_code == 200, gone.text
        check_error(http.post(CHAT, json=chat()), 401, "invalid_api_key", None)


def test_paths_and_methods(server, key):
    with server.http(key) as http:
        check_error(http.get("/v1/nothing"), 404, None, None)
        wrong = http.get(CHAT)
        check_error(wrong, 405, None, None)
        assert wrong.headers["allow"] == "POST"
        check_error(http.get("/admin/v1/tenants"), 404, None, None)


def test_body_over_the_limit(server, key):
    with server.http(key) as http:
        response = http.post(CHAT, content=b" " * (4 * 1024 * 1024 + 1))
    assert response.status_code == 413, response.text
    assert response.json()["error"]["code"] == "request_too_large"


def test_client_cannot_send_trusted_headers(server, key):
    with server.http(key) as http:
        response = http.post(
            CHAT, json=chat(), headers={"x-banyan-protocol": "7", "x-banyan-domain": "00" * 16}
        )
    assert response.status_code == 200, response.text


def test_nothing_is_left_behind(server, key, tenants):
    stats = server.engine_stats()
    assert stats["requests"] == 0 and stats["sequences_running"] == 0
    assert pages_at_hand(stats) == stats["pages_total"]
    before = server.ledger("select count(*) from requests")[0][0]
    with server.http(key) as http:
        for _, body, *_ in CASES[:10]:
            http.post(CHAT, json=body)
    assert server.ledger("select count(*) from requests")[0][0] == before
    assert json.dumps(server.engine_stats()["requests"]) == "0"
