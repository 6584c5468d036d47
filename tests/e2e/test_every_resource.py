"""One set of rules for every resource of the config API: dry runs change nothing, an Idempotency-Key
makes one, revisions are looked at, a key without a route's scope is refused there, what is one
tenant's is nobody else's, names that match nothing are errors, and `banyan admin --json` prints
what the API says."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time

import pytest

from conftest import BINARY, ROOT, Server, limit_rows, wait_until
from test_bad_input import check_error
from test_redis import REDIS, Redis

A = "/admin/v1"
MODEL_NAME = "random"
JWK = {
    "kty": "EC", "crv": "P-256", "kid": "e", "alg": "ES256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}  # fmt: skip
ISSUER = {
    "name": "every", "issuer": "https://every.example", "audiences": ["banyan"], "algorithms": ["ES256"],
    "tenant_claim": "org", "jwks": {"keys": [JWK]},
}  # fmt: skip
PRICE = {"currency": "usd", "input_nano": 1, "output_nano": 2, "effective_at": 4000000000}
# Where it is made, of what, what a change gives (None: it is never changed), the words of the audit.
RESOURCES = {
    "tenants": (f"{A}/tenants", {"name": "every"}, {"weight": 7}, ("tenant", "created", "archived")),
    "keys": (f"{A}/tenants/TENANT/keys", {"name": "every"}, {"name": "k"}, ("key", "created", "revoked")),
    "admin-keys": (f"{A}/admin-keys", {"scopes": ["admin:read"]}, {"name": "k"}, ("key", "created", "revoked")),
    "groups": (f"{A}/groups", {"name": "every"}, {"metadata": {"a": "b"}}, ("group", "created", "deleted")),
    "plans": (f"{A}/plans", {"name": "every"}, {"tokens_per_day": 6}, ("plan", "created", "deleted")),
    "prices": (f"{A}/prices", PRICE, None, ("price", "created", "deleted")),
    "issuers": (f"{A}/issuers", ISSUER, {"max_lifetime_s": 60}, ("issuer", "created", "deleted")),
    "certificates": (f"{A}/tenants/TENANT/certificates", {"dns": "a.example"}, {"label": "l"}, ("certificate", "created", "revoked")),
    "admin-certificates": (
        f"{A}/certificates", {"dns": "b.example", "scopes": ["admin:read"]}, {"label": "l"},
        ("certificate", "created", "revoked"),
    ),
    "shared-prompts": (f"{A}/shared-prompts", {"name": "every", "text": "Be kind."}, {"name": "p"}, ("prompt", "published", "unpublished")),
}  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small model: nothing here depends on what it says."""
    folder = tmp_path_factory.mktemp("every")
    model = folder / f"{MODEL_NAME}.gguf"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    server = Server(folder / "data", "--kv-memory", "64M", model=model)
    server.tenant_id, server.key, server.key_id = server.tenant("one")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


def rows(admin, path):
    page = admin.get(f"{path}?limit=100")
    assert page.status_code == 200 and page.json()["object"] == "list", page.text
    assert not page.json()["has_more"]
    return page.json()["data"]


def last_audit(admin):
    return admin.get(f"{A}/audit?limit=1&order=desc").json()["last_id"]


