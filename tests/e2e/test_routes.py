"""Every route of both faces, as their routes.def say: who may use it, what it is charged to, what of it is
counted. The table is made from the rows, so a new row is tried as its flags promise, and one that lacks them
fails here. The config API with every header: test_admin_routes.py; its answers: test_openapi.py."""

import json
import re
import socket
import ssl
import urllib.parse

import pytest

from conftest import MODEL_NAME, ROOT, wait_until

TEXT = "One two three four five six seven eight nine ten. " * 1000  # the engine is at it for a while
BODIES = {
    "/v1/chat/completions": {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2},
    "/v1/completions": {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 2},
    "/v1/generate": {"prompt": "Hi", "max_tokens": 2},
    "/v1/tokenize": {"model": MODEL_NAME, "prompt": "Hi"},
    "/v1/detokenize": {"model": MODEL_NAME, "tokens": [1, 2, 3]},
}
LONGER = {"max_tokens": 2000, "prompt": TEXT, "tokens": [1, 2, 3] * 2000}
# Neither limited nor counted, and why that harms nobody.
FREE = {
    "/v1/models": "a few hundred bytes that the edge knows",
    "/v1/models/{rest}": "the same",
    "/v1/me": "as many at once as LIMIT_USAGE_CALLS_TENANT",
    "/v1/usage": "as many at once as LIMIT_USAGE_CALLS_TENANT",
    "/health": "a constant",
    "/ready": "one look at the engine for all who ask at once",
}
SCOPES = {"AUTH_SCOPE_INFERENCE": "inference", "AUTH_SCOPE_USAGE_READ": "usage:read", "0": None}
TENANT_SCOPES = {"inference", "usage:read", "priority"}
ADMIN_SCOPES = {
    f"AUTH_SCOPE_{word}": word.lower().replace("_", ":")
    for word in ("ADMIN_READ", "ADMIN_WRITE", "ADMIN_KEYS", "USAGE_READ", "METRICS_READ")
}


def rows(face):
    """(method, path, [the other columns])."""
    text = (ROOT / f"gateway/{face}/routes.def").read_text()
    found = re.findall(r'^ROUTE\("([A-Z]+)", "([^"]+)", (.*)\)$', text, re.M)
    assert len(found) == len(re.findall(r"^ROUTE\(", text, re.M)), "a row of another form"
    return [(method, path, rest.split(", ")) for method, path, rest in found]


class Route:
    """A row of the tenants' face."""

    def __init__(self, method, path, columns):
        _, scope, flags = columns
        self.method, self.row, self.scope = method, path, SCOPES[scope]
        self.flags = set() if flags == "0" else set(flags.split(" | "))
        self.path = path.replace("{rest}", MODEL_NAME).replace("{id}", "x")
        if path == "/v1/usage":
            self.path += "?start_time=1"

    def ask(self, http, **more):
        body = BODIES[self.row] if "READS_BODY" in self.flags else None
        return http.request(self.method, self.path, json=body, **more)


EDGE = [Route(*row) for row in rows("edge")]
EVERY = pytest.mark.parametrize("route", EDGE, ids=lambda route: f"{route.method} {route.row}")


def is_error(answer, code, word):
    assert answer.status_code == code, answer.text
    assert answer.json()["error"]["code"] == word
    assert answer.headers["x-request-id"].startswith("req_")
    return True


def counted(server, route, tenant_id):
    return server.ledger(
        "select count(*) from requests where tenant_id = ? and route = ?", tenant_id, route.row
    )[0][0]


def limit(server, tenant_id, **limits):
    with server.admin() as admin:
        assert admin.put(f"/admin/v1/tenants/{tenant_id}/limits", json=limits).status_code == 200


def left(server, key, name):
    with server.http(key) as http:
        return http.get("/v1/me").json()["limits"][name]["remaining"]


@EVERY
def test_a_row_says_what_it_costs(route):
    flags = route.flags
    assert flags <= {"OPEN", "COUNTED", "LIMITED", "STREAMED", "READS_BODY", "QUIET"}
    if flags & {"COUNTED", "LIMITED", "STREAMED", "READS_BODY"} or route.method != "GET":
        assert {"COUNTED", "LIMITED", "READS_BODY"} <= flags, "what makes the engine work is limited and counted"
        assert "OPEN" not in flags and route.scope is not None and route.row not in FREE
        assert route.row in BODIES
    else:
        assert route.row in FREE, "say why it may be asked without limit"
    assert ("OPEN" in flags) == (route.row in ("/health", "/ready"))


@EVERY
@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
def test_who_may(server, route, http2):
    """No key, a key that is none, an admin's, one with every scope but the row's; and one with that alone."""
    tenant_id, key, _ = server.tenant(f"may-{route.row}-{http2}", [route.scope] if route.scope else None)
    _, others, _ = server.tenant(f"not-{route.row}-{http2}", sorted(TENANT_SCOPES - {route.scope}))
    is_open = "OPEN" in route.flags
    for value in (None, "sk-by-nonsense", server.admin_key):
        with server.http(value, http2=http2) as http:
            answer = route.ask(http)
            assert answer.status_code == 200 if is_open else is_error(answer, 401, "invalid_api_key")
    with server.http(others, http2=http2) as http:
        answer = route.ask(http)
        assert is_error(answer, 403, "insufficient_scope") if route.scope else answer.status_code == 200
        if route.scope:
            assert answer.json()["error"]["message"].endswith(f"scope {route.scope}.")
    assert server.ledger("select count(*) from requests where tenant_id = ?", tenant_id) == [(0,)]
    with server.http(key, http2=http2) as http:
        assert route.ask(http).status_code == 200
    assert counted(server, route, tenant_id) == ("COUNTED" in route.flags)


