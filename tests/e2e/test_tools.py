"""Calls of tools, over TLS: with the small model, whose template knows no tools, and with
Qwen2.5-Coder, which writes calls by itself."""

import json

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
    """It is refused for a strict tool; else the arguments are any object."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "contains": {"const": 1}}}}}}  # fmt: skip
    body = {"model": MODEL_NAME, "messages": ASKED, "tools": [tool], "max_tokens": 1}
    with server.http(key) as http:
        assert http.post("/v1/chat/completions", json=body).status_code == 200
        tool["function"]["strict"] = True
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "unsupported_schema"
    assert error["param"] == "tools[0].function.parameters.properties.a.contains"


def test_two_constraints(server, key):
    body = {"model": MODEL_NAME, "messages": ASKED, "tools": [WEATHER], "tool_choice": "required",
            "response_format": {"type": "json_object"}}  # fmt: skip
    with server.http(key) as http:
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tool_choice"
