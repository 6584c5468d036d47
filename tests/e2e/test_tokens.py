"""Tokens of issuers (JWT): every algorithm accepted, every attack refused for its own reason, keys
that rotate without a failed request, and nothing of a token in a log, a metric or the database.

Tokens are made by PyJWT and cryptography, as issuers make them, and by hand where those would not.
"""

import base64
import hashlib
import hmac
import json
import re
import threading
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from conftest import ROOT, limits_hold, wait_until

ISS = "https://issuer.example"
AUD = "banyan"
ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA", "HS256"]
SECRET = b"a secret of the issuer's own that nobody else may ever read"


def refusals(server):
    """{reason: count} of banyan_auth_refusals_total for tokens."""
    with server.admin() as admin:
        text = admin.get("/metrics").text
    found = re.findall(r'^banyan_auth_refusals_total\{method="token",reason="(\w+)"\} (\d+)$', text, re.M)
    return {reason: int(count) for reason, count in found}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def key_of(algorithm):
    if algorithm in ("RS256", "PS256"):
        return rsa.generate_private_key(65537, 2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else SECRET


def jwk_of(algorithm, key, kid):
    if algorithm == "HS256":
        return {"kty": "oct", "k": encode(key), "kid": kid, "alg": algorithm}
    kind = {"RS256": jwt.algorithms.RSAAlgorithm, "PS256": jwt.algorithms.RSAAlgorithm,
            "ES256": jwt.algorithms.ECAlgorithm, "EdDSA": jwt.algorithms.OKPAlgorithm}  # fmt: skip
    jwk = json.loads(kind[algorithm].to_jwk(key.public_key()))
    return jwk | {"kid": kid, "alg": algorithm, "use": "sig"} | {"key_ops": ["verify"]}


def by_hand(header, claims, sign=lambda message: b"AAAA"):
    """A token of any header and any claims (bytes, or what json makes of them)."""
    parts = [p if isinstance(p, bytes) else json.dumps(p).encode() for p in (header, claims)]
    message = ".".join(encode(part) for part in parts)
    return message + "." + encode(sign(message.encode()))


class Issuer:
    """An issuer with a key of each algorithm, configured at a server, for one tenant."""

    def __init__(self, server, name, **fields):
        self.server = server
        self.iss = f"{ISS}/{name}"
        self.tenant_id, self.api_key, _ = server.tenant(f"tokens-{name}")
        self.keys = {algorithm: key_of(algorithm) for algorithm in ALGORITHMS}
        body = {"name": name, "issuer": self.iss, "audiences": [AUD, "other"],
                "algorithms": ALGORITHMS, "max_lifetime_s": 3600, "jwks": self.jwks()}  # fmt: skip
        with server.admin() as admin:
            answer = admin.post("/admin/v1/issuers", json=body | fields)
            assert answer.status_code == 201, answer.text
            self.id = answer.json()["id"]
            self.answer = answer.json()

    def jwks(self, *more):
        return {"keys": [jwk_of(a, key, a) for a, key in self.keys.items()] + list(more)}

    def change(self, **fields):
        with self.server.admin() as admin:
            answer = admin.patch(f"/admin/v1/issuers/{self.id}", json=fields)
            assert answer.status_code == 200, answer.text
            return answer.json()

    def claims(self, **more):
        now = int(time.time())
        claims = {"iss": self.iss, "aud": AUD, "sub": "somebody", "tenant": self.tenant_id,
                  "iat": now, "exp": now + 600}  # fmt: skip
        return {name: value for name, value in (claims | more).items() if value is not None}

    def token(self, algorithm="EdDSA", key=None, kid=None, headers=None, **claims):
        return jwt.encode(self.claims(**claims), key or self.keys[algorithm], algorithm,
                          headers={"kid": kid or algorithm} | (headers or {}))  # fmt: skip

    def hmac(self, header, claims, key=SECRET):
        return by_hand(header, claims, lambda message: hmac.digest(key, message, "sha256"))


def ask(server, token):
    with server.http(token) as client:
        return client.get("/v1/me")


# The sentences of auth/credential/auth_jwt_reasons.def and the words that log and metric have for them.
WORDS = {
    text: word
    for word, text in re.findall(
        r'^AUTH_JWT_REASON\(\w+, "(\w+)", "(.*)"\)$',
        (ROOT / "auth/credential/auth_jwt_reasons.def").read_text(), re.M,
    )
}  # fmt: skip


def refused(server, token, words):
    """Twice: when it is checked, and from what is remembered. The answer names the reason, and the
    metric counts that one and no other."""
    reason = next(word for text, word in WORDS.items() if words in text)
    before = refusals(server)
    for _ in range(2):
        answer = ask(server, token)
        assert answer.status_code == 401, answer.text
        error = answer.json()["error"]
        assert error["code"] == "invalid_api_key" and words in error["message"], (words, error)
        assert answer.headers["www-authenticate"] == "Bearer"
    after = refusals(server)
    more = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert more == {reason: 2}, (words, more)
    time.sleep(0.1)  # an address may fail ten times a second for as long as it likes


@pytest.fixture(scope="module")
def issuer(server):
    return Issuer(server, "all")


def test_every_algorithm_is_accepted(server, issuer):
    for algorithm in ALGORITHMS:
        token = issuer.token(algorithm)
        for _ in range(2):
            answer = ask(server, token)
            assert answer.status_code == 200, (algorithm, answer.text)
            me = answer.json()
            assert me["tenant"]["id"] == issuer.tenant_id
            assert me["key"]["id"] == issuer.id and me["key"]["name"] == "all"
            assert me["key"]["scopes"] == ["usage:read", "inference"]
    # aud as a list, no iat, nbf and iat within the skew: all fine. As x-api-key too.
    now = int(time.time())
    for claims in ({"aud": ["x", "other"]}, {"iat": None}, {"nbf": now + 30, "iat": now + 30}):
        assert ask(server, issuer.token(**claims)).status_code == 200, claims
    with server.http() as client:
        headers = {"x-api-key": issuer.token("ES256")}
        assert client.get("/v1/me", headers=headers).status_code == 200


@pytest.mark.parametrize("typ", ["at+jwt", "application/at+jwt", "AT+JWT", "jwt"])
def test_access_tokens_with_fractions(server, issuer, typ):
    """As issuers of RFC 9068 send them, with the dates of RFC 7519."""
    now = time.time()
    for algorithm in ALGORITHMS:
        token = issuer.token(algorithm, headers={"typ": typ}, iat=now, nbf=now - 0.25, exp=now + 600.75)
        answer = ask(server, token)
        assert answer.status_code == 200, (algorithm, answer.text)


def test_a_token_generates_and_is_counted(server, issuer):
    with server.http(issuer.token("ES256")) as client:
        answer = client.post("/v1/generate", json={"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0})
        assert answer.status_code == 200, answer.text
        now = int(time.time())
        query = f"/v1/usage?start_time={now - 86400}&bucket_width=1d&group_by=key"
        usage = client.get(query)
        assert usage.status_code == 200, usage.text
    rows = [row for bucket in usage.json()["data"] for row in bucket["results"]]
    mine = [row for row in rows if row.get("key_id") == issuer.id]
    assert mine and sum(row["output_tokens"] for row in mine) >= 4, rows


def test_limits_of_whoever_it_is(server):
    """Whoever a token stands for is held to its plan, and to the token's own limits beside it."""
    issuer = Issuer(server, "limited")
    tenant_id, key_id = issuer.tenant_id, issuer.id

    def generate():
        with server.http(issuer.token()) as client:
            return client.post("/v1/generate", json={"prompt": "Once upon a time", "max_tokens": 1})

    limits_hold(server, tenant_id, key_id, generate)


def pem_of(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_attacks_on_the_header(server, issuer):
    claims = issuer.claims()

    def signed(**header):
        return issuer.hmac({"alg": "HS256", "kid": "HS256"} | header, claims)

    assert ask(server, signed()).status_code == 200  # the way itself is right
    for alg in ("none", "None", "nOnE", "NONE", "", "HS512", "hs256"):
        refused(server, signed(alg=alg), "alg is none of")
    unsigned = by_hand({"alg": "none", "kid": "HS256"}, claims).rsplit(".", 1)[0]
    refused(server, unsigned + ".", "three parts")
    refused(server, signed().rsplit(".", 1)[0] + ".", "three parts")
    # The public key as the secret of HS256: under the RSA key's name, and by its algorithm's.
    header = {"alg": "HS256", "kid": "RS256"}
    refused(server, issuer.hmac(header, claims, pem_of(issuer.keys["RS256"])), "for another alg")
    refused(server, issuer.hmac({"alg": "HS256", "kid": "HS256"}, claims, b""), "signature is wrong")
    # ES256 under a P-384 key, and under a P-256 key that is not the issuer's.
    large = ec.generate_private_key(ec.SECP384R1())
    token = jwt.encode(claims, large, "ES384", headers={"kid": "ES256"})
    refused(server, token, "alg is none of")
    other = jwt.encode(claims, key_of("ES256"), "ES256", headers={"kid": "ES256"})
    refused(server, other, "signature is wrong")
    for kid in ("../../../dev/null", "nobody", "HS256/../RS256"):
        refused(server, signed(kid=kid), "no key of the token's kid")
    for kid in ("HS256' or '1'='1", "a\tb", "|id", 7, None, ""):
        refused(server, signed(kid=kid), "kid is missing or has no form")
    for name, value in (("jku", "https://evil.example/jwks"), ("x5u", "https://evil.example"),
                        ("jwk", jwk_of("HS256", SECRET, "mine")), ("x5c", ["AAAA"])):  # fmt: skip
        refused(server, signed(**{name: value}), "a key of its own")
    for name, value in (("crit", ["exp"]), ("zip", "DEF"), ("enc", "A128GCM"), ("b64", False)):
        refused(server, signed(**{name: value}), "asks for extensions")
    refused(server, signed(typ="JWE"), "typ is not JWT")
    twice = b'{"alg":"HS256","kid":"HS256","alg":"none"}'
    refused(server, issuer.hmac(twice, claims), "header is not one JSON object")
    nested = b'{"alg":"HS256","kid":"HS256","x":' + b"[" * 500 + b"]" * 500 + b"}"
    refused(server, issuer.hmac(nested, claims), "header is not one JSON object")
    refused(server, issuer.hmac(b"[]", claims), "header is not one JSON object")


def test_attacks_on_the_form(server, issuer):
    good = issuer.token("HS256")
    head, body, signature = good.split(".")
    wrong = [good + ".", "." + good, good + ".AAAA", f"{head}.{body}", f"{head}..{signature}",
             f"{head}=.{body}.{signature}", f"{head}+.{body}.{signature}",
             f"{head}.{body}/.{signature}", good + "!", f"{head}.{body}.{signature[:-2]}!A"]  # fmt: skip
    for token in wrong:
        refused(server, token, "three parts of base64url")
    flipped = signature[:-3] + ("A" if signature[-3] != "A" else "B") + signature[-2:]
    refused(server, f"{head}.{body}.{flipped}", "signature is wrong")
    short = encode(base64.urlsafe_b64decode(signature + "=")[:-3])
    refused(server, f"{head}.{body}.{short}", "signature is wrong")
    # r and s of zero; a signature of the right length of nothing.
    head, body, _ = issuer.token("ES256").split(".")
    refused(server, f"{head}.{body}.{encode(bytes(64))}", "signature is wrong")
    refused(server, issuer.token("HS256", pad="x" * 9000), "longer than 8,192 bytes")
    longest = issuer.token("HS256", pad="x" * 5500)
    assert 7000 < len(longest) <= 8192 and ask(server, longest).status_code == 200


@pytest.mark.long
def test_attacks_on_the_claims(server, issuer):
    now = int(time.time())
    cases = [
        ({"exp": None}, "has no exp"), ({"exp": now}, "has expired"),
        ({"exp": now - 3600}, "has expired"), ({"exp": 0}, "has expired"),
        ({"nbf": now + 3000}, "not valid yet"), ({"iat": now + 3000, "exp": now + 3100}, "time to come"),
        ({"exp": now + 7200}, "valid for longer"), ({"iat": now - 7200}, "valid for longer"),
        ({"exp": 2**53}, "valid for longer"), ({"iss": None}, "no issuer that is known"),
        ({"iss": ISS}, "no issuer that is known"), ({"iss": issuer.iss + "/"}, "no issuer that is known"),
        ({"aud": None}, "not for this server"), ({"aud": "Banyan"}, "not for this server"),
        ({"aud": ["x"]}, "not for this server"), ({"aud": []}, "not for this server"),
        ({"tenant": None}, "claim for the tenant"), ({"tenant": ""}, "claim for the tenant"),
        ({"tenant": "tnt_nobody"}, "claim for the tenant"), ({"tenant": "x" * 300}, "claim for the tenant"),
    ]  # fmt: skip
    for claims, words in cases:
        refused(server, issuer.token("EdDSA", **claims), words)

    def signed(claims):
        return issuer.hmac({"alg": "HS256", "kid": "HS256"}, claims)

    for value in (str(now + 600), -0.5, 1e300, -1, True, [now + 600], 2**53 + 1, 2**62):
        refused(server, signed(issuer.claims() | {"exp": value}), "not a number of seconds")
    for name in ("nbf", "iat"):
        refused(server, signed(issuer.claims() | {name: "now"}), "not a number of seconds")
    for value in ([issuer.tenant_id], {"id": issuer.tenant_id}, 7, True):
        refused(server, signed(issuer.claims() | {"tenant": value}), "claim for the tenant")
    refused(server, signed(issuer.claims() | {"aud": [AUD, 7]}), "not for this server")
    refused(server, signed(issuer.claims() | {"iss": [issuer.iss]}), "no issuer that is known")
    text = json.dumps(issuer.claims())
    wrong = [text[:-1] + ',"tenant":"tnt_other"}', text[:-1] + ',"exp":1}', "[" + text + "]", "7",
             text + " x", text[:-1] + ',"a":"\\u0000"}',
             text[:-1] + ',"a":' + "[" * 500 + "]" * 500 + "}"]  # fmt: skip
    for claims in wrong:
        refused(server, signed(claims.encode()), "claims are not one JSON object")
    refused(server, signed(b'{"a":"\xff"}'), "claims are not one JSON object")


def test_a_token_opens_the_config_api_by_a_rule_alone(server, issuer):
    with server.http(issuer.token(groups="ops"), server.admin_url) as client:
        answer = client.get("/admin/v1/tenants")
    assert answer.status_code == 401 and "config API" in answer.json()["error"]["message"]


def test_admins_by_token(server):
    """An issuer's rule says which scopes a claim's words have: those and no other, whatever else the
    token says, by no way; and they end with the rule."""
    issuer = Issuer(server, "admins", admin_claim="groups",
                    admins={"ops": "admin:read admin:write", "keys": "admin:read admin:keys"})  # fmt: skip

    def call(token, method, path, **kwargs):
        with server.http(token, server.admin_url) as client:
            for _ in range(30):  # an address may fail ten times at once, then once a second
                answer = client.request(method, path, **kwargs)
                if answer.status_code != 429:
                    break
                time.sleep(1.1)
            return answer

    ops, keys = (issuer.token(groups=[name, "users"], tenant=None) for name in ("ops", "keys"))
    assert call(ops, "GET", "/admin/v1/tenants").status_code == 200
    made = call(ops, "POST", "/admin/v1/tenants", json={"name": "by-token"})
    assert made.status_code == 201, made.text
    with server.admin() as admin:
        row = admin.get("/admin/v1/audit?order=desc&limit=1").json()["data"][0]
    assert row["type"] == "tenant.created", row
    # The person too, whatever the issuer has written there, in bounds.
    assert row["actor"]["type"] == "token" and row["actor"]["id"] == issuer.id, row
    assert row["actor"]["subject"] == issuer.claims()["sub"], row
    for number, (said, kept) in enumerate((("a\u202eb \n\u00e9|c", "a?" + "??b??" + "??|c"),
                                           ("x" * 63, "x" * 63), ("x" * 64, "x" * 60 + "..."))):
        token = issuer.token(groups=["ops"], tenant=None, sub=said)
        assert call(token, "POST", "/admin/v1/tenants", json={"name": f"by-{number}"}).status_code == 201
        with server.admin() as admin:
            row = admin.get("/admin/v1/audit?order=desc&limit=1").json()["data"][0]
        assert row["actor"]["subject"] == kept, row
    # What the rule does not give.
    for token, method, path in ((ops, "POST", "/admin/v1/admin-keys"), (ops, "GET", "/metrics"),
                                (keys, "POST", "/admin/v1/tenants"), (keys, "GET", "/metrics")):  # fmt: skip
        answer = call(token, method, path, json={"name": "x"} if method == "POST" else None)
        assert answer.status_code == 403, (method, path, answer.text)
    # No way around: keys of more scopes, the rule itself, the issuer's keys, another such issuer.
    mine = call(keys, "POST", "/admin/v1/admin-keys", json={"name": "k", "scopes": ["admin:read"]})
    assert mine.status_code == 201, mine.text
    body = {"name": "k2", "scopes": ["admin:read", "admin:write"]}
    assert call(keys, "POST", "/admin/v1/admin-keys", json=body).status_code == 403
    # Nor an answer that was kept for another admin of the issuer, who has more scopes.
    both = issuer.token(groups=["ops", "keys"], tenant=None)
    kept = {"json": {"name": "ci", "scopes": ["admin:write"]}, "headers": {"idempotency-key": "ci-1"}}
    first = call(both, "POST", "/admin/v1/admin-keys", **kept)
    assert first.status_code == 201, first.text
    assert call(both, "POST", "/admin/v1/admin-keys", **kept).json() == first.json()
    answer = call(keys, "POST", "/admin/v1/admin-keys", **kept)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "idempotency_key_reused"
    # Nor one that was kept for another person.
    other = issuer.token(groups=["ops", "keys"], tenant=None, sub="somebody-else")
    answer = call(other, "POST", "/admin/v1/admin-keys", **kept)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "idempotency_key_reused"
    own = f"/admin/v1/admin-keys/{mine.json()['id']}"
    body = {"scopes": ["admin:read", "admin:write"]}
    assert call(keys, "PATCH", own, json=body).status_code == 403
    path = f"/admin/v1/issuers/{issuer.id}"
    for body in ({"admins": {"keys": "admin:read admin:keys admin:write"}}, {"jwks": issuer.jwks()},
                 {"admin_claim": "sub"}, {"admins": {}, "admin_claim": ""}):  # fmt: skip
        answer = call(keys, "PATCH", path, json=body)
        assert answer.status_code == 403 and answer.json()["error"]["param"] == "admins", answer.text
    body = {"name": "mine", "issuer": "https://mine.example", "audiences": [AUD], "jwks": issuer.jwks(),
            "algorithms": ALGORITHMS, "admin_claim": "g", "admins": {"x": "admin:write"}}  # fmt: skip
    assert call(keys, "POST", "/admin/v1/issuers", json=body).status_code == 403
    # What a token says of itself opens nothing.
    wrong = [{"scope": "admin:read", "scopes": ["admin:read"], "is_admin": True, "admin": "ops"},
             {"groups": "admin:read admin:write admin:keys"}, {"groups": [["ops"], {"ops": 1}]}]  # fmt: skip
    for claims in wrong:
        answer = call(issuer.token(**claims), "GET", "/admin/v1/tenants")
        assert answer.status_code == 401 and "config API" in answer.text, (claims, answer.text)
    for claims, words in (({"aud": "x"}, "not for this server"), ({"exp": 1}, "has expired")):
        answer = call(issuer.token(groups="ops", **claims), "GET", "/admin/v1/tenants")
        assert answer.status_code == 401 and words in answer.text, answer.text
    # The two faces are two: without a tenant nothing of the tenants', with one a tenant's scopes.
    refused(server, ops, "claim for the tenant")
    both = issuer.token(groups="ops")
    assert ask(server, both).json()["key"]["scopes"] == ["usage:read", "inference"]
    # Another rule counts from the answer on, also for tokens that are known.
    issuer.change(admins={"ops": "admin:read"})
    assert call(ops, "GET", "/admin/v1/tenants").status_code == 200
    answer = call(ops, "POST", "/admin/v1/tenants", json={"name": "by-token-2"})
    assert answer.status_code == 403
    assert call(keys, "GET", "/admin/v1/tenants").status_code == 401
    # A key that is gone opens nothing, on this listener neither.
    issuer.keys.pop("EdDSA")
    issuer.change(jwks=issuer.jwks())
    assert call(ops, "GET", "/admin/v1/tenants").status_code == 401


def test_tenants_states_and_scopes(server):
    issuer = Issuer(server, "states", scope_claim="scope", scopes=["inference"],
                    tenant_claim="org")  # fmt: skip
    other, _, _ = server.tenant("tokens-mapped")
    issuer.change(tenants={"acme": issuer.tenant_id, "globex": other})
    both = issuer.token(org="acme", scope="openid inference usage:read")
    answer = ask(server, both)
    assert answer.status_code == 200 and answer.json()["key"]["scopes"] == ["inference"]
    assert ask(server, issuer.token(org="globex", scope="inference")).json()["tenant"]["id"] == other
    refused(server, issuer.token(org=other, scope="inference"), "claim for the tenant")
    refused(server, issuer.token(org="acme", scope={"a": 1}), "claim for scopes")
    refused(server, issuer.token(org="acme", scope=["inference", 7]), "claim for scopes")
    for scope in (None, "", "openid", ["usage:read"]):
        with server.http(issuer.token(org="acme", scope=scope)) as client:
            answer = client.post("/v1/generate", json={"prompt": "a", "max_tokens": 1})
        assert answer.status_code == 403, answer.text
    # A tenant that is suspended is refused at once, also with a token that is known; then back.
    with server.admin() as admin:
        path = f"/admin/v1/tenants/{issuer.tenant_id}"
        assert admin.patch(path, json={"state": "suspended"}).status_code == 200
        answer = ask(server, both)
        assert answer.status_code == 403 and "suspended" in answer.json()["error"]["message"]
        assert admin.patch(path, json={"state": "active"}).status_code == 200
        assert ask(server, both).status_code == 200
        assert admin.delete(path).status_code == 200
    refused(server, both, "claim for the tenant")


def test_keys_rotate_without_a_failed_request(server):
    """Old key → both → new key, while clients ask all the time: the old one's tokens until they are
    exchanged, the new one's as soon as it is there."""
    issuer = Issuer(server, "rotating")
    new = key_of("ES256")
    tokens = [issuer.token("ES256")]
    stop, answers = threading.Event(), [[], [], []]

    def run(mine):
        with server.http() as client:
            while not stop.is_set():
                headers = {"authorization": f"Bearer {tokens[-1]}"}
                mine.append(client.get("/v1/me", headers=headers).status_code)

    def wait_for_all():
        """Each has asked and been answered since."""
        seen = [len(mine) for mine in answers]
        wait_until(lambda: all(len(a) > s + 5 for a, s in zip(answers, seen)), 120)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in answers]
    for thread in threads:
        thread.start()
    old = issuer.keys["ES256"]
    wait_for_all()
    issuer.keys = {"ES256": old}
    issuer.change(jwks=issuer.jwks(jwk_of("ES256", new, "new")))
    tokens.append(issuer.token("ES256", key=new, kid="new"))
    wait_for_all()
    issuer.keys = {}
    issuer.change(jwks=issuer.jwks(jwk_of("ES256", new, "new")))
    wait_for_all()
    stop.set()
    for thread in threads:
        thread.join()
    assert {code for mine in answers for code in mine} == {200}
    refused(server, tokens[0], "no key of the token's kid")
    assert ask(server, tokens[-1]).status_code == 200
    # Another key under the old name: the old token's signature is wrong, and it is not kept.
    issuer.change(jwks={"keys": [jwk_of("ES256", key_of("ES256"), "new")]})
    refused(server, tokens[-1], "signature is wrong")


@pytest.mark.long
def test_keys_from_a_file(server):
    folder = server.data_dir / "jwks"
    folder.mkdir(exist_ok=True)
    key = key_of("EdDSA")
    path = folder / "idp.json"
    path.write_text(json.dumps({"keys": [jwk_of("EdDSA", key, "one")]}))
    path.chmod(0o644)
    issuer = Issuer(server, "filed", jwks_file="")
    told = issuer.change(jwks_file="idp.json")
    assert told["keys"] == [{"kid": "one", "alg": "EdDSA"}] and told["jwks_file"] == "idp.json"
    assert ask(server, issuer.token("EdDSA", key=key, kid="one")).status_code == 200
    # A new key in the file is found by its first token, or a little later.
    new = key_of("EdDSA")
    path.write_text(json.dumps({"keys": [jwk_of("EdDSA", key, "one"), jwk_of("EdDSA", new, "two")]}))

    def is_found():
        return ask(server, issuer.token("EdDSA", key=new, kid="two")).status_code == 200

    wait_until(is_found, 90)
    with server.admin() as admin:
        for name in ("../secrets", "nothere.json", ".hidden", "a/b"):
            url = f"/admin/v1/issuers/{issuer.id}"
            answer = admin.patch(url, json={"jwks_file": name})
            assert answer.status_code == 400, name
            assert answer.json()["error"]["param"] == "jwks_file", answer.text


def test_the_config_api(server, issuer):
    with server.admin() as admin:
        base = "/admin/v1/issuers"
        got = admin.get(f"{base}/{issuer.id}")
        assert got.status_code == 200 and got.headers["etag"].startswith('"')
        assert {key["kid"] for key in got.json()["keys"]} == set(ALGORITHMS)
        assert encode(SECRET) not in got.text and "jwks\":" not in got.text
        assert issuer.id in [row["id"] for row in admin.get(base).json()["data"]]
        body = {"name": "other", "issuer": "https://other.example", "audiences": ["a"],
                "algorithms": ["EdDSA"], "jwks": issuer.jwks()}  # fmt: skip
        wrong = [
            ({"name": "all"}, 409, "name"), ({"issuer": issuer.iss}, 409, "issuer"),
            ({"audiences": []}, 400, "audiences"), ({"algorithms": ["none"]}, 400, "algorithms[0]"),
            ({"algorithms": []}, 400, "algorithms"), ({"jwks": {}}, 400, "jwks.keys"),
            ({"jwks": None}, 400, "jwks"), ({"scopes": ["admin:keys"]}, 400, "scopes[0]"),
            ({"max_lifetime_s": 0}, 400, "max_lifetime_s"), ({"issuer": ""}, 400, "issuer"),
            ({"tenants": {"a": "tnt_nobody"}}, 404, "tenants.a"), ({"keys": []}, 400, "keys"),
            ({"jwks": {"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AAAA"}]}}, 400,
             "jwks.keys[0].x"),
        ]  # fmt: skip
        for change, code, param in wrong:
            answer = admin.post(base, json=body | change)
            assert answer.status_code == code, (change, answer.text)
            assert answer.json()["error"]["param"] == param, (change, answer.text)
        for missing in ("name", "issuer", "audiences", "algorithms", "jwks"):
            left = {name: value for name, value in body.items() if name != missing}
            answer = admin.post(base, json=left)
            assert answer.status_code == 400 and answer.json()["error"]["param"] == missing
        answer = admin.post(base + "?dry_run=true", json=body)
        assert answer.status_code == 200 and answer.json()["dry_run"] is True
        made = admin.post(base, json=body)
        assert made.status_code == 201, made.text
        url = f"{base}/{made.json()['id']}"
        answer = admin.patch(url, json={"name": "x"}, headers={"if-match": '"7"'})
        assert answer.status_code == 412
        assert admin.patch(url, json={"name": "x"}).json()["revision"] == 2
        assert admin.delete(url).status_code == 200 and admin.delete(url).status_code == 404
        types = [row["type"] for row in admin.get("/admin/v1/audit?order=desc").json()["data"]]
        assert types[:3] == ["issuer.deleted", "issuer.updated", "issuer.created"], types


def test_nothing_of_a_token_is_anywhere(server, issuer):
    """Canaries in tokens that are taken, refused and too long; the issuer's secret; all are looked for
    in the log, the metrics, the audit and every file."""
    canary = "canary0d3adb33f"
    tokens = [issuer.token("HS256", canary=canary), issuer.token("HS256", canary=canary, exp=1),
              by_hand({"alg": "HS256", "kid": canary}, issuer.claims()),
              by_hand({"alg": canary, "kid": "HS256"}, issuer.claims(canary=canary))]  # fmt: skip
    for token in tokens:
        ask(server, token)
    with server.admin() as admin:
        texts = [server.log_text(), admin.get("/metrics").text, admin.get("/admin/v1/audit").text]
        texts.append(admin.get("/admin/v1/issuers").text)
    assert "token_refused" in texts[0]
    for path in server.data_dir.rglob("*"):
        if path.is_file() and "jwks" not in path.parts:
            texts.append(path.read_bytes().decode("latin-1"))
    needles = [canary, encode(canary.encode())[:-2], encode(SECRET), SECRET.decode()]
    needles += [token.split(".")[2] for token in tokens[:2]]
    needles.append(hashlib.sha256(tokens[0].encode()).hexdigest())
    for text in texts:
        for needle in needles:
            assert needle not in text, needle


def test_a_flood_of_bad_tokens_is_refused_cheaply(server, issuer):
    """All different, so that each would be checked: an address that failed too often is answered 429
    before any check, while tokens that are known and API keys pass."""
    good = issuer.token("RS256")
    assert ask(server, good).status_code == 200
    codes = []
    began = time.monotonic()
    with server.http() as client:
        for number in range(300):
            bad = by_hand({"alg": "RS256", "kid": "RS256"}, issuer.claims(number=number),
                          lambda message: bytes(256))  # fmt: skip
            answer = client.get("/v1/me", headers={"authorization": f"Bearer {bad}"})
            codes.append(answer.status_code)
            if number % 50 == 0:
                for token in (good, issuer.api_key):
                    headers = {"authorization": f"Bearer {token}"}
                    assert client.get("/v1/me", headers=headers).status_code == 200
    assert set(codes) <= {401, 429} and codes[0] == 401, codes
    if time.monotonic() - began < 20:  # ten a second are forgiven
        assert codes.count(401) <= 250 and codes.count(429) >= 50, codes
    wait_until(lambda: ask(server, issuer.token("RS256")).status_code == 200, 30)
