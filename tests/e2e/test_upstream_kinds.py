"""Each kind of foreign server, played by a small HTTP server that sends the streams of tests/adapter
(their README says where the forms are from), and what a broken one sends."""

import gzip
import json
import pathlib
import re
import socket
import threading

import pytest

from conftest import IS_SANITIZED, ROOT, Server, wait_until

STREAMS = ROOT / "tests/adapter"
EVENTS = "content-type: text/event-stream"

# What a server says of itself: paths that it answers, the owner of its model, its name of it.
FACTS = {
    "vllm": ({"/version": {"version": "0.32.0"}}, "vllm", "facebook/opt-125m"),
    "trtllm": ({"/version": {"version": "1.2.1"}}, "tensorrt_llm", "TinyLlama-1.1B-Chat-v1.0"),
    "sglang": ({"/get_server_info": {"max_running_requests": 5}}, "sglang", "Qwen/Qwen3-0.6B"),
    "ollama": ({"/api/version": {"version": "0.12.3"}}, "library", "qwen3:0.6b"),
    "tgi": ({"/info": {"max_total_tokens": 4096}}, "mistralai/Mistral-7B", "mistralai/Mistral-7B"),
    "openai": ({}, "somebody", "some-model"),
}


def stream(name):
    return (STREAMS / f"{name}.sse").read_bytes()


def whole(body, *headers, code=200):
    head = "\r\n".join((f"HTTP/1.1 {code} X", *(headers or (EVENTS,)), "connection: close"))
    return head.encode() + b"\r\n\r\n" + body


