"""Halves that hang, and halves that cannot be started: the parent replaces the first and goes on
trying the second; clients of a half that hangs are told; a pause of the whole machine ends nobody."""

import concurrent.futures
import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BINARY, Server, wait_until

HANG_S = 2
OPTIONS = ("--kv-memory", "64M", "--hang-timeout-s", HANG_S)


@pytest.fixture
def own():
    """Servers of a small model, in a folder that every user can enter."""
    folder = tempfile.mkdtemp(prefix="banyan-hangs-")
    os.chmod(folder, 0o777)
    model = f"{folder}/random.gguf"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    os.chmod(model, 0o644)
    servers = []

    def start(*options, **kwargs):
        servers.append(Server(f"{folder}/data{len(servers)}", *OPTIONS, *options, model=model, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0, server.log_text()[-4000:]
        assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]
    shutil.rmtree(folder)


def body(tokens, prompt="Once", **more):
    return {"model": "random", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, **more}


def events(server, name):
    rows = (line for line in server.log_text().splitlines() if f'"event":"{name}"' in line)
    return [json.loads(row) for row in rows]


def deaths(server, process, why):
    return server.metric(f'banyan_process_deaths_total{{process="{process}",why="{why}"}}')


def serves(server, key):
    try:
        with server.http(key) as http:
            return http.post("/v1/completions", json=body(2)).status_code == 200
    except Exception:
        return False


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    return time.monotonic()


def replaced(server, name, old, stopped):
    """Not before the stated time, and not long after it."""
    wait_until(lambda: server.child(name) not in (None, old), 30, f"another {name}")
    assert time.monotonic() - stopped >= HANG_S - 1
    row = events(server, "child_hung")[-1]
    assert (row["name"], row["pid"], row["stopped"]) == (name, old, 1), row
    assert row["silent_ms"] >= HANG_S * 1000


@pytest.mark.parametrize("engines", [1, 2])
def test_an_idle_engine_that_stands_still(own, engines):
    server = own("--engines", engines)
    _, key, _ = server.tenant("acme")
    assert serves(server, key)
    edge, old = server.child("edge"), server.child("engine")
    replaced(server, "engine", old, stop(old))
    wait_until(lambda: serves(server, key), what="service by itself")
    assert deaths(server, "engine", "hung") == 1 and deaths(server, "edge", "hung") == 0
    assert server.child("edge") == edge


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_streams_of_an_engine_that_stands_still_are_told(own, phase):
    # One row a step: a prompt takes as many steps as it has tokens.
    server = own("--batch-rows", 1 if phase == "prefill" else 512)
    _, key, _ = server.tenant("acme")
    old = server.child("engine")
    lines = [[] for _ in range(4)]
    is_stopped = threading.Event()

    def one(index):
        """The last of its streams, which are short: the one that was under way, or the one behind it."""
        prompt = "Once upon a time. " * (10 if phase == "prefill" else 1)
        # With one row a step, four long answers would take a minute under a sanitizer.
        asked = body(60 if phase == "prefill" else 400, f"{index} {prompt}", stream=True)
        is_last = False
        while not is_last:
            is_last = is_stopped.is_set()
            with server.http(key) as http:
                with http.stream("POST", "/v1/completions", json=asked) as response:
                    if response.status_code != 200:
                        lines[index] = [response.read().decode()]
                        return
                    lines[index] = [line for line in response.iter_lines() if line]
            is_last = is_last or lines[index][-1] != "data: [DONE]"

    threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.engine_stats()["sequences_running"] > 0, what="running streams")
    stopped = stop(old)
    is_stopped.set()
    replaced(server, "engine", old, stopped)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for told in lines:  # one that had not been begun may have been sent again, and then is whole
        assert told, lines
        error = json.loads(told[-1].removeprefix("data: ")).get("error") if told[-1] != "data: [DONE]" else None
        assert told[-1] == "data: [DONE]" or error["type"] == "server_error", told[-1]
    if phase == "decode":
        assert any("error" in told[-1] for told in lines)
    wait_until(lambda: serves(server, key), what="service by itself")


