"""Whatever happens to Redis, requests go on, and its hashes end equal to the ledger's roll-ups."""

import asyncio
import collections
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import httpx
import pytest

from conftest import BINARY, IS_SANITIZED, MODEL, MODEL_NAME, USERS, Server, wait_until
from test_dashboards import promtool
from test_serve import free_port

# Debian's package redis-tools has the server under this name; it goes by how it is called.
REDIS = "/usr/bin/redis-check-rdb"
NAMES = ("requests", "input", "cached", "output", "cost_nano")
PASSWORD = "canary-password-7fZ2"
PROMPT = "canary prompt about a heron"
# A hash is exact so long after its rows were committed: one pause between two turns of the edge (200 ms) and
# some milliseconds of work; the rest is for a machine that does other things, too.
EXACT_S = 10 if IS_SANITIZED else 2
# What another program may write over a key: one way for each type.
POISONS = (
    ("SET", "{}", "theirs"), ("SETBIT", "{}", "7", "1"), ("PFADD", "{}", "a"), ("RPUSH", "{}", "a", "b"),
    ("SADD", "{}", "a"), ("ZADD", "{}", "1", "a"), ("XADD", "{}", "*", "a", "b"), ("HSET", "{}", "a", "b"),
)  # fmt: skip


class Redis:
    """A redis-server of this test's own that saves nothing, and a client of it."""

    def __init__(self, folder, port=0, password=PASSWORD):
        self.path = folder / "redis.sock"
        self.password = password
        self.command = [
            "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", self.path,
            "--save", "", "--appendonly", "no", "--dir", folder, "--requirepass", password,
        ]  # fmt: skip
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [str(word) for word in self.command], executable=REDIS,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(self.answers, 60, "redis-server")

    def answers(self):
        try:
            return self("PING") == b"PONG"
        except (OSError, EOFError):
            return False

    def __call__(self, *words):
        """One command on a connection of its own."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self.path))
            with connection.makefile("rwb") as stream:
                self.write(stream, "AUTH", self.password)
                self.read(stream)
                self.write(stream, *words)
                return self.read(stream)

    @staticmethod
    def write(stream, *words):
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
        stream.flush()

    @classmethod
    def read(cls, stream):
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [cls.read(stream) for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
        assert kind != b"-", rest
        return int(rest) if kind == b":" else rest

    def everything(self):
        """Names and contents of all keys: (name, bytes)."""
        for key in self("KEYS", "*"):
            read = {
                b"hash": ("HGETALL", key), b"stream": ("XRANGE", key, "-", "+"),
                b"zset": ("ZRANGE", key, "0", "-1"),
            }[self("TYPE", key)]  # fmt: skip
            yield key.decode(), key + repr(self(*read)).encode()

    def hashes(self):
        """{key: {field: number}} without the edges' marks."""
        found = {}
        for key in self("KEYS", "banyan:usage:*"):
            words = self("HGETALL", key)
            fields = {words[i].decode(): int(words[i + 1]) for i in range(0, len(words), 2)}
            found[key.decode()] = {k: v for k, v in fields.items() if not k.startswith("hwm:")}
        return found

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Proxy(threading.Thread):
    """Between edge and Redis: holds back what the edge sends for `delay` seconds."""

    def __init__(self, path, target):
        super().__init__(daemon=True)
        self.path, self.target, self.delay = str(path), str(target), 0.0
        self.held = 0  # pieces that were held back
        self.is_listening = threading.Event()
        self.start()
        assert self.is_listening.wait(60)

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_unix_server(self.connect, self.path)
        self.is_listening.set()
        async with server:
            await server.serve_forever()

    async def connect(self, reader, writer):
        try:
            other_reader, other_writer = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self.copy(reader, other_writer, True), self.copy(other_reader, writer, False)
        )

    async def copy(self, reader, writer, is_held):
        try:
            while data := await reader.read(65536):
                if is_held and self.delay > 0:
                    self.held += 1
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()


