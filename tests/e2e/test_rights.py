"""Rights of the processes, reload, drain, reserve of descriptors, the parent's death."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BINARY, MODEL, Server, wait_until
from test_streams import body, read_stream

IS_ROOT = os.geteuid() == 0
PLAIN = 54321  # a user id without a name will do


@pytest.fixture
def place():
    """A directory that every user of the machine can reach."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-rights-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def serving(data_dir, *options, **kwargs):
    server = Server(data_dir, *options, **kwargs)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def users(pid):
    return {int(uid) for uid in status(pid)["Uid"].split()}


def check_confined(server, edge_user, engine_user):
    for name, user in (("edge", edge_user), ("engine", engine_user)):
        about = status(server.child(name))
        assert users(server.child(name)) == {user}, name
        assert about["NoNewPrivs"] == "1" and about["Seccomp"] == "2", name
        assert int(about["CapEff"], 16) == int(about["CapPrm"], 16) == 0, name
        limits = pathlib.Path(f"/proc/{server.child(name)}/limits").read_text()
        assert "Max core file size        0                    0" in limits
    assert status(server.process.pid)["NoNewPrivs"] == "1"
    scores = [
        int(pathlib.Path(f"/proc/{server.child(name)}/oom_score_adj").read_text())
        for name in ("edge", "engine")
    ]
    assert scores[1] > scores[0]
    with server.http() as http:
        ready = http.get("/ready")
    assert ready.status_code == 200 and ready.json()["sandbox"] == "landlock", ready.text
    folder = server.data_dir
    assert folder.stat().st_mode & 0o7777 == 0o700 and folder.stat().st_uid == edge_user
    for path in (folder / "secrets", folder / "admin.key", folder / "banyan.db"):
        assert path.stat().st_mode & 0o7777 == 0o600 and path.stat().st_uid == edge_user, path
    assert (folder / "engine").stat().st_uid == engine_user
    socket_file = (folder / "engine/engine.sock").stat()
    assert socket_file.st_uid == edge_user and socket_file.st_mode & 0o777 == 0o600


def serves(server):
    _, key, _ = server.tenant(f"t{time.monotonic_ns()}")
    assert read_stream(server.http(key), body(1, 3))[3]


def test_users_of_their_own(place):
    """Root's server: first without users, then with; all on one directory."""
    names = [("nobody-here", "nobody-there", 0, 65534), ("daemon", "games", 1, 5)]
    data = place / "d"
    for edge, engine, edge_user, engine_user in [names[0], names[1], names[1]]:
        if not IS_ROOT:
            edge_user = engine_user = os.geteuid()
        with serving(data, "--edge-user", edge, "--engine-user", engine, log_dir=place) as server:
            check_confined(server, edge_user, engine_user)
            serves(server)
            # Both come back as the users they were.
            for name in ("engine", "edge"):
                old = server.child(name)
                os.kill(old, signal.SIGKILL)
                wait_until(lambda: server.child(name) not in (None, old), what=f"the {name}")

            def back():
                try:
                    with server.http() as http:
                        return http.get("/ready").status_code == 200
                except Exception:
                    return False

            wait_until(back, what="readiness")
            check_confined(server, edge_user, engine_user)
            serves(server)
            assert server.stop() == 0


def test_a_plain_user(place):
    user = PLAIN if IS_ROOT else os.geteuid()
    binary, model = place / "banyan", place / "model.gguf"
    shutil.copy(BINARY, binary)
    shutil.copyfile(MODEL, model)
    model.chmod(0o644)
    home = place / "home"
    home.mkdir(mode=0o700)
    os.chown(home, user, user if IS_ROOT else -1)
    prefix = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    with serving(
        home / "d", prefix=prefix if IS_ROOT else (), binary=binary, model=model, log_dir=place
    ) as server:
        check_confined(server, user, user)
        with server.admin() as admin:
            tenant = admin.post("/admin/v1/tenants", json={"name": "a"}).json()["id"]
            key = admin.post(f"/admin/v1/tenants/{tenant}/keys", json={"name": "k"}).json()["key"]
        with server.http(key) as http:
            sent = body(1, 3, model="model", stream=False, stream_options=None)
            assert http.post("/v1/completions", json=sent).status_code == 200
        assert server.stop() == 0


