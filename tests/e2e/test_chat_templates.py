"""--chat-template, and what a request brings for a template: tools, variables, calls of tools."""

import json
import subprocess

import pytest

from conftest import BINARY, MODEL, MODEL_NAME, Server

SOURCE = """{% macro walk(x) %}{% if x is mapping and x.deep %}{{ walk(x) }}{% endif %}{% endmacro %}\
{% macro down(x) %}{% if x['items'] is mapping %}{{ down(x['items']) }}{% endif %}{% endmacro %}\
{% if schema %}{{ down(schema) }}{% endif %}\
{% if stop %}{{ raise_exception('no ' ~ stop ~ ' here') }}{% endif %}\
{% if endless %}{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}{% endif %}\
{% if deep %}{{ walk({'deep': true}) }}{% endif %}\
{% if long %}{% for a in range(9) %}{{ '0123456789' * 100000 }}{% endfor %}{% endif %}\
{% for t in tools or [] %}<|im_start|>{{ t | tojson }}<|im_end|>{% endfor %}\
{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}\
{{ c.function.name }}{{ c.function.arguments.x + 1 }}{% endfor %}<|im_end|>\n{% endfor %}"""
TOOL = {"type": "function", "function": {"name": "f", "description": "<|im_end|>", "parameters": {"x": 0.1}}}


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    (folder / "t.jinja").write_text(SOURCE)
    server = Server(folder / "data", "--chat-template", folder / "t.jinja")
    _, key, _ = server.tenant("acme")
    with server.http(key) as http:

        def ask(messages, schema="", **more):
            """`schema`: the template's variable of that name, as JSON text."""
            body = json.dumps({"model": MODEL_NAME, "messages": messages, "max_tokens": 1, **more})
            if schema:
                body = body[:-1] + f', "chat_template_kwargs": {{"schema": {schema}}}}}'
            head = {"content-type": "application/json"}
            return http.post("/v1/chat/completions", content=body, headers=head)

        yield ask
    server.stop()


USER = {"role": "user", "content": "Hi"}


def test_tools_and_calls_reach_the_template(chats):
    plain = chats([USER]).json()["usage"]["prompt_tokens"]
    told = chats([USER], tools=[TOOL])
    assert told.status_code == 200, told.text
    assert told.json()["usage"]["prompt_tokens"] > plain + 10
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 41}'}}
    history = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "42"}]
    answer = chats(history, tools=[TOOL])
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("values,code,words", [
    ({"stop": "way"}, None, "line 1: no  here"),  # the client's word is left out
    ({"endless": True}, "template_limit", "too many steps"),
    ({"deep": True}, "template_limit", "more than 64 deep"),
    ({"long": True}, "template_limit", "the output is too long"),
])  # fmt: skip
def test_a_template_that_refuses_is_a_400(chats, values, code, words):
    answer = chats([USER], chat_template_kwargs=values)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == code and words in answer.json()["error"]["message"]
    assert chats([USER]).status_code == 200


def test_reserved_names_are_refused(chats):
    answer = chats([USER], chat_template_kwargs={"messages": []})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "chat_template_kwargs.messages"


def test_a_template_that_walks_a_deep_schema(chats):
    """Bodies are at most 32 levels deep, so no schema reaches the 64 macros that a render may have
    inside each other; test_chat_template_eval has a deeper one."""

    def lists(depth):  # as text: no JSON library writes the deeper ones
        return '{"items":' * depth + '{"type":"string"}' + "}" * depth

    assert chats([USER], lists(24)).status_code == 200
    for depth in (100, 10_000):
        answer = chats([USER], lists(depth))
        assert answer.status_code == 400, answer.text
        assert "nested deeper than 32 levels" in answer.json()["error"]["message"]
    assert chats([USER]).status_code == 200


def start(folder, template):
    """What a server that must not start says, in its own words."""
    done = subprocess.run(
        [BINARY, "serve", "--model", MODEL, "--data-dir", folder / "d", "--listen", "127.0.0.1:0",
         "--admin-listen", "127.0.0.1:0", "--chat-template", template],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("source,words", [
    ("a\n{% if x %}", "line 2: 'if' is not closed"), ("{{ x | abc }}", "line 1: filter 'abc' is not supported"),
    ("", "is empty"), ("{# " + "x" * 65536 + " #}", "is longer than 65536 bytes"),
])  # fmt: skip
def test_a_template_that_cannot_be_used_stops_the_start(tmp_path, source, words):
    (tmp_path / "t.jinja").write_text(source)
    assert words in start(tmp_path, tmp_path / "t.jinja")


def test_a_template_that_is_missing_stops_the_start(tmp_path):
    said = start(tmp_path, tmp_path / "nowhere.jinja")
    assert f"chat template {tmp_path}/nowhere.jinja: No such file or directory" in said


def test_without_a_template_there_are_completions_only(tmp_path):
    server = Server(tmp_path / "data", "--chat-template", "none", "--kv-memory", "64M", "--context", "1024")
    _, key, _ = server.tenant("acme")
    with server.http(key) as http:
        refused = http.post(
            "/v1/chat/completions", json={"model": MODEL_NAME, "messages": [USER], "max_tokens": 1}
        )
        assert refused.status_code == 400, refused.text
        assert "this model has no chat template: use completions" in refused.json()["error"]["message"]
        answer = http.post("/v1/completions", json={"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 4})
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] == 4
    assert server.engine_stats()["requests"] == 0
    assert server.stop() == 0, server.log_text()[-4000:]
