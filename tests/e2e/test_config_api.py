"""The config API: tenants, keys, admin keys, audit, metrics; bad input, two writers, kill -9."""

import concurrent.futures
import os
import signal
import sqlite3
import threading
import time

import httpx
import pytest

from conftest import Server, wait_until
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


# --- every field, wrong in every way ---

LONG = "x" * 1000
WRONG_NAMES = [7, None, True, [], {}, "", LONG, "a\nb", "a\x7fb"]
WRONG_WEIGHTS = [0, -1, 1001, 1.0, 1.5, "1", None, True, [], {}]
WRONG_STATES = ["archived", "Active", "", 1, None, [], {}]
WRONG_GROUPS = [7, None, True, [], {}, LONG, "a\nb", "a\x7fb"]
WRONG_SHARES = ["all", "Group", "", 1, None, [], {}]
WRONG_CLASSES = ["priority", "Batch", "", 1, None, [], {}]
WRONG_METADATA = [
    7, "x", None, [], {"a": 1}, {"a": None}, {"a": {}}, {"": "v"}, {"k" * 65: "v"},
    {"a": "v" * 513}, {f"k{i}": "v" for i in range(17)},
]  # fmt: skip
WRONG_ENDS = [0, -1, 1, 1.5, "2030-01-01", True, [], 253402300800, 1000]
WRONG_OVERLAPS = [-1, 604801, 1.5, "60", None, True, []]
TENANT_SCOPES = [[], ["admin:read"], ["inference", "inference"], ["x"], "inference", 7, None, [7]]
ADMIN_SCOPES = [[], ["inference"], ["admin:read", "admin:read"], ["x"], "admin:read", 7, None]

TENANTS = "/admin/v1/tenants"
FIELDS = [
    ("tenants", "name", WRONG_NAMES), ("tenants", "weight", WRONG_WEIGHTS),
    ("tenants", "state", WRONG_STATES), ("tenants", "metadata", WRONG_METADATA),
    ("tenants", "group", WRONG_GROUPS), ("tenants", "share", WRONG_SHARES),
    ("tenants", "cache_share", WRONG_WEIGHTS), ("tenants", "default_class", WRONG_CLASSES),
    ("tenants", "best_class", [*WRONG_CLASSES, "batch"]),
    ("keys", "name", WRONG_NAMES), ("keys", "scopes", TENANT_SCOPES),
    ("keys", "expires_at", WRONG_ENDS), ("admin-keys", "name", WRONG_NAMES),
    ("admin-keys", "scopes", ADMIN_SCOPES), ("admin-keys", "expires_at", WRONG_ENDS),
]  # fmt: skip


@pytest.fixture(scope="module")
def places(server):
    """Where each kind is made, where one of it stands, and what is enough to make one."""
    tenant_id, _, key_id = server.tenant("wrong-fields")
    with server.admin() as admin:
        made = admin.post("/admin/v1/admin-keys", json={"scopes": ["admin:read"]})
        assert made.status_code == 201, made.text
    keys = f"{TENANTS}/{tenant_id}/keys"
    return {
        "tenants": (TENANTS, f"{TENANTS}/{tenant_id}", {"name": "never made"}),
        "keys": (keys, f"{keys}/{key_id}", {}),
        "admin-keys": (
            "/admin/v1/admin-keys",
            f"/admin/v1/admin-keys/{made.json()['id']}",
            {"scopes": ["admin:read"]},
        ),
    }


@pytest.mark.parametrize("kind,field,values", FIELDS)
def test_every_field_wrong(server, places, kind, field, values):
    collection, one, least = places[kind]
    with server.admin() as admin:
        before = admin.get(one).json()
        rows = admin.get("/admin/v1/audit?limit=1&order=desc").json()["last_id"]
        for value in values:
            check_error(admin.post(collection, json={**least, field: value}), 400, None, field)
            check_error(admin.patch(one, json={field: value}), 400, None, field)
        for body in ({"colour": "red"}, {"id": "tnt_x"}, {"revision": 7}, {"created_at": 1}):
            name = next(iter(body))
            check_error(admin.post(collection, json={**least, **body}), 400, None, name)
            check_error(admin.patch(one, json=body), 400, None, name)
        assert admin.get(one).json() == before
        assert admin.get("/admin/v1/audit?limit=1&order=desc").json()["last_id"] == rows