class World:
    """A server with Redis behind the proxy, and a tenant whose requests are counted."""

    def __init__(self, folder):
        self.folder = folder
        self.password_file = folder / "password"
        self.password_file.write_text(PASSWORD + "\n")
        self.redis = Redis(folder)
        self.proxy = Proxy(folder / "proxy.sock", self.redis.path)
        self.server = Server(
            folder / "data", "--redis", f"unix://{self.proxy.path}",
            "--redis-password-file", self.password_file,
        )  # fmt: skip
        self.tenant, self.key, _ = self.server.tenant("acme")
        self.asked = 0

    def ask(self, count):
        """Requests, four at a time; each is answered, whatever Redis does."""

        def one(_):
            with self.server.http(self.key) as http:
                answer = http.post(
                    "/v1/completions", json={"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 2}
                )
            assert answer.status_code == 200, answer.text
            return answer.json()["usage"]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = list(pool.map(one, range(count)))
        self.asked += count
        return told

    def tokenize(self, count, key):
        """Requests whose rows cost the engine next to nothing."""
        with self.server.http(key) as http:
            for _ in range(count):
                answer = http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": PROMPT})
                assert answer.status_code == 200, answer.text
        return count

    def rollups(self):
        rows = self.server.ledger(
            "select tenant_id, strftime('%Y%m%d', minute * 60, 'unixepoch'), model, service_class,"
            " sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
            " sum(cost_nano)"
            " from usage_minutes group by 1, 2, 3, 4"
        )
        found = collections.defaultdict(collections.Counter)
        for tenant, day, model, service_class, *numbers in rows:
            fields = found[f"banyan:usage:{{{tenant}}}:{day}"]
            for name, number in zip(NAMES, numbers):
                fields[name] += number
                fields[f"{name}:{model}:{service_class}"] += number
        return {key: dict(fields) for key, fields in found.items()}

    def wait_equal(self):
        """All that was asked is in the roll-ups, and these are in Redis, field by field."""
        sums = self.rollups()
        assert sum(fields["requests"] for fields in sums.values()) == self.asked
        wait_until(lambda: self.redis.hashes() == sums, 120, "the hashes equal to the roll-ups")
        wait_until(lambda: self.server.metric("banyan_redis_ship_lag_rows") == 0, 60, "no lag")
        assert self.redis.hashes() == sums

    def hashes_are(self, sums):
        try:
            return self.redis.hashes() == sums
        except (AssertionError, ValueError):  # one of them is no hash at present, or one of another program
            return False

    def failures(self, reason):
        return self.server.metric(f'banyan_redis_errors_total{{reason="{reason}"}}')

    def wait_failure(self, reason, before=0):
        wait_until(lambda: self.failures(reason) > before, 120, f"a failure: {reason}")
        # The log has a thread of its own.
        wait_until(lambda: f'"reason":"{reason}"' in self.server.log_text(), 60, "its line")

    def readiness(self):
        with self.server.http() as http:
            answer = http.get("/ready")
        assert answer.status_code == 200, answer.text
        return answer.json()["redis"]

    def close(self):
        code = self.server.stop()
        self.redis.go_on()
        self.redis.kill()
        assert code == 0, self.server.log_text()[-4000:]


@pytest.fixture(scope="module")
def world():
    if not os.access(REDIS, os.X_OK):
        pytest.skip("no redis-tools; deploy/prepare test installs it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-redis-", dir="/tmp"))
    world = World(folder)
    yield world
    world.close()
    text = world.server.log_text()
    assert PASSWORD not in text and PROMPT not in text and world.key not in text
    assert "AddressSanitizer" not in text and "runtime error:" not in text, text[-8000:]
    shutil.rmtree(folder)


