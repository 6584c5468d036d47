"""A device that is lost, and one whose memory is too small: the whole server over kernels that run on the processor
(tests/kit/simt), since a device cannot be broken on purpose."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import jsonschema_rs
import pytest

from conftest import BINARY, USERS, Server, wait_until

pytestmark = pytest.mark.slow  # builds with sanitizers have no such kernels

SERVER = BINARY.parent / "gpu_banyan_simt"
LOST, FOUND = signal.SIGUSR2, signal.SIGUSR1  # tests/gpu/gpu_banyan.c
PATH = "/v1/completions"
LONG = 1500  # tokens: a minute of simulated steps


@pytest.fixture(scope="module")
def folder():
    folder = pathlib.Path(tempfile.mkdtemp())  # which the halves' users can reach
    folder.chmod(0o755)
    subprocess.run([BINARY.parent / "make_llama", folder / "random.gguf"], check=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def options(folder):
    """Nobody waits for an engine: who comes while there is none hears it at once."""
    data = pathlib.Path(tempfile.mkdtemp(dir=folder))
    data.chmod(0o755)
    yield {"data_dir": data / "data", "model": folder / "random.gguf", "options": (
        "--isa", "cuda", "--kv-memory", "8M", "--kv-host-memory", "4M", "--queue-requests", "0",
        "--sandbox", "required", *USERS)}  # fmt: skip


@pytest.fixture
def device(options):
    device = Server(options["data_dir"], *options["options"], model=options["model"], binary=SERVER)
    device.key = device.tenant("acme")[1]
    yield device
    assert device.stop() == 0, device.log_text()[-4000:]


def body(tokens, **more):
    return {"model": "random", "prompt": "To the sea", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


def ask(server, tokens=8):
    with server.http(server.key) as http:
        return http.post(PATH, json=body(tokens))


def own(server, path):
    with server.http() as http:
        return http.get(path)


def lose(server):
    """The device goes for the engine that runs, and is not there for those that come after it."""
    for pid in (server.process.pid, server.child("engine")):
        os.kill(pid, LOST)


def is_told(error, message):
    assert error["message"] == message and error["type"] == "server_error", error
    assert error["code"] == "service_unavailable", error


def starts(server):
    return server.log_text().count('"event":"child_started","name":"engine"')


def test_constrained_answers(device):
    """Every token is one that the grammar allows, on a device as on a processor."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}},
              "required": ["n", "b"], "additionalProperties": False}  # fmt: skip
    colours = ["red", "reddish", "green"]
    with device.http(device.key) as http:
        for seed in range(3):
            fields = {"model": "random", "prompt": "To the sea", "max_tokens": 48, "temperature": 1, "seed": seed}
            answer = http.post(PATH, json={**fields, "structured_outputs": {"choice": colours}})
            assert answer.status_code == 200, answer.text
            choice = answer.json()["choices"][0]
            assert choice["text"] in colours and choice["finish_reason"] == "stop"
            answer = http.post(PATH, json={**fields, "response_format": {
                "type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}})  # fmt: skip
            assert answer.status_code == 200, answer.text
            choice = answer.json()["choices"][0]
            assert choice["text"].startswith("{")
            if choice["finish_reason"] == "stop":
                jsonschema_rs.validator_for(schema).validate(json.loads(choice["text"]))
    wait_until(lambda: device.metric('banyan_masks_total{state="ready"}') > 6, what="the masks in the metrics")


def test_lost_in_the_middle_of_answers(device):
    before = ask(device)
    assert before.status_code == 200, before.text
    with ThreadPoolExecutor(1) as threads, device.http(device.key) as http:
        with http.stream("POST", PATH, json=body(LONG, stream=True)) as stream:
            lines = stream.iter_lines()
            assert stream.status_code == 200 and "choices" in next(lines)
            whole = threads.submit(ask, device, LONG)
            wait_until(lambda: device.engine_stats()["sequences_running"] == 2, what="both requests")
            lose(device)
            told = [line[6:] for line in lines if line.startswith("data: ")]
        whole = whole.result()
    assert len(told) < LONG  # a stream ends with what happened, and without the word of a good end
    is_told(json.loads(told[-1])["error"], "The engine could not finish the answer.")
    assert whole.status_code == 503 and "retry-after" in whole.headers
    is_told(whole.json()["error"], "The engine could not finish the answer.")
    wait_until(lambda: '"event":"engine_failed"' in device.log_text(), what="the word in the log")
    assert re.search('"event":"engine_failed",.*"error":"CUDA device 0: [^"]*launch failure"', device.log_text())

    # Engines start and end while the device is away: the edge says so, to all who ask.
    wait_until(lambda: starts(device) >= 3, what="another try")
    assert own(device, "/health").json() == {"status": "ok"}  # the edge itself
    wait_until(lambda: own(device, "/ready").status_code == 503, what="the word that nothing is ready")
    assert own(device, "/ready").json()["engine"] == "down"
    assert device.metric("banyan_upstream_up") == 0
    refused = ask(device)
    assert refused.status_code == 503 and "retry-after" in refused.headers
    is_told(refused.json()["error"], "The engine is not available now; try again shortly.")
    assert device.metric('banyan_queue_refusals_total{class="standard",why="all"}') == 0  # no queue was full
    assert device.process.poll() is None

    os.kill(device.process.pid, FOUND)
    wait_until(lambda: own(device, "/ready").status_code == 200, what="another engine")
    answers = [refused]
    # What the one before left is read first; nobody waits here.
    wait_until(lambda: answers.append(ask(device)) or answers[-1].status_code != 503, what="service by itself")
    after = answers[-1]
    assert after.status_code == 200, after.text
    assert after.json()["choices"] == before.json()["choices"]
    wait_until(lambda: len(device.ledger("select 1 from requests")) == 4, what="the ledger's rows")
    ends = device.ledger("select finish from requests order by finish")
    assert ends == [("error",), ("error",), ("length",), ("length",)]


@pytest.mark.parametrize(
    "bytes_there, kv_memory, what",
    [
        (100 << 20, "8M", r"no memory for 128 MiB of sums in parts; 9\d MiB of the device's 100 MiB are free"),
        (1 << 30, "2G", r"no memory for 2048 MiB of KV pages; [89]\d\d MiB of the device's 1024 MiB are free"),
    ],
)
def test_too_little_memory(options, bytes_there, kv_memory, what):
    """It says how much of what, once: another start would fail as well."""
    out = subprocess.run(
        [SERVER, "serve", "--model", options["model"], "--data-dir", options["data_dir"], "--listen", "127.0.0.1:0",
         "--admin-listen", "127.0.0.1:0", *options["options"], "--kv-memory", kv_memory],
        capture_output=True, text=True, timeout=300, env={**os.environ, "SIMT_MEMORY_BYTES": str(bytes_there)},
    )  # fmt: skip
    assert out.returncode == 1
    said = [line for line in out.stderr.splitlines() if line.startswith("banyan engine: ")]
    assert len(said) == 1 and re.fullmatch(f"banyan engine: {what}", said[0]), out.stderr
