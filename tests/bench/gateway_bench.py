#!/usr/bin/env python3
"""gateway_bench: what the gateway adds to a request, compared with its bare upstream and with LiteLLM.

usage: tests/bench/gateway_bench.py [--build build/release] [--seconds N] [--requests N]
                                    [--only NAME[,NAME]] [--litellm VENV]

The upstream is bench_upstream, which computes nothing; the gateway is `banyan edge` with all that it
does in production: TLS, key check, ledger row before the answer's end, access log, metrics. Figures,
one JSON line each:

  latency         added p50 and p99 of one connection, request by request in turn with the bare
                  upstream on its own Unix socket, back to back
  latency_busy    the same beside one busy thread for each processor at nice +10, as compute threads run
  limits          added p50 and p99 of a gateway with Redis, asked with an issuer's token that it
                  knows (the token and its tenant have every limit), in turn with a gateway without
                  Redis, asked with a plain key of a tenant without limits
  redis           the same while Redis works, is slow by 500 ms, full, stopped, killed, and back
  throughput      requests/s at 64 kept connections (wrk), CPU time of the edge a request, its RSS
  throughput_h2   the same over HTTP/2 (h2load, 4 connections of 16 streams)
  events          CPU time of the edge for one SSE event: 64 streams, each with one event in every tick
  large_bodies    latency of small requests beside another client's bodies of 4 MiB
  litellm         latency and throughput of LiteLLM's proxy (VENV with litellm[proxy]) in front of the
                  same upstream, without TLS and without a ledger; then with limits for its key and a
                  budget for its provider, both in Redis (budgets for keys would need a database)

limits, redis and litellm start a redis-server by code of tests/e2e: run them with a Python that has
tests/requirements.txt.

CPU times come from /proc/PID/stat and hold on a busy machine; the other figures do not. The exit
status says only that all ran.
"""

import argparse
import base64
import contextlib
import hmac
import http.client
import json
import os
import pathlib
import re
import shlex
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
LIMITS = (
    "requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute",
    "tokens_per_minute", "concurrent_requests", "kv_tokens", "tokens_per_day", "tokens_per_month",
)  # fmt: skip
LUA = """wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer %s"
wrk.body = [[%s]]
"""
# LiteLLM keeps keys in a database; without one this function says what a key may do.
LITELLM_AUTH = """from litellm.proxy._types import UserAPIKeyAuth
async def check(request, api_key):
    if api_key != "sk-bench":
        raise ValueError("not a key")
    return UserAPIKeyAuth(api_key="sk-bench", user_id="bench", tpm_limit=900000000, rpm_limit=900000000,
                          max_parallel_requests=1000)
"""
BODY = json.dumps({
    "model": "bench", "messages": [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "What is the capital of France, and what do people there eat"
                                    " for breakfast on Sundays?"},
    ], "max_tokens": 1, "temperature": 0.7, "stream": False,
}, separators=(",", ":"))  # fmt: skip


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return "none"
    return ((done.stdout or done.stderr).splitlines() or [""])[0].strip()


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text)
    return {
        "processor": model.group(1) if model else "?", "processors": os.cpu_count(),
        "kernel": os.uname().release, "load_average": os.getloadavg(),
    }  # fmt: skip


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_threads(pid):
    """Returns the CPU seconds of each thread, by name."""
    out = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            fields = rest.split()
            out[f"{name}/{task.name}"] = (int(fields[11]) + int(fields[12])) / TICKS
    return out


