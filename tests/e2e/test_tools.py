"""Calls of tools, over TLS: with the small model, whose template knows no tools, and with
Qwen2.5-Coder, which writes calls by itself."""

import json
import socket

import pytest

from conftest import CACHE, MODEL_NAME, Server, wait_until

QWEN = CACHE / "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}}  # fmt: skip
ASKED = [{"role": "user", "content": "What is the weather in Paris right now? Use the tool."}]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    if not QWEN.exists():
        pytest.skip(f"{QWEN.name} is not at hand (deploy/prepare qwen2coder)")
    server = Server(tmp_path_factory.mktemp("qwen") / "data", model=QWEN)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def coder(qwen):
    return qwen.openai(qwen.tenant("acme")[1], max_retries=0)


def ask(client, messages, model=QWEN.stem, **fields):
    fields = {"max_tokens": 40, "temperature": 0, **fields}
    return client.chat.completions.create(model=model, messages=messages, **fields)


def joined(chunks):
    """Content and calls of a stream, as its pieces are put together."""
    content, calls, finish = "", [], None
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                if piece.index == len(calls):
                    calls.append({"id": piece.id, "name": piece.function.name, "arguments": ""})
                calls[piece.index]["arguments"] += piece.function.arguments or ""
    return content, calls, finish


def row(server, request_id):
    return server.ledger(
        "select prompt_tokens, completion_tokens, finish from requests where request_id = ?", request_id
    )[0]


def test_a_call_that_the_model_chose(coder):
    answer = ask(coder, ASKED, tools=[WEATHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function" and call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    assert len(call.id) == len("call_") + 24


def test_a_call_streams_in_pieces(coder):
    whole = ask(coder, ASKED, tools=[WEATHER]).choices[0].message.tool_calls[0]
    chunks = list(ask(coder, ASKED, tools=[WEATHER], stream=True))
    content, calls, finish = joined(chunks)
    assert (content, finish) == ("", "tool_calls")
    assert [(c["name"], c["arguments"]) for c in calls] == [("get_weather", whole.function.arguments)]
    pieces = [p for chunk in chunks for c in chunk.choices for p in c.delta.tool_calls or []]
    assert len(pieces) > 2 and all(p.id is None for p in pieces[1:])


def test_a_call_with_its_marks(coder):
    """The model writes the marks of its template, which are no content."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    asked = [{"role": "user", "content": f"Write the following text and nothing else: {call}"}]
    choice = ask(coder, asked, tools=[WEATHER]).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    plain = ask(coder, asked).choices[0].message
    assert plain.tool_calls is None and "get_weather" in plain.content


def test_a_result_reaches_the_template(coder):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    def count(result):
        history = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [call]},
                   {"role": "tool", "tool_call_id": "call_1", "content": result}]  # fmt: skip
        return ask(coder, history, tools=[WEATHER], max_tokens=1).usage.prompt_tokens

    assert count("sunny" + " sunny" * 20) == count("sunny") + 20


def test_none_gives_text(coder):
    answer = ask(coder, ASKED, tools=[WEATHER], tool_choice="none")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.tool_calls is None
    assert answer.usage.prompt_tokens == ask(coder, ASKED, tools=[WEATHER]).usage.prompt_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_the_row_is_the_usage(qwen, stream):
    _, key, _ = qwen.tenant(f"counted-{stream}")
    body = {"model": QWEN.stem, "messages": ASKED, "tools": [WEATHER], "temperature": 0, "max_tokens": 40}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    with qwen.http(key) as http:
        answer = http.post("/v1/chat/completions", json=body)
    if stream:
        frames = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        usage = json.loads(frames[-1])["usage"]
    else:
        usage = answer.json()["usage"]
    assert usage["completion_tokens"] > 10
    counted = row(qwen, answer.headers["x-request-id"])
    assert counted == (usage["prompt_tokens"], usage["completion_tokens"], "stop")


def test_a_cancelled_call_is_counted(qwen):
    """The client leaves at each 7th token of a call: the row has what the engine counted."""
    _, key, _ = qwen.tenant("leaves")
    body = {"model": QWEN.stem, "messages": ASKED, "tools": [WEATHER], "temperature": 0, "stream": True}
    for frames in (1, 7, 14):
        with qwen.http(key) as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
            request_id = answer.headers["x-request-id"]
            seen = 0
            for line in answer.iter_lines():
                seen += line.startswith("data: {")
                if seen > frames:
                    break
        rows = wait_for_row(qwen, request_id)
        assert rows[0][0] > 100 and 1 <= rows[0][1] <= 40, rows


def wait_for_row(server, request_id):
    sql = "select prompt_tokens, completion_tokens, finish from requests where request_id = ?"
    wait_until(lambda: server.ledger(sql, request_id), what="the row")
    return server.ledger(sql, request_id)


def test_arguments_that_are_no_json_reach_the_template(coder):
    """Another server's model may have written them: they stay a string."""
    for arguments in ("not JSON", "[1]", "", '{"a": 1} and more'):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        history = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [call]},
                   {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]  # fmt: skip
        assert ask(coder, history, tools=[WEATHER], max_tokens=1).usage.completion_tokens == 1, arguments


# --- the small model: a template without tools ---


def test_tools_are_listed_in_a_text(client):
    plain = ask(client, ASKED, model=MODEL_NAME, max_tokens=1)
    told = ask(client, ASKED, model=MODEL_NAME, max_tokens=1, tools=[WEATHER])
    assert told.usage.prompt_tokens > plain.usage.prompt_tokens + 50
    none = ask(client, ASKED, model=MODEL_NAME, max_tokens=1, tools=[WEATHER], tool_choice="none")
    assert none.usage.prompt_tokens == told.usage.prompt_tokens


def test_text_beside_tools_is_the_same_in_any_cut(client):
    """An answer without a call: streamed pieces are the whole text."""
    whole = ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], max_tokens=30).choices[0]
    content, calls, finish = joined(ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], max_tokens=30, stream=True))
    assert (content, calls, finish) == (whole.message.content, [], whole.finish_reason)


