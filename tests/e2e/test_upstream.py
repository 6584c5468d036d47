"""A foreign server behind the edge: answers, refusals, cuts, and a ledger that is exact.

The server behind is a real one: another Banyan, reached through a relay that takes off its TLS; and a
llama.cpp server, where BANYAN_LLAMA_SERVER names its program.
"""

import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import MODEL, MODEL_NAME, Server, wait_until

LLAMA = os.environ.get("BANYAN_LLAMA_SERVER")


class Relay:
    """Takes plain connections on a port and passes their bytes to a TLS server and back."""

    def __init__(self, server):
        self.context = ssl.create_default_context(cafile=server.ca)
        self.context.set_alpn_protocols(["http/1.1"])
        host, port = server.url.removeprefix("https://").split(":")
        self.target = (host, int(port))
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/v1"
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                plain, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain):
        try:
            far = self.context.wrap_socket(socket.create_connection(self.target), server_hostname=self.target[0])
        except OSError:
            plain.close()
            return
        pair = (plain, far)
        self.open.add(pair)
        other = threading.Thread(target=self.copy, args=(far, plain), daemon=True)
        other.start()
        self.copy(plain, far)
        other.join()
        self.open.discard(pair)
        plain.close()
        far.close()

    @staticmethod
    def copy(source, target):
        """Ends when either side does; then both are shut, as when a process dies."""
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends every connection now."""
        for pair in list(self.open):
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def stop(self):
        self.listening.close()
        self.cut()


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("behind") / "data")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture(scope="module")
def relay(behind):
    relay = Relay(behind)
    yield relay
    relay.stop()


@pytest.fixture(scope="module")
def front(behind, relay, tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    (folder / "key").write_text(behind.tenant("front")[1] + "\n")
    server = Server(
        folder / "data", "--upstream", relay.url, "--upstream-key-file", folder / "key",
        "--upstream-shared-cache", "--upstream-requests", "8", model=None,
    )  # fmt: skip
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


@pytest.fixture
def key(front, request):
    return front.tenant(f"t-{request.node.name}")[1]


def chat(**more):
    return {
        "model": MODEL_NAME, "messages": [{"role": "user", "content": "Count to five."}],
        "max_tokens": 24, "temperature": 0, **more,
    }  # fmt: skip


def tenant_of(server, key):
    with server.http(key) as http:
        return http.get("/v1/me").json()["tenant"]["id"]


def rows(server, tenant, count):
    """The tenant's rows, once there are so many."""
    sql = (
        "select prompt_tokens, cached_tokens, completion_tokens, finish, is_estimated, request_id"
        " from requests where tenant_id = ? order by id"
    )
    wait_until(lambda: len(server.ledger(sql, tenant)) >= count, 60, f"{count} rows")
    return server.ledger(sql, tenant)


def test_answers_are_those_of_the_server_behind(front, behind, key):
    direct = behind.tenant("direct")[1]
    for path, body in (
        ("/v1/chat/completions", chat()),
        ("/v1/chat/completions", chat(stop=["three", "3"])),
        ("/v1/chat/completions", chat(logprobs=True, top_logprobs=2)),
        ("/v1/completions", {"model": MODEL_NAME, "prompt": "One, two,", "max_tokens": 9, "temperature": 0}),
        ("/v1/completions", {"model": MODEL_NAME, "prompt": "One, two,", "max_tokens": 9, "temperature": 0,
                             "logprobs": 3}),
        ("/v1/completions", {"model": MODEL_NAME, "prompt": "Eins, zwö,", "max_tokens": 9, "temperature": 0,
                             "echo": True, "n": 2}),
        ("/v1/generate", {"prompt": "One, two,", "max_tokens": 9, "temperature": 0}),
    ):
        answers = []
        for server, one in ((front, key), (behind, direct)):
            with server.http(one) as http:
                done = http.post(path, json=body)
            assert done.status_code == 200, done.text
            answer = done.json()
            choices = answer.get("choices", [answer.get("text")])
            usage = {k: v for k, v in answer["usage"].items() if k in ("prompt_tokens", "completion_tokens")}
            answers.append((json.dumps(choices), usage))
        assert answers[0] == answers[1], path


