"""`banyan admin` against a real server: what it prints, where, and its exit codes."""

import json
import os
import re
import subprocess
import time

from conftest import BINARY, wait_until


def admin(server, *words, env=None):
    """One run; flags that say where the server is come last."""
    return subprocess.run(
        [BINARY, "admin", *words, "--url", server.admin_url, "--data-dir", server.data_dir],
        capture_output=True, text=True, timeout=300, env=env,
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
    assert value not in made.stderr and "shown only this once" in made.stderr
    with server.http(value) as client:
        assert client.get("/v1/models").status_code == 200
    keys = answer(server, "key", "list", "--tenant", tenant["id"])["data"]
    assert [k["name"] for k in keys] == ["prod"] and value not in json.dumps(keys)
    done = admin(server, "key", "revoke", keys[0]["id"], "--tenant", "cli-acme")
    assert done.returncode == 0, done.stderr
    with server.http(value) as client:
        assert client.get("/v1/models").status_code == 401


def test_a_tenant_from_its_making_to_its_end(server):
    tenant = answer(server, "tenant", "create", "cli-life", "--meta", "plan=gold", "--meta", "x=")
    assert tenant["metadata"] == {"plan": "gold", "x": ""} and tenant["revision"] == 1
    changed = answer(server, "tenant", "change", "cli-life", "--name", "cli-life-2", "--if-revision", "1")
    assert changed["id"] == tenant["id"] and changed["revision"] == 2
    late = admin(server, "tenant", "change", "cli-life-2", "--weight", "7", "--if-revision", "1")
    assert late.returncode == 1 and "HTTP 412" in late.stderr and "new revision" in late.stderr
    value = admin(server, "key", "create", "--tenant", "cli-life-2").stdout.strip()
    with server.http(value) as client:
        for verb, state, code in (("suspend", "suspended", 403), ("resume", "active", 200)):
            dry = admin(server, "tenant", verb, "cli-life-2", "--dry-run")
            assert dry.returncode == 0 and "nothing was changed" in dry.stderr
            before = client.get("/v1/models").status_code
            assert answer(server, "tenant", verb, "cli-life-2")["state"] == state
            assert (before, client.get("/v1/models").status_code) == (603 - code, code)
        assert answer(server, "tenant", "archive", "cli-life-2")["state"] == "archived"
        assert client.get("/v1/models").status_code in (401, 403)
    assert admin(server, "tenant", "show", "cli-life-2").returncode == 1, "its name is free again"
    assert answer(server, "tenant", "show", tenant["id"])["state"] == "archived"


def test_a_key_is_rotated(server):
    answer(server, "tenant", "create", "cli-rotate")
    of = ("--tenant", "cli-rotate")
    first = answer(server, "key", "create", *of, "--name", "prod", "--scopes", "inference", "--expires", "30d")
    assert first["scopes"] == ["inference"] and abs(first["expires_at"] - time.time() - 30 * 86400) < 600
    made = admin(server, "key", "rotate", first["id"], *of, "--overlap", "0s")
    second = made.stdout.strip()
    with server.http(first["key"]) as old, server.http(second) as new:
        wait_until(lambda: old.get("/v1/models").status_code == 401, what="the end of the old key")
        assert new.get("/v1/models").status_code == 200
    rows = admin(server, "key", "list", *of).stdout.splitlines()
    assert [row.split()[1:3] for row in rows[1:]] == [["prod", "expired"], ["prod", "active"]]
    assert admin(server, "key", "change", first["id"], *of).returncode == 2, "nothing to change"


def test_admin_keys_have_scopes(server, tmp_path):
    made = admin(server, "admin-key", "create", "--name", "reader", "--scopes", "admin:read")
    reader = tmp_path / "reader.key"
    reader.touch(mode=0o600)
    reader.write_text(made.stdout)
    assert admin(server, "tenant", "list", "--key-file", reader).stderr == ""
    refused = admin(server, "tenant", "create", "cli-no", "--key-file", reader)
    assert refused.returncode == 1 and "HTTP 403, insufficient_scope" in refused.stderr
    keys = answer(server, "admin-key", "list")["data"]
    last = [key["id"] for key in keys if "admin:keys" in key["scopes"] and key["revoked_at"] is None]
    if len(last) == 1:
        kept = admin(server, "admin-key", "revoke", last[0])
        assert kept.returncode == 1 and "HTTP 409" in kept.stderr
    mine = next(key["id"] for key in keys if key["name"] == "reader")
    assert answer(server, "admin-key", "revoke", mine)["revoked_at"] is not None
    gone = admin(server, "tenant", "list", "--key-file", reader)
    assert gone.returncode == 1 and "HTTP 401" in gone.stderr


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
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert nobody.returncode == 3 and "nobody answers" in nobody.stderr
    wrong = tmp_path / "wrong.key"
    wrong.write_text("sk-by-000000000000-" + "0" * 43 + "-000000\n")
    wrong.chmod(0o644)
    refused = admin(server, "tenant", "list", "--key-file", wrong)
    assert refused.returncode == 1 and "HTTP 401" in refused.stderr
    assert "warning: other users can read" in refused.stderr
    untrusted = admin(server, "tenant", "list", "--ca", "/etc/ssl/certs/ca-certificates.crt")
    assert untrusted.returncode == 3 and "not trusted" in untrusted.stderr


def test_what_an_operator_looks_at(server):
    answer(server, "tenant", "create", "cli-looked-at")
    rows = answer(server, "audit", "list", "--limit", "5")["data"]
    assert rows[0]["type"] == "tenant.created" and "cli-looked-at" in json.dumps(rows[0]["detail"])
    assert re.search(r"^kv_memory\s+536870912\s+flag", admin(server, "config", "show").stdout, re.M)
    assert "banyan_requests_running" in admin(server, "metrics", "show").stdout


def test_the_environment_says_where(server):
    listen = server.admin_url.removeprefix("https://")
    env = {**os.environ, "BANYAN_DATA_DIR": str(server.data_dir), "BANYAN_ADMIN_LISTEN": listen}
    done = subprocess.run(
        [BINARY, "admin", "tenant", "list"], capture_output=True, text=True, timeout=300, env=env
    )
    assert done.returncode == 0, done.stderr
