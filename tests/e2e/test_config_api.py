"""Tenants and keys through the config API: create, list, revoke, audit, scopes, metrics."""

import pytest

from conftest import wait_until
from test_bad_input import check_error


def test_a_tenant_and_its_keys(server):
    tenant_id, value, key_id = server.tenant("initech")
    with server.admin() as admin:
        got = admin.get(f"/admin/v1/tenants/{tenant_id}").json()
        assert got["id"] == tenant_id and got["name"] == "initech"
        check_error(admin.post("/admin/v1/tenants", json={"name": "initech"}), 409, None, "name")
        keys = admin.get(f"/admin/v1/tenants/{tenant_id}/keys").json()
        assert keys["object"] == "list" and keys["first_id"] == keys["last_id"] == key_id
        assert value not in str(keys), "a key's value is shown once"
        assert admin.delete(f"/admin/v1/tenants/{tenant_id}/keys/{key_id}").status_code == 200
        check_error(
            admin.delete(f"/admin/v1/tenants/{tenant_id}/keys/key_nothere00000"), 404, None, None
        )
        types = [row["type"] for row in admin.get("/admin/v1/audit?limit=100").json()["data"]]
    assert {"tenant.created", "key.created", "key.revoked"} <= set(types)


def test_lists_are_paged(server):
    made = [server.tenant(f"page-{i}")[0] for i in range(5)]
    with server.admin() as admin:
        seen, after = [], ""
        while True:
            page = admin.get(f"/admin/v1/tenants?limit=2&after={after}").json()
            seen += [t["id"] for t in page["data"]]
            assert len(page["data"]) <= 2
            if not page["has_more"]:
                break
            after = page["last_id"]
    assert [t for t in seen if t in made] == made
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    "body,param",
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"name": "x" * 1000}, "name"),
        ({"name": "x", "weight": 0}, "weight"),
        ({"name": "x", "weight": "much"}, "weight"),
        ({"name": "x", "colour": "red"}, "colour"),
    ],
)
def test_wrong_tenants(server, body, param):
    with server.admin() as admin:
        check_error(admin.post("/admin/v1/tenants", json=body), 400, None, param)


def test_only_admins_enter(server, key):
    with server.http(base=server.admin_url) as nobody:
        check_error(nobody.get("/admin/v1/tenants"), 401, "invalid_api_key", None)
        assert nobody.get("/metrics").status_code == 401
    with server.admin(key) as tenant:
        check_error(tenant.get("/admin/v1/tenants"), 401, "invalid_api_key", None)


def test_metrics(server, client):
    client.completions.create(model=client.models.list().data[0].id, prompt="Hi", max_tokens=2)
    with server.admin() as admin:
        wait_until(
            lambda: "banyan_batch_rows_count" in admin.get("/metrics").text, what="a look at the engine"
        )
        text = admin.get("/metrics").text
    for name in (
        'banyan_kernel_info{isa="', 'banyan_kv_pages{state="free"}', "banyan_upstream_up 1",
        "banyan_http_requests_total{", "banyan_request_duration_seconds_bucket",
        "banyan_time_to_first_token_seconds_bucket", 'banyan_tokens_total{kind="generated"}',
    ):  # fmt: skip
        assert name in text, text[:2000]
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types)), "a name stands twice"


def test_files_are_private(server):
    for name in ("admin.key", "secrets", "ledger.db", "banyan.db"):
        mode = (server.data_dir / name).stat().st_mode & 0o077
        assert mode == 0, f"{name} is readable by others"