@EVERY
def test_limits(server, route):
    tenant_id, key, _ = server.tenant(f"limits-{route.row}")
    is_limited = "LIMITED" in route.flags
    limit(server, tenant_id, requests_per_minute=1)
    with server.http(key) as http:
        for turn in range(3):
            answer = route.ask(http)
            if not is_limited or turn == 0:
                assert answer.status_code == 200, answer.text
                continue
            assert is_error(answer, 429, "rate_limit_exceeded")
            assert answer.json()["error"]["param"] == "requests_per_minute"
            assert int(answer.headers["retry-after"]) >= 1 and "x-should-retry" not in answer.headers
            assert answer.headers["x-ratelimit-limit-requests"] == "1"
        assert counted(server, route, tenant_id) == is_limited
        limit(server, tenant_id, text_bytes_per_minute=1)
        answer = route.ask(http)
        if is_limited:
            assert is_error(answer, 429, "rate_limit_exceeded")
            assert answer.json()["error"]["param"] == "text_bytes_per_minute"
        else:
            assert answer.status_code == 200
    assert counted(server, route, tenant_id) == is_limited


@EVERY
def test_a_client_that_leaves(server, route):
    """It is counted once, pays for its request, and holds nothing afterwards."""
    tenant_id, key, _ = server.tenant(f"leaves-{route.row}")
    is_counted = "COUNTED" in route.flags
    limit(server, tenant_id, concurrent_requests=1, requests_per_minute=3)
    url = urllib.parse.urlsplit(server.url)
    body = b""
    if is_counted:
        short = BODIES[route.row]
        more = {"max_tokens"} if "STREAMED" in route.flags else {"prompt", "tokens"}
        body = json.dumps({**short, **{n: LONGER[n] for n in more & short.keys()}}).encode()
    head = (
        f"{route.method} {route.path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection((url.hostname, url.port), timeout=60) as plain:
        context = ssl.create_default_context(cafile=server.ca)  # httpx has set ALPN in the common one
        with context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(head + body)
    with server.http(key) as http:
        wait_until(lambda: counted(server, route, tenant_id) == is_counted, what="the row")
        wait_until(lambda: left(server, key, "concurrent_requests") == 1, what="the lease")
        assert left(server, key, "requests_per_minute") == (2 if is_counted else 3)
        assert route.ask(http).status_code == 200
    assert counted(server, route, tenant_id) == 2 * is_counted


def test_work_on_text_is_no_completion(server):
    """Its rows stand by themselves: no tokens, no cost, a class of their own, and OpenAI's sums lack them."""
    tenant_id, key, _ = server.tenant("text-rows")
    with server.http(key) as http, server.admin() as admin:
        for path in ("/v1/tokenize", "/v1/detokenize", "/v1/tokenize", "/v1/completions"):
            assert http.post(path, json=BODIES[path]).status_code == 200
        names = "service_class, finish, http_code, model, prompt_tokens, completion_tokens, cost_nano, is_estimated"
        found = server.ledger(f"select route, {names} from requests where tenant_id = ? order by id", tenant_id)
        assert [row[0] for row in found] == ["/v1/tokenize", "/v1/detokenize", "/v1/tokenize", "/v1/completions"]
        assert {row[1:] for row in found[:3]} == {("text", "stop", 200, MODEL_NAME, 0, 0, 0, 0)}
        assert found[3][5] > 0 and found[3][1] == "standard"
        start = server.ledger("select max(at_us) / 1000000 from requests where tenant_id = ?", tenant_id)[0][0]
        when = {"start_time": start, "bucket_width": "1d"}
        usage = admin.get("/admin/v1/usage", params={**when, "group_by": "class", "tenant_id": tenant_id})
        sums = {r["class"]: r["num_model_requests"] for b in usage.json()["data"] for r in b["results"]}
        assert sums == {"text": 3, "standard": 1}, usage.text
        told = admin.get("/v1/organization/usage/completions", params={**when, "project_ids[]": tenant_id}).json()
        assert [r["num_model_requests"] for b in told["data"] for r in b["results"]] == [1]


ADMIN = rows("admin")


@pytest.fixture(scope="module")
def admin_keys(server):
    """Scope → a key with every scope but that one."""
    with server.admin() as admin:
        return {
            scope: admin.post(
                "/admin/v1/admin-keys", json={"scopes": sorted(set(ADMIN_SCOPES.values()) - {scope})}
            ).json()["key"]
            for scope in ADMIN_SCOPES.values()
        }


@pytest.mark.parametrize("method,path,columns", ADMIN, ids=[f"{m} {p}" for m, p, _ in ADMIN])
def test_who_may_of_the_config_api(server, admin_keys, method, path, columns):
    _, where, scope = columns
    assert where in ("HERE", "WORKER") and (scope == "0") == (path == "/health")
    path = path.replace("{id}", "x")
    with server.http(base=server.admin_url) as http:
        answer = http.request(method, path)
        assert answer.status_code == 200 if scope == "0" else is_error(answer, 401, "invalid_api_key")
    if scope != "0":
        with server.admin(admin_keys[ADMIN_SCOPES[scope]]) as http:
            answer = http.request(method, path)
            assert is_error(answer, 403, "insufficient_scope")
        with server.admin() as http:
            # Nothing is called x; what needs a body lacks it.
            code = http.request(method, path, params={"start_time": 1} if "usage" in path else {}).status_code
            assert code not in (401, 403) and code < 500, code
