"""What browsers and proxies send: names of models with a '/', escaped and not; pages of other origins (CORS);
bodies that say that they are compressed."""

import gzip
import json
import ssl

from http.client import HTTPSConnection

import openai
import pytest

from conftest import Server

NAME = "acme/chat-small é"
ORIGIN = "https://app.example"
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "POST",
             "access-control-request-headers": "authorization,content-type,x-stainless-lang"}  # fmt: skip
BODY = {"model": NAME, "prompt": "Hi", "max_tokens": 2}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    server = Server(
        tmp_path_factory.mktemp("browsers") / "data", "--model-name", NAME,
        "--cors-origins", f"{ORIGIN},http://localhost:3000",
    )  # fmt: skip
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture(scope="module")
def own_key(own):
    return own.tenant("browsers")[1]


@pytest.fixture(params=[False, True], ids=["h1", "h2"])
def http(request, own, own_key):
    with own.http(own_key, http2=request.param) as client:
        yield client


def test_each_id_of_the_list_is_found(http):
    (model,) = http.get("/v1/models").json()["data"]
    assert model["id"] == NAME
    for path in ("acme%2Fchat-small%20%C3%A9", "acme%2fchat-small%20%c3%a9", "acme/chat-small%20%C3%A9",
                 "%61cme/chat%2Dsmall%20%C3%A9"):  # fmt: skip
        answer = http.get(f"/v1/models/{path}?x=%zz")
        assert answer.status_code == 200 and answer.json() == model, path