def test_an_engine_that_stands_still_while_it_loads(own):
    server = own()
    _, key, _ = server.tenant("acme")
    first = server.child("engine")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: server.child("engine") not in (None, first), what="another engine")
    second = server.child("engine")
    replaced(server, "engine", second, stop(second))
    wait_until(lambda: serves(server, key), what="service by itself")


def test_an_edge_that_stands_still(own):
    server = own()
    _, key, _ = server.tenant("acme")
    engine, old = server.child("engine"), server.child("edge")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stopped = stop(old)
        waiting = pool.submit(serves, server, key)  # the parent keeps the address
        replaced(server, "edge", old, stopped)
        waiting.result(60)
    wait_until(lambda: serves(server, key), what="service by itself")
    assert deaths(server, "edge", "hung") == 1
    assert server.child("engine") == engine


def test_a_machine_that_stands_still_ends_nobody(own):
    """A laptop that sleeps, a paused virtual machine: the parent stands still as well, and may be the
    first that goes on. Also when the parent alone was stopped."""
    server = own()
    _, key, _ = server.tenant("acme")
    halves = [server.child("edge"), server.child("engine")]
    for also in (halves, []):
        for pid in (server.process.pid, *also):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(HANG_S * 2)
        os.kill(server.process.pid, signal.SIGCONT)
        time.sleep(0.3)
        for pid in also:
            os.kill(pid, signal.SIGCONT)
        time.sleep(HANG_S + 1)
        assert serves(server, key)
    assert [server.child("edge"), server.child("engine")] == halves
    assert not events(server, "child_hung")


def test_nobody_watches_with_0(own):
    server = own("--hang-timeout-s", 0)
    old = server.child("engine")
    stop(old)
    time.sleep(HANG_S * 2)
    assert server.child("engine") == old and not events(server, "child_hung")
    os.kill(old, signal.SIGCONT)


def test_an_idle_server_gives_signs_of_life(own):
    """Nothing to do is no silence: neither half is replaced."""
    server = own("--engines", 2)
    halves = [server.child("edge"), server.child("engine")]
    time.sleep(HANG_S * 4)
    assert [server.child("edge"), server.child("engine")] == halves
    assert not events(server, "child_hung") and not events(server, "child_ended")


# What a restart needs, taken from the running parent: no descriptor for its pipe; no process.
SHORT = {"descriptors": ("nofile", 4, resource.RLIMIT_NOFILE), "processes": ("nproc", 1, resource.RLIMIT_NPROC)}


@pytest.mark.parametrize("name", ["engine", "edge"])
@pytest.mark.parametrize("kind", SHORT)
def test_a_half_that_cannot_be_started_is_tried_again(own, kind, name):
    """The other one goes on meanwhile; each try is logged, counted, and put off for longer."""
    prefix = ()
    if kind == "processes" and os.geteuid() == 0:  # root may have as many as it likes
        nobody = pwd.getpwnam("nobody")
        prefix = ("setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
    server = own(prefix=prefix)
    _, key, _ = server.tenant("acme")
    halves = {half: server.child(half) for half in ("edge", "engine")}
    limit, few, number = SHORT[kind]

    def allow(count):
        command = [*prefix, "prlimit", "--pid", str(server.process.pid), f"--{limit}={count}:"]
        subprocess.run(command, check=True)

    allow(few)
    os.kill(halves[name], signal.SIGKILL)
    wait_until(lambda: len(events(server, "child_unstarted")) >= 3, what="three tries")
    assert server.process.poll() is None and server.child(name) is None
    other = "edge" if name == "engine" else "engine"
    assert server.child(other) == halves[other]
    rows = [row["restart_in_ms"] for row in events(server, "child_unstarted")]
    assert rows[:3] == [200, 400, 800], rows
    assert all(row["name"] == name and row["message"] for row in events(server, "child_unstarted"))
    if name == "engine":
        with server.http() as http:
            assert http.get("/health").status_code == 200 and http.get("/ready").status_code == 503
    soft = resource.getrlimit(number)[0]  # which the server has of this process
    allow("unlimited" if soft == resource.RLIM_INFINITY else soft)
    wait_until(lambda: serves(server, key), what="service by itself")
    assert deaths(server, name, "unstarted") >= 3 and deaths(server, name, "ended") == 1
    assert server.child(other) == halves[other]
