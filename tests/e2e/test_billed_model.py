"""Every row names the model that ran and has its price, whatever ended the request; a name with quotes,
backslashes and letters beyond ASCII is the same name in rows, sums, CSV, prices and Redis."""

import csv
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import time

import pytest

from conftest import Server, wait_until
from test_redis import REDIS, Redis

NAME = 'say "hi" \\ \u00e9\U0001f600 a:v1'
PRICE = {"currency": "usd", "model": NAME, "input_nano": 150, "cached_input_nano": 15, "output_nano": 600}
ROUTES = {
    "/v1/chat/completions": lambda text: {"model": NAME, "messages": [{"role": "user", "content": text}]},
    "/v1/completions": lambda text: {"model": NAME, "prompt": text},
    "/v1/generate": lambda text: {"prompt": text},  # names no model: the one that is served
    "/v1/generate#named": lambda text: {"model": NAME, "prompt": text},
}
ENDS = ("whole", "refused", "left in the queue", "left in the prefill", "left in the decode", "engine killed")
LONG = " ".join(f"{number} herons" for number in range(400))  # some 1,700 tokens


@pytest.fixture(scope="module")
def redis():
    if not pathlib.Path(REDIS).exists():
        yield None  # the rest is looked at without one
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-", dir="/tmp"))
    redis = Redis(folder)
    (folder / "password").write_text(redis.password + "\n")
    yield redis
    redis.process.kill()
    redis.process.wait(60)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def priced(tmp_path_factory, redis):
    options = ["--model-name", NAME, "--replay-wait-s", "3"]
    if redis is not None:
        options += ["--redis", f"unix://{redis.path}", "--redis-password-file", redis.path.parent / "password"]
    server = Server(tmp_path_factory.mktemp("model") / "data", *options)
    server.tenant_id, server.key, _ = server.tenant("acme", scopes=["inference", "usage:read"])
    with server.admin() as admin:
        answer = admin.post("/admin/v1/prices", json=PRICE)
        assert answer.status_code == 201, answer.text
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


class Raw:
    """One request whose connection the test may drop at any byte."""

    def __init__(self, server, path, body):
        host, port = server.url.removeprefix("https://").split(":")
        self.socket = server.context.wrap_socket(
            socket.create_connection((host, int(port)), 60), server_hostname=host
        )
        data = json.dumps(body).encode()
        self.socket.sendall(
            (
                f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {server.key}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
            ).encode()
            + data
        )
        self.seen = b""

    def read_until(self, text):
        while text not in self.seen:
            data = self.socket.recv(65536)
            if not data:
                return
            self.seen += data

    def leave(self):
        self.socket.close()


def rows(server):
    return server.ledger(
        "select id, route, model, finish, prompt_tokens, cached_tokens, completion_tokens, cost_nano, is_estimated,"
        " request_id from requests order by id"
    )


def end_whole(server, path, body):
    request = Raw(server, path, {**body, "max_tokens": 4, "stream": True})
    request.read_until(b"data: [DONE]")
    request.leave()


def end_refused(server, path, body):
    """Refused by the engine behind a whole tokenisation: it may have a row or none, never one without a name."""
    request = Raw(server, path, {**body, "max_tokens": 10**6, "stream": True})
    request.read_until(b"error")
    request.leave()


def end_left_in_the_queue(server, path, body):
    engine = server.child("engine")
    os.kill(engine, signal.SIGSTOP)
    request = Raw(server, path, {**body, "max_tokens": 4, "stream": True})
    time.sleep(0.3)
    request.leave()
    time.sleep(0.3)
    os.kill(engine, signal.SIGCONT)


def end_left_in_the_prefill(server, path, body):
    request = Raw(server, path, {**body, "max_tokens": 4, "stream": True})
    request.read_until(b"\r\n\r\n")  # admitted, and the first token is some 300 ms away
    request.leave()


def end_left_in_the_decode(server, path, body):
    request = Raw(server, path, {**body, "max_tokens": 400, "stream": True})
    request.read_until(b'"finish_reason":null')
    request.leave()