@pytest.mark.parametrize("kind", ["keys", "admin-keys"])
def test_every_overlap_wrong(server, places, kind):
    _, one, _ = places[kind]
    with server.admin() as admin:
        for value in WRONG_OVERLAPS:
            check_error(admin.post(f"{one}/rotate", json={"overlap_s": value}), 400, None, "overlap_s")
        check_error(admin.post(f"{one}/rotate", json={"overlap": 1}), 400, None, "overlap")


def test_bodies_that_are_none(server, places):
    def post(raw):
        return admin.post(TENANTS, content=raw, headers={"content-type": "application/json"})

    with server.admin() as admin:
        for raw in (
            b"{", b"[]", b"null", b'"x"', b"{} {}", b'{"name":"a","name":"b"}', b"\xff\xfe{}",
            b'{"name":"a\x00b"}', b'{"name":"a\\u0000b"}', b'{"name":"\xed\xa0\x80"}', b"[" * 5000,
            b'{"name":"a","weight":1e999}', b'{"name":"a","weight":99999999999999999999}',
        ):  # fmt: skip
            check_error(post(raw), 400, None, None)
        most = b'{"name":"' + b"x" * (256 * 1024 - 11) + b'"}'
        assert len(most) == 256 * 1024
        check_error(post(most), 400, None, "name")
        check_error(post(most + b" "), 413, "request_too_large", None)


@pytest.mark.parametrize("query", ["colour=red", "dry_run=1", "dry_run", "limit=1", "dry_run=true&dry_run=true"])
def test_wrong_queries_of_changes(server, query):
    with server.admin() as admin:
        answer = admin.post(f"{TENANTS}?{query}", json={"name": "never made"})
        check_error(answer, 400, None, query.split("=")[0])


@pytest.mark.parametrize(
    "query,param",
    [("limit=0", "limit"), ("limit=101", "limit"), ("after=tnt_nobody", "after"),
     ("order=up", "order"), ("dry_run=true", "dry_run"), ("state=active", "state")],
)  # fmt: skip
def test_wrong_queries_of_lists(server, places, query, param):
    with server.admin() as admin:
        for kind in places:
            for order in ("", "&order=desc") if "order" not in query else ("",):
                check_error(admin.get(f"{places[kind][0]}?{query}{order}"), 400, None, param)


def test_unknown_ids(server, places):
    tenant = places["tenants"][1]
    with server.admin() as admin:
        for path in (
            f"{TENANTS}/tnt_nobody", f"{TENANTS}/tnt_nobody/keys/key_nobody",
            f"{tenant}/keys/key_nobody", "/admin/v1/admin-keys/key_nobody",
            places["keys"][1].replace(tenant, f"{TENANTS}/tnt_nobody"),
            places["admin-keys"][1].replace("/admin/v1/admin-keys", f"{tenant}/keys"),
            places["keys"][1].replace(f"{tenant}/keys", "/admin/v1/admin-keys"),
        ):  # fmt: skip
            check_error(admin.get(path), 404, "not_found", None)
            check_error(admin.patch(path, json={"name": "x"}), 404, "not_found", None)
            check_error(admin.delete(path), 404, "not_found", None)
            if "key_" in path:
                check_error(admin.post(f"{path}/rotate"), 404, "not_found", None)
        check_error(admin.post(f"{TENANTS}/tnt_nobody/keys", json={}), 404, "not_found", None)


# --- lives ---


