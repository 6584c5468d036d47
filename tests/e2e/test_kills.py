"""kill -9 of the edge, of the engine, of both, at random instants under load: nothing is lost, nothing
is counted twice, nothing that was cut looks whole."""

import json
import os
import random
import signal
import sqlite3
import ssl
import subprocess
import threading
import time

import httpx
import pytest

from conftest import BINARY, IS_SANITIZED, MODEL, MODEL_NAME, UnixConnection, wait_until
from test_serve import free_port

KILLS = int(os.environ.get("BANYAN_TEST_KILLS", "24"))
SEED = int(os.environ.get("BANYAN_TEST_SEED", "1"))
CLIENTS = 6


class Halves:
    """Edge and engine as two processes of this test's own, started again at once."""

    def __init__(self, folder):
        self.data_dir = folder / "data"
        self.socket = folder / "engine.sock"
        self.log = open(folder / "halves.log", "a")
        self.port, self.admin_port = free_port(), free_port()
        self.processes = {}
        self.data_dir.mkdir(mode=0o700)
        self.start("engine")
        self.start("edge")
        wait_until(self.serves, 60, "both halves")
        self.context = ssl.create_default_context(cafile=self.data_dir / "tls/ca.crt")

    def start(self, name):
        common = ["--data-dir", self.data_dir, "--socket", self.socket]
        own = {
            "engine": ["--model", MODEL, "--kv-memory", "256M"],
            "edge": [
                "--listen", f"127.0.0.1:{self.port}",
                "--admin-listen", f"127.0.0.1:{self.admin_port}",
                "--connections-per-address", "0", "--connects-per-address-s", "0",
                "--handshakes-s", "0",
            ],
        }[name]  # fmt: skip
        self.processes[name] = subprocess.Popen(
            [str(c) for c in (BINARY, name, *common, *own)],
            stdout=subprocess.DEVNULL, stderr=self.log,
        )  # fmt: skip

    def kill(self, names):
        for name in names:
            self.processes[name].send_signal(signal.SIGKILL)
        for name in names:
            assert self.processes[name].wait(30) == -signal.SIGKILL, f"the {name} ended by itself"
            self.start(name)

    def serves(self):
        try:
            return self.http().get("/ready").status_code == 200
        except (httpx.TransportError, FileNotFoundError):
            return False

    def http(self, key=None, admin=False):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        context = ssl.create_default_context(cafile=self.data_dir / "tls/ca.crt")
        port = self.admin_port if admin else self.port
        return httpx.Client(
            base_url=f"https://127.0.0.1:{port}", verify=context, headers=headers, timeout=300,
            trust_env=False,
        )  # fmt: skip

    def tenant(self):
        key = (self.data_dir / "admin.key").read_text().strip()
        with self.http(key, admin=True) as admin:
            tenant = admin.post("/admin/v1/tenants", json={"name": "acme"}).json()["id"]
            made = admin.post(f"/admin/v1/tenants/{tenant}/keys", json={"name": "t"}).json()
        return tenant, made["key"]

    def stats(self):
        connection = UnixConnection(self.socket)
        connection.request("GET", "/internal/v1/stats")
        stats = json.loads(connection.getresponse().read())
        connection.close()
        return stats

    def ledger(self, sql):
        connection = sqlite3.connect(f"file:{self.data_dir}/ledger.db?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def stop(self):
        for name in ("edge", "engine"):
            self.processes[name].send_signal(signal.SIGTERM)
            assert self.processes[name].wait(300) == 0, name
        self.log.close()


class Client(threading.Thread):
    """Asks one thing after the other, whatever happens, and keeps what it saw."""

    def __init__(self, halves, key, seed):
        super().__init__()
        self.halves, self.key = halves, key
        self.draw = random.Random(seed)
        self.is_over = threading.Event()
        self.seen = []  # (request id, tokens seen, completion tokens of the usage or None, whole?)

    def request(self):
        tokens = self.draw.choice((1, 5, 20, 60))
        return {
            "model": MODEL_NAME, "prompt": "Once upon a time", "max_tokens": tokens,
            "ignore_eos": True, "return_token_ids": True, "temperature": 1.0,
            "seed": self.draw.randrange(1 << 30),
        }  # fmt: skip

    def whole(self, http):
        answer = http.post("/v1/completions", json=self.request())
        if answer.status_code == 200:
            usage = answer.json()["usage"]["completion_tokens"]
            self.seen.append((answer.headers["x-request-id"], usage, usage, True))

    def stream(self, http):
        request = {**self.request(), "stream": True, "stream_options": {"include_usage": True}}
        leaves_after = self.draw.choice((None, None, None, 3))
        request_id, tokens, usage, is_whole = None, 0, None, False
        try:
            with http.stream("POST", "/v1/completions", json=request) as response:
                if response.status_code != 200:
                    return
                request_id = response.headers["x-request-id"]
                for line in response.iter_lines():
                    if line == "data: [DONE]":
                        is_whole = True
                    elif line.startswith("data: "):
                        event = json.loads(line[6:])
                        for choice in event.get("choices", []):
                            tokens += len(choice.get("token_ids") or [])
                        usage = (event.get("usage") or {}).get("completion_tokens", usage)
                    if leaves_after is not None and tokens >= leaves_after:
                        break
        finally:
            if request_id is not None:
                self.seen.append((request_id, tokens, usage, is_whole))

    def run(self):
        while not self.is_over.is_set():
            try:
                with self.halves.http(self.key) as http:
                    while not self.is_over.is_set():
                        (self.stream if self.draw.random() < 0.7 else self.whole)(http)
            except (httpx.HTTPError, ssl.SSLError):
                time.sleep(0.02)  # the edge is away


def check(halves, clients):
    """Every request that was begun has exactly one row, exact, and says no less than was seen."""
    rows = {
        row[0]: row[1:]
        for row in halves.ledger(
            "select request_id, completion_tokens, finish, is_estimated, tenant_id from requests"
        )
    }
    total = halves.ledger("select count(*) from requests")[0][0]
    assert total == len(rows), "a request was counted twice"
    begun = whole = 0
    for client in clients:
        for request_id, tokens, usage, is_whole in client.seen:
            if tokens == 0 and not is_whole:
                continue  # told that it waits, and never begun
            begun += 1
            assert request_id in rows, f"no row for a request that had {tokens} tokens"
            counted, finish, is_estimated, _ = rows[request_id]
            assert counted >= tokens, (request_id, counted, tokens)
            if is_whole:
                whole += 1
                assert usage == counted == tokens and finish == "length", (request_id, rows)
    assert [r for r in rows.values() if r[2]] == [], "an estimated row"
    return total, begun, whole


@pytest.mark.slow
@pytest.mark.skipif(IS_SANITIZED, reason="starts many processes; a sanitizer's build takes minutes")
def test_kills_at_random_instants(tmp_path):
    draw = random.Random(SEED)
    halves = Halves(tmp_path)
    tenant, key = halves.tenant()
    clients = [Client(halves, key, SEED * 1000 + i) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    killed = {"edge": 0, "engine": 0, "both": 0}
    for _ in range(KILLS):
        time.sleep(draw.uniform(0.05, 1.5))
        what = draw.choice(("edge", "engine", "both"))
        killed[what] += 1
        halves.kill(("edge", "engine") if what == "both" else (what,))
    wait_until(halves.serves, 300, "both halves")
    for client in clients:
        client.is_over.set()
    for client in clients:
        client.join(300)
        assert not client.is_alive()
    wait_until(lambda: halves.stats()["finals_waiting"] == 0, 300, "every record acknowledged")
    assert halves.stats()["requests"] == 0 and halves.stats()["finals_lost"] == 0
    total, begun, whole = check(halves, clients)
    print(f"\nkills {killed} seed {SEED}: {total} rows, {begun} begun, {whole} whole")
    assert whole > 0 and begun > whole, "no kill met a running request"
    assert halves.ledger("select count(*) from requests where tenant_id != '" + tenant + "'") == [(0,)]
    halves.stop()
