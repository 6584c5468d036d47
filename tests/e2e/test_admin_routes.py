"""Every row of gateway/admin/routes.def × everything that a call may carry beside its fields: If-Match,
Idempotency-Key, dry_run, a body that is right, wrong or not there, over HTTP/1.1 and HTTP/2. The edge
stays alive, each answer is one that config/openapi.json knows for the operation, and what is refused
or dry changes nothing."""

import itertools
import json
import random
import re
import subprocess

import pytest

from conftest import BINARY, ROOT, Server, rounds, wait_until
from test_every_resource import ISSUER, PRICE, last_audit

A = "/admin/v1"
ROUTES = re.findall(
    r'^ROUTE\("(\w+)", "([^"]+)", (\w+), (\w+), (\w+)\)', (ROOT / "gateway/admin/routes.def").read_text(), re.M
)
COUNT = itertools.count(1)
CASES = 8  # drawn for each route and protocol, beside those that vary one thing alone
LONGEST_KEY = 255


def document():
    """(method, path without names) → (names of the parameters, codes of the answers)."""
    out = {}
    for path, item in json.loads((ROOT / "config/openapi.json").read_text())["paths"].items():
        for method in set(item) & {"get", "post", "put", "patch", "delete"}:
            parameters = [p.get("$ref", "").split("/")[-1] for p in item[method].get("parameters", [])]
            key = method.upper(), re.sub(r"\{\w+\}", "{id}", path)
            out[key] = set(parameters), {int(code) for code in item[method]["responses"]}
    return out


