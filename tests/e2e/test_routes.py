"""Every route of both faces, as their routes.def say: who may use it, what it is charged to, what of it is
counted, in the ledger and in the metrics; by key, token and certificate, over HTTP/1.1 and HTTP/2. The table
is made from the rows, so a new row is tried as its flags promise, and one that lacks them fails here. The
config API with every header: test_admin_routes.py; its answers: test_openapi.py."""

import collections
import itertools
import json
import pathlib
import re
import shutil
import socket
import ssl
import tempfile
import time
import urllib.parse

import h2.connection
import h2.events
import pytest

from conftest import MODEL_NAME, ROOT, wait_until
from test_certificates import Made, World, client
from test_tokens import Issuer

TEXT = "One two three four five six seven eight nine ten. " * 1000  # the engine is at it for a while
BODIES = {
    "/v1/chat/completions": {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2},
    "/v1/completions": {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 2},
    "/v1/generate": {"prompt": "Hi", "max_tokens": 2},
    "/v1/embeddings": {"model": MODEL_NAME, "input": "Hi"},
    "/v1/tokenize": {"model": MODEL_NAME, "prompt": "Hi"},
    "/v1/detokenize": {"model": MODEL_NAME, "tokens": [1, 2, 3]},
}
LONGER = {"max_tokens": 2000, "prompt": TEXT, "tokens": [1, 2, 3] * 2000, "input": [TEXT[:7000]] * 8}
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


ADMIN_BODY_BYTES = 256 * 1024  # LIMIT_ADMIN_BODY_BYTES
ADMIN_FAILURES = 10  # LIMIT_ADMIN_FAILURES
CREDENTIALS = ("key", "token", "certificate")
EACH_WAY = tuple(itertools.product(CREDENTIALS, (False, True)))  # (credential, whether over HTTP/2)


@pytest.fixture(scope="module")
def world():
    """A server that takes certificates, in a folder that the edge's own user can reach."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-routes-", dir="/tmp"))
    folder.chmod(0o755)
    world = World(folder)
    world.start("optional", "--embeddings", "last")
    scopes = sorted(TENANT_SCOPES)
    world.issuer = Issuer(world.server, "routes", scope_claim="scope", scopes=scopes)
    world.unknown = world.made("unknown")
    world.watcher = world.server.admin()
    yield world
    assert world.server.stop() == 0, world.server.log_text()[-4000:]
    text = world.server.log_text()
    assert "AddressSanitizer" not in text and "runtime error:" not in text, text[-8000:]
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(world):
    return world.server


class Caller:
    """A tenant, and a credential of each kind that opens the same scopes (None: those that one has unasked)."""

    made = itertools.count(1)

    def __init__(self, world, scopes=None):
        self.world, self.name = world, f"caller-{next(self.made)}"
        self.tenant_id, self.key, key_id = world.server.tenant(self.name, scopes)
        token = {"tenant": self.tenant_id, "scope": "inference usage:read" if scopes is None else " ".join(scopes)}
        self.token = world.issuer.token(**token)
        self.certificate = Made(world.folder, self.name, world.root)
        fields = {} if scopes is None else {"scopes": scopes}
        row = world.row(self.tenant_id, fingerprint=self.certificate.fingerprint, **fields)
        self.ids = {"key": key_id, "token": world.issuer.id, "certificate": row["id"]}

    def http(self, credential, http2=False):
        if credential == "certificate":
            return client(self.world.server, self.certificate, http2=http2)
        return self.world.server.http(getattr(self, credential), http2=http2)


class Tally:
    """What the metrics have counted since it was made."""

    FAMILIES = tuple(f"banyan_{name}_total{{" for name in (
        "http_requests", "auth_refusals", "quota_denials", "requests_cancelled"))  # fmt: skip

    def __init__(self, world):
        self.admin = world.watcher
        self.before = self.look()

    def look(self):
        lines = self.admin.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(self.FAMILIES))
        return {name: float(value) for name, value in pairs}

    def more(self, family):
        """{labels: count} of that family's series that have grown."""
        found = {}
        for name, value in self.look().items():
            if name.startswith(family) and value > self.before.get(name, 0):
                found[name.removeprefix(family)] = value - self.before.get(name, 0)
        return found

    def codes(self, path):
        """{code: count} of requests of that route."""
        found = self.more("banyan_http_requests_total")
        pattern = re.escape(f'{{route="{path}",code="') + r'(\d+)"}'
        return {int(m[1]): n for labels, n in found.items() if (m := re.fullmatch(pattern, labels))}

    def codes_become(self, path, wanted):
        """A request is counted when it is over, which may be a moment behind its answer."""
        wanted = {code: count for code, count in wanted.items() if count}
        wait_until(lambda: self.codes(path) == wanted, 10, f"the counts {wanted} of {path}")


    def wait_refused(self, path, codes):
        """The refusals of that route are counted, each once."""
        wanted = {code: count for code, count in codes.items() if code in (401, 403, 413)}
        wait_until(lambda: {c: n for c, n in self.codes(path).items() if c in wanted} == wanted, 10, f"{wanted} of {path}")


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
def test_who_may(world, route):
    """No credential, one that is none, an admin's, one with every scope but the row's; and one with that alone."""
    server = world.server
    right = Caller(world, [route.scope] if route.scope else None)
    wrong = Caller(world, sorted(TENANT_SCOPES - {route.scope}))
    is_open, tally = "OPEN" in route.flags, Tally(world)
    codes, refused = collections.Counter(), collections.Counter()

    def strange(http, why):
        answer = route.ask(http)
        assert answer.status_code == 200 if is_open else is_error(answer, 401, "invalid_api_key")
        codes[answer.status_code] += 1
        refused[why] += not is_open

    for http2 in (False, True):
        for value, why in ((None, ("none", "missing")), ("sk-by-nonsense", ("apikey", "form")),
                           (server.admin_key, ("apikey", "face"))):  # fmt: skip
            with server.http(value, http2=http2) as http:
                strange(http, why)
        with client(server, world.unknown, http2=http2) as http:
            strange(http, ("certificate", "wrong"))
        for credential in CREDENTIALS:
            with wrong.http(credential, http2) as http:
                answer = route.ask(http)
            assert is_error(answer, 403, "insufficient_scope") if route.scope else answer.status_code == 200
            if route.scope:
                assert answer.json()["error"]["message"].endswith(f"scope {route.scope}.")
            codes[answer.status_code] += 1
    with server.http(world.issuer.token(tenant=right.tenant_id, exp=1)) as http:
        strange(http, ("token", "exp"))
    assert counted(server, route, right.tenant_id) == 0
    assert route.scope is None or counted(server, route, wrong.tenant_id) == 0
    for credential, http2 in EACH_WAY:
        with right.http(credential, http2) as http:
            assert route.ask(http).status_code == 200
        codes[200] += 1
    assert keys_counted(server, route, right) == {right.ids[c]: 2 for c in CREDENTIALS if "COUNTED" in route.flags}
    tally.codes_become(route.row, codes)
    found = tally.more("banyan_auth_refusals_total")
    assert found == {f'{{method="{m}",reason="{r}"}}': n for (m, r), n in refused.items() if n}


