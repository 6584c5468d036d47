"""A real `banyan serve` for the tests: its own data directory, free ports, the small model."""

import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import time
import http.client
import urllib.parse

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / os.environ.get("BANYAN_BINARY", "build/release/banyan")
CACHE = pathlib.Path(os.environ.get("BANYAN_CACHE", pathlib.Path.home() / ".cache/banyan"))
MODEL = pathlib.Path(
    os.environ.get("BANYAN_TEST_MODEL", CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")
)
MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1"
IS_SANITIZED = "asan" in str(BINARY) or "tsan" in str(BINARY)
# With --sandbox required root's halves need users of their own; these two every system has.
USERS = ("--edge-user", "daemon", "--engine-user", "games") if os.geteuid() == 0 else ()


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs minutes, or the speed of a release build")
    config.addinivalue_line("markers", "long: takes many seconds; not in tests/run --quick")
    config.addinivalue_line("markers", "all: only tests/run --all has the time for it")


def rounds(few, all_of_them):
    """What a test with many cases takes: few in tests/run, all of them in tests/run --all."""
    return all_of_them if "BANYAN_TEST_ALL" in os.environ else few


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's own Unix socket."""

    def __init__(self, path):
        super().__init__("engine", timeout=300)
        self.unix_path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(300)
        self.sock.connect(self.unix_path)


class Server:
    """One running server and the ways to look at it."""

    def __init__(self, data_dir, *options, model=MODEL, log_dir=None, prefix=(), binary=BINARY):
        self.data_dir = pathlib.Path(data_dir)
        self.log_path = pathlib.Path(log_dir or self.data_dir.parent) / "serve.log"
        command = [
            *prefix, binary, "serve", *(("--model", model, "--kv-memory", "512M") if model else ()),
            "--data-dir", self.data_dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
            # All clients of a test come from one address.
            "--connections-per-address", "0", "--connects-per-address-s", "0",
            "--handshakes-s", "0", *options,
        ]  # fmt: skip
        self.log = open(self.log_path, "a")
        self.process = subprocess.Popen(
            [str(c) for c in command], stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("ready https://"), f"{line!r}\n{self.log_text()[-4000:]}"
        self.url = line.split()[1]
        admin = re.findall(r"config API (https://[^,]+),", self.log_text())
        self.admin_url = admin[-1]
        self.ca = self.data_dir / "tls/ca.crt"
        self.context = ssl.create_default_context(cafile=self.ca)
        self.admin_key = (self.data_dir / "admin.key").read_text().strip()

    def log_text(self):
        return self.log_path.read_text()

    def http(self, key=None, base=None, http2=False, **kwargs):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(
            base_url=base or self.url, verify=self.context, headers=headers, timeout=300,
            http2=http2, trust_env=False, **kwargs,
        )  # fmt: skip

    def admin(self, key=None):
        return self.http(key or self.admin_key, self.admin_url)

    def tenant(self, name, scopes=None, **fields):
        """A new tenant with one key: (tenant id, key value, key id)."""
        with self.admin() as admin:
            tenant = admin.post("/admin/v1/tenants", json={"name": name, **fields})
            assert tenant.status_code in (200, 201), tenant.text
            tenant_id = tenant.json()["id"]
            body = {"name": "test"} if scopes is None else {"name": "test", "scopes": scopes}
            key = admin.post(f"/admin/v1/tenants/{tenant_id}/keys", json=body)
            assert key.status_code in (200, 201), key.text
            return tenant_id, key.json()["key"], key.json()["id"]

    def openai(self, key, **kwargs):
        return openai.OpenAI(
            base_url=self.url + "/v1", api_key=key, http_client=self.http(), **kwargs
        )

    def engine(self, method, path, body=None, headers=None):
        """A request straight to the engine's socket."""
        connection = UnixConnection(self.data_dir / "engine/engine.sock")
        connection.request(
            method, path, None if body is None else json.dumps(body), headers or {}
        )
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, data

    def engine_stats(self):
        status, data = self.engine("GET", "/internal/v1/stats")
        assert status == 200, data
        return json.loads(data)

    def child(self, name):
        """Pid of the half of that name."""
        out = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for line in out.splitlines():
            pid, comm = line.split()
            if comm == name:
                return int(pid)
        return None

    def descriptors(self, name):
        return len(os.listdir(f"/proc/{self.child(name)}/fd"))

    def sockets(self, name):
        """Descriptors of a half that are sockets."""
        folder = f"/proc/{self.child(name)}/fd"
        links = []
        for entry in os.listdir(folder):
            try:
                links.append(os.readlink(f"{folder}/{entry}"))
            except FileNotFoundError:
                pass
        return [link for link in links if link.startswith("socket:")]

    def metric(self, name):
        """Value of a series, with its labels as they are written."""
        with self.admin() as admin:
            text = admin.get("/metrics").text
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))

    def ledger(self, sql, *arguments):
        connection = sqlite3.connect(f"file:{self.data_dir}/ledger.db?mode=ro", uri=True)
        try:
            return connection.execute(sql, arguments).fetchall()
        finally:
            connection.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=300)
        self.process.stdout.close()
        self.log.close()
        return code


def pages_at_hand(stats):
    """KV pages that no sequence holds: free, or the cache's alone."""
    return stats["pages_free"] + stats["pages_cached"] + stats["pages_pinned"]


def wait_until(condition, seconds=120, what="the condition"):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true in {seconds} s")


def limit_rows():
    """{name: its greatest value} of each row of quota_limits.def."""
    text = next(ROOT.glob("auth/**/quota_limits.def")).read_text()
    bounds = dict(re.findall(r"^#define (LIMIT_QUOTA_\w+) +(\d+)", (ROOT / "config/base/limits.h").read_text(), re.M))
    rows = re.findall(r"^QUOTA_LIMIT\(\w+, (\w+), \w+, \w+, (\w+),", text, re.M)
    assert rows
    return {name: int(bounds[most]) for name, most in rows}


def limits_hold(server, tenant_id, key_id, generate):
    """Whoever `generate` asks as is held to the tenant's plan, and to its own limits beside it."""
    with server.admin() as admin:
        tenant = f"/admin/v1/tenants/{tenant_id}"
        own = f"{tenant}/keys/{key_id}/limits"
        plan = admin.post("/admin/v1/plans", json={"name": f"plan-of-{key_id}", "input_tokens_per_minute": 1}).json()
        for path, limits, code in (
            (f"{tenant}/limits", {"plan": plan["id"]}, 429),
            (f"{tenant}/limits", {}, 200),
            (own, {"input_tokens_per_minute": 1}, 429),
            (own, {}, 200),
        ):
            assert admin.put(path, json=limits).status_code == 200, path
            answer = generate()
            assert answer.status_code == code, (path, limits, answer.text)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("banyan") / "data", "--embeddings", "last")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]
    assert "runtime error:" not in server.log_text(), server.log_text()[-8000:]


@pytest.fixture(scope="module")
def one_day():
    """For tests of budgets and sums of a day (UTC): none ends while a module of them runs."""
    left = 86400 - time.time() % 86400
    if left < 180:
        time.sleep(left + 1)


@pytest.fixture(scope="session")
def tenants(server):
    """Two tenants: {"acme": (id, key, key id), "globex": …}."""
    return {name: server.tenant(name) for name in ("acme", "globex")}


@pytest.fixture(scope="session")
def key(tenants):
    return tenants["acme"][1]


@pytest.fixture(scope="session")
def client(server, key):
    return server.openai(key, max_retries=0)