def memory_kib(pid, name):
    return int(re.search(rf"{name}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


class Process:
    """A child process that prints a first line when it is ready."""

    def __init__(self, command, log, **kwargs):
        self.process = subprocess.Popen(
            [str(c) for c in command], stdout=subprocess.PIPE, stderr=log, text=True, **kwargs
        )
        self.pid = self.process.pid

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class Bench:
    def __init__(self, args, folder):
        self.args = args
        self.folder = pathlib.Path(folder)
        self.build = ROOT / args.build
        self.log = open(self.folder / "edge.log", "w")
        self.load = self.build / "gateway_load"

    def report(self, what, figures, command):
        line = {"bench": f"gateway_{what}", **figures, "command": command, **self.about}
        print(json.dumps(line), flush=True)

    def start_engine(self, tick_us=0):
        self.socket = self.folder / "engine.sock"
        return self.start_upstream(self.socket, tick_us)

    def start_upstream(self, *arguments):
        engine = Process([self.build / "bench_upstream", *arguments], sys.stderr)
        assert engine.process.stdout.readline() == "ready\n"
        return engine

    def start_edge(self, name="data", *options):
        """Makes `public` and `ask_admin` belong to this gateway from now on."""
        self.data = self.folder / name
        command = [
            self.build / "banyan", "edge", "--data-dir", self.data, "--listen",
            "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--socket", self.socket,
            "--connections-per-address", "0", "--connects-per-address-s", "0",
            "--handshakes-s", "0", *options,
        ]  # fmt: skip
        before = self.log.tell()
        edge = Process(command, self.log)
        for _ in range(200):
            text = pathlib.Path(self.log.name).read_text()[before:]
            ready = re.search(r'"edge_ready".*?"listen":"([^"]+)","admin_listen":"([^"]+)"', text)
            if ready:
                self.public, self.admin = ready.groups()
                return edge
            time.sleep(0.05)
        sys.exit(f"the edge did not start: {text[-2000:]}")

    def ask_admin(self, path, body=None, method="POST"):
        context = ssl.create_default_context(cafile=self.data / "tls/ca.crt")
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(
            f"https://{self.admin}{path}", None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {key}", "content-type": "application/json"}, method=method,
        )  # fmt: skip
        answer = urllib.request.urlopen(request, context=context).read()
        return answer.decode() if path == "/metrics" else json.loads(answer)

    @contextlib.contextmanager
    def running(self, tick_us=0):
        engine = self.start_engine(tick_us)
        edge = self.start_edge()
        try:
            tenant = self.ask_admin("/admin/v1/tenants", {"name": "bench"})["id"]
            self.key = self.ask_admin(f"/admin/v1/tenants/{tenant}/keys", {})["key"]
            yield edge
        finally:
            edge.stop()
            engine.stop()

    def latency(self, what="latency", busy=0):
        with self.running(), contextlib.ExitStack() as stack:
            for _ in range(busy):
                loop = subprocess.Popen(["nice", "-n", "10", "sh", "-c", "while :; do :; done"])
                stack.callback(loop.wait)
                stack.callback(loop.kill)
            command = [
                self.load, "latency", "--to", self.public, "--key", self.key, "--unix",
                self.socket, "--requests", self.args.requests,
            ]  # fmt: skip
            self.report(what, json.loads(run(command)), shown(command, self.key))

    def limited_token(self):
        """Returns a token of a new issuer for a new tenant, with every limit that there is."""
        tenant = self.ask_admin("/admin/v1/tenants", {"name": "limited"})["id"]
        secret, now = os.urandom(32), int(time.time())

        def encode(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        issuer = self.ask_admin("/admin/v1/issuers", {
            "name": "bench", "issuer": "https://bench.example", "audiences": ["bench"],
            "algorithms": ["HS256"], "tenant_claim": "tenant", "jwks": {"keys": [{
                "kty": "oct", "kid": "1", "alg": "HS256", "k": encode(secret).decode(),
            }]},
        })["id"]  # fmt: skip
        limits = {name: 900000000 for name in LIMITS}
        path = f"/admin/v1/tenants/{tenant}"
        self.ask_admin(f"{path}/limits", limits, "PUT")
        self.ask_admin(f"{path}/keys/{issuer}/limits", limits, "PUT")
        claims = {"iss": "https://bench.example", "aud": "bench", "tenant": tenant, "exp": now + 3000}
        head = {"alg": "HS256", "kid": "1", "typ": "JWT"}
        signed = b".".join(encode(json.dumps(part).encode()) for part in (head, claims))
        return (signed + b"." + encode(hmac.digest(secret, signed, "sha256"))).decode()

    @contextlib.contextmanager
    def beside_redis(self, is_proxied):
        """Starts two gateways, one with Redis. Yields Redis, its proxy and the command of the load."""
        sys.path.insert(0, str(ROOT / "tests/e2e"))
        from test_redis import PASSWORD, Proxy, Redis

        with self.running(), contextlib.ExitStack() as stack:
            plain, key = self.public, self.key
            redis = Redis(self.folder)
            stack.callback(redis.kill)
            stack.callback(redis.go_on)
            proxy = Proxy(self.folder / "proxy.sock", redis.path)
            password = self.folder / "password"
            password.write_text(PASSWORD)
            self.socket = self.folder / "engine-2.sock"
            stack.callback(self.start_upstream(self.socket).stop)
            at = proxy.path if is_proxied else redis.path
            stack.callback(
                self.start_edge(
                    "limited", "--redis", f"unix://{at}", "--redis-password-file", password
                ).stop
            )
            token = self.limited_token()
            yield redis, proxy, [
                self.load, "latency", "--to", self.public, "--key", token, "--beside-to", plain,
                "--beside", key, "--requests", self.args.requests,
            ]  # fmt: skip

    def limits(self):
        with self.beside_redis(False) as (_, _, command):
            figures = json.loads(run(command)) | {"redis": self.redis_told()}
            self.report("limits", figures, words(command))

    def redis_told(self):
        """Returns the gateway's metrics of Redis: failures by reason, rows not yet written there."""
        text = self.ask_admin("/metrics", None, "GET")
        told = {
            reason: int(float(count))
            for reason, count in re.findall(r'banyan_redis_errors_total{reason="(\w+)"} (\S+)', text)
            if float(count) > 0
        }
        for name in ("up", "ship_lag_rows"):
            told[name] = int(float(re.search(rf"^banyan_redis_{name} (\S+)$", text, re.M)[1]))
        return told

    def redis_wait(self):
        """Waits until all rows are in Redis again."""
        for _ in range(1200):
            told = self.redis_told()
            if told["up"] == 1 and told["ship_lag_rows"] == 0:
                return
            time.sleep(0.1)
        sys.exit(f"Redis is not told everything: {told}")

    def redis(self):
        with self.beside_redis(True) as (redis, proxy, command):
            states = {
                "well": (lambda: None, lambda: None),
                "slow": (lambda: setattr(proxy, "delay", 0.5), lambda: setattr(proxy, "delay", 0.0)),
                "full": (lambda: redis("CONFIG", "SET", "maxmemory", "1"),
                         lambda: redis("CONFIG", "SET", "maxmemory", "0")),
                "stopped": (redis.stop, redis.go_on),
                "killed": (redis.kill, redis.start),
                "back": (lambda: None, lambda: None),
            }  # fmt: skip
            reasons = {"full": "memory", "stopped": "timeout", "killed": "closed"}
            for state, (begin, end) in states.items():
                begin()
                before = self.redis_told()
                for _ in range(10):  # until the gateway has noticed it
                    figures, told = json.loads(run(command)), self.redis_told()
                    if told.get(reasons.get(state), 0) > before.get(reasons.get(state), 0) or (
                        state not in reasons
                    ):
                        break
                end()
                self.redis_wait()
                self.report("redis", {"state": state, **figures, "redis": told}, words(command))

    def latency_busy(self):
        self.latency("latency_busy", os.cpu_count())

    def measured(self, edge, command):
        """Runs the load. Returns its output and the edge's CPU seconds, in all and by thread."""
        before, threads = cpu_seconds(edge.pid), cpu_threads(edge.pid)
        out = run(command)
        after = cpu_threads(edge.pid)
        by_thread = {n: round(s - threads.get(n, 0), 2) for n, s in after.items()}
        return out, cpu_seconds(edge.pid) - before, {n: s for n, s in by_thread.items() if s}

    def throughput(self):
        with self.running() as edge:
            script = self.folder / "post.lua"
            script.write_text(LUA % (self.key, BODY))
            command = [
                "wrk", "-t1", "-c64", f"-d{self.args.seconds}", "-s", script,
                f"https://{self.public}/v1/chat/completions",
            ]  # fmt: skip
            out, cpu, threads = self.measured(edge, command)
            figures = wrk_figures(out)
            figures |= {
                "edge_cpu_us_per_request": round(cpu / figures["requests"] * 1e6, 2),
                "edge_cpu_s_by_thread": threads,
                "edge_rss_mib": round(memory_kib(edge.pid, "VmRSS") / 1024, 1),
                "edge_rss_peak_mib": round(memory_kib(edge.pid, "VmHWM") / 1024, 1),
            }
            self.report("throughput", figures, shown(command, self.key))

    def throughput_h2(self):
        with self.running() as edge:
            body = self.folder / "body.json"
            body.write_text(BODY)
            command = [
                "h2load", "-c4", "-m16", f"-D{self.args.seconds}", "-d", body, "-H",
                f"authorization: Bearer {self.key}", "-H", "content-type: application/json",
                f"https://{self.public}/v1/chat/completions",
            ]  # fmt: skip
            out, cpu, threads = self.measured(edge, command)
            done = int(re.search(r"(\d+) 2xx", out)[1])
            figures = {
                "requests": done, "per_second": round(done / self.args.seconds),
                "failed": int(re.search(r"(\d+) failed", out)[1]),
                "edge_cpu_us_per_request": round(cpu / done * 1e6, 2),
                "edge_cpu_s_by_thread": threads,
                "edge_rss_mib": round(memory_kib(edge.pid, "VmRSS") / 1024, 1),
            }  # fmt: skip
            self.report("throughput_h2", figures, shown(command, self.key))

    def events(self):
        with self.running(tick_us=5000) as edge:
            command = [
                self.load, "events", "--to", self.public, "--key", self.key, "--streams", 64,
                "--tokens", 200 * self.args.seconds,
            ]  # fmt: skip
            load = Process(command, sys.stderr, stdin=subprocess.PIPE)
            assert load.process.stdout.readline() == "connected\n"
            before, threads = cpu_seconds(edge.pid), cpu_threads(edge.pid)
            out, _ = load.process.communicate("go\n")
            cpu, after = cpu_seconds(edge.pid) - before, cpu_threads(edge.pid)
            figures = json.loads(out)
            figures["edge_cpu_us_per_event"] = round(cpu / figures["events"] * 1e6, 2)
            figures["edge_cpu_s_by_thread"] = {
                n: round(s - threads.get(n, 0), 2) for n, s in after.items()
                if round(s - threads.get(n, 0), 2)
            }  # fmt: skip
            self.report("events", figures, shown(command, self.key))

    def large_bodies(self):
        """Small requests while another client sends 4 MiB of `{},`, ten times a second."""
        body = b'{"model":"bench","messages":[' + b"{}," * (4 * 2**20 // 3 - 20) + b"{}]}"
        with self.running():
            command = [
                self.load, "latency", "--to", self.public, "--key", self.key, "--unix",
                self.socket, "--requests", self.args.requests,
            ]  # fmt: skip
            alone = json.loads(run(command))
            is_over, codes = threading.Event(), []
            context = ssl.create_default_context(cafile=self.folder / "data/tls/ca.crt")
            headers = {"authorization": f"Bearer {self.key}"}

            def send():
                client = http.client.HTTPSConnection(self.public, context=context)
                while not is_over.wait(0.1):
                    client.request("POST", "/v1/chat/completions", body, headers)
                    answer = client.getresponse()
                    answer.read()
                    codes.append(answer.status)

            sender = threading.Thread(target=send)
            sender.start()
            beside = json.loads(run(command))
            is_over.set()
            sender.join()
            figures = {
                "bodies": len(codes), "codes": sorted(set(codes)),
                "alone_us": alone["gateway_us"], "alone_added_us": alone["added_us"],
                "beside_us": beside["gateway_us"], "beside_added_us": beside["added_us"],
            }  # fmt: skip
            self.report("large_bodies", figures, shown(command, self.key))

    def litellm(self):
        if not self.args.litellm:
            return
        sys.path.insert(0, str(ROOT / "tests/e2e"))
        from test_redis import PASSWORD, Redis

        port, redis_port = 18480, 18482
        upstream = 18481
        about = {
            "model_list": [{"model_name": "bench", "litellm_params": {
                "model": "openai/bench", "api_base": f"http://127.0.0.1:{upstream}/v1",
                "api_key": "none", "input_cost_per_token": 1e-9, "output_cost_per_token": 1e-9}}],
            "general_settings": {"master_key": "sk-bench"},
        }  # fmt: skip
        at = {"host": "127.0.0.1", "port": redis_port, "password": PASSWORD}
        limited = {
            **about,
            "general_settings": {"master_key": "sk-master", "custom_auth": "bench_auth.check"},
            "litellm_settings": {"cache": True, "cache_params": {
                "type": "redis", **at, "supported_call_types": []}},
            "router_settings": {
                "provider_budget_config": {"openai": {"budget_limit": 1e9, "time_period": "1d"}},
                **{f"redis_{name}": value for name, value in at.items()}},
        }  # fmt: skip
        (self.folder / "bench_auth.py").write_text(LITELLM_AUTH)
        bare, engine = self.start_engine(), self.start_upstream(upstream)
        redis = Redis(self.folder, redis_port)
        try:
            for what, config in (("litellm", about), ("litellm_limits", limited)):
                self.litellm_load(what, config, port)
            print(json.dumps({"keys_in_redis": [k.decode() for k in redis("KEYS", "*")][:20]}))
        finally:
            redis.kill()
            engine.stop()
            bare.stop()

    def litellm_load(self, what, config, port):
        path, venv = self.folder / f"{what}.json", pathlib.Path(self.args.litellm)
        path.write_text(json.dumps(config))
        command = [venv / "bin/litellm", "--config", path, "--port", port, "--host", "127.0.0.1"]
        proxy = subprocess.Popen(
            [str(c) for c in command], stdout=self.log, stderr=self.log,
            env={**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}", "LITELLM_LOG": "ERROR"},
        )  # fmt: skip
        try:
            wait_http(f"http://127.0.0.1:{port}/health/liveliness")
            load = [
                self.load, "latency", "--plain", "--to", f"127.0.0.1:{port}", "--key", "sk-bench",
                "--unix", self.socket, "--requests", min(1000, self.args.requests),
            ]  # fmt: skip
            script = self.folder / "litellm.lua"
            script.write_text(LUA % ("sk-bench", BODY))
            wrk = [
                "wrk", "-t1", "-c64", f"-d{self.args.seconds}", "--timeout", "30s", "-s", script,
                f"http://127.0.0.1:{port}/v1/chat/completions",
            ]  # fmt: skip
            figures = {
                "latency": json.loads(run(load)), "throughput": wrk_figures(run(wrk)),
                "rss_mib": round(memory_kib(proxy.pid, "VmRSS") / 1024, 1),
                "version": re.search(r"Version: (\S+)", run([venv / "bin/pip", "show", "litellm"]))[1],
            }  # fmt: skip
            self.report(what, figures, shown(wrk, "sk-bench"))
        finally:
            proxy.terminate()
            proxy.wait(timeout=60)


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shown(command, '')}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def shown(command, secret):
    text = " ".join(shlex.quote(str(c)) for c in command)
    return text.replace(secret, "KEY") if secret else text


def words(command):
    """Returns a command of gateway_load without its keys."""
    secret = ("--key", "--beside")
    return shown(["KEY" if i and command[i - 1] in secret else c for i, c in enumerate(command)], "")


def wrk_figures(out):
    done, seconds, unit = re.search(r"(\d+) requests in ([\d.]+)(m?s)", out).groups()
    seconds = float(seconds) / (1000 if unit == "ms" else 1)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return {
        "requests": int(done), "per_second": round(int(done) / seconds),
        "failed": int(bad[1]) if bad else 0,
    }  # fmt: skip


def wait_http(url):
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url)
            return
        time.sleep(0.1)
    sys.exit(f"{url} does not answer")


FIGURES = (
    "latency", "latency_busy", "limits", "redis", "throughput", "throughput_h2", "events",
    "large_bodies", "litellm",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--litellm", help="virtual environment that has litellm[proxy]")
    args = parser.parse_args()
    about = {
        "machine": machine(),
        "versions": {
            "banyan": first_line([ROOT / args.build / "banyan", "version"]),
            "openssl": first_line(["openssl", "version"]),
            "wrk": first_line(["wrk", "-v"]), "h2load": first_line(["h2load", "--version"]),
        },
    }  # fmt: skip
    for name in args.only.split(","):
        if name not in FIGURES:
            sys.exit(f"{name}: not one of {', '.join(FIGURES)}")
        with tempfile.TemporaryDirectory(prefix="banyan-bench-") as folder:
            bench = Bench(args, folder)
            bench.about = about
            getattr(bench, name)()


if __name__ == "__main__":
    main()