@pytest.mark.parametrize(
    "path,code",
    [("acme%252Fchat-small%20%C3%A9", 404), ("acme", 404), ("acme/chat-small", 404), ("acme//chat-small%20%C3%A9", 404),
     ("../models/acme/chat-small%20%C3%A9", 404), ("x/..%2Facme/chat-small%20%C3%A9", 404),
     ("%00", 404), ("a%0d%0aX-A:b", 404), ("%7f", 404), ("%ff", 404), ("%c0%af", 404),
     ("%", 400), ("a%2", 400), ("a%g0", 400), ("%%32%46", 400)],
)  # fmt: skip
def test_what_is_no_name(own, own_key, path, code):
    """The path as it is: httpx would tidy it up."""
    for face, key in ((own.url, own_key), (own.admin_url, own.admin_key)):
        route = "/v1/models/" if face == own.url else "/admin/v1/tenants/"
        context = ssl.create_default_context(cafile=own.ca)  # httpx has set ALPN in the common one
        connection = HTTPSConnection(face.split("//")[1], context=context)
        connection.request("GET", route + path, headers={"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == code and body["error"]["message"], (face, body)
        assert answer.getheader("x-a") is None
        connection.close()
    log = own.log_text()
    assert f"models/{path}" not in log and "X-A:b" not in log


def test_the_official_client(own, own_key):
    client = own.openai(own_key, max_retries=0)
    listed = client.models.list().data[0].id
    assert client.models.retrieve(listed).id == NAME
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("acme/other")


def test_the_engines_own_face(own):
    for path in ("acme%2Fchat-small%20%C3%A9", "acme/chat-small%20%C3%A9"):
        status, data = own.engine("GET", f"/v1/models/{path}")
        assert status == 200 and json.loads(data)["id"] == NAME
    assert own.engine("GET", "/v1/models/%zz")[0] == 400
    assert own.engine("DELETE", "/internal/v1/requests/a%2Fb")[0] == 404


def test_escaped_ids_of_the_config_api(own):
    with own.admin() as admin:
        tenant = admin.post("/admin/v1/tenants", json={"name": "escaped"}).json()
        escaped = tenant["id"].replace("_", "%5F")
        assert admin.get(f"/admin/v1/tenants/{escaped}").json() == tenant
        path = f"/admin/v1/tenants/{escaped}/keys"
        key = admin.post(path, json={}).json()
        assert admin.delete(f"{path}/{key['id'].replace('_', '%5f')}").status_code == 200
        assert admin.get(f"/admin/v1/tenants/{tenant['id']}%2Fkeys").status_code == 404


# --- CORS


def allowed(answer):
    return answer.headers.get("access-control-allow-origin")


def test_a_page_of_an_origin_that_is_allowed(own, http):
    """As a browser does it: a preflight without a key, then the request; and whatever is answered can be read."""
    with own.http() as stranger:
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/tokenize", "/v1/models/acme%2Fx"):
            answer = stranger.options(path, headers=PREFLIGHT)
            assert answer.status_code == 204 and answer.content == b"" and allowed(answer) == ORIGIN
            assert answer.headers["access-control-allow-methods"] == "GET, POST"
            assert answer.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
            assert "origin" in answer.headers["vary"].lower()
        assert stranger.options("/v1/nothing", headers=PREFLIGHT).status_code == 404
    from_page = {"origin": ORIGIN}
    codes = []
    for body in (BODY, {**BODY, "stream": True}, {**BODY, "max_tokens": -1}, {**BODY, "model": "other"}):
        answer = http.post("/v1/completions", json=body, headers=from_page)
        codes.append(answer.status_code)
        assert allowed(answer) == ORIGIN and "access-control-allow-credentials" not in answer.headers
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"x-request-id", "retry-after", "x-ratelimit-remaining-requests", "x-should-retry"} <= set(exposed)
        sent = {n for n in answer.headers if n.startswith(("x-", "openai-", "retry-"))} - {"x-accel-buffering"}
        assert sent <= set(exposed)
    assert codes == [200, 200, 400, 404]
    with own.http() as stranger:
        for answer in (stranger.get("/v1/me", headers=from_page), stranger.get("/nothing", headers=from_page)):
            assert answer.status_code in (401, 404) and allowed(answer) == ORIGIN
        large = stranger.post("/v1/completions", content=b"x" * (5 << 20), headers=from_page)
        assert large.status_code == 413 and allowed(large) == ORIGIN


def test_pages_of_other_origins(own, own_key, http):
    for origin in ("https://evil.example", "null", ORIGIN + ".evil.example", "http://app.example", ""):
        answer = http.options("/v1/completions", headers={**PREFLIGHT, "origin": origin})
        assert answer.status_code == 405 and allowed(answer) is None
        answer = http.post("/v1/completions", json=BODY, headers={"origin": origin})
        assert answer.status_code == 200 and allowed(answer) is None  # an origin is no right
        assert "origin" in answer.headers["vary"].lower()


def test_the_config_api_is_for_no_page(own):
    with own.admin() as admin:
        answer = admin.options("/admin/v1/tenants", headers=PREFLIGHT)
        assert answer.status_code == 405 and allowed(answer) is None
        answer = admin.get("/admin/v1/tenants", headers={"origin": ORIGIN})
        assert answer.status_code == 200 and allowed(answer) is None and "vary" not in answer.headers


def test_without_the_option(server, key):
    with server.http(key) as client:
        answer = client.options("/v1/completions", headers=PREFLIGHT)
        assert answer.status_code == 405 and allowed(answer) is None
        answer = client.get("/v1/models", headers={"origin": ORIGIN})
        assert answer.status_code == 200 and allowed(answer) is None and "vary" not in answer.headers


# --- bodies


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "identity, gzip", "gzip, identity", "x", "utf-8"])
def test_bodies_that_say_they_are_compressed(own, http, encoding):
    """Whatever is in them; on both listeners; and nobody has looked for a key yet."""
    plain = json.dumps(BODY).encode()
    before = own.engine_stats()["rows"]
    with own.http() as stranger, own.admin() as admin:
        for client, path in ((http, "/v1/completions"), (http, "/v1/tokenize"), (stranger, "/v1/completions"),
                             (admin, "/admin/v1/tenants")):  # fmt: skip
            for content in (gzip.compress(plain), plain, b""):
                headers = {"content-encoding": encoding, "content-type": "application/json"}
                answer = client.post(path, content=content, headers=headers)
                assert answer.status_code == 415, answer.text
                assert answer.json()["error"]["code"] == "unsupported_content_encoding"
                assert answer.headers["accept-encoding"] == "identity"
                assert answer.headers["x-should-retry"] == "false"
    assert own.engine_stats()["rows"] == before


def test_bodies_that_are_as_they_are(http):
    for encoding in ("identity", "Identity", ""):
        answer = http.post("/v1/completions", json=BODY, headers={"content-encoding": encoding})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", [None, "application/json", "application/json; charset=utf-8", "text/plain",
                                  "application/x-www-form-urlencoded", "application/octet-stream"])  # fmt: skip
def test_a_body_is_json_whatever_its_type(http, kind):
    """curl -d says that it is a form; the bytes are what counts."""
    headers = {} if kind is None else {"content-type": kind}
    assert http.post("/v1/completions", content=json.dumps(BODY), headers=headers).status_code == 200
    answer = http.post("/v1/completions", content=b"a=b", headers=headers)
    assert answer.status_code == 400 and "JSON" in answer.json()["error"]["message"]