def test_the_life_of_a_tenant(server):
    tenant_id, value, _ = server.tenant("umbrella")
    path = f"{TENANTS}/{tenant_id}"
    with server.admin() as admin, server.http(value) as client:
        metadata = {"contract": "4711", "note": "two\nlines"}
        got = admin.patch(path, json={"weight": 7, "metadata": metadata})
        assert got.status_code == 200 and got.headers["etag"] == '"2"', got.text
        assert got.json()["metadata"] == metadata and got.json()["revision"] == 2
        listed = admin.get(f"{TENANTS}?limit=1&order=desc").json()["data"][0]
        assert listed == got.json()
        assert client.get("/v1/models").status_code == 200
        assert admin.patch(path, json={"state": "suspended"}).json()["state"] == "suspended"
        check_error(client.get("/v1/models"), 403, None, None)
        assert admin.patch(path, json={"state": "active"}).status_code == 200
        assert client.get("/v1/models").status_code == 200
        assert admin.delete(path).json()["state"] == "archived"
        check_error(client.get("/v1/models"), 401, "invalid_api_key", None)
        check_error(admin.patch(path, json={"state": "active"}), 409, "conflict", None)
        check_error(admin.post(f"{path}/keys", json={}), 409, "conflict", None)
        assert admin.delete(path).json()["revision"] == 5
        assert admin.post(TENANTS, json={"name": "umbrella"}).status_code == 201


@pytest.mark.long
def test_the_life_of_a_key(server):
    tenant_id, value, key_id = server.tenant("tyrell")
    keys = f"{TENANTS}/{tenant_id}/keys"
    with server.admin() as admin, server.http(value) as client:
        assert admin.get(f"{keys}/{key_id}").json()["last_used_at"] is None
        assert client.get("/v1/models").status_code == 200
        assert abs(admin.get(f"{keys}/{key_id}").json()["last_used_at"] - time.time()) < 60
        rotated = admin.post(f"{keys}/{key_id}/rotate", json={"overlap_s": 600})
        assert rotated.status_code == 201, rotated.text
        fresh = rotated.json()
        assert fresh["name"] == "test" and set(fresh["scopes"]) == {"inference", "usage:read"}
        old = admin.get(f"{keys}/{key_id}").json()
        assert old["rotated_to"] == fresh["id"] and 0 < old["expires_at"] - time.time() <= 600
        assert client.get("/v1/models").status_code == 200
        with server.http(fresh["key"]) as next_client:
            assert next_client.get("/v1/models").status_code == 200
            check_error(admin.post(f"{keys}/{key_id}/rotate"), 409, "conflict", None)
            assert admin.delete(f"{keys}/{key_id}").status_code == 200
            check_error(client.get("/v1/models"), 401, "invalid_api_key", None)
            check_error(admin.post(f"{keys}/{key_id}/rotate"), 409, "conflict", None)
            check_error(admin.patch(f"{keys}/{key_id}", json={"name": "x"}), 409, "conflict", None)
            soon = int(time.time()) + 6
            path = f"{keys}/{fresh['id']}"
            assert admin.patch(path, json={"expires_at": soon}).status_code == 200
            check_error(admin.post(f"{path}/rotate", json={"overlap_s": 60}), 400, None, "overlap_s")
            wait_until(
                lambda: next_client.get("/v1/models").status_code == 401, what="the key's end"
            )
            check_error(admin.post(f"{path}/rotate"), 409, "conflict", None)
            assert admin.patch(path, json={"expires_at": None}).json()["expires_at"] is None
            assert next_client.get("/v1/models").status_code == 200


def test_a_key_without_inference(server, client):
    model = client.models.list().data[0].id
    tenant_id, _, _ = server.tenant("wayland")
    with server.admin() as admin:
        key = admin.post(f"{TENANTS}/{tenant_id}/keys", json={"scopes": ["usage:read"]}).json()
    with server.http(key["key"]) as http:
        body = {"model": model, "prompt": "Hi", "max_tokens": 1}
        check_error(http.post("/v1/completions", json=body), 403, "insufficient_scope", None)
        assert http.get("/v1/models").status_code == 200