def test_two_choices_are_two_requests_and_one_row(front, key):
    with front.http(key) as http:
        done = http.post("/v1/chat/completions", json=chat(n=2, temperature=1, seed=7, max_tokens=16))
    assert done.status_code == 200, done.text
    answer = done.json()
    assert [c["index"] for c in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["message"]["content"] != answer["choices"][1]["message"]["content"]
    (row,) = rows(front, tenant_of(front, key), 1)
    usage = answer["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert row[:3] == (usage["prompt_tokens"], cached, usage["completion_tokens"])
    assert row[4] == 0


def test_schemas_and_tools_go_through(front, key):
    client = front.openai(key, max_retries=0)
    schema = {
        "type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["n"], "additionalProperties": False,
    }  # fmt: skip
    answer = client.chat.completions.create(
        **chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    )
    assert 1 <= json.loads(answer.choices[0].message.content)["n"] <= 5
    tool = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
        "additionalProperties": False}}}  # fmt: skip
    for stream in (False, True):
        body = chat(tools=[tool], tool_choice="required", parallel_tool_calls=False, stream=stream, max_tokens=100)
        if stream:
            name, text, finish = "", "", None
            for chunk in client.chat.completions.create(**body):
                for choice in chunk.choices:
                    finish = choice.finish_reason or finish
                    for call in choice.delta.tool_calls or ():
                        name += call.function.name or ""
                        text += call.function.arguments or ""
        else:
            choice = client.chat.completions.create(**body).choices[0]
            finish = choice.finish_reason
            name, text = (getattr(choice.message.tool_calls[0].function, f) for f in ("name", "arguments"))
        assert finish == "tool_calls"
        assert name == "weather" and json.loads(text)["city"] in ("Rome", "Oslo")


def test_parts_of_contents_and_results_of_tools_go_through(front, key):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    ]
    with front.http(key) as http:
        for some in (messages[:1], messages):
            done = http.post("/v1/chat/completions", json=chat(messages=some, max_tokens=4))
            assert done.status_code == 200, done.text


def test_a_list_longer_than_the_window(front, key):
    prompts = [f"{n}," for n in range(10)]
    with front.http(key) as http:
        body = {"model": MODEL_NAME, "prompt": prompts, "max_tokens": 3, "temperature": 0}
        done = http.post("/v1/completions", json=body)
    assert done.status_code == 200, done.text
    assert [c["index"] for c in done.json()["choices"]] == list(range(10))
    (row,) = rows(front, tenant_of(front, key), 1)
    usage = done.json()["usage"]
    assert (row[0], row[2]) == (usage["prompt_tokens"], usage["completion_tokens"])


@pytest.mark.parametrize(
    ("path", "field", "more"),
    [
        ("/v1/chat/completions", "top_k", {"top_k": 3}),
        ("/v1/chat/completions", "skip_special_tokens", {"skip_special_tokens": False}),
        ("/v1/chat/completions", "return_token_ids", {"return_token_ids": True}),
        ("/v1/chat/completions", "structured_outputs", {"structured_outputs": {"regex": "a+"}}),
        ("/v1/completions", "logprobs", {"echo": True, "logprobs": 1}),
        ("/v1/completions", "max_tokens", {"echo": True, "max_tokens": 0}),
        ("/v1/completions", "prompt", {"prompt": [1, 2]}),
    ],
)
def test_fields_that_the_server_does_not_honour_are_named(front, key, path, field, more):
    body = chat(**more) if "chat" in path else {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 3, **more}
    with front.http(key) as http:
        done = http.post(path, json=body)
    assert done.status_code == 400, done.text
    error = done.json()["error"]
    assert error["param"] == field and error["code"] == "unsupported_parameter", error


def test_what_only_an_engine_of_ours_has_is_refused_by_name(front, key):
    with front.http(key) as http:
        done = http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": "Hi"})
        assert done.status_code == 400 and "no tokenizer" in done.json()["error"]["message"], done.text
    with front.http() as http:  # and nothing that it lacks holds up the server
        assert http.get("/ready").status_code == 200


def test_a_client_that_leaves_stops_the_server_behind(front, behind, key):
    before = behind.engine_stats()["requests"]
    for at in (1, 3, 8):
        with front.http(key) as http, http.stream(
            "POST", "/v1/chat/completions", json=chat(max_tokens=2000, stream=True, ignore_eos=False)
        ) as answer:
            seen = 0
            for line in answer.iter_lines():
                seen += line.startswith("data: {") and '"content":"' in line
                if seen > at:
                    break
        wait_until(lambda: behind.engine_stats()["requests"] == before, 30, "an idle server behind")
    for row in rows(front, tenant_of(front, key), 3):
        assert row[3] == "cancelled" and row[4] == 1, row  # that server counts at the end alone


def test_a_server_that_dies_is_told_and_counted(front, relay, key):
    tenant = tenant_of(front, key)
    with front.http(key) as http, http.stream(
        "POST", "/v1/chat/completions", json=chat(max_tokens=2000, stream=True)
    ) as answer:
        lines = []
        for line in answer.iter_lines():
            lines.append(line)
            if len(lines) == 12:
                relay.cut()
    assert "data: [DONE]" not in lines
    assert any('"error"' in line for line in lines), lines[-4:]
    (row,) = rows(front, tenant, 1)
    assert row[3] == "error" and row[2] > 0, row
    with front.http(key) as http:  # the next one is served
        assert http.post("/v1/chat/completions", json=chat()).status_code == 200