def test_what_is_not_there_is_said(place):
    """As root without users, `required` refuses; a directory that others reach into is refused."""
    command = [str(BINARY), "serve", "--model", str(MODEL), "--listen", "127.0.0.1:0",
               "--admin-listen", "127.0.0.1:0", "--data-dir", str(place / "d")]  # fmt: skip
    if IS_ROOT:
        out = subprocess.run(
            [*command, "--sandbox", "required", "--edge-user", "nobody-here"],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert out.returncode == 1 and "useradd --system" in out.stderr
    (place / "d").mkdir(exist_ok=True)
    (place / "d").chmod(0o755)
    out = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert out.returncode == 1 and f"chmod 700 {place}/d" in out.stderr


# --- reload ---


def make_certificate(folder, name):
    """A self-signed pair; its serial number tells one from another."""
    for path in (folder / "new.key", folder / "new.crt"):
        path.unlink(missing_ok=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", folder / "new.key", "-out",
         folder / "new.crt"], check=True, capture_output=True,
    )  # fmt: skip
    os.replace(folder / "new.key", folder / "server.key")
    os.replace(folder / "new.crt", folder / "server.crt")


def seen_certificate(server):
    host, port = server.url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


@pytest.mark.long
def test_certificates_and_options_change_under_load(place):
    pki = place / "pki"
    pki.mkdir()
    make_certificate(pki, "first")
    options = place / "options.json"
    options.write_text(json.dumps({"request_timeout_s": 1000}))
    data = place / "d"
    # The clients of this test trust whatever stands in D/tls/ca.crt.
    (data / "tls").mkdir(parents=True)
    data.chmod(0o700)
    shutil.copy(pki / "server.crt", data / "tls/ca.crt")
    with serving(
        data, "--tls-cert", pki / "server.crt", "--tls-key", pki / "server.key", "--config",
        options, log_dir=place,
    ) as server:  # fmt: skip
        _, key, _ = server.tenant("acme")
        first = seen_certificate(server)
        ends = []

        def one(index):
            with server.http(key) as http:
                with http.stream("POST", "/v1/completions", json=body(index, 400)) as response:
                    ends.append([line for line in response.iter_lines() if line][-1])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.engine_stats()["tokens_generated"] > 8, what="streams")
        make_certificate(pki, "second")
        options.write_text(json.dumps({"request_timeout_s": 2000}))
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: seen_certificate(server) != first, what="the new certificate")
        second = seen_certificate(server)
        for thread in threads:
            thread.join(600)
        assert ends == ["data: [DONE]"] * 4, "a stream was cut by a reload"
        server.context = ssl.create_default_context(cafile=pki / "server.crt")
        with server.http(key) as http:
            assert http.get("/v1/me").json()["limits"]["request_timeout_s"] == 2000

        def refused(count):
            wait_until(
                lambda: server.log_text().count('"reload_refused"') == count, what="a refusal"
            )
            with server.http(key) as http:
                assert http.get("/v1/me").json()["limits"]["request_timeout_s"] == 2000
            assert seen_certificate(server) == second

        # What only a start can change is named; nothing else of the file is taken.
        options.write_text(json.dumps({"request_timeout_s": 3000, "body_limit": 2048}))
        server.process.send_signal(signal.SIGHUP)
        refused(1)
        assert "only a restart changes: body_limit" in server.log_text()
        options.write_text("{")
        server.process.send_signal(signal.SIGHUP)
        refused(2)
        options.write_text(json.dumps({"request_timeout_s": 3000}))
        (pki / "server.key").write_text("no key")
        server.process.send_signal(signal.SIGHUP)
        refused(3)
        assert server.stop() == 0


# --- drain ---


def stream_in_thread(server, key, tokens):
    lines = []
    started = threading.Event()

    def one():
        with server.http(key) as http:
            with http.stream("POST", "/v1/completions", json=body(1, tokens)) as response:
                for line in response.iter_lines():
                    if line:
                        lines.append(line)
                        started.set()

    thread = threading.Thread(target=one)
    thread.start()
    assert started.wait(300)
    return thread, lines


def was_told(lines):
    return json.loads(lines[-1].removeprefix("data: "))["error"]["type"] == "server_error"


def test_the_second_signal_means_now(tmp_path):
    with serving(tmp_path / "d", "--drain-timeout-s", 300) as server:
        _, key, _ = server.tenant("acme")
        thread, lines = stream_in_thread(server, key, 8000)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: '"edge_draining"' in server.log_text(), what="a drain")
        time.sleep(1.2)  # two signals within a second are one
        assert thread.is_alive()
        assert server.stop() == 0
        thread.join(600)
        assert was_told(lines)
    (row,) = server.ledger("select completion_tokens, is_estimated from requests")
    assert row[0] > 0 and row[1] == 0


def test_the_deadline_of_a_drain_is_told(tmp_path):
    with serving(tmp_path / "d", "--drain-timeout-s", 1) as server:
        _, key, _ = server.tenant("acme")
        thread, lines = stream_in_thread(server, key, 8000)
        assert server.stop() == 0
        thread.join(600)
        assert was_told(lines)
    assert server.ledger("select count(*) from requests") == [(1,)]