def test_admin_keys(server):
    def make(admin, scopes):
        return admin.post("/admin/v1/admin-keys", json={"name": "sub", "scopes": scopes})

    with server.admin() as root:
        made = make(root, ["admin:keys", "admin:read"]).json()
        assert made["object"] == "admin_key" and "tenant_id" not in made
        with server.admin(made["key"]) as small:
            check_error(make(small, ["admin:write"]), 403, None, "scopes")
            assert make(small, ["admin:read"]).status_code == 201
            mine = f"/admin/v1/admin-keys/{made['id']}"
            check_error(small.patch(mine, json={"scopes": ["admin:write"]}), 403, None, "scopes")
            everyone = small.get("/admin/v1/admin-keys?limit=100").json()["data"]
            first = next(k for k in everyone if k["name"] == "first start")
            check_error(small.post(f"/admin/v1/admin-keys/{first['id']}/rotate"), 403, None, None)
            assert server.admin_key not in str(everyone)
            assert small.delete(mine).status_code == 200, "one's own key may be revoked"
            check_error(small.get("/admin/v1/audit"), 401, "invalid_api_key", None)
        for key in everyone:
            if key["id"] != first["id"]:
                assert root.delete(f"/admin/v1/admin-keys/{key['id']}").status_code == 200
        path = f"/admin/v1/admin-keys/{first['id']}"
        check_error(root.delete(path), 409, "conflict", None)
        check_error(root.patch(path, json={"scopes": ["admin:read"]}), 409, "conflict", None)
        end = int(time.time()) + 3600
        check_error(root.patch(path, json={"expires_at": end}), 409, "conflict", None)


def test_the_openapi_file_is_served(server):
    with server.admin() as admin:
        served = admin.get("/admin/v1/openapi.json")
        assert served.headers["content-type"] == "application/json"
        assert served.json()["openapi"].startswith("3.")
        assert "/admin/v1/tenants" in served.json()["paths"]


# --- at the same time ---


def test_many_writers_of_one_revision(server):
    """Each round exactly one of those who read the same revision gets through."""
    tenant_id, _, _ = server.tenant("racers")
    path = f"{TENANTS}/{tenant_id}"

    def write(weight):
        with server.admin() as admin:
            barrier.wait(30)
            answer = admin.patch(path, json={"weight": weight}, headers={"if-match": f'"{revision}"'})
            return answer.status_code

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for revision in range(1, 6):
            barrier = threading.Barrier(4)
            codes = list(pool.map(write, [revision * 10 + i for i in range(4)]))
            assert sorted(codes) == [200, 412, 412, 412], codes
    with server.admin() as admin:
        assert admin.get(path).json()["revision"] == 6


def test_one_idempotency_key_at_the_same_time(server):
    """However the calls fall, one key is made; the others hear of it or that it is being made."""
    tenant_id, _, _ = server.tenant("echo")
    path = f"{TENANTS}/{tenant_id}/keys"

    def make(_):
        with server.admin() as admin:
            barrier.wait(30)
            return admin.post(path, json={"name": "once"}, headers={"idempotency-key": "echo-1"})

    barrier = threading.Barrier(6)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(make, range(6)))
    assert {a.status_code for a in answers} <= {201, 409}
    values = {a.json()["key"] for a in answers if a.status_code == 201}
    assert len(values) == 1
    with server.admin() as admin:
        again = admin.post(path, json={"name": "once"}, headers={"idempotency-key": "echo-1"})
        assert again.headers["idempotent-replayed"] == "true" and again.json()["key"] in values
        other = admin.post(path, json={"name": "twice"}, headers={"idempotency-key": "echo-1"})
        check_error(other, 422, "idempotency_key_reused", "idempotency-key")
        names = [k["name"] for k in admin.get(f"{path}?limit=100").json()["data"]]
        assert names.count("once") == 1


def test_tenants_do_not_wait_for_an_admins_commit(server, key):
    """Another process holds the file's lock, so an admin's change cannot be committed. Meanwhile
    tenants are served, admins read, and the change is made when the lock is given back."""
    tenant_id, _, _ = server.tenant("patience")
    path = f"{TENANTS}/{tenant_id}"
    holder = sqlite3.connect(server.data_dir / "banyan.db", isolation_level=None)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, server.http(key) as client:
        assert client.get("/v1/models").status_code == 200
        with server.admin() as reader, server.admin() as writer:
            assert reader.get(path).status_code == 200
            holder.execute("begin immediate")
            try:
                change = pool.submit(writer.patch, path, json={"weight": 9})
                for _ in range(20):
                    assert client.get("/v1/models").status_code == 200
                    assert reader.get(path).json()["weight"] == 100
                assert not change.done(), "the change did not wait for the lock"
            finally:
                holder.execute("rollback")
                holder.close()
            assert change.result().status_code == 200
            assert reader.get(path).json()["weight"] == 9