def end_engine_killed(server, path, body):
    request = Raw(server, path, {**body, "max_tokens": 400, "stream": True})
    request.read_until(b'"finish_reason":null')
    os.kill(server.child("engine"), signal.SIGKILL)
    request.read_until(b"error")
    request.leave()
    with server.http() as http:
        wait_until(lambda: http.get("/ready").status_code == 200, 60, "the engine")


@pytest.mark.slow  # some 30 prefills of 1,700 tokens; test_usage and test_cuts have rows of most ends under ASan
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("route", ROUTES)
def test_every_row_names_the_model_that_ran(priced, route, end):
    path, body = route.partition("#")[0], ROUTES[route](f"{route} {end}: {LONG}")
    before = len(rows(priced))
    globals()["end_" + end.replace(" ", "_")](priced, path, body)
    if end != "refused":
        wait_until(lambda: len(rows(priced)) > before, 30, "the row")
    for row in rows(priced)[before:]:
        _, row_route, model, _, prompt, cached, completion, cost, _, _ = row
        assert row_route == path, row
        assert model == NAME, row
        wanted = (prompt - cached) * 150 + cached * 15 + completion * 600
        assert cost == wanted, row
        if end in ("whole", "left in the prefill", "left in the decode", "engine killed"):
            assert prompt > 1000, row  # its prefill ran


@pytest.mark.slow  # of the rows that stand above
def test_all_who_tell_of_usage_know_one_name(priced, redis):
    total = len(rows(priced))
    start = int(time.time()) // 86400 * 86400 - 86400
    with priced.admin() as admin:
        query = {"start_time": start, "group_by": "model"}
        told = admin.get("/admin/v1/usage", params=query).json()
        models = {result["model"] for bucket in told["data"] for result in bucket["results"]}
        assert models == {NAME}
        table = admin.get("/admin/v1/usage", params={**query, "format": "csv"})
        lines = list(csv.DictReader(io.StringIO(table.text)))
        assert {line["model"].removeprefix("'") for line in lines} == {NAME}
        assert sum(int(line["num_model_requests"]) for line in lines) == total
        only = admin.get("/admin/v1/usage", params={**query, "model": NAME}).json()
        assert sum(r["num_model_requests"] for b in only["data"] for r in b["results"]) == total
        for line in admin.get("/metrics").text.splitlines():
            if not line.startswith("#"):
                float(line.rpartition(" ")[2])  # no label has broken its line
    with priced.http(priced.key) as http:
        assert [m["id"] for m in http.get("/v1/models").json()["data"]] == [NAME]
        mine = http.get("/v1/usage", params=query).json()
        assert {r["model"] for b in mine["data"] for r in b["results"]} == {NAME}
    if redis is None:
        return

    def shipped():
        hashes = redis.hashes().values()
        return sum(fields.get(f"requests:{NAME}:standard", 0) for fields in hashes) == total

    wait_until(shipped, 30, "the rows in Redis")
    fields = {field for fields in redis.hashes().values() for field in fields}
    assert {field.partition(":")[2] for field in fields} == {"", f"{NAME}:standard"}
    entries = redis("XRANGE", "banyan:usage", "-", "+")
    assert {dict(zip(e[1][::2], e[1][1::2]))[b"model"].decode() for e in entries} == {NAME}


def test_a_record_that_outlived_both_halves_keeps_its_model(tmp_path):
    """The engine dies with its edge and comes back with another model: what it had done is the old one's."""
    server = Server(tmp_path / "data", "--model-name", NAME)
    server.tenant_id, server.key, _ = server.tenant("acme")
    with server.admin() as admin:
        assert admin.post("/admin/v1/prices", json=PRICE).status_code == 201
    request = Raw(server, "/v1/generate", {"prompt": "Count:", "max_tokens": 1000, "stream": True})
    request.read_until(b'"finish_reason":null')
    for pid in [server.process.pid, server.child("engine"), server.child("edge")]:
        os.kill(pid, signal.SIGKILL)
    server.process.wait(60)
    request.leave()
    server = Server(tmp_path / "data", "--model-name", "another")
    try:
        wait_until(lambda: rows(server), 30, "the row of the record")
        (row,) = rows(server)
        assert row[2] == NAME and row[6] >= 1 and row[7] > 0, row
    finally:
        assert server.stop() == 0, server.log_text()[-4000:]