@pytest.mark.parametrize("kind", RESOURCES)
def test_a_life(own, kind):
    path, body, change, (noun, *words) = RESOURCES[kind]
    path = path.replace("TENANT", own.tenant_id)
    with own.admin() as admin:
        before, audit = rows(admin, path), last_audit(admin)
        dry = admin.post(f"{path}?dry_run=true", json=body)
        assert dry.status_code == 200 and dry.json()["dry_run"] is True, dry.text
        assert "key" not in dry.json() and "etag" not in dry.headers
        assert rows(admin, path) == before and last_audit(admin) == audit
        once = {"idempotency-key": f"every-{kind}"}
        made = admin.post(path, json=body, headers=once)
        assert made.status_code in (201, 202), made.text
        again = admin.post(path, json=body, headers=once)
        assert (again.status_code, again.text) == (made.status_code, made.text)
        assert again.headers["idempotent-replayed"] == "true"
        check_error(
            admin.post(path, json={**body, **(change or {"output_nano": 3})}, headers=once),
            422, "idempotency_key_reused", "idempotency-key",
        )  # fmt: skip
        assert len(rows(admin, path)) == len(before) + 1
        check_error(admin.post(path, json={**body, "colour": 1}), 400, None, "colour")
        one = f"{path}/{made.json()['id']}"

        def told():
            answer = admin.get(one)
            assert answer.status_code == 200, answer.text
            return answer

        if kind == "shared-prompts":
            wait_until(lambda: told().json()["state"] == "published", what="the prompt")
        present = told()
        revision = present.headers["etag"]
        assert made.json()["id"] == present.json()["id"]
        stale = {"if-match": '"99"'}
        if change is not None:
            dry = admin.patch(f"{one}?dry_run=true", json=change)
            assert dry.status_code == 200 and dry.json()["dry_run"] is True, dry.text
            check_error(admin.patch(one, json=change, headers=stale), 412, "revision_mismatch", "if-match")
            check_error(admin.patch(one, json={"colour": 1}), 400, None, "colour")
            assert told().text == present.text and told().headers["etag"] == revision
            done = admin.patch(one, json=change, headers={"if-match": revision})
            assert done.status_code == 200 and done.headers["etag"] != revision, done.text
            assert {name: told().json()[name] for name in change} == change
            check_error(admin.patch(one, json=change, headers={"if-match": revision}), 412, None, "if-match")
        check_error(admin.delete(one, headers=stale), 412, "revision_mismatch", "if-match")
        dry = admin.delete(f"{one}?dry_run=true")
        assert dry.status_code == 200 and dry.json()["dry_run"] is True, dry.text
        present = told()
        gone = admin.delete(one, headers={"if-match": present.headers["etag"]})
        assert gone.status_code == 200, gone.text
        if words[1] in ("deleted", "unpublished"):
            check_error(admin.get(one), 404, "not_found", None)
            assert len(rows(admin, path)) == len(before)
        else:
            assert told().json().get("state") == "archived" or told().json()["revoked_at"] is not None
        query = {"subject": made.json()["id"], "limit": 100}
        types = [row["type"] for row in admin.get(f"{A}/audit", params=query).json()["data"]]
    words = [words[0], *(["updated"] if change is not None else []), words[1]]
    assert types == [f"{noun}.{word}" for word in words], types


def test_limits_are_put_by_the_same_rules(own):
    """They are there from the beginning, and put as a whole."""
    tenant = f"{A}/tenants/{own.tenant_id}"
    with own.admin() as admin:
        for path in (f"{tenant}/limits", f"{tenant}/keys/{own.key_id}/limits"):
            audit, before = last_audit(admin), admin.get(path)
            body = {"tokens_per_day": 1000000}
            dry = admin.put(f"{path}?dry_run=true", json=body)
            assert dry.status_code == 200 and dry.json()["dry_run"] is True, dry.text
            check_error(admin.put(path, json=body, headers={"if-match": '"99"'}), 412, "revision_mismatch", "if-match")
            check_error(admin.put(path, json={**body, "tokens_per_year": 1}), 400, None, "tokens_per_year")
            assert admin.get(path).text == before.text and last_audit(admin) == audit
            done = admin.put(path, json=body)
            assert done.status_code == 200 and done.json()["tokens_per_day"] == 1000000, done.text
            assert done.headers["etag"] == admin.get(path).headers["etag"]
            assert admin.put(path, json={}).json()["tokens_per_day"] is None