def test_a_file_that_stays_locked(server):
    """After the store's patience (2 s) the change is refused, and was not made."""
    tenant_id, _, _ = server.tenant("locked-out")
    path = f"{TENANTS}/{tenant_id}"
    holder = sqlite3.connect(server.data_dir / "banyan.db", isolation_level=None)
    holder.execute("begin immediate")
    try:
        with server.admin() as admin:
            answer = admin.patch(path, json={"weight": 9})
            check_error(answer, 503, "service_unavailable", None)
            assert int(answer.headers["retry-after"]) >= 1
            assert admin.get(path).json()["revision"] == 1
    finally:
        holder.execute("rollback")
        holder.close()
    with server.admin() as admin:
        assert admin.patch(path, json={"weight": 9}).json()["revision"] == 2


# --- kill -9 ---


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("mortal") / "data")
    yield server
    assert server.stop() == 0


def test_guesses_are_slowed(mortal):
    """On a server of its own: all tests come from one address."""
    with mortal.http("sk-by-admin-guess", mortal.admin_url) as stranger:
        codes = [stranger.get("/admin/v1/tenants").status_code for _ in range(30)]
    assert codes[0] == 401 and codes.count(429) >= 10 and set(codes) == {401, 429}
    with mortal.admin() as admin:
        assert admin.get("/admin/v1/tenants").status_code == 200, "a right key passes"
    assert '"event":"admin_denied"' in mortal.log_text()
    assert "sk-by-admin-guess" not in mortal.log_text()


def test_killed_between_change_and_answer(mortal):
    """The edge dies at some moment of a POST, or as soon as its change is in the file; asked again
    with the same idempotency key, there is one key, and a value that was told is the one that opens."""
    seen = set()
    for round_number in range(4):
        name = f"mortal-{round_number}"
        headers = {"idempotency-key": f"call-{round_number}"}
        edge = mortal.child("edge")
        told = None
        with concurrent.futures.ThreadPoolExecutor(1) as pool, mortal.admin() as admin:
            tenant = admin.post(TENANTS, json={"name": name}).json()
            path = f"{TENANTS}/{tenant['id']}/keys"
            call = pool.submit(admin.post, path, json={"name": "k"}, headers=headers)
            if round_number % 2 == 0:
                time.sleep(round_number * 0.0003)
            else:
                wait_until(lambda: kept(mortal, f"call-{round_number}"), what="the change")
            os.kill(edge, signal.SIGKILL)
            try:
                told = call.result().json()["key"]
            except httpx.TransportError:
                pass
        wait_until(lambda: mortal.child("edge") not in (None, edge), what="a new edge")
        again = ask_until_up(mortal, path, headers)
        assert again.status_code == 201, again.text
        value = again.json()["key"]
        assert told in (None, value)
        seen.add("replayed" if "idempotent-replayed" in again.headers else "made")
        with mortal.admin() as admin:
            keys = admin.get(path).json()["data"]
            assert [k["id"] for k in keys] == [again.json()["id"]]
            rows = admin.get("/admin/v1/audit?limit=100&order=desc").json()["data"]
            assert sum(row["subject"] == keys[0]["id"] for row in rows) == 1
        with mortal.http(value) as client:
            assert client.get("/v1/models").status_code != 401
    assert "replayed" in seen


def kept(server, name):
    connection = sqlite3.connect(f"file:{server.data_dir}/banyan.db?mode=ro", uri=True)
    try:
        return connection.execute("select 1 from answers where name = ?", (name,)).fetchone()
    finally:
        connection.close()


def ask_until_up(server, path, headers):
    for _ in range(2400):
        try:
            with server.admin() as admin:
                return admin.post(path, json={"name": "k"}, headers=headers)
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the edge did not come back")
