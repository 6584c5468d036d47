"""What a tenant used, as it is told, is what its clients saw; the log never holds a request up."""

import fcntl
import json
import os
import socket
import ssl
import threading
import time

import h2.connection
import h2.events
import h2.settings
import pytest

from conftest import MODEL_NAME, Server, wait_until

pytestmark = pytest.mark.usefixtures("one_day")


def midnight():
    return int(time.time()) // 86400 * 86400


def usage(server, key, **query):
    query.setdefault("start_time", midnight())
    with server.http(key) as client:
        answer = client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def totals(page):
    names = ("num_model_requests", "input_tokens", "input_cached_tokens", "output_tokens")
    results = [result for bucket in page["data"] for result in bucket["results"]]
    return {name: sum(result[name] for result in results) for name in names}


def test_usage_is_what_clients_saw(server):
    """Whole answers and streams, several at once: exact as soon as the last end was seen."""
    tenant_id, key, key_id = server.tenant("usage")
    seen = {"num_model_requests": 0, "input_tokens": 0, "output_tokens": 0}
    lock = threading.Lock()

    def ask(index):
        client = server.openai(key, max_retries=0)
        arguments = dict(
            model=MODEL_NAME, messages=[{"role": "user", "content": f"Count to {index}."}],
            max_tokens=3 + index, temperature=0,
        )  # fmt: skip
        if index % 2 == 0:
            told = client.chat.completions.create(**arguments).usage
        else:
            stream = client.chat.completions.create(
                **arguments, stream=True, stream_options={"include_usage": True}
            )
            told = [chunk.usage for chunk in stream if chunk.usage is not None][-1]
        with lock:
            seen["num_model_requests"] += 1
            seen["input_tokens"] += told.prompt_tokens
            seen["output_tokens"] += told.completion_tokens

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen["num_model_requests"] == 6
    page = usage(server, key, group_by="key,model,class")
    found = totals(page)
    assert {name: found[name] for name in seen} == seen
    result = page["data"][-1]["results"][0]
    assert (result["key_id"], result["model"], result["class"]) == (key_id, MODEL_NAME, "standard")
    with server.http(key) as client:
        me = client.get("/v1/me").json()
    assert me["tenant"]["id"] == tenant_id and me["key"]["id"] == key_id
    assert {name: me["usage_today"][name] for name in seen} == seen
    # The same, summed by the minute, and from the rows themselves.
    minutes = usage(server, key, start_time=int(time.time()) - 600, bucket_width="1m", limit=1440)
    found = totals(minutes)
    assert {name: found[name] for name in seen} == seen
    rows = server.ledger(
        "select count(*), sum(prompt_tokens), sum(completion_tokens) from requests where tenant_id = ?",
        tenant_id,
    )
    assert rows == [tuple(seen.values())]


def test_strangers_see_nothing(server, tenants):
    (_, acme, _), (_, globex, _) = tenants["acme"], tenants["globex"]
    server.openai(acme, max_retries=0).completions.create(model=MODEL_NAME, prompt="One", max_tokens=1)
    before = totals(usage(server, globex))
    server.openai(acme, max_retries=0).completions.create(model=MODEL_NAME, prompt="One", max_tokens=1)
    assert totals(usage(server, globex)) == before


class PipedServer(Server):
    """A server whose standard error is a pipe that is read only when the test says so."""

    def __init__(self, folder, *options):
        self.pipe = folder / "serve.log"
        os.mkfifo(self.pipe)
        self.reader = os.open(self.pipe, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, 4096)
        self.text = ""
        super().__init__(folder / "data", *options, log_dir=folder)

    def log_text(self):
        try:
            while True:
                self.text += os.read(self.reader, 65536).decode()
        except BlockingIOError:
            return self.text


@pytest.fixture
def piped(tmp_path):
    server = PipedServer(tmp_path)
    yield server
    is_over = threading.Event()

    def drain():
        while not is_over.is_set():
            server.log_text()
            time.sleep(0.01)

    reader = threading.Thread(target=drain)
    reader.start()
    assert server.stop() == 0
    is_over.set()
    reader.join()
    os.close(server.reader)