def test_hashes_are_the_rollups(world):
    world.ask(1)
    world.wait_equal()
    before = collections.Counter(), world.redis("XLEN", "banyan:usage")
    for fields in world.redis.hashes().values():
        before[0].update(fields)
    told = world.ask(11)
    world.wait_equal()
    assert world.readiness() == "up" and world.server.metric("banyan_redis_up") == 1
    after = collections.Counter()
    for fields in world.redis.hashes().values():
        after.update(fields)
    after.subtract(before[0])
    assert after["requests"] == 11
    assert after["input"] == sum(usage["prompt_tokens"] for usage in told)
    assert after["output"] == sum(usage["completion_tokens"] for usage in told)
    assert world.redis("XLEN", "banyan:usage") - before[1] == 11
    assert world.redis("ZCARD", "banyan:edges") == 1
    assert world.redis("TTL", next(iter(world.redis.hashes()))) > 399 * 86400


def test_poisoned_days(world):
    """A key of each of three tenants is written over, by each type in turn, while rows of all flow: all hashes
    are exact 2 s behind the last answer (the edge sends each 200 ms), and the stream has each row once."""
    poisoned = [world.server.tenant(f"poisoned-{i}")[:2] for i in range(3)]
    world.asked += sum(world.tokenize(1, key) for _, key in poisoned)
    world.wait_equal()
    entries, rows = world.redis("XLEN", "banyan:usage"), world.asked
    longest = 0
    for command in POISONS:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = [pool.submit(world.tokenize, 30, world.key)]
            told += [pool.submit(world.tokenize, 3, key) for _, key in poisoned]
            for tenant, _ in poisoned:
                for name in world.redis("KEYS", f"banyan:usage:{{{tenant}}}:*"):
                    world.redis("DEL", name)
                    world.redis(*(word.format(name.decode()) for word in command))
            world.asked += sum(future.result() for future in told)
        start, sums = time.monotonic(), world.rollups()
        assert sum(fields["requests"] for fields in sums.values()) == world.asked
        wait_until(lambda: world.hashes_are(sums), EXACT_S, "all hashes exact")
        longest = max(longest, time.monotonic() - start)
        assert world.readiness() == "up"
    print(f"all rows in Redis {longest * 1000:.0f} ms behind the last answer")
    assert world.redis("XLEN", "banyan:usage") - entries == world.asked - rows
    assert world.server.metric("banyan_redis_keys_waiting") == 0
    asides = world.redis("KEYS", "banyan:aside:*")
    assert len(asides) >= 3 and world.redis("DEL", *asides, "banyan:asides") == len(asides) + 1


def test_promtool_finds_no_fault_in_the_series_of_redis(world):
    """Beside those of test_dashboards, where there is no Redis."""
    with world.server.admin() as admin:
        page = admin.get("/metrics").text
    for name in ("configured", "up", "ship_lag_rows", "rows_total", "keys_aside_total", "keys_waiting",
                 "hashes_made_total", "connects_total", "errors_total"):  # fmt: skip
        assert f"\n# TYPE banyan_redis_{name} " in page, name
    assert promtool("check", "metrics", text=page) == ""


def test_redis_holds_no_secret(world):
    """Keys and values of all that is there, as far as a request could have put it."""
    world.ask(1)
    world.wait_equal()
    text = b" ".join(data for _, data in world.redis.everything()).decode()
    assert world.tenant in text
    for secret in (PROMPT, "heron", world.key, PASSWORD, world.server.admin_key):
        assert secret not in text


def test_killed_and_restarted_empty(world):
    world.redis.kill()
    try:
        world.ask(6)
        world.wait_failure("closed")
        assert world.readiness() == "down"
        wait_until(lambda: world.server.metric("banyan_redis_ship_lag_rows") == 6, 60, "lag")
    finally:
        world.redis.start()
    world.wait_equal()


def test_stopped(world):
    """A stopped process takes connections and answers nothing."""
    world.redis.stop()
    try:
        world.ask(6)  # all are answered while it stands still
        world.wait_failure("timeout")
        world.ask(2)
    finally:
        world.redis.go_on()
    world.wait_equal()