def keys_counted(server, route, caller):
    """{id of a credential: rows}"""
    sql = "select key_id, count(*) from requests where tenant_id = ? and route = ? group by 1"
    return dict(server.ledger(sql, caller.tenant_id, route.row))


@EVERY
def test_limits(world, route):
    server, is_limited, tally = world.server, "LIMITED" in route.flags, Tally(world)
    codes = collections.Counter()
    for credential, http2 in EACH_WAY if is_limited else EACH_WAY[:1]:
        caller = Caller(world)
        limit(server, caller.tenant_id, requests_per_minute=1)
        with caller.http(credential, http2) as http:
            for turn in range(2):
                answer = route.ask(http)
                codes[answer.status_code] += 1
                if not is_limited or turn == 0:
                    assert answer.status_code == 200, answer.text
                    continue
                assert is_error(answer, 429, "rate_limit_exceeded")
                assert answer.json()["error"]["param"] == "requests_per_minute"
                assert int(answer.headers["retry-after"]) >= 1 and "x-should-retry" not in answer.headers
                assert answer.headers["x-ratelimit-limit-requests"] == "1"
            limit(server, caller.tenant_id, text_bytes_per_minute=1)
            answer = route.ask(http)
            codes[answer.status_code] += 1
            if is_limited:
                assert is_error(answer, 429, "rate_limit_exceeded")
                assert answer.json()["error"]["param"] == "text_bytes_per_minute"
            else:
                assert answer.status_code == 200
        assert counted(server, route, caller.tenant_id) == is_limited
    tally.codes_become(route.row, codes)
    each = len(EACH_WAY) if is_limited else 0
    names = ("requests_per_minute", "text_bytes_per_minute") if is_limited else ()
    found = tally.more("banyan_quota_denials_total")
    assert found == {f'{{limit="{name}",mode="enforce"}}': each for name in names}