def test_an_adapter_that_is_killed_loses_no_row(front, key):
    tenant = tenant_of(front, key)
    with front.http(key) as http, http.stream(
        "POST", "/v1/chat/completions", json=chat(max_tokens=2000, stream=True)
    ) as answer:
        lines = []
        for line in answer.iter_lines():
            lines.append(line)
            if len(lines) == 12:
                os.kill(front.child("engine"), 9)
    assert "data: [DONE]" not in lines
    (row,) = rows(front, tenant, 1)
    assert row[3] == "error" and row[0] > 0 and row[2] > 0 and row[4] == 1, row
    with front.http(key) as http:
        wait_until(lambda: http.post("/v1/chat/completions", json=chat()).status_code == 200, 30, "a new adapter")
    assert len(rows(front, tenant, 2)) == len({r[5] for r in rows(front, tenant, 2)})


def test_a_full_server_behind_makes_requests_wait_here(front, key):
    """Twenty at once through a window of eight: all are answered."""
    results = []

    def one(i):
        with front.http(key) as http:
            results.append(http.post("/v1/chat/completions", json=chat(max_tokens=8, seed=i)).status_code)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 20
    assert len(rows(front, tenant_of(front, key), 20)) == 20


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--model", MODEL, "--upstream", "http://127.0.0.1:1"), "exclude each other"),
        (("--upstream", "127.0.0.1:8000"), "no URL of a server"),
        (("--upstream", "https://127.0.0.1:8000"), "no URL of a server"),
        (("--upstream", "http://192.0.2.1:8000"), "--upstream-plain"),
        (("--upstream", "http://127.0.0.1:8000/v1?key=1"), "has a query"),
        (("--upstream", "http://127.0.0.1:8000", "--kv-memory", "1G"), "--kv-memory has no effect beside"),
        (("--model", MODEL, "--upstream-kind", "vllm"), "--upstream-kind has no effect without"),
        (("--upstream", "http://127.0.0.1:8000", "--upstream-key-file", "/nowhere"), "/nowhere"),
        (("--upstream", "http://127.0.0.1:1", "--upstream", "url=http://127.0.0.1:2,kind=vlm"), "kind vlm is not known"),
    ],
)
def test_wrong_options_are_told(tmp_path, options, says):
    from conftest import BINARY

    process = subprocess.Popen(
        [str(w) for w in (BINARY, "serve", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0",
                          "--admin-listen", "127.0.0.1:0", *options)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    text = ""
    limit = time.monotonic() + 60
    while says not in text and time.monotonic() < limit:
        line = process.stdout.readline()
        text += line
        if not line:
            break
    process.terminate()
    process.wait(60)
    process.stdout.close()
    assert says in text


# --- llama.cpp ---


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    if not LLAMA:
        pytest.skip("BANYAN_LLAMA_SERVER names no llama.cpp server: its package is no part of Debian")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = open(tmp_path_factory.mktemp("llama") / "log", "w")
    command = [LLAMA, "-m", MODEL, "--host", "127.0.0.1", "--port", port, "-t", "2", "-np", "4", "--jinja"]
    env = {**os.environ, "LD_LIBRARY_PATH": str(pathlib.Path(LLAMA).parent)}
    process = subprocess.Popen([str(w) for w in command], stdout=log, stderr=log, env=env)
    front = Server(
        tmp_path_factory.mktemp("before") / "data", "--upstream", f"http://127.0.0.1:{port}", model=None
    )
    yield front
    assert front.stop() == 0, front.log_text()[-4000:]
    process.terminate()
    process.wait(60)
    log.close()


def test_llama_finds_nothing_of_anybody(llama):
    """The server's cache is one for all its callers, so no prompt is looked up in it."""
    prompt = "You are a helpful assistant of a bank. " * 40
    for _ in range(2):
        for name in ("a", "b"):
            key = llama.tenant(f"{name}-{time.monotonic_ns()}")[1]
            with llama.http(key) as http:
                body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": prompt}], "max_tokens": 2}
                done = http.post("/v1/chat/completions", json=body)
            assert done.status_code == 200, done.text
            assert done.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_llama_counts_are_exact_wherever_a_stream_is_cut(llama):
    key = llama.tenant("cut")[1]
    seen = []
    for at in range(1, 21):
        tokens = 0
        with llama.http(key) as http, http.stream(
            "POST", "/v1/chat/completions", json=chat(max_tokens=400, stream=True, ignore_eos=True)
        ) as answer:
            for line in answer.iter_lines():
                tokens += line.startswith("data: {") and '"content":"' in line and '"role"' not in line
                if tokens == at:
                    break
        seen.append(tokens)
    written = rows(llama, tenant_of(llama, key), len(seen))
    for tokens, row in zip(seen, written):
        assert row[3] == "cancelled" and row[4] == 0, row
        assert tokens <= row[2] <= tokens + 64, (tokens, row)