def test_a_log_that_nobody_reads(piped):
    """Requests go on, lines are dropped and counted, and the reader who comes back is told."""
    _, key, _ = piped.tenant("acme")
    wanted = 2500  # lines of 300 bytes: more than pipe and buffers hold
    with piped.http(key) as client:
        for index in range(wanted):
            assert client.get("/v1/nothing").status_code == 404, index
    piped.openai(key, max_retries=0).completions.create(model=MODEL_NAME, prompt="One", max_tokens=2)
    wait_until(lambda: piped.metric("banyan_log_dropped_total") > 0, what="a dropped line")

    def told():
        text = piped.log_text()
        whole = text[: text.rfind("\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        assert all(line["event"] for line in lines)  # never half a line
        return sum(line["lines"] for line in lines if line["event"] == "log_dropped")

    wait_until(lambda: told() > 0, what="the line that tells")


def test_access_log_in_a_file(tmp_path):
    path = tmp_path / "access.log"
    server = Server(tmp_path / "data", "--access-log", path, "--access-log-peer")
    try:
        _, key, key_id = server.tenant("acme")
        server.openai(key, max_retries=0).completions.create(
            model=MODEL_NAME, prompt="One", max_tokens=2, extra_body={"ignore_eos": True}
        )
        wait_until(lambda: path.read_text().count('"route":"/v1/completions"') == 1, what="the line")
        line = [json.loads(l) for l in path.read_text().splitlines() if "/v1/completions" in l][0]
        assert line["event"] == "request" and line["key"] == key_id and line["code"] == 200
        assert line["method"] == "POST" and line["completion_tokens"] == 2 and line["bytes"] > 100
        assert line["peer"].startswith("127.0.0.1") and 0 <= line["ttft_ms"] <= line["ms"]
        assert '"event":"request"' not in server.log_text()
        assert key not in path.read_text() and "One" not in path.read_text()
    finally:
        assert server.stop() == 0


class UnreadClient:
    """One HTTP/2 connection that takes heads of answers and, until told so, none of their bytes."""

    def __init__(self, server, key):
        context = ssl.create_default_context(cafile=server.ca)
        context.set_alpn_protocols(["h2"])
        self.host, port = server.url.removeprefix("https://").split(":")
        plain = socket.create_connection((self.host, int(port)), timeout=300)
        self.socket = context.wrap_socket(plain, server_hostname=self.host)
        self.h2 = h2.connection.H2Connection()
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        self.key = key

    def events(self):
        self.socket.sendall(self.h2.data_to_send())
        return self.h2.receive_data(self.socket.recv(65536))

    def ask(self, path):
        """The code of the answer, and its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(
            stream,
            [(":method", "GET"), (":scheme", "https"), (":authority", self.host),
             (":path", path), ("authorization", f"Bearer {self.key}")],
            end_stream=True,
        )  # fmt: skip
        while True:
            for event in self.events():
                if isinstance(event, h2.events.ResponseReceived):
                    return int(dict(event.headers)[b":status"]), stream

    def read(self, stream):
        self.h2.increment_flow_control_window(1 << 20)
        self.h2.increment_flow_control_window(1 << 20, stream)
        body = b""
        while True:
            for event in self.events():
                if isinstance(event, h2.events.DataReceived):
                    body += event.data
                if isinstance(event, h2.events.StreamEnded):
                    return body


def test_unread_answers_are_bounded(server):
    """A tenant that asks and never reads holds 16 answers, not one for each stream it can open; others
    do not notice."""
    _, key, _ = server.tenant("unread")
    _, other, _ = server.tenant("reader")
    path = f"/v1/usage?start_time={midnight() - 86400}&bucket_width=1m&limit=1440"
    client = UnreadClient(server, key)
    answers = [client.ask(path) for _ in range(24)]
    assert [code for code, _ in answers] == [200] * 16 + [503] * 8
    assert client.ask("/v1/me")[0] == 503
    usage(server, other)
    assert len(json.loads(client.read(answers[0][1]))["data"]) == 1440
    assert [client.ask(path)[0] for _ in range(2)] == [200, 503]
    client.socket.close()
    with server.http(key) as reader:
        wait_until(lambda: reader.get("/v1/me").status_code == 200, what="room for answers")