def test_calls_and_results_in_the_history(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "not JSON"}}
    history = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [call]},
               {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"}]  # fmt: skip
    assert ask(client, history, model=MODEL_NAME, tools=[WEATHER]).choices[0].message.content


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_that_is_demanded(client, choice):
    """The small model calls what it is told to call, with arguments under the schema."""
    for seed in range(3):
        answer = ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], tool_choice=choice, temperature=1,
                     parallel_tool_calls=False, seed=seed, max_tokens=200).choices[0]  # fmt: skip
        if answer.finish_reason == "length":  # a city without end
            continue
        (call,) = answer.message.tool_calls
        assert (answer.finish_reason, answer.message.content) == ("tool_calls", None)
        assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_a_schema_that_cannot_be_held(server, key):
    """It is refused for a strict tool; else the arguments are any object, and a header names the tool."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "contains": {"const": 1}}}}}}  # fmt: skip
    body = {"model": MODEL_NAME, "messages": ASKED, "tools": [tool], "max_tokens": 1}
    with server.http(key) as http:
        for stream in (False, True):
            loose = http.post("/v1/chat/completions", json={**body, "tools": [WEATHER, tool], "stream": stream})
            assert loose.status_code == 200
            assert loose.headers["x-banyan-unconstrained"] == "f"
        again = http.post("/v1/chat/completions", json={**body, "tools": [WEATHER, tool]})  # kept by now
        assert again.headers["x-banyan-unconstrained"] == "f"
        for other in ({"tools": [WEATHER]}, {"tool_choice": "none"}):
            held = http.post("/v1/chat/completions", json={**body, **other})
            assert held.status_code == 200 and "x-banyan-unconstrained" not in held.headers
        tool["function"]["strict"] = True
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400 and "x-banyan-unconstrained" not in answer.headers
    error = answer.json()["error"]
    assert error["code"] == "unsupported_schema"
    assert error["param"] == "tools[0].function.parameters.properties.a.contains"


def test_two_constraints(server, key):
    body = {"model": MODEL_NAME, "messages": ASKED, "tools": [WEATHER], "tool_choice": "required",
            "response_format": {"type": "json_object"}}  # fmt: skip
    with server.http(key) as http:
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tool_choice"


def named(name):
    return {"type": "function", "function": {"name": name}}


CALLED = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}  # fmt: skip
HOSTILE = [
    ({"tools": [named("f"), named("g"), named("f")]}, None, "tools[2].function.name"),
    ({"tools": [named(f"f{i}") for i in range(129)]}, "invalid_value", "tools"),
    ({"tools": [named("no blanks")]}, None, "tools[0].function.name"),
    ({"tools": [named("x" * 65)]}, None, "tools[0].function.name"),
    ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools[0].type"),
    ({"tool_choice": "required"}, None, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": named("f")}, None, "tool_choice.function.name"),
    ({"tools": [WEATHER], "tool_choice": "some"}, None, "tool_choice"),
    ({"tools": [WEATHER], "ignore_eos": True}, None, "ignore_eos"),
    ({"tools": [WEATHER], "skip_special_tokens": False}, None, "skip_special_tokens"),
    ({"tools": [WEATHER], "tool_choice": "required", "structured_outputs": {"regex": "a"}}, None, "tool_choice"),
    ({"messages": [*ASKED, {"role": "tool", "tool_call_id": "call_1", "content": "r"}]}, None,
     "messages[1].tool_call_id"),
    ({"messages": [*ASKED, CALLED, {"role": "tool", "tool_call_id": "call_2", "content": "r"}]}, None,
     "messages[2].tool_call_id"),
    ({"messages": [*ASKED, CALLED, {"role": "tool", "content": "r"}]}, None, "messages[2].tool_call_id"),
    ({"messages": [*ASKED, {**CALLED, "tool_calls": [{"id": "call_1"}]}]}, None,
     "messages[1].tool_calls[0].function"),
    ({"functions": [{"name": "f"}]}, "unsupported_parameter", "functions"),
    ({"function_call": "auto"}, "unsupported_parameter", "function_call"),
]  # fmt: skip


@pytest.mark.parametrize("fields,code,param", HOSTILE, ids=[f"{i}-{case[2]}" for i, case in enumerate(HOSTILE)])
def test_what_cannot_be_is_refused(server, key, fields, code, param):
    """Before anything runs, by name; no token is counted."""
    before = server.engine_stats()
    with server.http(key) as http:
        answer = http.post("/v1/chat/completions", json={"model": MODEL_NAME, "messages": ASKED, **fields})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param), error
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="an engine without requests")
    assert server.engine_stats()["tokens_generated"] == before["tokens_generated"]


def test_a_call_that_is_opened_and_not_written(client):
    """The answer is what a regex says: the mark of a call without a call is content, with its marks."""
    text = '<tool_call>{"x": 1}</tool_call>'
    choice = ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], max_tokens=90,
                 extra_body={"structured_outputs": {"choice": [text]}}).choices[0]  # fmt: skip
    assert (choice.finish_reason, choice.message.content, choice.message.tool_calls) == ("stop", text, None)
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": 7}}</tool_call>'
    choice = ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], max_tokens=90,
                 extra_body={"structured_outputs": {"choice": [text]}}).choices[0]  # fmt: skip
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.tool_calls[0].function.arguments == '{"city": 7}'


def test_a_call_that_is_cut(client):
    choice = ask(client, ASKED, model=MODEL_NAME, tools=[WEATHER], tool_choice="required",
                 max_tokens=12).choices[0]  # fmt: skip
    assert choice.finish_reason == "length"
    # Without its name it is content, with its marks; with it, a call whose arguments are not whole.
    assert choice.message.tool_calls or choice.message.content.startswith("<tool_call>")


def test_a_client_that_leaves_while_its_grammar_compiles(tmp_path):
    """The compilation ends, nothing of it is kept, and the next request is served."""
    own = Server(tmp_path / "data", "--context", "2048")
    key = own.tenant("leaves")[1]
    # Some ten million steps, half a second.
    parts = {f"p{i}": {"type": "string", "pattern": f"^([a-z]{{1,9}}-){{1,{i % 50 + 9}}}x$"} for i in range(2000)}
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object", "properties": parts}}}
             for i in range(6)]  # fmt: skip
    body = json.dumps({"model": MODEL_NAME, "messages": ASKED, "tools": tools, "tool_choice": "required"}).encode()
    host, port = own.url.removeprefix("https://").split(":")
    for _ in range(3):
        plain = socket.create_connection((host, int(port)))
        tls = own.context.wrap_socket(plain, server_hostname="localhost")
        tls.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        wait_until(lambda: own.engine_stats()["requests"] == 1, what="the request")
        tls.close()
        wait_until(lambda: own.engine_stats()["requests"] == 0, what="an engine without requests")
    stats = own.engine_stats()
    assert stats["tokens_generated"] == 0 and stats["jobs"] == 0
    assert own.metric("banyan_grammar_cache_bytes") == 0
    assert own.metric('banyan_grammars_total{result="compiled"}') == 0
    with own.http(key) as http:
        answer = http.post("/v1/chat/completions", json={"model": MODEL_NAME, "messages": ASKED, "max_tokens": 1})
    assert answer.status_code == 200, answer.text
    assert own.stop() == 0, own.log_text()[-4000:]