class Player:
    """Answers questions as a kind does, and requests for answers with the bytes of `answer`."""

    def __init__(self, kind):
        self.paths, owner, name = FACTS[kind]
        self.models = {"data": [{"id": name, "object": "model", "owned_by": owner, "max_model_len": 2048}]}
        self.answer = b""
        self.endless = b""  # goes on and on behind `answer`
        self.keeps_open = False
        self.bodies = []
        self.hosts = set()
        self.start(0)
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, port):
        self.listening = socket.create_server(("127.0.0.1", port))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            self.serve_one(client)
        except OSError:
            pass
        client.close()

    def serve_one(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(65536)
            if not data:
                return
            head += data
        head, body = head.split(b"\r\n\r\n", 1)
        length = re.search(rb"content-length: (\d+)", head, re.I)
        while length and len(body) < int(length.group(1)):
            body += client.recv(65536)
        self.hosts.add(re.search(rb"host: (\S+)", head, re.I).group(1).decode())
        method, path, _ = head.split(b"\r\n")[0].decode().split()
        if method == "GET":
            facts = self.models if path == "/v1/models" else self.paths.get(path)
            text = json.dumps(facts).encode()
            client.sendall(whole(text if facts else b"", "content-type: application/json", code=200 if facts else 404))
            return
        self.bodies.append((path, json.loads(body)))
        keeps_open = self.keeps_open  # a test may change it for the next request once it has the first bytes
        client.sendall(self.answer)
        while self.endless:
            client.sendall(self.endless)
        while keeps_open and client.recv(1):
            pass

    def stop(self):
        try:
            self.listening.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        except OSError:
            pass
        self.listening.close()


def start(kind, folder, *options):
    player = Player(kind)
    shared = () if kind in ("vllm", "trtllm") else ("--upstream-shared-cache",)
    server = Server(folder / "data", "--upstream", player.url, *shared, *options, model=None)
    return player, server


@pytest.fixture(scope="module", params=sorted(FACTS))
def pair(request, tmp_path_factory):
    player, server = start(request.param, tmp_path_factory.mktemp(request.param))
    yield request.param, player, server
    assert server.stop() == 0, server.log_text()[-4000:]
    player.stop()


def ask(server, key, player, path="/v1/chat/completions", **more):
    body = {"model": player.models["data"][0]["id"], "max_tokens": 30, **more}
    if "chat" in path:
        body.setdefault("messages", [{"role": "user", "content": "Hi"}])
    else:
        body.setdefault("prompt", "One,")
    with server.http(key) as http:
        return http.post(path, json=body)


def row_of(server, tenant):
    sql = "select prompt_tokens, cached_tokens, completion_tokens, finish, is_estimated from requests where tenant_id = ?"
    wait_until(lambda: server.ledger(sql, tenant), 30, "a row")
    (row,) = server.ledger(sql, tenant)
    return row


CHATS = {
    "vllm": ("Hm", "One two", "stop", (9, 0, 4, "stop", 0)),
    "sglang": ("Hm, so", "Café", "stop", (14, 8, 6, "stop", 0)),
    "trtllm": ("Hm", "New York is.", "length", (21, 0, 5, "length", 0)),
    "tgi": (None, "Deep learning né", "stop", (17, 0, 4, "stop", 0)),
    "ollama": ("Hm.", "Hello", "stop", (11, 0, 9, "stop", 0)),
}


def test_the_kind_is_found_and_a_chat_goes_through(pair):
    kind, player, server = pair
    assert f'"kind":"{kind}"' in server.log_text().replace(" ", "")
    if kind == "openai":
        return
    tenant, key, _ = server.tenant("chat")
    player.answer = whole(stream(f"{kind}_chat"))
    done = ask(server, key, player)
    assert done.status_code == 200, done.text
    reasoning, content, finish, row = CHATS[kind]
    choice = done.json()["choices"][0]
    assert choice["message"]["content"] == content
    assert choice["message"].get("reasoning_content") == reasoning, choice
    assert choice["finish_reason"] == finish
    assert row_of(server, tenant) == row
    path, body = player.bodies[-1]
    assert path == "/v1/chat/completions" and body["stream"] is True
    assert not {"priority", "user", "n"} & body.keys()


@pytest.mark.parametrize("is_stream", (False, True))
def test_calls_of_tools_go_through(pair, is_stream):
    kind, player, server = pair
    if not (STREAMS / f"{kind}_tools.sse").exists():
        pytest.skip("no stream of this kind has calls")
    _, key, _ = server.tenant(f"tools-{is_stream}")
    player.answer = whole(stream(f"{kind}_tools"))
    done = ask(server, key, player, tools=[TOOL], stream=is_stream)
    assert done.status_code == 200, done.text
    assert player.bodies[-1][1]["tools"] == [TOOL]
    if not is_stream:
        choice = done.json()["choices"][0]
        call = choice["message"]["tool_calls"][0]["function"]
        assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Oslo"})
        assert choice["finish_reason"] == "tool_calls"
    else:
        assert done.text.endswith("data: [DONE]\n\n") and '"weather"' in done.text


def test_tenants_are_kept_apart_as_far_as_the_kind_can(pair):
    kind, player, server = pair
    player.answer = whole(stream("vllm_chat"))
    tenants = [server.tenant(f"apart-{i}") for i in range(2)]
    player.bodies.clear()
    for _, key, _ in tenants * 2:
        assert ask(server, key, player).status_code == 200
    salts = [body.get("cache_salt") for _, body in player.bodies]
    if kind in ("vllm", "sglang", "trtllm"):
        assert all(re.fullmatch("[0-9a-f]{32}", salt) for salt in salts)
        assert salts[:2] == salts[2:] and salts[0] != salts[1]
    else:
        assert salts == [None] * 4
    for tenant, _, _ in tenants:  # each has its own two rows, and nothing of the other
        sql = "select count(*) from requests where tenant_id = ?"
        wait_until(lambda: server.ledger(sql, tenant) == [(2,)], 30, "two rows")
    for field in ("cache_salt", "cache_prompt", "id_slot", "x-banyan-tenant"):
        done = ask(server, tenants[0][1], player, **{field: "mine"})
        assert done.status_code == 400 and done.json()["error"]["param"] == field, done.text


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
# A field that the server would ignore, or take in another sense, and what is said instead.
ODDITIES = {
    "vllm": ({"top_k": 0}, None, {"top_k": 0, "temperature": 1}),
    "sglang": ({}, None, {"top_k": -1, "repetition_penalty": 1.0}),
    "trtllm": ({"parallel_tool_calls": False, "tools": [TOOL]}, "parallel_tool_calls", {}),
    "tgi": ({"presence_penalty": 0.5}, "presence_penalty", {"temperature": 1}),
    "ollama": ({"logprobs": True}, "logprobs", {}),
    "openai": ({"min_p": 0.1}, "min_p", {}),
}


def test_oddities_of_the_kind(pair):
    kind, player, server = pair
    _, key, _ = server.tenant("odd")
    player.answer = whole(stream("vllm_chat"))
    more, refused, sent = ODDITIES[kind]
    done = ask(server, key, player, **more)
    if refused:
        assert done.status_code == 400 and done.json()["error"]["param"] == refused, done.text
        assert ask(server, key, player).status_code == 200
    body = player.bodies[-1][1]
    assert sent.items() <= body.items(), body
    if kind == "tgi":
        assert not {"top_p", "presence_penalty"} & body.keys()
    done = ask(server, key, player, "/v1/completions")
    assert done.status_code == (400 if kind == "trtllm" else 200), done.text  # only its chats have a salt


# --- what a broken server sends ---


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    player, server = start("vllm", tmp_path_factory.mktemp("broken"), "--upstream-idle-timeout-s", "1")
    yield player, server
    assert server.stop() == 0, server.log_text()[-4000:]
    player.stop()


GOOD = stream("vllm_chat")
FRAMES = GOOD.split(b"\n\n")
FIRST = b"\n\n".join(FRAMES[:3]) + b"\n\n"  # with the text "One"
OTHER = FIRST.replace(b'"One"', '"né"'.encode())

# answer, what follows without end, whether text came before the failure
BROKEN = {
    "json": (whole(b'{"choices":[{"message":{"content":"x"}}]}', "content-type: application/json"), b"", False),
    "html": (whole(b"<html>x</html>", "content-type: text/html"), b"", False),
    "gzip": (whole(gzip.compress(GOOD), EVENTS, "content-encoding: gzip"), b"", False),
    "html_as_events": (whole(b"<html>\n\n</html>\n\n"), b"", False),
    "no_http": (b"what is this\r\n\r\n", b"", False),
    "two_lengths": (whole(GOOD, EVENTS, "content-length: 3", "content-length: 9"), b"", False),
    "hangs_up": (b"", b"", False),
    "cut": (whole(FIRST), b"", True),
    "cut_in_a_character": (whole(OTHER[: OTHER.index("é".encode()) + 1]), b"", True),
    "cut_in_a_frame": (whole(FIRST + FRAMES[3][:40]), b"", True),
    "malformed_between": (whole(FIRST + b"data: {oops\n\n" + b"\n\n".join(FRAMES[3:])), b"", True),
    "error_between": (whole(FIRST + b'data: {"error":{"message":"secret"}}\n\n'), b"", True),
    "no_finish": (whole(FIRST + b"data: [DONE]\n\n"), b"", True),
    "a_long_line": (whole(FIRST + b"data: {"), b"x" * 65536, True),
    "without_end": (whole(FIRST), FRAMES[3].replace(b'"completion_tokens":3', b'"completion_tokens":9999') + b"\n\n",
                    True),
    "too_many_choices": (whole(FIRST + b'data: {"choices":[{},{}]}\n\n'), b"", True),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(BROKEN))
@pytest.mark.parametrize("is_stream", (True, False))
def test_a_broken_stream(broken, case, is_stream):
    player, server = broken
    tenant, key, _ = server.tenant(f"{case}-{is_stream}")
    other, other_key, _ = server.tenant(f"beside-{case}-{is_stream}")
    player.answer, player.endless, has_text = BROKEN[case]
    sent = len(player.bodies)
    done = ask(server, key, player, stream=is_stream)
    player.endless = b""
    assert "secret" not in done.text and "[DONE]" not in done.text
    if is_stream and has_text:
        assert done.status_code == 200 and '"Hm"' in done.text and '"error"' in done.text, done.text
    else:
        assert done.status_code in (500, 502, 503), done.text
        assert done.json()["error"]["message"]
    assert len(player.bodies) == sent + 1  # a prompt that breaks the server breaks it once
    if has_text and is_stream:
        row = row_of(server, tenant)
        assert row[0] == 9 and row[3] == "error", row
    # Nothing of it shows elsewhere: another tenant is served, and has its own row alone.
    player.answer = whole(GOOD)
    assert ask(server, other_key, player).status_code == 200
    assert row_of(server, other) == (9, 0, 4, "stop", 0)


def test_a_silent_server(broken):
    player, server = broken
    tenant, key, _ = server.tenant("silent")
    player.answer, player.keeps_open = whole(FIRST), True
    done = ask(server, key, player, stream=True)
    player.keeps_open = False
    assert '"One"' in done.text and '"error"' in done.text and "[DONE]" not in done.text
    assert row_of(server, tenant)[3] == "error"


def test_a_broken_server_takes_no_memory(broken):
    player, server = broken
    _, key, _ = server.tenant("memory")
    engine = server.child("engine")

    def heap():
        status = pathlib.Path(f"/proc/{engine}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    before = heap()
    for _ in range(5):
        player.answer, player.endless = whole(FIRST + b"data: {"), b"x" * 65536
        ask(server, key, player, stream=True)
        player.endless = b""
    assert server.child("engine") == engine
    if not IS_SANITIZED:
        assert heap() - before < 32 * 1024  # KiB; each of the five would send a GiB
