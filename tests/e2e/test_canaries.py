"""Canaries in every place where a client or an administrator can put something that is nobody else's:
keys that are valid, revoked and made up, tokens, prompts and whatever goes with them, in requests that
are served, cut and refused. None is in a log, a metric, the audit, a list, a file or in Redis."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

from conftest import BINARY, Server, wait_until
from test_redis import PASSWORD, REDIS, Redis

MODEL_NAME = "random"  # small: what it says is of no interest
MARK = "canaryq7x"  # in all of them: one search finds any, and its number says which
NUMBERS = itertools.count()
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def canary():
    return f"{MARK}{next(NUMBERS):04d}z"


def bodies():
    """Requests with a canary in each field, served or refused."""
    chat = {"model": MODEL_NAME, "max_tokens": 2}
    says = [{"role": "user", "content": canary()}]
    yield CHAT, {**chat, "messages": says}
    yield CHAT, {**chat, "messages": [{"role": "system", "content": canary()}, *says]}
    yield CHAT, {**chat, "messages": [{"role": "assistant", "content": canary()}, *says]}
    parts = [{"type": "text", "text": canary()}]
    yield CHAT, {**chat, "messages": [{"role": "user", "content": parts}]}
    yield CHAT, {**chat, "messages": [{"role": "user", "content": canary(), "name": canary()}]}
    yield CHAT, {**chat, "messages": [{"role": canary(), "content": "x"}]}
    yield CHAT, {**chat, "messages": canary()}
    yield CHAT, {**chat, "messages": says, "stop": [canary()]}
    yield CHAT, {**chat, "messages": says * 3, "temperature": canary()}
    for name in ("user", "metadata", "safety_identifier", "prompt_cache_key", "seed", "logit_bias",
                 "response_format", "stream", "service_tier", "n", "frobnicate", "cache_salt"):  # fmt: skip
        yield CHAT, {**chat, "messages": says, name: canary()}
    yield CHAT, {**chat, "messages": says, "metadata": {canary(): canary()}}
    yield CHAT, {**chat, "messages": says, "logit_bias": {canary(): 1}}
    yield CHAT, {**chat, "messages": says, "tools": [{"type": "function", "function": {"name": canary()}}]}
    yield CHAT, {**chat, "messages": says, canary(): 1}
    yield CHAT, {**chat, "messages": [{"role": "user", "content": (canary() + " ") * 2000}]}
    for stream in (False, True):
        yield TEXT, {"model": MODEL_NAME, "prompt": canary(), "max_tokens": 2, "stream": stream}
    for name in ("suffix", "echo", "stop"):
        yield TEXT, {"model": MODEL_NAME, "prompt": canary(), "max_tokens": 2, name: canary()}
    yield TEXT, {"model": MODEL_NAME, "prompt": [canary(), canary()], "max_tokens": 2}
    yield TEXT, {"model": MODEL_NAME, "prompt": {canary(): canary()}}
    yield "/v1/generate", {"prompt": canary(), "max_tokens": 2}
    yield "/v1/tokenize", {"model": MODEL_NAME, "prompt": canary()}
    yield "/v1/detokenize", {"model": MODEL_NAME, "tokens": canary()}


def ask_everything(server, key):
    with server.http(key) as http, server.http(key, http2=True) as http2:
        for path, body in bodies():
            http.post(path, json=body)
            http2.post(path, json=body)
            data = json.dumps(body)
            http.post(path, content=data[: len(data) // 2])  # no JSON
            http.post(path, content=data, headers={"content-type": canary()})
        body = {"model": MODEL_NAME, "prompt": canary(), "max_tokens": 1}
        http.post(f"{TEXT}?{canary()}={canary()}", json=body)
        http.post(f"/v1/{canary()}", content=canary())
        http.get(f"/v1/models/{canary()}")
        http.request(canary().upper(), TEXT, json=body)
        for name in ("x-request-id", "x-banyan-explain", "x-request-timeout-ms", "user-agent",
                     "cookie", "idempotency-key", "openai-organization", canary(), "referer"):  # fmt: skip
            http.post(TEXT, json=body, headers={name: canary()})
        with http.stream("POST", TEXT, json={**body, "max_tokens": 500, "stream": True}) as stream:
            next(stream.iter_lines())  # and left


def knock(server, key):
    """Credentials that are not taken, in each place where one could stand."""
    wrong = [f"sk-by-{canary()}", key[:-4] + MARK, canary(), f"sk-ba-{canary()}", f"{canary()}.{canary()}.x"]
    for base in (server.url, server.admin_url):
        for value in wrong:
            with server.http(value, base=base) as http:
                http.get("/v1/me" if base == server.url else "/admin/v1/tenants")
        with server.http(base=base) as http:
            for headers in ({"authorization": f"Basic {canary()}"}, {"authorization": canary()},
                            {"x-api-key": canary()}, {"api-key": canary()}):  # fmt: skip
                http.get("/v1/me", headers=headers)


def break_lines(server):
    """What no parser takes, on a connection of its own."""
    host, port = server.url.removeprefix("https://").split(":")
    texts = [f"GET /{canary()} HTTP/9.{canary()}\r\n\r\n", f"{canary()}\r\n\r\n",
             f"POST {TEXT} HTTP/1.1\r\n{canary()}: \0{canary()}\r\n\r\n",
             f"POST {TEXT} HTTP/1.1\r\nhost: x\r\ncontent-length: {canary()}\r\n\r\n"]  # fmt: skip
    for text in texts:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as plain:
            with server.context.wrap_socket(plain, server_hostname="localhost") as tls:
                tls.settimeout(2)  # answers do not matter here
                tls.sendall(text.encode())
                while tls.recv(65536):
                    pass
    with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as plain:
        plain.sendall(f"GET /{canary()} HTTP/1.1\r\nhost: {canary()}\r\n\r\n".encode())  # no TLS
        plain.settimeout(2)
        plain.recv(100)


def administrate(server, tenant_id):
    """Bodies of the config API that are refused; those that are taken are the administrator's data."""
    paths = ("/admin/v1/tenants", f"/admin/v1/tenants/{tenant_id}/keys", "/admin/v1/admin-keys",
             "/admin/v1/plans", "/admin/v1/issuers", "/admin/v1/shared-prompts")  # fmt: skip
    with server.admin() as admin:
        for path in paths:
            admin.post(path, json={canary(): canary()})
            admin.post(path, content=canary())
            admin.post(f"{path}?{canary()}=1", json={"name": 7, "messages": canary(), "jwks": canary()})
            admin.get(f"{path}/{canary()}")
            admin.get(f"{path}?after={canary()}")
        jwks = {"keys": [{"kty": "oct", "k": canary(), "kid": "a"}], "more": canary()}
        admin.post("/admin/v1/issuers", json={"name": "i", "issuer": "i", "audiences": ["a"], "jwks": jwks})
        admin.put(f"/admin/v1/tenants/{tenant_id}/limits", json={"tokens_per_day": canary()})
        admin.delete(f"/admin/v1/requests/{canary()}")