@pytest.mark.parametrize("kind", ["keys", "admin-keys"])
def test_a_rotation_by_the_same_rules(own, kind):
    path, body, _, _ = RESOURCES[kind]
    path = path.replace("TENANT", own.tenant_id)
    with own.admin() as admin:
        made = admin.post(path, json=body).json()
        one = f"{path}/{made['id']}"
        dry = admin.post(f"{one}/rotate?dry_run=true", json={"overlap_s": 60})
        assert dry.status_code == 200 and dry.json()["dry_run"] is True and "key" not in dry.json()
        stale = admin.post(f"{one}/rotate", headers={"if-match": '"99"'})
        check_error(stale, 412, "revision_mismatch", "if-match")
        assert admin.get(one).json()["rotated_to"] is None
        once = {"idempotency-key": f"rotate-{kind}", "if-match": '"1"'}
        first, again = (admin.post(f"{one}/rotate", json={"overlap_s": 60}, headers=once) for _ in range(2))
        assert first.status_code == 201 and again.json() == first.json(), again.text
        other = admin.post(f"{one}/rotate", json={"overlap_s": 61}, headers=once)
        check_error(other, 422, "idempotency_key_reused", "idempotency-key")
        assert admin.get(one).json()["rotated_to"] == first.json()["id"]
        for key in (made, first.json()):
            assert admin.delete(f"{path}/{key['id']}").status_code == 200


def test_every_list_by_the_same_rules(own):
    paths = [path.replace("TENANT", own.tenant_id) for path, *_ in RESOURCES.values()]
    with own.admin() as admin:
        for path in (*paths, f"{A}/audit", f"{A}/requests"):
            page = admin.get(f"{path}?limit=1").json()
            assert set(page) == {"object", "data", "first_id", "last_id", "has_more"}, path
            ids = [row["id"] for row in page["data"]]
            assert [page["first_id"], page["last_id"]] == (ids * 2 or [None, None]), path
            for query in ("limit=0", "limit=101", "limit=x", "order=up", "after=nobody", "colour=1", "limit=1&limit=1"):
                check_error(admin.get(f"{path}?{query}"), 400, None, query.split("=")[0])


