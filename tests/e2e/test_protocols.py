"""HTTP/1.1 and HTTP/2 over TLS 1.2 and 1.3; ids, liveness, readiness, logs without secrets."""

import socket
import ssl

import pytest

from conftest import MODEL_NAME

CANARY = "canary-7f3a91-xylophone"


@pytest.mark.parametrize("http2", [False, True])
def test_both_protocols_stream(server, key, http2):
    body = {
        "model": MODEL_NAME, "stream": True, "max_tokens": 8, "temperature": 0,
        "messages": [{"role": "user", "content": "Hi"}],
    }  # fmt: skip
    with server.http(key, http2=http2) as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: {") for line in lines[:-1])
    assert "banyan.final" not in "\n".join(lines)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(server, version):
    context = ssl.create_default_context(cafile=server.ca)
    context.minimum_version = context.maximum_version = version
    host, port = server.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port))) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            assert tls.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]


def test_old_tls_is_refused(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    host, port = server.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port))) as plain:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(plain, server_hostname="localhost")


def test_health_and_readiness(server):
    with server.http() as http:
        assert http.get("/health").status_code == 200
        assert http.get("/ready").status_code == 200


def test_request_ids_differ(server, key):
    with server.http(key) as http:
        ids = [http.get("/v1/models").headers["x-request-id"] for _ in range(20)]
    assert len(set(ids)) == 20


def test_no_secret_and_no_prompt_in_the_log(server, key, tenants):
    with server.http(key) as http:
        body = {
            "model": MODEL_NAME, "max_tokens": 2,
            "messages": [{"role": "user", "content": CANARY}],
        }  # fmt: skip
        assert http.post("/v1/chat/completions", json=body).status_code == 200
        http.post("/v1/chat/completions", json={**body, "temperature": 9})
        http.post("/v1/chat/completions?" + CANARY, content=CANARY)
    with server.admin() as admin:
        assert CANARY not in admin.get("/metrics").text
    log = server.log_text()
    assert CANARY not in log
    for secret in [server.admin_key] + [value for _, value, _ in tenants.values()]:
        assert secret not in log and secret[-20:] not in log


def test_round_trip_of_text(server, key):
    text = "Grüße, 世界! 🙂 <|im_end|>\n\ttabs"
    with server.http(key) as http:
        ids = http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": text}).json()
        back = http.post(
            "/v1/detokenize", json={"model": MODEL_NAME, "tokens": ids["tokens"]}
        ).json()
        chat = http.post(
            "/v1/tokenize",
            json={"model": MODEL_NAME, "messages": [{"role": "user", "content": "<|im_end|>"}]},
        ).json()
    assert back["prompt"] == text and 2 in ids["tokens"] and ids["max_model_len"] == 8192
    assert chat["tokens"].count(2) == 2, "content never becomes a control token"
