"""`banyan admin` against a real server: what it prints, where, and its exit codes."""

import json
import os
import re
import subprocess

from conftest import BINARY


def admin(server, *words, env=None):
    """One run; flags that say where the server is come last."""
    return subprocess.run(
        [BINARY, "admin", *words, "--url", server.admin_url, "--data-dir", server.data_dir],
        capture_output=True, text=True, timeout=60, env=env,
    )  # fmt: skip


def answer(server, *words):
    done = admin(server, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_tenant_and_a_key_that_works(server):
    tenant = answer(server, "tenant", "create", "cli-acme", "--weight", "7")
    assert tenant["name"] == "cli-acme" and tenant["weight"] == 7
    made = admin(server, "key", "create", "--tenant", "cli-acme", "--name", "prod")
    assert made.returncode == 0, made.stderr
    value = made.stdout.strip()
    assert re.fullmatch(r"sk-by-[0-9A-Za-z]{12}-[0-9A-Za-z]{43}-[0-9A-Za-z]{6}", value)
    assert value not in made.stderr and "shown this once" in made.stderr
    with server.http(value) as client:
        assert client.get("/v1/models").status_code == 200
    keys = answer(server, "key", "list", "--tenant", tenant["id"])["data"]
    assert [k["name"] for k in keys] == ["prod"] and value not in json.dumps(keys)
    done = admin(server, "key", "revoke", keys[0]["id"], "--tenant", "cli-acme")
    assert done.returncode == 0, done.stderr
    with server.http(value) as client:
        assert client.get("/v1/models").status_code == 401


def test_lists_follow_pages(server):
    names = [f"cli-page-{i}" for i in range(3)]
    for name in names:
        answer(server, "tenant", "create", name)
    table = admin(server, "tenant", "list").stdout.splitlines()
    assert table[0].split()[:3] == ["ID", "NAME", "STATE"]
    assert [line.split()[1] for line in table if "cli-page-" in line] == names
    assert len(answer(server, "tenant", "list", "--limit", "2")["data"]) == 2
    some = admin(server, "tenant", "list", "--limit", "2")
    assert len(some.stdout.splitlines()) == 3 and "there are more" in some.stderr


def test_refusals_and_exit_codes(server, tmp_path):
    answer(server, "tenant", "create", "cli-twice")
    again = admin(server, "tenant", "create", "cli-twice")
    assert again.returncode == 1 and "HTTP 409, already_exists" in again.stderr
    assert again.stdout == ""
    assert admin(server, "tenant", "show", "cli-nobody").returncode == 1
    assert admin(server, "tenant", "crate", "x").returncode == 2
    assert admin(server, "tenant", "list", "--url", "https://127.0.0.1:1").returncode == 0, "the last counts"
    nobody = subprocess.run(
        [BINARY, "admin", "tenant", "list", "--url", "https://127.0.0.1:1", "--data-dir", server.data_dir],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert nobody.returncode == 3 and "nobody answers" in nobody.stderr
    wrong = tmp_path / "wrong.key"
    wrong.write_text("sk-by-000000000000-" + "0" * 43 + "-000000\n")
    wrong.chmod(0o644)
    refused = admin(server, "tenant", "list", "--key-file", wrong)
    assert refused.returncode == 1 and "HTTP 401" in refused.stderr
    assert "warning: others may read" in refused.stderr
    untrusted = admin(server, "tenant", "list", "--ca", "/etc/ssl/certs/ca-certificates.crt")
    assert untrusted.returncode == 3 and "not trusted" in untrusted.stderr


def test_what_an_operator_looks_at(server):
    answer(server, "tenant", "create", "cli-looked-at")
    rows = answer(server, "audit", "list", "--limit", "5")["data"]
    assert rows[0]["type"] == "tenant.created" and "cli-looked-at" in json.dumps(rows[0]["detail"])
    assert re.search(r"^kv_memory\s+536870912$", admin(server, "config", "show").stdout, re.M)
    assert "banyan_requests_running" in admin(server, "metrics", "show").stdout


def test_the_environment_says_where(server):
    listen = server.admin_url.removeprefix("https://")
    env = {**os.environ, "BANYAN_DATA_DIR": str(server.data_dir), "BANYAN_ADMIN_LISTEN": listen}
    done = subprocess.run(
        [BINARY, "admin", "tenant", "list"], capture_output=True, text=True, timeout=60, env=env
    )
    assert done.returncode == 0, done.stderr
