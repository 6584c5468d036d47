"""The processes: start, death of a half, SIGTERM, and every way a start can fail."""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import httpx
import openai
import pytest

from conftest import BINARY, IS_SANITIZED, MODEL, MODEL_NAME, Server, wait_until
from test_streams import body, read_stream


def run(*arguments, timeout=300, **kwargs):
    return subprocess.run(
        [str(a) for a in (BINARY, *arguments)], capture_output=True, text=True, timeout=timeout,
        **kwargs,
    )  # fmt: skip


@pytest.fixture
def own(tmp_path):
    """A server of this test's own, for killing."""
    servers = []

    def start(*options, **kwargs):
        servers.append(Server(tmp_path / f"data{len(servers)}", *options, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.stop()


def test_engine_killed_under_load(own):
    server = own()
    _, key, _ = server.tenant("acme")
    results = []

    def one(index):
        with server.http(key) as http:
            with http.stream("POST", "/v1/completions", json=body(index, 4000)) as response:
                results.append([line for line in response.iter_lines() if line])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.engine_stats()["tokens_generated"] > 40, what="running streams")
    old = server.child("engine")
    os.kill(old, signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    assert len(results) == 8
    for lines in results:
        assert lines[-1] != "data: [DONE]", "a cut stream must not look like a normal end"
        error = json.loads(lines[-1].removeprefix("data: "))["error"]
        assert error["type"] == "server_error" and error["message"]
    with server.http() as http:
        assert http.get("/health").status_code == 200
    # The engine's own counts outlive it: they are read when it is back, and exact.
    wait_until(
        lambda: server.ledger("select count(*) from requests")[0][0] == 8, what="a row for each"
    )
    rows = server.ledger("select completion_tokens, is_estimated from requests")
    assert all(r[0] > 0 and not r[1] for r in rows), rows

    def back():
        with server.http(key) as http:
            return http.post(
                "/v1/completions", json=body(1, 2, stream=False, stream_options=None)
            ).status_code == 200  # fmt: skip

    wait_until(back, what="service by itself")
    assert server.child("engine") != old
    assert server.stop() == 0


def test_requests_while_the_engine_is_down_wait(own):
    """They are answered when it is back, in one try; over the bound they are told so at once."""
    server = own("--queue-requests", 4)
    _, key, _ = server.tenant("acme")
    ask = body(1, 1, stream=False, stream_options=None)
    server.process.send_signal(signal.SIGSTOP)  # a parent that stands still starts nothing
    os.kill(server.child("engine"), signal.SIGKILL)

    def one(_):
        with server.http(key) as http:
            return http.post("/v1/completions", json=ask)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(one, i) for i in range(4)]
        wait_until(lambda: server.metric('banyan_requests_waiting{class="standard"}') == 4, what="four that wait")
        answer = one(4)
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "server_error"
        assert 1 <= int(answer.headers["retry-after"]) <= 120
        server.process.send_signal(signal.SIGCONT)
        codes = [w.result(120).status_code for w in waiting]
    assert codes == [200] * 4


def test_the_official_client_retries_by_itself(own):
    """The engine dies; the client waits as it is told, tries again, and has its answer."""
    server = own("--queue-requests", 0)
    _, key, _ = server.tenant("acme")
    codes = []
    http = server.http(event_hooks={"response": [lambda r: codes.append(r.status_code)]})
    client = openai.OpenAI(
        base_url=server.url + "/v1", api_key=key, http_client=http, max_retries=8
    )
    # A parent that stands still starts nothing: the first try must meet a dead engine.
    server.process.send_signal(signal.SIGSTOP)
    os.kill(server.child("engine"), signal.SIGKILL)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            client.completions.create, model=MODEL_NAME, prompt="Once", max_tokens=2
        )
        wait_until(lambda: codes, what="a first answer")
        server.process.send_signal(signal.SIGCONT)
        answer = asked.result(120)
    assert answer.usage.completion_tokens >= 1
    assert codes[0] == 503 and codes[-1] == 200 and set(codes) == {200, 503}, codes


def test_edge_killed_comes_back(own):
    server = own()
    _, key, _ = server.tenant("acme")
    os.kill(server.child("edge"), signal.SIGKILL)

    def back():
        try:
            return bool(read_stream(server.http(key), body(1, 2))[3])
        except Exception:
            return False

    wait_until(back, what="the edge's return, with its tenants")


def test_started_by_who_ignores_the_end_of_children(own):
    """As daemons do that want no zombies; a program inherits it."""
    ignore = "from signal import *; import os, sys; signal(SIGCHLD, SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    server = own(prefix=(sys.executable, "-c", ignore))
    old = server.child("engine")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: server.child("engine") not in (None, old), what="another engine")
    assert server.stop() == 0


