"""Answers under schemas, with calls of tools and with reasoning: usage in the answer, the ledger's row
and what the engine counted are equal, however the answer ends."""

import json
import os
import signal
import socket
import subprocess

import pytest

from conftest import BINARY, Server, wait_until

PATH = "/v1/chat/completions"
# Calls of some hundred tokens, so that a reader can leave in the middle of one.
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "n": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99},
              "minItems": 40, "maxItems": 40},
    },
    "required": ["city", "n"],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "get", "parameters": PARAMETERS}}
FIELDS = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": PARAMETERS}}},
    "tools": {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    "auto": {"tools": [TOOL], "max_tokens": 90},
    "reasoning": {"chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 700},
    "budget": {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 150, "max_tokens": 400},
    "both": {"chat_template_kwargs": {"enable_thinking": True}, "tools": [TOOL], "tool_choice": "required",
             "max_tokens": 700},
}  # fmt: skip
CUTS = range(7, 64, 7)
FRAME = b'"finish_reason":null'
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if enable_thinking %}<think>\n{% endif %}{# </think> #}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A model of random weights: some ten thousand tokens a second."""
    folder = tmp_path_factory.mktemp("accounts")
    model, template = folder / "random.gguf", folder / "chat.jinja"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    template.write_text(TEMPLATE)
    server = Server(folder / "data", "--kv-memory", "64M", "--chat-template", template, model=model)
    server.key = server.tenant("counted")[1]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


class Reader:
    """A stream over a socket that holds little, so that what is not read is not made either."""

    def __init__(self, server, body):
        host, port = server.url.removeprefix("https://").split(":")
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(300)
        plain.connect((host, int(port)))
        self.tls = server.context.wrap_socket(plain, server_hostname="localhost")
        self.seen = b""
        data = json.dumps(body).encode()
        self.tls.sendall(
            f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
            "connection: close\r\n\r\n".encode() + data
        )

    def read(self, frames=None):
        """Up to so many frames with a part of the answer, or to the end."""
        while frames is None or self.frames < frames:
            try:
                data = self.tls.recv(512)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        return self

    @property
    def frames(self):
        return self.seen.count(FRAME) - 1  # the first one names the role

    @property
    def request_id(self):
        head = self.seen.partition(b"\r\n\r\n")[0].decode()
        return next(l.split(": ")[1] for l in head.split("\r\n") if l.startswith("x-request-id"))

    def close(self):
        self.tls.close()


def body_of(name, **more):
    return {
        "model": "random", "messages": [{"role": "user", "content": "Say it."}], "seed": 5, "temperature": 1,
        "max_tokens": 1400, **FIELDS[name], **more,
    }  # fmt: skip


def engine_count(server):
    stats = server.engine_stats()
    return stats["tokens_prompt"], stats["tokens_generated"]


def is_idle(server):
    stats = server.engine_stats()
    return stats["requests"] == stats["jobs"] == stats["finals_live"] == 0


def row_of(server, request_id):
    sql = ("select prompt_tokens, completion_tokens, reasoning_tokens, finish, is_estimated from requests "
           "where request_id = ?")  # fmt: skip
    wait_until(lambda: server.ledger(sql, request_id), what="the row")
    (row,) = server.ledger(sql, request_id)
    return row


def check(server, before, request_id, usage):
    """Three counts of one request; usage is None where its reader left."""
    prompt, completion, reasoning, finish, is_estimated = row_of(server, request_id)
    wait_until(lambda: is_idle(server), what="the engine at rest")
    after = engine_count(server)
    assert (after[0] - before[0], after[1] - before[1]) == (prompt, completion)
    assert reasoning <= completion and not is_estimated
    if usage is not None:
        details = usage["completion_tokens_details"]
        told = (usage["prompt_tokens"], usage["completion_tokens"], details["reasoning_tokens"])
        assert told == (prompt, completion, reasoning)
        assert usage["total_tokens"] == prompt + completion
    return completion, reasoning, finish


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("stream", [False, True])
def test_to_the_end(server, name, stream):
    before = engine_count(server)
    body = body_of(name)
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    with server.http(server.key) as http:
        answer = http.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        assert answer.text.endswith("data: [DONE]\n\n")
        frames = [json.loads(l[6:]) for l in answer.text.splitlines() if l.startswith("data: {")]
        usage = frames[-1]["usage"]
        finish = next(c["finish_reason"] for f in frames for c in f["choices"] if c["finish_reason"])
    else:
        usage = answer.json()["usage"]
        finish = answer.json()["choices"][0]["finish_reason"]
    completion, reasoning, _ = check(server, before, answer.headers["x-request-id"], usage)
    if name == "budget":  # the tokens of the mark, one for each byte at most, are reasoning, too
        assert 150 < reasoning <= 150 + len("</think>")
    assert finish == {"schema": "stop", "tools": "tool_calls"}.get(name, "length")
    assert (reasoning > 0) == (name in ("reasoning", "budget", "both"))
    assert completion > (80 if name == "auto" else 200)


@pytest.mark.parametrize("budget", [0, 1, 20, 10000])
@pytest.mark.parametrize("tools", [False, True])
def test_a_budget_of_reasoning(server, budget, tools):
    """The text behind the budget is content, or the call that is demanded; streamed and whole are equal."""
    fields = {"thinking_token_budget": budget, "max_tokens": 300, "temperature": 0.8}
    body = body_of("both" if tools else "reasoning", **fields)
    closed = server.metric("banyan_reasoning_closed_total")
    with server.http(server.key) as http:
        answer = http.post(PATH, json=body)
        assert answer.status_code == 200, answer.text
        streamed = http.post(PATH, json={**body, "stream": True}).text
    whole = answer.json()
    message, usage = whole["choices"][0]["message"], whole["usage"]
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    assert reasoning <= min(budget + len("</think>"), 300)
    assert (reasoning == 300) == (budget == 10000)
    if budget == 0:
        assert not message.get("reasoning_content")
    if budget < 300:
        assert message["tool_calls"] if tools else message["content"]
    frames = [json.loads(l[6:]) for l in streamed.splitlines() if l.startswith("data: {")]
    deltas = [c["delta"] for f in frames for c in f["choices"]]
    text = "".join(d.get("reasoning_content") or "" for d in deltas)
    assert text == (message.get("reasoning_content") or "")
    assert "</think>" not in text
    if budget < 300:  # the first figure may be of a while ago
        wait_until(lambda: server.metric("banyan_reasoning_closed_total") >= closed + 2, what="the metric")


def test_a_schema_behind_reasoning(server):
    """It holds behind the mark that ends reasoning, and no answer ends before that mark."""
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    with server.http(server.key) as http:
        before = engine_count(server)
        answer = http.post(PATH, json=body_of("schema", **thinking, thinking_token_budget=60))
        assert answer.status_code == 200, answer.text
        choice, usage = answer.json()["choices"][0], answer.json()["usage"]
        _, reasoning, _ = check(server, before, answer.headers["x-request-id"], usage)
        assert 60 < reasoning <= 60 + len("</think>")
        assert choice["finish_reason"] == "stop" and choice["message"]["reasoning_content"]
        assert len(json.loads(choice["message"]["content"])["n"]) == 40
        plain = http.post(PATH, json=body_of("schema")).json()["choices"][0]
        assert plain["finish_reason"] == "stop" and not plain["message"].get("reasoning_content")
        assert len(json.loads(plain["message"]["content"])["n"]) == 40
        endless = http.post(PATH, json=body_of("schema", **thinking, max_tokens=200)).json()
    assert endless["choices"][0]["finish_reason"] == "length"
    assert not endless["choices"][0]["message"]["content"]
    assert endless["usage"]["completion_tokens_details"]["reasoning_tokens"] == 200


@pytest.mark.parametrize("name", ["schema", "tools", "reasoning"])
def test_left_at_each_seventh_token(server, name):
    ends = []
    for cut in CUTS:
        before = engine_count(server)
        reader = Reader(server, body_of(name, stream=True)).read(cut)
        reader.close()
        completion, reasoning, finish = check(server, before, reader.request_id, None)
        assert reader.frames <= completion
        assert reasoning == (completion if name == "reasoning" else 0)
        ends.append(finish)
    print(f"{name}: {ends.count('cancelled')} of {len(ends)} answers were cancelled")
    assert ends.count("cancelled") > len(ends) / 2


@pytest.mark.parametrize("name", ["tools", "reasoning"])
def test_a_reader_that_stops(server, name):
    """Inside of arguments, or of reasoning: the row is throttled, and goes on with the same answer."""
    with server.http(server.key) as http:
        answer = http.post(PATH, json=body_of(name))
        assert answer.status_code == 200, answer.text
        whole = answer.json()["choices"][0]["message"]
    before = engine_count(server)
    reader = Reader(server, body_of(name, stream=True, stream_options={"include_usage": True})).read(20)
    wait_until(lambda: server.engine_stats()["sequences_throttled"] == 1, what="a throttled sequence")
    reader.read().close()
    frames = [json.loads(l) for l in reader.seen.split(b"data: ")[1:] if l.startswith(b"{") for l in [l.split(b"\n")[0]]]
    text = ""
    for delta in (c["delta"] for f in frames for c in f["choices"]):
        text += delta.get("reasoning_content") or ""
        text += "".join(c["function"]["arguments"] for c in delta.get("tool_calls") or [])
    expected = whole.get("reasoning_content") or whole["tool_calls"][0]["function"]["arguments"]
    assert text == expected
    if name == "tools":
        assert len(json.loads(text)["n"]) == 40
    check(server, before, reader.request_id, frames[-1]["usage"])


@pytest.mark.parametrize("name", ["tools", "reasoning"])
def test_an_engine_that_is_killed(server, name):
    """Inside of a call, or of reasoning: the answer has no normal end, and what was made is counted."""
    reader = Reader(server, body_of(name, stream=True)).read(20)
    old = server.child("engine")
    os.kill(old, signal.SIGKILL)
    reader.read().close()
    assert b'"error"' in reader.seen and b"[DONE]" not in reader.seen
    assert b'"finish_reason":"' not in reader.seen
    completion, reasoning, _, is_estimated = row_of(server, reader.request_id)[1:]
    assert reader.frames <= completion and not is_estimated
    assert reasoning <= completion
    if name == "reasoning":
        assert reasoning > 0
    wait_until(lambda: server.child("engine") not in (None, old), what="another engine")
    with server.http(server.key) as http:
        wait_until(lambda: http.get("/ready").status_code == 200, what="ready again")
        before = engine_count(server)
        answer = http.post(PATH, json=body_of(name))
    check(server, before, answer.headers["x-request-id"], answer.json()["usage"])