def operations(tag):
    document = json.loads((ROOT / "config/openapi.json").read_text())
    for path, item in document["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            if tag in item.get(method, {}).get("tags", []):
                scopes = [scope for way in item[method]["security"] for scope in next(iter(way.values()))]
                yield method, re.sub(r"\{\w+\}", "x", path), scopes[0] if scopes else None


def test_each_route_wants_its_scope(own):
    """With every scope but that one it is refused, whatever else is wrong with the call."""
    wanted = {"admin:read", "admin:write", "admin:keys", "usage:read", "metrics:read"}
    asked = 0
    with own.admin() as admin:
        keys = {}
        for scope in wanted:
            made = admin.post(f"{A}/admin-keys", json={"scopes": sorted(wanted - {scope})})
            assert made.status_code == 201, made.text
            keys[scope] = made.json()
        audit = last_audit(admin)
        for method, path, scope in operations("admins"):
            if scope is not None:
                with own.admin(keys[scope]["key"]) as lacking:
                    check_error(lacking.request(method, path), 403, "insufficient_scope", None)
                asked += 1
        assert last_audit(admin) == audit
        for key in keys.values():
            assert admin.delete(f"{A}/admin-keys/{key['id']}").status_code == 200
    assert asked > 55


def test_what_is_one_tenants_is_nobody_elses(own):
    """By the other's path it is not there; by the other's key, on either listener, it is not told."""
    other, key, other_key = own.tenant("two")
    body = {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 2}
    with own.http(own.key) as http, own.admin() as admin:
        assert http.post("/v1/completions", json=body).status_code == 200
        made = admin.post(f"{A}/tenants/{own.tenant_id}/certificates", json={"dns": "c.example"}).json()
        mine = [f"keys/{own.key_id}", f"certificates/{made['id']}"]
        before = [admin.get(f"{A}/tenants/{own.tenant_id}/{path}").json() for path in mine]
        for path in mine:
            wrong = f"{A}/tenants/{other}/{path}"
            check_error(admin.get(wrong), 404, "not_found", None)
            check_error(admin.patch(wrong, json={}), 404, "not_found", None)
            check_error(admin.delete(wrong), 404, "not_found", None)
        wrong = f"{A}/tenants/{other}/keys/{own.key_id}"
        check_error(admin.post(f"{wrong}/rotate"), 404, "not_found", None)
        check_error(admin.get(f"{wrong}/limits"), 404, "not_found", None)
        check_error(admin.put(f"{wrong}/limits", json={"tokens_per_day": 1}), 404, "not_found", None)
        after = [admin.get(f"{A}/tenants/{own.tenant_id}/{path}").json() for path in mine]
        assert [{**row, "last_used_at": 0} for row in before] == [{**row, "last_used_at": 0} for row in after]
    with own.http(key) as http:
        told = http.get("/v1/usage", params={"start_time": 0, "group_by": "key,model"})
        assert [b["results"] for b in told.json()["data"] if b["results"]] == [], told.text
        for name in ("tenant_id", "key_id", "project_ids", "api_key_ids"):
            for value in (own.tenant_id, own.key_id):
                check_error(http.get("/v1/usage", params={"start_time": 0, name: value}), 400, None, "query")
        assert own.tenant_id not in http.get("/v1/me").text
    with own.http(key, own.admin_url) as http:  # an address may guess ten times at once
        for method, path, scope in operations("admins"):
            if scope == "usage:read":
                check_error(http.request(method, path, params={"start_time": 0}), 401, "invalid_api_key", None)


def test_models_that_a_tenant_may_ask(own):
    """Those of its list; one that no engine serves is an error, on each way into the configuration."""
    tenant, key, _ = own.tenant("modest", models=[MODEL_NAME])
    path = f"{A}/tenants/{tenant}"
    body = {"prompt": "Hi", "max_tokens": 2}
    with own.http(key) as http, own.admin() as admin:
        for sent in ({**body, "model": "other"}, {**body, "model": MODEL_NAME + "x"}):
            for stream in (False, True):
                answer = http.post("/v1/completions", json={**sent, "stream": stream})
                check_error(answer, 403, "model_not_allowed", "model")
                assert answer.json()["error"]["type"] == "permission_error"
                assert answer.headers["x-should-retry"] == "false"
        check_error(http.post("/v1/tokenize", json={"model": "other", "prompt": "a"}), 403, "model_not_allowed", "model")
        assert http.post("/v1/completions", json={**body, "model": MODEL_NAME}).status_code == 200
        assert http.post("/v1/generate", json=body).status_code == 200  # which names none
        assert http.get("/v1/me").json()["tenant"]["models"] == [MODEL_NAME]
        unknown = {"models": [MODEL_NAME, "missing"]}
        check_error(admin.patch(path, json=unknown), 404, "model_not_found", "models[1]")
        check_error(admin.post(f"{A}/tenants", json={"name": "x", **unknown}), 404, "model_not_found", "models[1]")
        document = {"version": 1, "tenants": [{"name": "modest", **unknown}]}
        check_error(
            admin.post(f"{A}/config/import", json=document), 404, "model_not_found", "tenants[0].models[1]"
        )
        exported = admin.get(f"{A}/config/export").json()
        assert [row["models"] for row in exported["tenants"] if row["name"] == "modest"] == [[MODEL_NAME]]
        assert admin.patch(path, json={"models": []}).json()["models"] == []
        check_error(http.post("/v1/completions", json={**body, "model": "other"}), 404, "model_not_found", "model")


def test_what_is_refused_costs_nothing(own):
    """What the edge refuses takes nothing from any limit. What the engine refuses counts against the limits of a
    minute (test_quotas), for its text was parsed; budgets, places and the ledger have no trace of it."""
    tenant, key, _ = own.tenant("refused")
    limits = {"requests_per_minute": 100, "tokens_per_minute": 10**7, "tokens_per_day": 10**8,
              "concurrent_requests": 9, "kv_tokens": 200000}  # fmt: skip
    good = {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 2}
    wrong = [
        ({"temperature": 9}, 400), ({"model": "other"}, 404), ({"prompt": "word " * 90000}, 400),
        ({"max_tokens": 10**7}, 400), ({"frobnicate": 1}, 400), ({"service_tier": "none"}, 400),
        ({"max_tokens": 300000}, 400),
    ]  # fmt: skip
    with own.admin() as admin, own.http(key) as http:
        path = f"{A}/tenants/{tenant}"
        assert admin.put(f"{path}/limits", json=limits).status_code == 200

        def left():
            standing = http.get("/v1/me").json()["limits"]
            return {name: standing[name]["remaining"] for name in limits}

        def kept():
            return {name: n for name, n in left().items() if not name.endswith("_minute")}

        assert http.post("/v1/completions", json={**good, **wrong[0][0]}).status_code == 400
        before = kept()  # of the day too, whose sums are read for the first request
        assert before == {name: limits[name] for name in before}
        for change, code in wrong:
            for stream in (False, True):
                answer = http.post("/v1/completions", json={**good, **change, "stream": stream})
                assert answer.status_code == code, (change, answer.text)
        assert kept() == before
        all_before = left()
        assert http.post("/v1/completions", content=b"{").status_code == 400
        assert all(n >= all_before[name] for name, n in left().items())  # a minute's limits fill up meanwhile
        # One limit refuses: the others are not charged. A bucket of one has none left at once.
        assert admin.put(f"{path}/limits", json={**limits, "input_tokens_per_minute": 1}).status_code == 200
        for _ in range(3):
            refused = http.post("/v1/completions", json={**good, "prompt": "one two three four five"})
            assert refused.status_code == 429, refused.text
        assert kept() == before
    assert own.ledger("select count(*) from requests where tenant_id = ?", tenant) == [(0,)]


def test_numbers_and_lists_at_their_limits(own):
    """What config/base/limits.h allows is taken, one more is not (those of tenants and keys: test_config_api)."""
    def issuer(**change):
        return {**ISSUER, "name": "limits", "issuer": "https://limits.example", **change}

    limits = f"{A}/tenants/{own.tenant_id}/limits"
    rows = [("PUT", limits, lambda n, name=name: {name: n}, most, name) for name, most in limit_rows().items()]
    rows += [
        ("PUT", limits, lambda n: {"cached_input_percent": n}, 100, "cached_input_percent"),
        ("PUT", limits, lambda n: {"weight": n}, 1000, "weight"),
        *(("POST", f"{A}/prices", lambda n, name=name: {**PRICE, name: n}, 10**9, name)
          for name in ("input_nano", "cached_input_nano", "output_nano")),
        ("POST", f"{A}/issuers", lambda n: issuer(max_lifetime_s=n), 2592000, "max_lifetime_s"),
        ("POST", f"{A}/issuers", lambda n: issuer(audiences=[f"a{i}" for i in range(n)]), 16, "audiences"),
        ("POST", f"{A}/issuers", lambda n: issuer(audiences=["a" * n]), 127, "audiences[0]"),
        ("POST", f"{A}/issuers", lambda n: issuer(issuer="https://" + "i" * (n - 8)), 255, "issuer"),
        ("POST", f"{A}/tenants", lambda n: {"name": "n" * n}, 127, "name"),
        ("POST", f"{A}/tenants", lambda n: {"name": "x", "metadata": {f"k{i}": "" for i in range(n)}}, 16, "metadata"),
        ("POST", f"{A}/groups", lambda n: {"name": "g" * n}, 127, "name"),
        ("POST", f"{A}/certificates", lambda n: {"dns": "limits.example", "scopes": ["admin:read"], "label": "l" * n}, 127, "label"),
    ]  # fmt: skip
    with own.admin() as admin:
        for method, path, body, most, param in rows:
            good = admin.request(method, f"{path}?dry_run=true", json=body(most))
            assert good.status_code == 200, (param, most, good.text)
            check_error(admin.request(method, f"{path}?dry_run=true", json=body(most + 1)), 400, None, param)
        words = lambda n: ",".join(["tnt_x"] * n)
        for name in ("tenant_id", "key_id", "model"):
            query = {"start_time": 0, "end_time": 60}
            assert admin.get(f"{A}/usage", params={**query, name: words(16)}).status_code == 200, name
            check_error(admin.get(f"{A}/usage", params={**query, name: words(17)}), 400, None, name)


def test_the_longest_document(own):
    document = json.dumps({"version": 1, "tenants": [{"name": "one"}]}).encode()
    with own.admin() as admin:
        for more, code in ((0, 200), (1, 413)):
            body = document + b" " * (16 * 1024 * 1024 - len(document) + more)
            answer = admin.post(f"{A}/config/import?dry_run=true", content=body)
            assert answer.status_code == code, answer.text


def test_a_call_that_still_runs(own):
    """Another process holds the file, so the first call waits; the second with its key is told to try
    again. However often, one tenant is made."""
    holder = sqlite3.connect(own.data_dir / "banyan.db", isolation_level=None)
    once = {"idempotency-key": "still-running"}

    def make(admin):
        return admin.post(f"{A}/tenants", json={"name": "running"}, headers=once)

    with concurrent.futures.ThreadPoolExecutor(1) as pool, own.admin() as admin, own.admin() as second:
        for client in (admin, second):
            assert client.get(f"{A}/tenants").status_code == 200
        for _ in range(20):  # whichever comes second; the lock is waited for for 2 s
            holder.execute("begin immediate")
            try:
                waiting = pool.submit(make, admin)
                time.sleep(0.2)
                told = make(second)
            finally:
                holder.execute("rollback")
            told = [answer for answer in (told, waiting.result()) if answer.status_code == 409]
            if told:
                break
        check_error(told[0], 409, "idempotency_key_in_use", "idempotency-key")
        assert told[0].headers["x-should-retry"] == "true" and int(told[0].headers["retry-after"]) >= 1
        assert make(second).status_code == 201
        again = make(admin)
        assert again.status_code == 201 and again.headers["idempotent-replayed"] == "true"
        assert [row["name"] for row in rows(admin, f"{A}/tenants")].count("running") == 1
    holder.close()


def test_the_command_says_what_the_api_says(own):
    """Every list and every show, as JSON the same and as a table not empty."""

    def run(*words):
        command = [BINARY, "admin", *words, "--url", own.admin_url, "--data-dir", own.data_dir]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    tenant = f"{A}/tenants/{own.tenant_id}"
    with own.admin() as admin:
        made = {}
        for kind, (path, body, _, _) in RESOURCES.items():
            body = {**body, **({"name": f"shown-{kind}"} if "name" in body else {})}
            if "issuer" in body:
                body["issuer"] += "/shown"
            if "effective_at" in body:
                body["effective_at"] += 1
            if "dns" in body:
                body["dns"] = f"shown-{kind}"
            answer = admin.post(path.replace("TENANT", own.tenant_id), json=body)
            assert answer.status_code in (201, 202), answer.text
            made[kind] = answer.json()["id"]
        prompt = f"{A}/shared-prompts/{made['shared-prompts']}"
        wait_until(lambda: admin.get(prompt).json()["state"] == "published", what="the prompt")
        of = ("--tenant", own.tenant_id)
        commands = {
            ("tenant", "list"): ((), f"{A}/tenants"), ("tenant", "show"): ((own.tenant_id,), tenant),
            ("group", "list"): ((), f"{A}/groups"), ("group", "show"): ((made["groups"],), f"{A}/groups/{made['groups']}"),
            ("limits", "show"): ((own.tenant_id,), f"{tenant}/limits"),
            ("plan", "list"): ((), f"{A}/plans"), ("plan", "show"): ((made["plans"],), f"{A}/plans/{made['plans']}"),
            ("key", "list"): (of, f"{tenant}/keys"),
            ("key", "show"): ((made["keys"], *of), f"{tenant}/keys/{made['keys']}"),
            ("admin-key", "list"): ((), f"{A}/admin-keys"),
            ("admin-key", "show"): ((made["admin-keys"],), f"{A}/admin-keys/{made['admin-keys']}"),
            ("prompt", "list"): ((), f"{A}/shared-prompts"), ("prompt", "show"): ((made["shared-prompts"],), prompt),
            ("issuer", "list"): ((), f"{A}/issuers"), ("issuer", "show"): ((made["issuers"],), f"{A}/issuers/{made['issuers']}"),
            ("certificate", "list"): (of, f"{tenant}/certificates"),
            ("certificate", "show"): ((made["admin-certificates"],), f"{A}/certificates/{made['admin-certificates']}"),
            ("request", "list"): ((), f"{A}/requests"),
            ("usage", "show"): (("--from", "2026-01-01", "--to", "2026-01-02"), f"{A}/usage?start_time=1767225600&end_time=1767312000"),
            ("price", "list"): ((), f"{A}/prices"), ("price", "show"): ((made["prices"],), f"{A}/prices/{made['prices']}"),
            ("audit", "list"): ((), f"{A}/audit?order=desc&limit=50"),
            ("config", "show"): ((), f"{A}/config"), ("metrics", "show"): ((), None),
        }  # fmt: skip
        known = re.findall(r'^CLI_COMMAND\("([a-z-]+)", "(list|show)"', (ROOT / "gateway/cli/cli_commands.def").read_text(), re.M)
        assert set(known) == set(commands)
        used = lambda text: re.sub(r'"last_used_at": ?(\d+|null)', "", json.dumps(text))
        for words, (more, path) in commands.items():
            assert run(*words, *more).strip() or words in (("request", "list"), ("usage", "show")), words
            if path is None:
                continue
            asked = path if "?" in path or words[1] == "show" else f"{path}?limit=100"
            assert used(json.loads(run(*words, *more, "--json"))) == used(admin.get(asked).json()), words
    # Each resource of the routes has its command.
    routes = (ROOT / "gateway/admin/routes.def").read_text()
    resources = set(re.findall(r'"/admin/v1/(?:tenants/\{id\}/)?(?:keys/\{id\}/)?([a-z-]+)[/"]', routes))
    assert len(resources) > 12
    other = {"shared-prompts": "prompt", "limits": "limits", "rotate": "key"}
    missing = {r for r in resources if other.get(r, r.removesuffix("s")) not in dict(known)}
    assert not missing, missing


def refused_at_start(folder, *options):
    done = subprocess.run(
        [BINARY, "edge", "--data-dir", folder / "refused", "--listen", "127.0.0.1:0", "--admin-listen",
         "127.0.0.1:0", *options],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_options_that_would_do_nothing(tmp_path):
    (tmp_path / "password").write_text("secret")
    told = refused_at_start(tmp_path, "--redis-password-file", tmp_path / "password")
    assert "redis_password_file is of no use without redis" in told
    told = refused_at_start(tmp_path, "--tls-cert", tmp_path / "password")
    assert "tls_cert and tls_key are given together" in told
    assert "did you mean --redis-keep-days?" in refused_at_start(tmp_path, "--redis-keep-day", "3")


def test_a_redis_that_may_forget_is_warned_of(tmp_path_factory):
    """A key that is evicted takes a tenant's day with it; the operator hears of it once."""
    if not os.access(REDIS, os.X_OK):
        pytest.skip("no redis-tools; deploy/prepare test installs it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-evict-", dir="/tmp"))
    redis = Redis(folder)
    redis("CONFIG", "SET", "maxmemory", "100mb")
    redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    (folder / "password").write_text(redis.password)
    model = tmp_path_factory.mktemp("evict") / f"{MODEL_NAME}.gguf"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    server = Server(
        folder / "data", "--kv-memory", "64M", "--redis", f"unix://{redis.path}",
        "--redis-password-file", folder / "password", model=model,
    )  # fmt: skip
    try:
        wait_until(lambda: '"event":"redis_may_evict"' in server.log_text(), 60, "the warning")
        assert '"policy":"allkeys-lru"' in server.log_text()
        wait_until(lambda: server.metric("banyan_redis_up") == 1, 60, "Redis in use all the same")
    finally:
        code = server.stop()
        redis.kill()
        shutil.rmtree(folder)
    assert code == 0
