"""Export and import: the same bytes on another server, all or nothing, what wrong documents hear."""

import json
import re
import subprocess
import time

import pytest

from conftest import BINARY, Server

JWK = {
    "kty": "EC", "crv": "P-256", "kid": "e", "alg": "ES256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}  # fmt: skip
OCT = {"kty": "oct", "kid": "o", "alg": "HS256", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWM"}


PRICE = {"currency": "eur", "input_nano": 5, "cached_input_nano": 1, "output_nano": 9}


CERTIFICATES = [
    {"dns": "ops.example", "expires_at": None, "label": "unnamed", "scopes": ["admin:read"], "tenant": None},
    {"expires_at": 4000000000, "fingerprint": "ab" * 32, "label": "unnamed",
     "scopes": ["usage:read", "inference"], "tenant": "acme"},
    {"fingerprint": "cd" * 32, "label": "unnamed", "revoked": True,
     "scopes": ["usage:read", "inference"], "tenant": "acme"},
    {"expires_at": None, "label": "agent", "scopes": ["inference"], "tenant": "acme",
     "uri": "spiffe://example.org/agent"},
]  # fmt: skip


def pair(tmp_path_factory):
    servers = [Server(tmp_path_factory.mktemp(name) / "data") for name in ("from", "to")]
    yield servers
    for server in servers:
        assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two servers that serve the whole module. A test may find there what others have left."""
    yield from pair(tmp_path_factory)


@pytest.fixture
def fresh(tmp_path_factory):
    """Two servers that nobody has changed."""
    yield from pair(tmp_path_factory)


def command(server, *words):
    return subprocess.run(
        [BINARY, "admin", *words, "--url", server.admin_url, "--data-dir", server.data_dir],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def export(server):
    with server.admin() as admin:
        answer = admin.get("/admin/v1/config/export")
    assert answer.status_code == 200, answer.text
    return answer


def load(server, document, code=200, key=None, **kwargs):
    with server.admin(key) as admin:
        answer = admin.post("/admin/v1/config/import", json=document, **kwargs)
    assert answer.status_code == code, answer.text
    return answer.json()


def document(**kinds):
    return {"object": "config_export", "version": 1, **kinds}


def emptied(server):
    """Takes away what an earlier test has left, so that tests can run in any order."""
    everything = ("tenants", "issuers", "certificates", "shared_prompts", "prices", "plans", "groups")
    load(server, document(prune=True, **{kind: [] for kind in everything}))


def filled(server):
    """One of everything, with every reference there is; the values that no export may hold."""
    with server.admin() as admin:

        def post(path, **body):
            answer = admin.post(f"/admin/v1/{path}", json=body)
            assert answer.status_code in (201, 202), answer.text
            return answer.json()

        post("groups", name="east", metadata={"region": "eu"})
        plan = post("plans", name="gold", tokens_per_day=5000, cached_input_percent=10)
        acme = post("tenants", name="acme", group="east", share="group", weight=7, metadata={"b": "1", "a": "2"})
        gone = post("tenants", name="gone")
        key = post(f"tenants/{acme['id']}/keys", name="k")["key"]
        limits = {"plan": plan["id"], "requests_per_minute": {"limit": 60, "mode": "shadow"}}
        assert admin.put(f"/admin/v1/tenants/{acme['id']}/limits", json=limits).status_code == 200
        post(
            "issuers", name="sso", issuer="https://sso.example", audiences=["banyan"],
            algorithms=["ES256"], tenant_claim="org", tenants={"A": acme["id"]}, jwks={"keys": [JWK]},
        )  # fmt: skip
        for more in ({"plan": plan["id"], "model": "m"}, {"class": "batch", "effective_at": 4000000000}):
            price = {"currency": "eur", "input_nano": 5, "cached_input_nano": 1, "output_nano": 9}
            post("prices", **{"effective_at": 1790000000, **price, **more})
        post("shared-prompts", name="rules", text="Rules: be kind.", tenants=[acme["id"], gone["id"]], groups=["east"])
        post("shared-prompts", name="chat", messages=[{"role": "system", "content": "Be brief."}])
        own, every = f"tenants/{acme['id']}/certificates", "certificates"
        post(own, label="agent", uri="spiffe://example.org/agent", scopes=["inference"])
        post(own, fingerprint=":".join(["AB"] * 32), expires_at=4000000000)
        post(every, dns="ops.example", scopes=["admin:read"])
        post(f"tenants/{gone['id']}/certificates", dns="gone.example")
        for path, body in ((own, {"dns": "left.example"}), (own, {"fingerprint": "cd" * 32, "expires_at": 4000000000})):
            row = post(path, **body)
            assert admin.delete(f"/admin/v1/{path}/{row['id']}").status_code == 200
        soon = post(own, dns="soon.example", expires_at=int(time.time()) + 30)
        assert soon["expires_at"]
        assert admin.delete(f"/admin/v1/tenants/{gone['id']}").status_code == 200
    return key


def test_the_same_bytes_on_another_server(fresh, tmp_path):
    source, target = fresh
    key = filled(source)
    first = export(source)
    prices = [(row["plan"], row["model"], row["class"], row["effective_at"]) for row in first.json()["prices"]]
    assert prices == [(None, None, "batch", 4000000000), ("gold", "m", None, 1790000000)]
    kinds = {k: v for k, v in first.json().items() if isinstance(v, list) and k not in ("prices", "certificates")}
    names = {k: [row["name"] for row in v] for k, v in kinds.items()}
    assert names == {
        "groups": ["east"], "plans": ["gold"], "tenants": ["acme"], "issuers": ["sso"],
        "shared_prompts": ["chat", "rules"],
    }  # fmt: skip
    assert first.json()["tenants"][0]["limits"] == {
        "plan": "gold", "requests_per_minute": {"limit": 60, "mode": "shadow"},
    }  # fmt: skip
    assert first.json()["certificates"] == CERTIFICATES
    for secret in (key, source.admin_key, "crt_", "left.example", "soon.example", "tnt_", "pln_", "key_", "archived", "gone"):
        assert secret not in first.text, secret
    file = tmp_path / "banyan.json"
    done = command(source, "config", "export", "--out", file)
    assert done.returncode == 0 and file.read_text() == first.text, done.stderr
    dry = command(target, "config", "import", file, "--dry-run")
    assert dry.returncode == 0 and re.search(r"^create +tenants +acme", dry.stdout, re.M), dry
    assert export(target).json()["tenants"] == []
    done = command(target, "config", "import", file)
    assert done.returncode == 0, done.stderr
    assert export(target).text == first.text
    again = load(target, first.json())
    assert again["changes"] == [] and again["created"] + again["updated"] + again["deleted"] == 0
    with target.admin() as admin:
        rows = admin.get("/admin/v1/audit", params={"type": "config", "order": "desc"}).json()["data"]
        assert [row["type"] for row in rows] == ["config.imported"] * 2
        assert rows[1]["detail"] == {"created": 12, "updated": 0, "deleted": 0}
        made = admin.get("/admin/v1/audit", params={"type": "tenant.created"}).json()["data"]
        assert [row["detail"]["name"] for row in made] == ["acme"]
        acme = admin.get("/admin/v1/tenants").json()["data"][0]
        key = admin.post(f"/admin/v1/tenants/{acme['id']}/keys", json={}).json()["key"]
    with target.http(key) as http:  # and a key of it opens the door
        assert http.get("/v1/me").status_code == 200


def test_changes_and_pruning(two):
    _, target = two
    emptied(target)
    batch_price = {**PRICE, "class": "batch", "effective_at": 4000000000}
    gold_price = {**PRICE, "plan": "gold", "effective_at": 1790000000}
    load(target, document(plans=[{"name": "gold"}], prices=[batch_price, gold_price]))
    load(target, document(tenants=[{"name": "kept", "weight": 3}, {"name": "other"}], groups=[{"name": "west"}]))
    told = load(target, document(tenants=[{"name": "kept", "weight": 4, "group": "west"}]))
    assert told["changes"] == [
        {"action": "update", "resource": "tenants", "name": "kept", "fields": ["weight", "group"]}
    ]
    wanted = document(
        prune=True,
        tenants=[{"name": "kept", "limits": {"tokens_per_day": 9}}],
        shared_prompts=[{"name": "rules", "text": "Other rules."}],
    )
    dry = load(target, wanted, params={"dry_run": "true"})
    before = export(target).text
    told = load(target, wanted)
    assert dry["dry_run"] is True and dry["changes"] == told["changes"]
    assert export(target).text != before
    actions = {(c["action"], c["resource"], c["name"]) for c in told["changes"]}
    assert {("delete", "tenants", "other"), ("update", "tenants", "kept")} <= actions
    after = export(target).json()
    assert [t["name"] for t in after["tenants"]] == ["kept"]
    assert after["tenants"][0]["limits"] == {"tokens_per_day": 9}
    assert [(p["name"], p["text"]) for p in after["shared_prompts"]] == [("rules", "Other rules.")]
    assert any(p["name"] == "gold" for p in after["plans"])  # a kind that is not named stays
    load(target, document(prune=True, tenants=[], issuers=[], certificates=[], shared_prompts=[], plans=[], groups=[]))
    left = {k: v for k, v in export(target).json().items() if isinstance(v, list) and v}
    assert [row["class"] for row in left.pop("prices")] == ["batch"]  # that of a deleted plan is not told
    assert not left
    load(target, document(prices=[{**PRICE, "effective_at": 4000000000}]))
    told = load(target, document(prices=[{**PRICE, "effective_at": 4000000000, "input_nano": 6}]), 409)
    assert told["error"]["param"] == "prices[0]" and "never changed" in told["error"]["message"]
    assert load(target, document(prune=True, prices=[]))["deleted"] == 2


WRONG = [
    ({"version": 2}, 400, "version", "version must be 1"),
    (document(tenents=[]), 400, "tenents", "did you mean tenants?"),
    (document(tenants={}), 400, "tenants", "must be a list"),
    (document(tenants=[7]), 400, "tenants[0]", "must be an object"),
    (document(tenants=[{"weight": 1}]), 400, "tenants[0].name", "must be a string"),
    (document(tenants=[{"name": "a"}, {"name": "a"}]), 400, "tenants[1].name", "given twice"),
    (document(tenants=[{"name": "a"}, {"name": "b", "weight": 0}]), 400, "tenants[1].weight", '"b"'),
    (document(tenants=[{"name": "a", "colour": 1}]), 400, "tenants[0].colour", "no field colour"),
    (document(tenants=[{"name": "a", "limits": {"plan": "none"}}]), 404, "tenants[0].plan", "no none in plans"),
    (document(tenants=[{"name": "a", "limits": {"tokens_per_day": -1}}]), 400, "tenants[0].tokens_per_day", "from"),
    (document(tenants=[{"name": "a", "limits": 5}]), 400, "tenants[0].limits", "an object"),
    (document(shared_prompts=[{"name": "p", "text": "x", "tenants": ["nobody"]}]), 404, "shared_prompts[0].tenants[0]", "nobody"),
    (document(shared_prompts=[{"name": "p", "text": "x", "groups": ["none"]}]), 404, "shared_prompts[0].groups[0]", "none"),
    (document(issuers=[{"name": "i"}]), 400, "issuers[0].issuer", "missing"),
    (document(prices=[PRICE]), 400, "prices[0].effective_at", "Unix seconds"),
    (document(prices=[{**PRICE, "effective_at": 5, "plan": "none"}]), 404, "prices[0].plan", "no none in plans"),
    (document(prune=1), 400, "prune", "true or false"),
    (document(object="backup"), 400, "object", "config_export"),
    ([], 400, None, "must be a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize("wrong, code, param, words", WRONG)
def test_a_wrong_document_changes_nothing(two, wrong, code, param, words):
    _, target = two
    before = export(target)
    told = load(target, wrong, code)["error"]
    assert told["param"] == param and words in told["message"], told
    after = export(target)
    assert after.text == before.text and after.headers["etag"] == before.headers["etag"]


def test_two_writers_and_one_idempotency_key(two):
    _, target = two
    emptied(target)
    etag = export(target).headers["etag"]
    load(target, document(tenants=[{"name": "first"}]), headers={"if-match": etag})
    told = load(target, document(tenants=[{"name": "second"}]), 412, headers={"if-match": etag})
    assert told["error"]["param"] == "if-match"
    once = {"idempotency-key": "import-1"}
    one = load(target, document(tenants=[{"name": "third"}]), headers=once)
    assert load(target, document(tenants=[{"name": "third"}]), headers=once) == one
    load(target, document(tenants=[{"name": "fourth"}]), 422, headers=once)
    names = [row["name"] for row in export(target).json()["tenants"]]
    assert names == ["first", "third"]


def test_secrets_of_issuers_stay(two):
    _, target = two
    issuer = {
        "name": "shared", "issuer": "https://hs.example", "audiences": ["b"], "algorithms": ["HS256"],
        "tenant_claim": "org", "jwks": {"keys": [OCT]},
    }  # fmt: skip
    load(target, document(issuers=[issuer]))
    text = export(target).text
    assert OCT["k"] not in text and '"jwks":' not in text
    assert load(target, json.loads(text))["changes"] == []  # which keeps the keys that are there
    with target.admin() as admin:
        body = {"name": "writer", "scopes": ["admin:read", "admin:write"]}
        writer = admin.post("/admin/v1/admin-keys", json=body).json()["key"]
    told = load(target, document(prune=True, issuers=[]), 403, key=writer)
    assert "issuers" in told["error"]["message"]
    load(target, document(tenants=[{"name": "fifth"}]), key=writer)


def test_a_long_document_and_a_long_body(two):
    _, target = two
    rows = [{"name": f"many-{i:04}", "metadata": {"note": "x" * 400}} for i in range(1000)]
    told = load(target, document(tenants=rows))
    assert told["created"] == 1000
    assert load(target, json.loads(export(target).text))["changes"] == []
    with target.admin() as admin:
        answer = admin.post("/admin/v1/tenants", json={"name": "x", "metadata": {"a": "y" * 300000}})
    assert answer.status_code == 413, answer.text
    load(target, document(prune=True, tenants=[]))


def test_certificates(two):
    """Changed, revoked and pruned as their own calls would; what cannot be changed is refused."""
    _, target = two
    rows = {"tenants": [{"name": "certified"}]}
    one = {"tenant": "certified", "dns": "one.example", "label": "one"}
    mark = {"tenant": "certified", "fingerprint": "ef" * 32}
    load(target, document(**rows, certificates=[one, mark]))

    def there():
        return {r.get("dns") or r.get("fingerprint") or r["uri"]: r for r in export(target).json()["certificates"]}

    with target.admin() as admin:
        tenant = next(t for t in admin.get("/admin/v1/tenants?order=desc").json()["data"] if t["name"] == "certified")
        own = f"/admin/v1/tenants/{tenant['id']}/certificates"
        made = {row["dns"]: row for row in admin.get(own).json()["data"]}["one.example"]
        assert made["label"] == "one" and made["revision"] == 1
        # Another label: the same row. No word about others: they stay.
        done = load(target, document(certificates=[{**one, "label": "two"}]))
        assert done["updated"] == 1 and done["changes"][0]["fields"] == ["label"], done
        assert admin.get(f"{own}/{made['id']}").json()["label"] == "two"
        for wrong, code, param in (
            ({"tenant": "nobody", "dns": "x.example"}, 404, "certificates[0].tenant"),
            ({"tenant": None, "dns": "one.example"}, 409, "certificates[0].tenant"),
            ({"tenant": None, "dns": "x.example"}, 400, "certificates[0].scopes"),
            ({"tenant": "certified", "dns": "x.example", "uri": "u:x"}, 400, "certificates[0].fingerprint"),
            ({"tenant": "certified"}, 400, "certificates[0].fingerprint"),
            ({"tenant": "certified", "dns": "x.example", "revoked": 1}, 400, "certificates[0].revoked"),
            ({"tenant": "certified", "dns": "x.example", "scopes": ["admin:read"]}, 400, "certificates[0].scopes"),
        ):
            error = load(target, document(certificates=[wrong]), code)["error"]
            assert error["param"] == param, (wrong, error)
        limited = admin.post("/admin/v1/admin-keys", json={"scopes": ["admin:read", "admin:write"]}).json()["key"]
        load(target, document(certificates=[{"tenant": "certified", "dns": "x.example"}]), 403, limited)
        # A fingerprint is revoked for ever, by a document too.
        load(target, document(certificates=[{**mark, "revoked": True}]))
        assert there()["ef" * 32]["revoked"] is True
        load(target, document(certificates=[{**mark, "revoked": False}]), 409)
        # What is not named goes, if it is said; what is revoked already is no change.
        done = load(target, document(certificates=[], prune=True))
        assert "ef" * 32 in there() and "one.example" not in there(), done
        assert all(change["action"] == "delete" for change in done["changes"]), done
        assert admin.get(f"{own}/{made['id']}").json()["revoked_at"] is not None


def test_certificates_as_people_write_them_and_when_they_are_over(two):
    """A document stays one that can be imported: written in another way it is the same, and what it
    says of a certificate that is over by now changes nothing, unless it lives longer."""
    _, target = two
    soon = int(time.time()) + 30
    shouted = {"tenant": "written", "fingerprint": ":".join(["A9"] * 32)}
    named = {"tenant": "written", "dns": "Written.Example"}
    brief = {"tenant": "written", "dns": "brief.example", "expires_at": soon}
    load(target, document(tenants=[{"name": "written"}], certificates=[shouted, named]))
    assert load(target, document(certificates=[shouted, named]))["changes"] == []
    twice = load(target, document(certificates=[named, {**named, "dns": "written.example"}]), 400)
    assert twice["error"]["param"] == "certificates[1].fingerprint", twice
    of_nobody = load(target, document(certificates=[{"dns": "written.example"}]), 409)
    assert of_nobody["error"]["param"] == "certificates[0].tenant", of_nobody
    for past in (1, soon - 60, soon):
        assert load(target, document(certificates=[{**brief, "expires_at": past}]))["changes"] == []
    with target.admin() as admin:
        tenant = next(t for t in admin.get("/admin/v1/tenants?order=desc").json()["data"] if t["name"] == "written")
        own = f"/admin/v1/tenants/{tenant['id']}/certificates"
        made = admin.post(own, json={"dns": "brief.example", "expires_at": soon}).json()
        assert load(target, document(certificates=[brief]))["changes"] == []
        load(target, document(prune=True, certificates=[shouted, named]))
        assert admin.get(f"{own}/{made['id']}").json()["revoked_at"] is None
        done = load(target, document(certificates=[{**brief, "expires_at": 4000000000}]))
        assert [(c["action"], c["fields"]) for c in done["changes"]] == [("update", ["expires_at"])], done
        assert admin.get(f"{own}/{made['id']}").json()["expires_at"] == 4000000000
    assert "brief.example" in export(target).text
    load(target, document(prune=True, certificates=[], tenants=[]))


def test_a_document_of_too_many_values(two):
    _, target = two
    text = '{"version":1,"tenants":[' + "{}," * (1 << 20) + "{}]}"
    with target.admin() as admin:
        answer = admin.post("/admin/v1/config/import", content=text)
    assert answer.status_code == 400 and "more than 1048576 values" in answer.json()["error"]["message"]
