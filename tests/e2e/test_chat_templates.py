"""--chat-template, and what a request brings for a template: tools, variables, calls of tools."""

import subprocess

import pytest

from conftest import BINARY, MODEL, MODEL_NAME, Server

SOURCE = """{% macro walk(x) %}{% if x is mapping and x.deep %}{{ walk(x) }}{% endif %}{% endmacro %}\
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
        yield lambda messages, **more: http.post(
            "/v1/chat/completions",
            json={"model": MODEL_NAME, "messages": messages, "max_tokens": 1, **more},
        )
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


@pytest.mark.parametrize("source,words", [
    ("a\n{% if x %}", "line 2: 'if' is not closed"), ("{{ x | abc }}", "line 1: filter 'abc' is not supported"),
])  # fmt: skip
def test_a_template_that_cannot_be_used_stops_the_start(tmp_path, source, words):
    (tmp_path / "t.jinja").write_text(source)
    done = subprocess.run(
        [BINARY, "serve", "--model", MODEL, "--data-dir", tmp_path / "d", "--listen", "127.0.0.1:0",
         "--admin-listen", "127.0.0.1:0", "--chat-template", tmp_path / "t.jinja"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
