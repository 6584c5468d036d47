"""Constraints that would take too much: refused before anything runs, or ended while the answer is
made. Other tenants are served meanwhile, and nothing is left behind."""

import json
import time

import pytest

from conftest import MODEL_NAME, wait_until

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]


def format_of(schema, **more):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **more}}}


# Fields, code, how `param` begins. Each is refused in well under a second on a quiet machine.
REFUSED = {
    "2^20 alternatives": (
        format_of({"allOf": [{"anyOf": [{"type": "object", "properties": {f"p{i}{j}": {"type": "string"}},
                                         "required": [f"p{i}{j}"]} for j in range(2)]} for i in range(20)]}),
        ("schema_too_complex", "unsupported_schema"), "response_format.json_schema.schema"),
    "nested counts": ({"structured_outputs": {"regex": "((a{1,999}){1,999}b{1,999}){1,999}"}},
                      ("schema_too_complex",), "structured_outputs.regex"),
    "depth 10,000": ({"structured_outputs": {"json": '{"items":' * 10000 + "{}" + "}" * 10000}},
                     ("invalid_schema", "schema_too_complex"), "structured_outputs.json"),
    "enum against type": (format_of({"type": "string", "enum": [1, 2]}), ("invalid_schema",),
                          "response_format.json_schema.schema"),
    "no value": (format_of({"type": "object", "properties": {"a": False}, "required": ["a"]}),
                 ("invalid_schema",), "response_format.json_schema.schema"),
    "lark import": ({"structured_outputs": {"grammar": "%import other.THING\nstart: THING"}},
                    ("invalid_grammar",), "structured_outputs.grammar"),
    "lark without start": ({"structured_outputs": {"grammar": 'x: "a"'}}, ("invalid_grammar",),
                           "structured_outputs.grammar"),
    "gbnf": ({"structured_outputs": {"grammar": 'root ::= "a"'}}, ("invalid_grammar",),
             "structured_outputs.grammar"),
    "an endless rule": ({"structured_outputs": {"grammar": 'start: start "a"'}}, ("invalid_grammar",),
                        "structured_outputs.grammar"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server, key, name):
    fields, codes, param = REFUSED[name]
    before = server.engine_stats()["tokens_generated"]
    with server.http(key) as http:
        began = time.monotonic()
        answer = http.post(CHAT, json={"model": MODEL_NAME, "messages": HI, "max_tokens": 8, **fields})
        took = time.monotonic() - began
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["code"] in codes, error
    assert error["param"].startswith(param), error
    print(f"{name}: {took:.3f} s")
    assert took < 5  # the machine may be busy; steps are counted by test_schema_compile
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="an engine without requests")
    assert server.engine_stats()["tokens_generated"] == before


def test_many_optional_keys(server, key):
    """10,000 of them: refused, or an answer that is valid; in any case soon."""
    schema = {"type": "object", "properties": {f"k{i}": {"type": "integer"} for i in range(10000)}}
    with server.http(key) as http:
        answer = http.post(CHAT, json={"model": MODEL_NAME, "messages": HI, "max_tokens": 20, **format_of(schema)})
    if answer.status_code == 200:
        choice = answer.json()["choices"][0]
        assert choice["message"]["content"].startswith("{")
        assert choice["finish_reason"] == "length" or isinstance(json.loads(choice["message"]["content"]), dict)
    else:
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "schema_too_complex", answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_explodes_while_it_generates(server, key, tenants, stream):
    """Each row of its parser has all rows before it; the end is forbidden, so it goes on. The answer ends
    with an error of its own and is counted, and another tenant's answer is not changed."""
    body = {
        "model": MODEL_NAME, "prompt": "aaaa", "max_tokens": 4000, "min_tokens": 4000, "temperature": 0,
        "structured_outputs": {"grammar": 'start: start start | "a"'}, "stream": stream,
    }  # fmt: skip
    plain = {"model": MODEL_NAME, "prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}
    with server.http(key) as http, server.http(tenants["globex"][1]) as other:
        expected = other.post("/v1/completions", json=plain).json()["choices"][0]["text"]
        answer = http.post("/v1/completions", json=body)
        assert other.post("/v1/completions", json=plain).json()["choices"][0]["text"] == expected
    assert "grammar_too_complex" in answer.text, answer.text[-500:]
    if stream:
        assert answer.status_code == 200 and "[DONE]" not in answer.text
    else:
        assert answer.json()["error"]["code"] == "grammar_too_complex"
    sql = "select completion_tokens, finish from requests where request_id = ?"
    wait_until(lambda: server.ledger(sql, answer.headers["x-request-id"]), what="the row")
    tokens, finish = server.ledger(sql, answer.headers["x-request-id"])[0]
    assert 0 < tokens < 4000 and finish not in ("stop", "length")
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="an engine without requests")


@pytest.mark.parametrize("fields", [{"echo": True}, {"ignore_eos": True}])
def test_constraints_that_exclude_others(server, key, fields):
    body = {"model": MODEL_NAME, "prompt": "Hi", "structured_outputs": {"choice": ["a", "b"]}, **fields}
    with server.http(key) as http:
        answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in fields