DOCUMENT = document()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small model: nothing here depends on what it says."""
    folder = tmp_path_factory.mktemp("routes")
    model = folder / "random.gguf"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    server = Server(folder / "data", "--kv-memory", "64M", model=model)
    server.tenant_id, server.key, server.key_id = server.tenant("one")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


# --- what a route works on: made anew for each call ---

NEW = {  # the last parts of a collection's path → a body that makes one
    "tenants": lambda n: {"name": f"m{n}"},
    "groups": lambda n: {"name": f"m{n}"},
    "plans": lambda n: {"name": f"m{n}"},
    "prices": lambda n: {**PRICE, "effective_at": 4000000000 + n},
    "issuers": lambda n: {**ISSUER, "name": f"m{n}", "issuer": f"https://m{n}.example"},
    "shared-prompts": lambda n: {"name": f"m{n}", "text": "Be kind."},
    "admin-keys": lambda n: {"name": f"m{n}", "scopes": ["admin:read"]},
    "tenants/{id}/keys": lambda n: {"name": f"m{n}"},
    "certificates": lambda n: {"dns": f"m{n}.example", "scopes": ["admin:read"]},
    "tenants/{id}/certificates": lambda n: {"dns": f"m{n}.example"},
}
CHANGE = {  # what else takes a body → a right one
    ("PATCH", "tenants/{id}"): {"weight": 7},
    ("PATCH", "groups/{id}"): {"metadata": {"a": "b"}},
    ("PATCH", "plans/{id}"): {"tokens_per_day": 6},
    ("PATCH", "issuers/{id}"): {"max_lifetime_s": 60},
    ("PATCH", "shared-prompts/{id}"): {"name": "p"},
    ("PATCH", "admin-keys/{id}"): {"name": "k"},
    ("PATCH", "tenants/{id}/keys/{id}"): {"name": "k"},
    ("PATCH", "certificates/{id}"): {"label": "l"},
    ("PATCH", "tenants/{id}/certificates/{id}"): {"label": "l"},
    ("PUT", "tenants/{id}/limits"): {"tokens_per_day": 6},
    ("PUT", "tenants/{id}/keys/{id}/limits"): {"tokens_per_day": 6},
    ("POST", "admin-keys/{id}/rotate"): {"overlap_s": 60},
    ("POST", "tenants/{id}/keys/{id}/rotate"): {"overlap_s": 60},
    ("POST", "config/validate"): {"options": {}},
    ("POST", "config/import"): {"version": 1},
}


class Place:
    """One object for one call: its path, its revision, and its end."""

    def __init__(self, own, admin, path):
        self.admin, self.made, self.stream, self.revision = admin, None, None, '"1"'
        short = path.removeprefix(f"{A}/")
        of_tenant = re.fullmatch(r"tenants/{id}/(keys|certificates)(/{id})?(.*)", short)
        if short == "requests/{id}":
            self.path = self.running(own)
        elif of_tenant:
            at = f"{A}/tenants/{own.tenant_id}/{of_tenant[1]}"
            self.path = at + (f"/{self.make(at)}{of_tenant[3]}" if of_tenant[2] else "")
        elif "{id}" in short:
            collection, _, rest = path.partition("/{id}")
            self.path = f"{collection}/{self.make(collection)}{rest}"
        else:
            self.path = path
        if short.startswith("config"):
            name = f"{A}/config/export" if short == "config/import" else f"{A}/config"
            self.revision = admin.get(name).headers.get("etag", '"1"')
        if short.endswith("limits"):
            self.revision = admin.get(self.path).headers.get("etag", "*")  # none before the first PUT

    def make(self, at):
        kind = re.sub(r"tenants/\w+/", "tenants/{id}/", at.removeprefix(f"{A}/"))
        made = self.admin.post(at, json=NEW[kind](next(COUNT)))
        assert made.status_code in (201, 202), made.text
        self.made = f"{at}/{made.json()['id']}"
        if kind == "shared-prompts":
            wait_until(lambda: self.admin.get(self.made).json()["state"] == "published", what="the prompt")
        self.revision = self.admin.get(self.made).headers["etag"]
        return made.json()["id"]

    def running(self, own):
        self.http = own.http(own.key)
        body = {"model": "random", "prompt": "Hi", "max_tokens": 400, "ignore_eos": True, "stream": True}
        self.stream = self.http.stream("POST", "/v1/completions", json=body)
        answer = self.stream.__enter__()
        assert answer.status_code == 200
        return f"{A}/requests/{answer.headers['x-request-id']}"

    def close(self):
        if self.stream is not None:
            self.http.close()
        if self.made is not None:
            self.admin.delete(self.made)


def right_body(method, path):
    short = path.removeprefix(f"{A}/")
    if method == "POST" and short in NEW:
        return NEW[short](next(COUNT))
    return CHANGE.get((method, short))


# --- what a call may carry ---

IF_MATCH = ("none", "good", "star", "many-good", "stale", "many-stale", "too-many", "malformed", "twice")
KEY = ("none", "new", "taken", "longest", "too-long", "empty", "blank", "twice")
DRY = ("none", "true", "false", "malformed", "twice")
BODY = ("right", "none", "empty", "unknown", "broken")


def headers_of(case, place):
    tags = {
        "good": [place.revision], "star": ["*"], "many-good": [f'"98", {place.revision}'], "stale": ['"99"'],
        "many-stale": ['"98", W/"1", "99"'], "too-many": [", ".join(f'"{n}"' for n in range(101, 110))],
        "malformed": ["1"], "twice": [place.revision] * 2,
    }.get(case["if_match"], [])  # fmt: skip
    new = f"routes-{next(COUNT)}"
    keys = {
        "new": [new], "taken": ["taken"], "longest": [new.ljust(LONGEST_KEY, "x")],
        "too-long": ["x" * (LONGEST_KEY + 1)], "empty": [""], "blank": ["a b"], "twice": [new, new],
    }.get(case["key"], [])  # fmt: skip
    return [("if-match", tag) for tag in tags] + [("idempotency-key", key) for key in keys]


def query_of(case, path):
    words = {"true": "dry_run=true", "false": "dry_run=false", "malformed": "dry_run=1", "twice": "dry_run=true&dry_run=true"}
    start = "start_time=0" if "usage" in path or path.endswith("costs") else ""
    return "?" + "&".join(word for word in (words.get(case["dry"]), start) if word)


def body_of(case, method, path):
    right = right_body(method, path)
    if case["body"] == "right":
        return None if right is None else json.dumps(right)
    return {"none": None, "empty": "{}", "unknown": '{"colour":1}', "broken": "{"}[case["body"]]


def cases(route, http2):
    """Over HTTP/2 tests/run takes the drawn ones alone: the protocol changes how a head is read, not what it
    means."""
    plain = {"if_match": "none", "key": "none", "dry": "none", "body": "right"}
    singles = (("if_match", IF_MATCH), ("key", KEY), ("dry", DRY), ("body", BODY))
    for name, values in rounds(() if http2 else singles, singles):
        yield from ({**plain, name: value} for value in values)
    draw = random.Random(f"{route}")
    for _ in range(rounds(CASES if http2 else CASES // 4, CASES)):
        yield {
            "if_match": draw.choice(IF_MATCH), "key": draw.choice(KEY), "dry": draw.choice(DRY),
            "body": draw.choice(("right", *BODY)),
        }  # fmt: skip


def faults(case, method, parameters, scope):
    """The parameters that a documented rule refuses, one of which the answer must name."""
    out = set()
    is_change = method != "GET" and ("DryRun" in parameters)
    if case["key"] in ("too-long", "empty", "blank", "twice") and scope != "0":
        out.add("idempotency-key")
    if case["if_match"] == "twice" and scope != "0":
        out.add("if-match")
    if is_change and case["if_match"] in ("too-many", "malformed"):
        out.add("if-match")
    if is_change and case["dry"] in ("malformed", "twice"):
        out.add("dry_run")
    return out


def check(case, method, path, scope, answer):
    parameters, codes = DOCUMENT[method, path]
    what = f"{method} {path} {case}: {answer.status_code} {answer.text[:300]}"
    assert answer.status_code in codes, what
    assert answer.status_code < 500, what
    wrong = faults(case, method, parameters, scope)
    error = answer.json().get("error", {}) if answer.status_code >= 400 else {}
    if answer.status_code >= 400:
        assert error["message"] and error["type"], what
    if wrong:
        assert answer.status_code in (400, 412, 422), what
        if case["body"] == "right" and answer.status_code == 400:
            assert error["param"] in wrong, what
        return
    if "IfMatch" in parameters and case["if_match"] in ("stale", "many-stale") and case["body"] == "right":
        is_other = "IdempotencyKey" in parameters and case["key"] == "taken" and case["dry"] != "true"
        assert (answer.status_code, error["param"]) == ((422, "idempotency-key") if is_other else (412, "if-match")), what
        return
    if "IdempotencyKey" in parameters and case["key"] == "taken" and case["dry"] in ("none", "false"):
        assert (answer.status_code, error["code"]) == (422, "idempotency_key_reused"), what
        return
    if case["dry"] != "none" and method != "GET" and "DryRun" not in parameters:
        assert (answer.status_code, error["param"]) == (400, "dry_run"), what
    elif case["body"] == "right" and (case["dry"] == "none" or "DryRun" in parameters):
        assert answer.status_code in (200, 201, 202), what
        if case["dry"] == "true":
            assert answer.status_code == 200 and answer.json()["dry_run"] is True, what
            assert "key" not in answer.json() and "etag" not in answer.headers or "/config/" in path, what
    assert "idempotent-replayed" not in answer.headers, what


def send(client, case, method, path, place):
    body = body_of(case, method, path)
    headers = [*headers_of(case, place), *([("content-type", "application/json")] if body else [])]
    answer = client.request(method, place.path + query_of(case, path), content=body, headers=headers)
    return answer, headers, body


def again(client, case, method, path, place, first, headers, body):
    """The same call once more, and one of another body under the same Idempotency-Key."""
    sent = place.path + query_of(case, path)
    second = client.request(method, sent, content=body, headers=headers)
    what = f"{method} {path} {case}: {first.text[:200]}, then {second.status_code} {second.text[:200]}"
    if "IdempotencyKey" not in DOCUMENT[method, path][0]:
        assert "idempotent-replayed" not in second.headers and second.status_code < 500, what
        return
    assert second.headers.get("idempotent-replayed") == "true", what
    assert (second.status_code, second.text) == (first.status_code, first.text), what
    assert second.headers.get("etag") == first.headers.get("etag"), what
    other = client.request(method, sent, content='{"name":"other"}', headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused"), what


def end(admin, method, path, answer):
    """What the call has made goes again: there are limits to how many there may be."""
    short = path.removeprefix(f"{A}/").removesuffix("/{id}/rotate")
    if method == "POST" and short in NEW and answer.status_code in (201, 202):
        admin.delete(str(answer.request.url.path).split("/rotate")[0].removesuffix("/") + "/" + answer.json()["id"])


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("route", ROUTES, ids=[f"{method}-{path}" for method, path, *_ in ROUTES])
def test_a_route_with_everything_beside_it(own, route, http2):
    method, path, _, _, scope = route
    edge = own.child("edge")
    with own.admin() as admin, own.http(own.admin_key, own.admin_url, http2=http2) as client:
        admin.post(f"{A}/groups", json={"name": "taken"}, headers={"idempotency-key": "taken"})
        for case in cases((method, path), http2):
            if http2 and case["key"] == "empty":
                continue  # the client leaves such a header out over HTTP/2
            place = Place(own, admin, path)
            before = last_audit(admin)
            answer, headers, body = send(client, case, method, path, place)
            check(case, method, path, scope, answer)
            is_dry = case["dry"] == "true" or method == "GET"
            if is_dry or answer.status_code >= 400:
                assert last_audit(admin) == before, (case, answer.text)
            elif method == "POST" and case["key"] in ("new", "longest"):
                again(client, case, method, path, place, answer, headers, body)
            end(admin, method, path, answer)
            place.close()
    assert own.child("edge") == edge, own.log_text()[-4000:]


def test_every_route_is_in_the_document():
    """And every one that takes a body has one here: a new route is tried as the others are."""
    assert len(ROUTES) > 60
    for method, path, *_ in ROUTES:
        parameters, _ = DOCUMENT[method, path]
        if "DryRun" in parameters and method != "DELETE" and path != f"{A}/config/reload":
            assert right_body(method, path) is not None, (method, path)


def test_reloads_with_one_idempotency_key_read_each_time(own):
    """The document says that such a key changes nothing: there is no answer to give again."""
    with own.admin() as admin:
        edge = own.child("edge")
        revision = json.loads(admin.get(f"{A}/config").text)["revision"]
        for _ in range(2):
            answer = admin.post(f"{A}/config/reload", headers={"idempotency-key": "reload"})
            assert answer.status_code == 200, answer.text
            assert answer.json()["revision"] > revision and "idempotent-replayed" not in answer.headers
            revision = answer.json()["revision"]
        assert own.child("edge") == edge