@pytest.mark.long
def test_ready_says_no_first(tmp_path):
    with serving(tmp_path / "d", "--drain-delay-s", 10) as server:
        _, key, _ = server.tenant("acme")
        with server.http(key) as http:
            assert http.get("/ready").json()["draining"] is False
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: http.get("/ready").status_code == 503, what="not ready")
            assert http.get("/ready").json()["draining"] is True
            assert http.get("/health").status_code == 200
        serves_still = body(1, 2, stream=False, stream_options=None)
        with server.http(key) as http:  # a new connection, and a request that is taken
            assert http.post("/v1/completions", json=serves_still).status_code == 200
        assert server.process.wait(300) == 0


# --- the parent's death ---


def is_alive(pid):
    try:
        return not status(pid)["State"].startswith("Z")
    except FileNotFoundError:
        return False


def test_the_parent_killed_leaves_nothing(tmp_path):
    port = 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ("--listen", f"127.0.0.1:{port}")
    with serving(tmp_path / "d", *options) as server:
        _, key, _ = server.tenant("acme")
        thread, lines = stream_in_thread(server, key, 8000)
        children = [server.child(name) for name in ("edge", "engine")]
        server.process.kill()
        server.process.wait()
        # The next start does not wait for anybody to clean up.
        with serving(server.data_dir, *options) as second:
            thread.join(600)
            assert was_told(lines)
            wait_until(lambda: not any(map(is_alive, children)), what="the end of the orphans")
            read_stream(second.http(key), body(1, 3))
            assert second.ledger("select count(*) from requests") == [(2,)]
            assert second.stop() == 0


def test_compute_threads_stand_back(server):
    """The engine's threads at +10; the edge, and the engine's loop, as they were started."""
    own = os.getpriority(os.PRIO_PROCESS, server.process.pid)

    def nices(pid):
        tasks = [int(task) for task in os.listdir(f"/proc/{pid}/task")]
        return {task: os.getpriority(os.PRIO_PROCESS, task) for task in tasks}

    assert set(nices(server.child("edge")).values()) == {own}
    engine = nices(server.child("engine"))
    assert engine[server.child("engine")] == own
    assert 10 in engine.values()  # absolute: it holds for a server that was started with a nice of 5
    # The two threads that work on long texts (of the tokenizer and of the engine's face), and they alone, give
    # their processor to whatever wakes up, inside the sandbox too. Each sets that when it has begun.
    def idle():
        tasks = nices(server.child("engine")) | nices(server.child("edge"))
        return {task for task in tasks if os.sched_getscheduler(task) == os.SCHED_IDLE}

    wait_until(lambda: len(idle()) == 2, 30, "two threads for long texts")
    assert idle() < engine.keys() - {server.child("engine")}


# --- descriptors ---


def test_inherited_descriptors_are_closed(tmp_path):
    """What the operator's shell had open is open in no process of the server."""
    kept = tmp_path / "of the shell"
    kept.write_text("secret")
    shell = ("bash", "-c", f'exec 9<"{kept}"; exec "$@"', "bash")
    with serving(tmp_path / "d", prefix=shell) as server:
        for pid in (server.process.pid, server.child("edge"), server.child("engine")):
            folder = pathlib.Path(f"/proc/{pid}/fd")
            links = [os.readlink(entry) for entry in folder.iterdir() if os.path.lexists(entry)]
            assert links and str(kept) not in links


def test_few_descriptors(tmp_path):
    """200 descriptors: 68 clients. The rest wait or are refused; admins, rows and a reload go on."""
    with serving(
        tmp_path / "d", "--connections-per-address", 1000, "--connects-per-address-s", 10000,
        "--handshakes-s", 10000, prefix=("prlimit", "--nofile=200:200"),
    ) as server:  # fmt: skip
        assert '"connections_limited"' in server.log_text()
        _, key, _ = server.tenant("acme")
        read_stream(server.http(key), body(1, 3))
        host, port = server.url.removeprefix("https://").split(":")
        held = []
        for _ in range(150):
            held.append(socket.create_connection((host, int(port))))
        wait_until(lambda: server.descriptors("edge") >= 68, what="connections")
        time.sleep(0.3)
        assert server.descriptors("edge") <= 68 + 64, "the reserve was used up"
        _, other, _ = server.tenant("globex")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: '"reloaded"' in server.log_text(), what="a reload")
        for one in held:
            one.close()
        wait_until(lambda: server.descriptors("edge") < 68, what="their end")
        read_stream(server.http(other), body(1, 3))
        assert server.ledger("select count(*) from requests") == [(2,)]
        assert server.stop() == 0


def test_too_few_descriptors(tmp_path):
    out = subprocess.run(
        ["prlimit", "--nofile=100:100", BINARY, "serve", "--model", MODEL, "--data-dir",
         tmp_path / "d", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert out.returncode == 1 and "descriptors are too few" in out.stderr