def written(server):
    """All that somebody else can read: (where, bytes)."""
    yield "the log", server.log_path.read_bytes()
    for path in server.data_dir.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".key":
            yield str(path), path.read_bytes()
    for path in ("/metrics", "/internal/v1/stats", "/internal/v1/requests", "/internal/v1/finals"):
        yield path, server.engine("GET", path)[1]
    with server.admin() as admin:
        for path in ("/metrics", "/admin/v1/audit?limit=100", "/admin/v1/requests", "/admin/v1/config",
                     "/admin/v1/tenants", "/admin/v1/issuers", "/admin/v1/shared-prompts"):  # fmt: skip
            answer = admin.get(path)
            assert answer.status_code == 200, (path, answer.text)
            yield path, answer.content
    if server.redis is not None:
        for name, data in server.redis.everything():
            yield f"Redis: {name}", data


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    # Everything is logged, and no address is ever shut out: each canary gets as far as it can.
    folder = tmp_path_factory.mktemp("canaries")
    model = folder / f"{MODEL_NAME}.gguf"
    subprocess.run([BINARY.parent / "make_llama", model], check=True)
    near = pathlib.Path(tempfile.mkdtemp(prefix="banyan-redis-", dir="/tmp"))  # a socket's path is short
    redis = Redis(near) if os.access(REDIS, os.X_OK) else None
    (near / "password").write_text(PASSWORD)
    there = () if redis is None else (
        "--redis", f"unix://{redis.path}", "--redis-password-file", near / "password")  # fmt: skip
    server = Server(
        folder / "data", "--log-level", "debug", "--kv-memory", "64M", *there, model=model
    )
    server.redis = redis
    yield server
    code = server.stop()
    if redis is not None:
        redis.kill()
    shutil.rmtree(near)
    assert code == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


def test_canaries_are_nowhere(own):
    tenant_id, key, key_id = own.tenant("acme")
    _, revoked, revoked_id = own.tenant("gone")
    ask_everything(own, key)
    break_lines(own)
    administrate(own, tenant_id)
    with own.admin() as admin:
        gone = admin.get("/admin/v1/tenants").json()["data"]
        gone = next(row["id"] for row in gone if row["name"] == "gone")
        assert admin.delete(f"/admin/v1/tenants/{gone}/keys/{revoked_id}").status_code == 200
        made = admin.post("/admin/v1/admin-keys", json={"name": "more", "scopes": ["admin:read"]})
        assert made.status_code == 201, made.text
        extra = made.json()["key"]
    with own.http(revoked) as http:
        assert http.get("/v1/me").status_code == 401
    with own.admin(extra) as http:
        assert http.get("/admin/v1/tenants").status_code == 200
    knock(own, key)
    wait_until(lambda: own.engine_stats()["requests"] == 0, what="an idle engine")
    rows = "select count(*) from requests"
    assert own.ledger(rows)[0][0] > 20, "few were served"
    if own.redis is not None:
        shipped = lambda: own.redis("XLEN", "banyan:usage") == own.ledger(rows)[0][0]
        wait_until(shipped, 60, "all rows in Redis")
        assert tenant_id in repr(own.redis.hashes())
    # Keys whole, and the secret part of each: names and ids of keys may be told.
    secrets = [own.admin_key, key, revoked, extra, PASSWORD]
    needles = [MARK] + [part for secret in secrets for part in (secret, secret[-20:])]
    found = [
        (where, data[max(0, data.index(needle) - 120) : data.index(needle) + 40])
        for where, data in written(own)
        for needle in (text.encode() for text in needles)
        if needle in data
    ]
    assert not found, found
    # And the search does find: what may be told is there.
    assert any(key_id.encode() in data for _, data in written(own))
    assert not [line for line in own.log_text().splitlines() if '"component"' not in line and MARK in line]