@pytest.mark.slow
def test_slow_by_half_a_second(world):
    before, failed = world.proxy.held, world.failures("timeout")
    world.proxy.delay = 0.5
    try:
        world.ask(6)
        world.wait_equal()
        assert world.proxy.held > before and world.failures("timeout") == failed
    finally:
        world.proxy.delay = 0.0


def test_full(world):
    world.redis("CONFIG", "SET", "maxmemory", "1")
    try:
        world.ask(6)
        world.wait_failure("memory")
    finally:
        world.redis("CONFIG", "SET", "maxmemory", "0")
    world.wait_equal()


def test_a_replica_for_a_while(world):
    world.redis("REPLICAOF", "127.0.0.1", "1")
    try:
        world.ask(6)
        world.wait_failure("read_only")
    finally:
        world.redis("REPLICAOF", "NO", "ONE")
    world.wait_equal()


def test_another_password(world):
    world.redis("CONFIG", "SET", "requirepass", "another")
    world.redis.password = "another"
    try:
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        world.ask(6)
        world.wait_failure("password")
        world.password_file.write_text("another")  # read again at the next attempt
        world.wait_equal()
        assert '"another"' not in world.server.log_text()
    finally:
        world.redis("CONFIG", "SET", "requirepass", PASSWORD)
        world.redis.password = PASSWORD
        world.password_file.write_text(PASSWORD)


@pytest.mark.slow
def test_the_edge_is_killed_between_commit_and_shipping(world):
    for _ in range(2):
        world.redis.stop()
        world.ask(4)  # committed; none of it can have been sent
        old = world.server.child("edge")
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: world.server.child("edge") not in (None, old), 60, "a new edge")
        world.redis.go_on()
        wait_until(lambda: serves(world), 120, "the new edge")
        world.wait_equal()


def serves(world):
    try:
        return world.readiness() == "up"
    except (OSError, AssertionError, httpx.HTTPError):
        return False


@pytest.mark.slow
def test_flushed_under_load(world):
    for _ in range(3):
        world.ask(4)
        world.redis("FLUSHALL")
    world.wait_equal()
    world.redis("FLUSHALL")
    world.wait_equal()  # without another request


def test_by_tcp_inside_the_sandbox_and_started_with_redis_away():
    """The one port that is opened is Redis's; that nobody listens there at first is no error."""
    if not os.access(REDIS, os.X_OK):
        pytest.skip("no redis-tools; deploy/prepare test installs it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-redis-", dir="/tmp"))
    folder.chmod(0o755)  # the edge's user reaches what is in it
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    port = free_port()
    server = Server(
        folder / "data", "--sandbox", "required", *USERS, "--redis",
        f"redis://127.0.0.1:{port}", "--redis-password-file", folder / "password",
    )  # fmt: skip
    redis = None
    try:
        tenant, key, _ = server.tenant("acme")
        reason = 'banyan_redis_errors_total{reason="refused"}'
        wait_until(lambda: server.metric(reason) > 0, 60, "nobody there")
        with server.http(key) as http:
            body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 1}
            assert http.post("/v1/completions", json=body).status_code == 200
            ready = http.get("/ready").json()
        assert (ready["status"], ready["redis"], ready["sandbox"]) == ("ready", "down", "landlock")
        redis = Redis(folder, port)
        wait_until(lambda: len(redis.hashes()) == 1, 120, "the row in Redis")
        (fields,) = redis.hashes().values()
        assert fields["requests"] == 1 and tenant in next(iter(redis.hashes()))
        assert server.stop() == 0
        assert redis("ZCARD", "banyan:edges") == 0  # it said that it goes
    finally:
        if server.process.poll() is None:
            server.stop()
        if redis is not None:
            redis.kill()
        shutil.rmtree(folder)


def test_a_wrong_url_ends_the_start(tmp_path):
    done = subprocess.run(
        [BINARY, "serve", "--model", MODEL, "--data-dir", tmp_path / "data", "--listen",
         "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--redis", "redis://:secret@host:1"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "--redis-password-file" in done.stderr and "secret@" not in done.stderr