class Leaver:
    """A client that asks for something, the whole of it, and leaves before it has read an answer."""

    def __init__(self, base, ca, certificate=None, http2=False):
        url = urllib.parse.urlsplit(base)
        context = ssl.create_default_context(cafile=ca)  # httpx has set ALPN in the common one
        context.set_alpn_protocols(["h2" if http2 else "http/1.1"])
        if certificate is not None:
            context.load_cert_chain(certificate.path)
        plain = socket.create_connection((url.hostname, url.port), timeout=60)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.http2 = http2

    def ask(self, method, path, headers, body):
        if not self.http2:
            lines = [f"{method} {path} HTTP/1.1", "host: h", f"content-length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            self.socket.sendall("\r\n".join(lines + ["", ""]).encode() + body)
            return
        self.h2 = connection = h2.connection.H2Connection()
        connection.initiate_connection()
        names = [(":method", method), (":scheme", "https"), (":authority", "h"), (":path", path)]
        connection.send_headers(1, names + list(headers.items()), end_stream=not body)
        while body:
            size = min(len(body), connection.local_flow_control_window(1), 16384)
            if size:
                connection.send_data(1, body[:size], end_stream=size == len(body))
                body = body[size:]
            self.socket.sendall(connection.data_to_send())
            if not size:
                connection.receive_data(self.socket.recv(65536))
        self.socket.sendall(connection.data_to_send())

    def leave(self):
        """The connection is closed; over HTTP/2 the stream alone."""
        if not self.http2:
            self.socket.close()
            return
        self.h2.reset_stream(1, 8)  # CANCEL
        self.socket.sendall(self.h2.data_to_send())


@EVERY
def test_a_client_that_leaves(world, route):
    """It is counted once, pays for its request, and holds nothing afterwards."""
    server, is_counted, tally = world.server, "COUNTED" in route.flags, Tally(world)
    ways = (("key", False), ("token", True), ("certificate", True))
    body = b""
    if is_counted:
        short = BODIES[route.row]
        more = {"max_tokens", "input"} if "STREAMED" in route.flags else {"prompt", "tokens"}
        body = json.dumps({**short, **{n: LONGER[n] for n in more & short.keys()}}).encode()
    for credential, http2 in ways:
        caller = Caller(world)
        limit(server, caller.tenant_id, concurrent_requests=1, requests_per_minute=3)
        is_shown = credential == "certificate"
        headers = {} if is_shown else {"authorization": f"Bearer {getattr(caller, credential)}"}
        leaver = Leaver(server.url, server.ca, caller.certificate if is_shown else None, http2)
        leaver.ask(route.method, route.path, headers, body)
        if http2 and is_counted:  # what is reset in the same read has cost nothing
            wait_until(lambda: left(server, caller.key, "requests_per_minute") == 2, 20, "the request")
        leaver.leave()
        wait_until(lambda: counted(server, route, caller.tenant_id) == is_counted, 20, "the row")
        wait_until(lambda: left(server, caller.key, "concurrent_requests") == 1, 20, "the lease")
        leaver.socket.close()
        assert left(server, caller.key, "requests_per_minute") == (2 if is_counted else 3)
        with caller.http(credential) as http:
            assert route.ask(http).status_code == 200
        assert counted(server, route, caller.tenant_id) == 2 * is_counted
    if "STREAMED" in route.flags:
        tally.codes_become(route.row, {200: len(ways), 499: len(ways)})
        assert tally.more("banyan_requests_cancelled_total") == {'{reason="client"}': len(ways)}
    elif is_counted:  # the answer may be on its way when the client leaves
        wait_until(lambda: sum(tally.codes(route.row).values()) == 2 * len(ways), 20, "the counts")
    elif route.row != "/v1/me":  # which is asked for the limits, too; a client may have left before the start
        wait_until(lambda: len(ways) <= sum(tally.codes(route.row).values()) <= 2 * len(ways), 20, "the counts")


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
EVERY_ADMIN = pytest.mark.parametrize("method,path,columns", ADMIN, ids=[f"{m} {p}" for m, p, _ in ADMIN])


class Admins:
    """Clients of the config API that stay connected: of everybody, and of credentials without one scope."""

    def __init__(self, world):
        self.world, self.clients = world, {}
        server, scopes = world.server, sorted(set(ADMIN_SCOPES.values()))
        self.issuer = Issuer(server, "routes-admins", admin_claim="groups",
                             admins={scope: scope for scope in scopes})  # fmt: skip
        for http2 in (False, True):
            self.clients[None, http2] = server.http(base=server.admin_url, http2=http2)
            self.clients["all", http2] = server.http(server.admin_key, server.admin_url, http2=http2)
        for without in scopes:
            others = [scope for scope in scopes if scope != without]
            with server.admin() as admin:
                key = admin.post("/admin/v1/admin-keys", json={"scopes": others}).json()["key"]
            made = Made(world.folder, f"not-{without.replace(':', '-')}", world.admins)
            world.row(fingerprint=made.fingerprint, scopes=others)
            token = self.issuer.token(groups=others, tenant=None)
            self.clients[without, "key"] = server.http(key, server.admin_url)
            self.clients[without, "token"] = server.http(token, server.admin_url, http2=True)
            self.clients[without, "certificate"] = client(server, made, base=server.admin_url)

    def close(self):
        for one in self.clients.values():
            one.close()


@pytest.fixture(scope="module")
def admins(world):
    admins = Admins(world)
    yield admins.clients
    admins.close()


@EVERY_ADMIN
def test_the_config_api(world, admins, method, path, columns):
    """No key, each kind of credential that lacks the scope alone, a body that is too long, a client that leaves:
    each is refused for its reason, and each is counted once under its route."""
    server = world.server
    _, where, scope = columns
    assert where in ("HERE", "WORKER") and (scope == "0") == (path == "/health")
    asked, tally, codes = path.replace("{id}", "x"), Tally(world), collections.Counter()
    for http2 in (False, True):
        answer = admins[None, http2].request(method, asked)
        assert answer.status_code == 200 if scope == "0" else is_error(answer, 401, "invalid_api_key")
        codes[answer.status_code] += 1
    for credential in CREDENTIALS if scope != "0" else ():
        answer = admins[ADMIN_SCOPES[scope], credential].request(method, asked)
        assert is_error(answer, 403, "insufficient_scope")
        codes[403] += 1
    for http2 in (False, True) if path != "/admin/v1/config/import" else ():  # which has a limit of its own
        answer = admins["all", http2].request(method, asked, content=b" " * (ADMIN_BODY_BYTES + 1))
        assert answer.status_code == 413, answer.text
        codes[413] += 1
    # Nothing is called x; what needs a body lacks it.
    query = {"start_time": 1} if "usage" in path or "costs" in path else {}
    answer = admins["all", False].request(method, asked, params=query)
    assert answer.status_code not in (401, 403) and answer.status_code < 500, answer.text
    codes[answer.status_code] += 1
    for http2 in (False, True):
        leaver = Leaver(server.admin_url, server.ca, http2=http2)
        leaver.ask(method, asked, {"authorization": f"Bearer {server.admin_key}"}, b"")
        leaver.leave()
        leaver.socket.close()
    if path == "/metrics":  # which is asked for the counts, too
        return
    # What has left before its start is not counted; what has begun is, as 499 or by its answer.
    tally.wait_refused(path, codes)
    assert sum(codes.values()) <= sum(tally.codes(path).values()) <= sum(codes.values()) + 2


def test_a_change_whose_admin_leaves_is_made_once(server):
    """Whether it came so far or not, its idempotency key tells."""
    body = json.dumps({"name": "left-alone"}).encode()
    headers = {"authorization": f"Bearer {server.admin_key}", "idempotency-key": "left-alone"}
    for http2 in (False, True) * 2:
        leaver = Leaver(server.admin_url, server.ca, http2=http2)
        leaver.ask("POST", "/admin/v1/tenants", headers, body)
        leaver.leave()
    with server.admin() as admin:
        wait_until(lambda: admin.post("/admin/v1/tenants", content=body, headers=headers).status_code == 201)
        names = [row["name"] for row in admin.get("/admin/v1/tenants", params={"limit": 100, "order": "desc"}).json()["data"]]
    assert names.count("left-alone") == 1


def test_wrong_keys_of_one_address(server, admins):
    """Behind ten wrong keys (then one a second) every route of the config API answers 429 to a wrong key, and goes
    on to take a right one."""
    start, codes = time.monotonic(), collections.Counter()
    with server.http("sk-by-nonsense", server.admin_url) as http:
        for method, path, (_, _, scope) in [row for row in ADMIN if row[2][2] != "0"] * 2:
            answer = http.request(method, path.replace("{id}", "x"))
            codes[answer.status_code] += 1
            word = {401: "invalid_api_key", 429: "too_many_attempts"}[answer.status_code]
            assert is_error(answer, answer.status_code, word)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
    assert 0 < codes[401] <= ADMIN_FAILURES + (time.monotonic() - start) + 1, codes
    assert codes[429] > 0
    assert admins["all", False].get("/admin/v1/tenants").status_code == 200
