"""`banyan backup` beside a server that is asked all the time: a server that starts from the copy knows
the same tenants, keys and sums; without the secrets it opens nothing."""

import shutil
import subprocess
import threading

import pytest

from conftest import BINARY, MODEL_NAME, Server, wait_until


def backup(server, to, *more):
    return subprocess.run(
        [BINARY, "backup", "--data-dir", server.data_dir, "--to", to, *more],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


ROWS = "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_nano) from requests"
SUMS = "select sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_nano) from usage_minutes"


@pytest.mark.parametrize("times", [3])
def test_a_server_starts_from_the_copy(tmp_path, times):
    server = Server(tmp_path / "data")
    _, key, key_id = server.tenant("acme")
    with server.admin() as admin:
        price = {"currency": "usd", "input_nano": 3, "output_nano": 5}
        assert admin.post("/admin/v1/prices", json=price).status_code == 201
    is_over = threading.Event()
    failures = []

    def ask():
        client = server.openai(key, max_retries=0)
        while not is_over.is_set():
            try:
                client.completions.create(model=MODEL_NAME, prompt="One", max_tokens=2)
            except Exception as failure:  # told below: a thread's own would be lost
                failures.append(failure)
                return

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    count = lambda: server.ledger("select count(*) from requests")[0][0]
    for index in range(times):
        seen = count()
        wait_until(lambda: count() > seen + 5, what="rows that are written meanwhile")
        done = backup(server, tmp_path / f"copy-{index}", "--with-secrets")
        assert done.returncode == 0, done.stderr
    wait_until(lambda: count() > seen + 5, what="rows behind the last copy")
    is_over.set()
    for thread in asking:
        thread.join()
    assert not failures
    refused = backup(server, tmp_path / "copy-0")
    assert refused.returncode == 1 and "a backup replaces nothing" in refused.stderr
    bare = tmp_path / "bare"
    assert backup(server, bare).returncode == 0
    assert sorted(path.name for path in bare.iterdir()) == ["banyan.db", "ledger.db"]
    assert server.stop() == 0, server.log_text()[-4000:]
    whole = server.ledger(ROWS)

    copy = Server(tmp_path / f"copy-{times - 1}", log_dir=bare)
    try:
        rows = copy.ledger(ROWS)
        assert rows == copy.ledger(SUMS) and 0 < rows[0][0] < whole[0][0] and rows[0][3] > 0
        with copy.http(key) as client:
            page = client.get("/v1/usage", params={"start_time": 0, "limit": 1}).json()
            assert page["object"] == "page"
            assert client.get("/v1/me").json()["key"]["id"] == key_id
        with copy.admin(server.admin_key) as admin:
            assert admin.get("/admin/v1/tenants").json()["data"][0]["name"] == "acme"
        copy.openai(key, max_retries=0).completions.create(model=MODEL_NAME, prompt="One", max_tokens=2)
        assert copy.ledger(ROWS) == copy.ledger(SUMS)
        assert copy.ledger(ROWS)[0][0] == rows[0][0] + 1, "sequences go on where they were"
    finally:
        assert copy.stop() == 0, copy.log_text()[-4000:]


def test_without_secrets_it_opens_nothing(tmp_path):
    server = Server(tmp_path / "data")
    _, key, _ = server.tenant("acme")
    assert server.stop() == 0
    assert backup(server, tmp_path / "copy").returncode == 0, "also while no server runs"
    with pytest.raises(AssertionError, match="ready|secrets|''"):
        Server(tmp_path / "copy", log_dir=tmp_path)
    shutil.copy2(tmp_path / "data/secrets", tmp_path / "copy/secrets")
    shutil.copy2(tmp_path / "data/admin.key", tmp_path / "copy/admin.key")
    copy = Server(tmp_path / "copy", log_dir=tmp_path)
    with copy.http(key) as client:
        assert client.get("/v1/me").json()["tenant"]["name"] == "acme"
    assert copy.stop() == 0