@pytest.mark.slow
def test_same_bits_whatever_the_chunks_and_threads(own):
    """The same requests, all at once and one by one, on servers that cut and share work otherwise."""
    draw = random.Random(5)
    requests = [
        body(
            i, 4 + i % 5, stream=False, stream_options=None, logprobs=3,
            prompt="".join(draw.choice("abc de, fgh. ij\n") for _ in range(draw.randint(1, 900))),
        )
        for i in range(10)
    ]  # fmt: skip
    seen = []
    for rows, threads in ((512, 2), (64, 1), (7, 3)):
        server = own("--batch-rows", rows, "--threads", threads)
        _, key, _ = server.tenant("acme")

        def ask(request):
            with server.http(key) as http:
                choice = http.post("/v1/completions", json=request).json()["choices"][0]
            return choice["token_ids"], json.dumps(choice["logprobs"])

        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            one_by_one = [ask(r) for r in requests] if threads == 1 else None
            seen.append(one_by_one or list(pool.map(ask, requests)))
        assert server.stop() == 0
    assert seen[0] == seen[1] == seen[2], f"{len(requests)} requests on {len(seen)} servers"


def test_sigterm_finishes_what_runs(own):
    server = own()
    _, key, _ = server.tenant("acme")
    result = []
    started = threading.Event()

    def one():
        with server.http(key) as http:
            with http.stream("POST", "/v1/completions", json=body(1, 200)) as response:
                lines = response.iter_lines()
                result.append(next(lines))
                started.set()
                result.extend(line for line in lines if line)

    thread = threading.Thread(target=one)
    thread.start()
    assert started.wait(60)
    code = server.stop()
    thread.join(60)
    assert code == 0 and result[-1] == "data: [DONE]"
    assert server.ledger("select completion_tokens, finish from requests") == [(200, "length")]


def test_a_second_start_finds_everything(own, tmp_path):
    first = own()
    _, key, _ = first.tenant("acme")
    read_stream(first.http(key), body(1, 3))
    admin_key = first.admin_key
    assert first.stop() == 0
    second = Server(first.data_dir)
    try:
        assert second.admin_key == admin_key
        read_stream(second.http(key), body(1, 3))
        assert second.ledger("select count(*), sum(completion_tokens) from requests") == [(2, 6)]
    finally:
        assert second.stop() == 0


def test_one_server_a_data_directory(own):
    """A second server would count under the same numbers: it is refused, the first goes on."""
    first = own()
    _, key, _ = first.tenant("acme")
    for _ in range(2):
        out = run(
            "serve", "--model", MODEL, "--data-dir", first.data_dir, "--listen", "127.0.0.1:0",
            "--admin-listen", "127.0.0.1:0",
        )  # fmt: skip
        assert out.returncode == 1 and out.stdout == ""
    out = run(
        "edge", "--data-dir", first.data_dir, "--listen", "127.0.0.1:0", "--admin-listen",
        "127.0.0.1:0",
    )  # fmt: skip
    assert out.returncode == 1 and "another banyan serves" in out.stderr
    assert read_stream(first.http(key), body(1, 3))[3]
    assert first.stop() == 0
    assert first.ledger("select count(*) from requests") == [(1,)]


def test_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        out = run("serve", "--model", MODEL, "--data-dir", tmp_path / "d", "--listen", address)
    assert out.returncode == 1 and address in out.stderr and "in use" in out.stderr


