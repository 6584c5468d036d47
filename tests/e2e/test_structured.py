"""Answers under a constraint: every token of an answer is one that the schema, regex or list allows."""

import concurrent.futures
import json
import re

import jsonschema_rs
import pytest

from conftest import MODEL_NAME, Server, wait_until

CHAT, TEXT, GENERATE = "/v1/chat/completions", "/v1/completions", "/v1/generate"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "pets": {"type": "array", "items": {"enum": ["cat", "dog", "fish"]}, "maxItems": 3},
    },
    "required": ["name", "age", "pets"],
    "additionalProperties": False,
}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"type": "number", "minimum": -1, "exclusiveMaximum": 1}, "minItems": 2,
     "maxItems": 4},
    {"$defs": {"node": {"type": "object", "properties": {
        "value": {"type": "boolean"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
        "required": ["value", "next"]}}, "$ref": "#/$defs/node"},
    {"type": "object", "properties": {"day": {"type": "string", "format": "date"}, "kind": {"const": "visit"}},
     "required": ["day", "kind"]},
    {"enum": ["yes", "no", 7, None, {"a": [1]}]},
]  # fmt: skip


def chat(**fields):
    return {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Say something about Ada."}], **fields}


def asked_for(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


def ask(http, path, body):
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0], answer.json()["usage"], answer.headers["x-request-id"]


def test_answers_that_end_are_valid(server, key):
    ended = 0
    with server.http(key) as http:
        for seed in range(3):
            for schema in SCHEMAS:
                body = chat(seed=seed, max_tokens=80, temperature=1, response_format=asked_for(schema))
                choice, usage, request_id = ask(http, CHAT, body)
                assert choice["finish_reason"] in ("stop", "length")
                row = server.ledger("select completion_tokens from requests where request_id = ?", request_id)
                assert row == [(usage["completion_tokens"],)]
                if choice["finish_reason"] == "stop":
                    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
                    validator.validate(json.loads(choice["message"]["content"]))
                    ended += 1
    print(f"{ended} of {3 * len(SCHEMAS)} answers ended, all of them valid")
    assert ended >= 2 * len(SCHEMAS)


def test_a_json_object(server, key):
    with server.http(key) as http:
        for seed in range(3):
            body = chat(seed=seed, max_tokens=200, response_format={"type": "json_object"})
            choice, _, _ = ask(http, CHAT, body)
            assert choice["message"]["content"].startswith("{")
            if choice["finish_reason"] == "stop":
                assert isinstance(json.loads(choice["message"]["content"]), dict)


@pytest.mark.parametrize("field", [{"structured_outputs": {"regex": "[a-c]{3}-[0-9]{2,4}(é|ß)"}},
                                   {"guided_regex": "[a-c]{3}-[0-9]{2,4}(é|ß)"},
                                   {"regex": "[a-c]{3}-[0-9]{2,4}(é|ß)"}])  # fmt: skip
def test_a_regex(server, key, field):
    with server.http(key) as http:
        for seed in range(3):
            choice, _, _ = ask(http, CHAT, chat(seed=seed, **field))
            assert re.fullmatch("[a-c]{3}-[0-9]{2,4}(é|ß)", choice["message"]["content"])
            assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("path", [TEXT, GENERATE])
def test_a_choice(server, key, path):
    texts = ["red", "reddish", "green", "日本", 'a "quoted" one']
    seen = set()
    with server.http(key) as http:
        for seed in range(6):
            body = {"model": MODEL_NAME, "prompt": "My colour is", "seed": seed, "max_tokens": 30,
                    "temperature": 2, "structured_outputs": {"choice": texts}}  # fmt: skip
            answer = http.post(path, json=body)
            assert answer.status_code == 200, answer.text
            text = answer.json()["text"] if path == GENERATE else answer.json()["choices"][0]["text"]
            seen.add(text)
    assert seen <= set(texts) and len(seen) > 1


def test_a_stream_gives_the_same(server, key):
    body = chat(seed=3, max_tokens=100, response_format=asked_for(PERSON))
    with server.http(key) as http:
        whole, _, _ = ask(http, CHAT, body)
        with http.stream("POST", CHAT, json={**body, "stream": True}) as stream:
            lines = [line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines]
    assert "".join(deltas) == whole["message"]["content"]


def test_company_changes_nothing(server, key):
    """Eight different answers, alone and all at once: equal texts and log-probabilities."""
    bodies = [
        chat(seed=seed, max_tokens=60, logprobs=True, top_logprobs=2, n=2,
             response_format=asked_for(SCHEMAS[seed % len(SCHEMAS)]))
        for seed in range(8)
    ]  # fmt: skip

    def texts(body):
        with server.http(key) as http:
            answer = http.post(CHAT, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()["choices"]

    alone = [texts(body) for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(texts, bodies))
    assert alone == together


FORCED = {
    "type": "object",
    "properties": {
        "identification": {"const": "a long text that the schema gives"},
        "is_registered": {"type": "boolean"},
        "measurement_in_metres": {"enum": [1, 2]},
    },
    "required": ["identification", "is_registered", "measurement_in_metres"],
    "additionalProperties": False,
}


def row(server, request_id):
    sql = "select completion_tokens, finish from requests where request_id = ?"
    wait_until(lambda: server.ledger(sql, request_id), what="the row")
    return server.ledger(sql, request_id)[0]


@pytest.mark.parametrize("stream", [False, True])
def test_forced_tokens_are_counted_as_others(server, key, stream):
    body = chat(max_tokens=100, temperature=0, response_format=asked_for(FORCED, strict=True))
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    before = server.metric("banyan_forced_tokens_total")
    with server.http(key) as http:
        answer = http.post(CHAT, json=body)
    if stream:
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        text = "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames if frame["choices"])
        usage = frames[-1]["usage"]
    else:
        text, usage = answer.json()["choices"][0]["message"]["content"], answer.json()["usage"]
    assert json.loads(text)["identification"] == FORCED["properties"]["identification"]["const"]
    wait_until(lambda: server.metric("banyan_forced_tokens_total") >= before + 8, what="forced tokens in the metrics")
    assert row(server, answer.headers["x-request-id"]) == (usage["completion_tokens"], "stop")


def test_a_client_that_leaves_pays_for_what_was_counted(server, key):
    """It leaves at each 7th token; the length of the answer bounds what the row may have."""
    body = chat(max_tokens=100, temperature=0, response_format=asked_for(FORCED, strict=True))
    with server.http(key) as http:
        _, usage, _ = ask(http, CHAT, body)
    for frames in range(1, usage["completion_tokens"], 7):
        with server.http(key) as http, http.stream("POST", CHAT, json={**body, "stream": True}) as answer:
            request_id = answer.headers["x-request-id"]
            seen = 0
            for line in answer.iter_lines():
                seen += line.startswith("data: {")
                if seen > frames:
                    break
        count, finish = row(server, request_id)
        assert 1 <= count <= usage["completion_tokens"], (frames, count, finish)
        assert finish in ("stop", "cancelled"), finish


def test_tenants_compile_for_themselves(tmp_path):
    """Who sent a schema before must not show in another tenant's time."""
    own = Server(tmp_path / "data")
    keys = {name: own.tenant(name)[1] for name in ("acme", "globex")}

    def counts():  # the edge reads the engine's figures now and then
        with own.admin() as admin:
            text = admin.get("/metrics").text
        return {r: int(n) for r, n in re.findall(r'^banyan_grammars_total\{result="(\w+)"\} (\d+)', text, re.M)}

    for name in ("acme", "acme", "globex"):
        with own.http(keys[name]) as http:
            ask(http, CHAT, chat(max_tokens=12, response_format=asked_for(PERSON)))
    wait_until(lambda: sum(counts().values()) == 3, what="three grammars")
    assert counts() == {"compiled": 2, "cached": 1, "refused": 0, "cancelled": 0}
    assert own.stop() == 0, own.log_text()[-4000:]


BAD = [
    ({"response_format": asked_for({"type": "object", "properties": {"x": {"type": "string", "pattern": "a\\b"}}})},
     "unsupported_schema", "response_format.json_schema.schema.properties.x.pattern"),
    ({"response_format": asked_for({"not_a_keyword": 1}, strict=True)}, "unsupported_schema",
     "response_format.json_schema.schema.not_a_keyword"),
    ({"response_format": asked_for({"$ref": "https://example.com/s"})}, "unsupported_schema",
     "response_format.json_schema.schema.$ref"),
    ({"response_format": asked_for(False)}, "invalid_schema", "response_format.json_schema.schema"),
    ({"response_format": asked_for({"type": "integer", "minimum": 3, "maximum": 1})}, "invalid_schema",
     "response_format.json_schema.schema"),
    ({"response_format": asked_for({"type": "nothing"})}, "invalid_schema",
     "response_format.json_schema.schema.type"),
    ({"response_format": {"type": "json_schema"}}, None, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, None,
     "response_format.json_schema.schema"),
    ({"response_format": {"type": "grammar"}}, "unsupported_parameter", "response_format.type"),
    ({"structured_outputs": {}}, None, "structured_outputs"),
    ({"structured_outputs": {"regex": "a("}}, "invalid_grammar", "structured_outputs.regex"),
    ({"structured_outputs": {"regex": "(?<!a)b"}}, "invalid_grammar", "structured_outputs.regex"),
    ({"structured_outputs": {"regex": "(a{1,999}){1,999}b{65535}"}}, "schema_too_complex",
     "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, None, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": ["a", 1]}}, None, "structured_outputs.choice[1]"),
    ({"structured_outputs": {"choice": ["a"], "regex": "a"}}, None, None),
    ({"structured_outputs": {"grammar": "start: \"a\" %override x"}}, "invalid_grammar",
     "structured_outputs.grammar"),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, None, None),
    ({"response_format": {"type": "json_object"}, "ignore_eos": True}, None, "ignore_eos"),
]  # fmt: skip


@pytest.mark.parametrize("fields,code,param", BAD)
def test_what_cannot_be_is_refused(server, key, fields, code, param):
    with server.http(key) as http:
        answer = http.post(CHAT, json=chat(**fields))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["code"] == code, error
    assert param is None or error["param"] == param, error
    assert len(error["message"]) > 20
