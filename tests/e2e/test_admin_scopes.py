"""Nobody can give scopes that they lack, so each has a key that keeps it: the last one with it is
neither stripped, revoked nor ended sooner. Who has the data directory has a way back."""

import sqlite3
import subprocess
import time

import pytest

from conftest import BINARY, Server, wait_until
from test_bad_input import check_error

SCOPES = ["admin:read", "admin:write", "admin:keys", "usage:read", "metrics:read"]
KEYS = "/admin/v1/admin-keys"
FAR_S = 4000000000


@pytest.fixture
def own(tmp_path):
    server = Server(tmp_path / "data")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def make(admin, scopes, **fields):
    made = admin.post(KEYS, json={"scopes": scopes, **fields})
    assert made.status_code == 201, made.text
    return made.json()


def command(data_dir, *more):
    return subprocess.run(
        [BINARY, "admin-key", "--data-dir", data_dir, *more], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("scope", SCOPES)
def test_the_last_key_of_each_scope_keeps_it(own, scope):
    """Asked for by a key that has admin:keys alone, and by one that has all."""
    others = [word for word in SCOPES if word != scope]
    with own.admin() as root:
        last = root.get(KEYS).json()["data"][0]["id"]
        make(root, SCOPES, expires_at=FAR_S)  # ends before the other does
        small = make(root, ["admin:keys"])["key"]
        one = f"{KEYS}/{last}"
        for key in (small, own.admin_key):
            with own.admin(key) as admin:
                if scope != "admin:keys":  # the small key has that
                    refused = admin.patch(one, json={"scopes": others})
                    check_error(refused, 409, None, None)
                    assert f"the last key with {scope}" in refused.text
                for refused in (admin.delete(one), admin.patch(one, json={"expires_at": FAR_S - 1})):
                    check_error(refused, 409, None, None)
                    assert "the last key with" in refused.text
                assert admin.delete(f"{one}?dry_run=true").status_code == 409
        assert root.get(one).json()["scopes"] == SCOPES
        make(root, [scope])  # somebody else has it, for ever: now it may go
        assert root.patch(one, json={"scopes": others}).status_code == 200


def test_a_rotation_hands_the_scopes_on(own):
    with own.admin() as root:
        last = root.get(KEYS).json()["data"][0]["id"]
        new = root.post(f"{KEYS}/{last}/rotate", json={"overlap_s": 0})
        assert new.status_code == 201, new.text
    with own.admin(new.json()["key"]) as admin:
        refused = admin.delete(f"{KEYS}/{new.json()['id']}")
        check_error(refused, 409, None, None)


def test_a_way_back_with_the_data_directory(tmp_path):
    server = Server(tmp_path / "data")
    tenant, _, _ = server.tenant("acme")
    busy = command(tmp_path / "data")
    assert busy.returncode == 1 and "stop it" in busy.stderr, busy
    old = server.admin_key
    assert server.stop() == 0
    made = command(tmp_path / "data")
    assert made.returncode == 0, made
    key_file = tmp_path / "data/admin.key"
    value = key_file.read_text().strip()
    assert value != old and value not in made.stdout + made.stderr and "sk-by-" not in made.stdout
    assert key_file.stat().st_mode & 0o777 == 0o600
    server = Server(tmp_path / "data")
    for key in (value, old):  # the old one was not lost: it stays
        with server.admin(key) as admin:
            assert admin.get(f"/admin/v1/tenants/{tenant}").status_code == 200
    with server.admin() as admin:
        keys = admin.get(KEYS).json()["data"]
        assert keys[-1]["scopes"] == SCOPES and keys[-1]["id"] in made.stdout
        rows = admin.get("/admin/v1/audit", params={"subject": keys[-1]["id"]}).json()["data"]
        assert [row["type"] for row in rows] == ["key.created"]
        assert "banyan admin-key, user " in str(rows[0]), rows
    assert server.stop() == 0


def test_a_start_finds_that_a_scope_has_no_key(tmp_path):
    """As an earlier version could leave it, or an end that has passed."""
    server = Server(tmp_path / "data")
    old = server.admin_key
    assert server.stop() == 0
    connection = sqlite3.connect(tmp_path / "data/banyan.db")
    connection.execute("update keys set scopes = scopes & ~2 where tenant_id is null or tenant_id = ''")
    connection.commit()
    connection.close()
    server = Server(tmp_path / "data")
    assert server.admin_key != old
    with server.admin() as admin:
        assert admin.post("/admin/v1/tenants", json={"name": "acme"}).status_code == 201
    assert server.stop() == 0


def test_the_last_end_passes_while_the_server_runs(tmp_path):
    """As an earlier version could leave it. Until the next start nobody has the scopes, and nobody is given them;
    tenants' keys go on."""
    server = Server(tmp_path / "data")
    old = server.admin_key
    tenant, key, _ = server.tenant("acme")
    assert server.stop() == 0
    connection = sqlite3.connect(tmp_path / "data/banyan.db")
    connection.execute(
        "update keys set expires_at_s = ? where tenant_id is null or tenant_id = ''", [int(time.time()) + 2]
    )
    connection.commit()
    connection.close()
    server = Server(tmp_path / "data")
    assert server.admin_key == old  # it was good when the server started
    with server.admin() as admin, server.http(key) as http:
        wait_until(lambda: admin.get("/admin/v1/tenants").status_code == 401, 30, "the end of the last key")
        check_error(admin.post(KEYS, json={"scopes": SCOPES}), 401, "invalid_api_key", None)
        assert http.get("/v1/me").status_code == 200
    assert command(tmp_path / "data").returncode == 1  # the server must be stopped either way
    assert server.stop() == 0
    server = Server(tmp_path / "data")
    assert server.admin_key != old
    with server.admin() as admin:
        assert admin.get(f"/admin/v1/tenants/{tenant}").status_code == 200
    assert server.stop() == 0


def test_the_command_elsewhere(tmp_path):
    missing = command(tmp_path / "nothing")
    assert missing.returncode == 1 and "no server has used this directory" in missing.stderr, missing
    assert not (tmp_path / "nothing").exists()
    assert command(tmp_path, "--colour").returncode == 2
    usage = subprocess.run([BINARY, "admin-key", "--help"], capture_output=True, text=True)
    assert usage.returncode == 0 and "D/admin.key" in usage.stdout