@pytest.mark.parametrize("damage", ["missing", "truncated", "not gguf", "hostile", "directory"])
def test_bad_model_files(tmp_path, damage):
    path = tmp_path / "model.gguf"
    head = MODEL.read_bytes()[:2_000_000]
    if damage == "truncated":
        path.write_bytes(head)
    elif damage == "not gguf":
        path.write_bytes(b"PK\x03\x04" + head)
    elif damage == "hostile":
        path.write_bytes(head[:16] + b"\xff" * 8 + head[24:])
    elif damage == "directory":
        path.mkdir()
    out = run(
        "serve", "--model", path, "--data-dir", tmp_path / "d", "--listen", "127.0.0.1:0",
        "--admin-listen", "127.0.0.1:0",
    )  # fmt: skip
    assert out.returncode == 1 and out.stdout == ""
    said = [line for line in out.stderr.splitlines() if line.startswith("banyan engine:")]
    assert said and len(said[0]) > 25, out.stderr
    assert "Sanitizer" not in out.stderr


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_edge_alone_says_503(tmp_path):
    """With no engine at all the edge serves its own face and refuses work."""
    port, admin_port = free_port(), free_port()
    process = subprocess.Popen(
        [str(BINARY), "edge", "--data-dir", str(tmp_path / "d"), "--listen", f"127.0.0.1:{port}",
         "--admin-listen", f"127.0.0.1:{admin_port}", "--queue-requests", "0"], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        ca = tmp_path / "d/tls/ca.crt"
        wait_until(lambda: (tmp_path / "d/admin.key").exists() and ca.exists(), what="a start")

        def alive():
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                return False

        wait_until(alive, what="a listener")
        context = ssl.create_default_context(cafile=ca)
        with httpx.Client(verify=context, trust_env=False, timeout=300) as http:
            assert http.get(f"https://127.0.0.1:{port}/health").status_code == 200
            assert http.get(f"https://127.0.0.1:{port}/ready").status_code == 503
            admin = {"authorization": f"Bearer {(tmp_path / 'd/admin.key').read_text().strip()}"}
            tenant = http.post(
                f"https://127.0.0.1:{admin_port}/admin/v1/tenants", json={"name": "a"}, headers=admin
            ).json()
            key = http.post(
                f"https://127.0.0.1:{admin_port}/admin/v1/tenants/{tenant['id']}/keys", json={},
                headers=admin,
            ).json()["key"]  # fmt: skip
            answer = http.post(
                f"https://127.0.0.1:{port}/v1/completions",
                json={"model": MODEL_NAME, "prompt": "x"},
                headers={"authorization": f"Bearer {key}"},
            )
            assert answer.status_code == 503, answer.text
            assert answer.json()["error"]["type"] == "server_error"
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert process.returncode == 0


@pytest.mark.parametrize("broken", ["missing", "garbage", "wrong key"])
def test_unusable_certificate(tmp_path, broken):
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    for c, k in ((cert, key), (tmp_path / "c2.pem", tmp_path / "k2.pem")):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", k, "-out", c, "-days", "2",
             "-subj", "/CN=localhost"], check=True, capture_output=True,
        )  # fmt: skip
    if broken == "missing":
        cert.unlink()
    elif broken == "garbage":
        cert.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    else:
        shutil.copy(tmp_path / "k2.pem", key)
    out = run(
        "serve", "--model", MODEL, "--data-dir", tmp_path / "d", "--listen", "127.0.0.1:0",
        "--admin-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
    )  # fmt: skip
    assert out.returncode == 1
    said = [line for line in out.stderr.splitlines() if line.startswith("banyan edge:")]
    assert said and ("c.pem" in said[0] or "k.pem" in said[0]), out.stderr


@pytest.mark.skipif(
    os.geteuid() != 0, reason="mounting a small file system to fill needs root"
)
def test_full_disk_refuses_rather_than_not_count(own, tmp_path):
    """The ledger's file system is full: new requests get 503; room again: service again."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], check=True)
    try:
        server = Server(folder / "data", log_dir=tmp_path)
        _, key, _ = server.tenant("acme")
        ask = body(1, 1, stream=False, stream_options=None)
        with server.http(key) as http:
            assert http.post("/v1/completions", json=ask).status_code == 200
            filler = folder / "filler"
            with open(filler, "wb", buffering=0) as out:
                try:
                    while True:
                        out.write(b"\0" * 4096)
                except OSError:
                    pass
            codes = [http.post("/v1/completions", json=ask).status_code for _ in range(60)]
            assert 503 in codes, codes
            assert codes[-1] == 503, "refused for as long as it lasts"
            answered = 1 + codes.count(200)
            filler.unlink()
            wait_until(
                lambda: http.post("/v1/completions", json=ask).status_code == 200,
                what="service with room again",
            )
        wait_until(
            lambda: server.ledger("select count(*) from requests")[0][0] >= answered + 1,
            what="a row for every answer",
        )
        assert server.stop() == 0
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_help_version_and_wrong_words():
    assert run("version").stdout.startswith("banyan ")
    for command in ("serve", "edge", "engine", "bench"):
        out = run(command, "--help")
        assert out.returncode == 0 and "--" in out.stdout
    out = run("serve", "--modle", "x")
    assert out.returncode == 2 and "--model" in out.stderr
    out = run("serve", "--threads", "many", "--model", "x")
    assert out.returncode == 2 and "threads" in out.stderr
    assert run("sreve").returncode == 2
    assert run().returncode == 2
    schema = json.loads(run("schema").stdout)
    assert "kv_memory" in schema["properties"]


@pytest.mark.skipif(IS_SANITIZED, reason="measures; a sanitizer's build has nothing to measure")
def test_bench_prints_its_object():
    out = run(
        "bench", "--model", MODEL, "--prompt", "64", "--gen", "8", "--batch", "1,4", "--ops", "--json"
    )  # fmt: skip
    result = json.loads(out.stdout)
    assert result["prefill_tokens_per_second"] > 0
    assert set(result["decode_tokens_per_second"]) == {"1", "4"}
    for name in ("int8_gops", "read_gbps_model", "read_gbps_dram"):
        assert result["ceilings"][name] > 0
    phases = [(each["phase"], each["streams"]) for each in result["operations"]]
    assert phases == [("prefill", 1), ("decode", 1), ("decode", 4)]
    for each in result["operations"]:
        counted = sum(time["share"] for time in each["times"])
        assert 0 < counted <= 1.001, each  # what is left lies between the operations
        assert {"linear", "attention", "kv_write"} <= {time["name"] for time in each["times"]}
        assert any(time.get("bound") for time in each["times"])
    assert result["threads"] >= 1 and result["isa"] and result["backend"] == "cpu"
