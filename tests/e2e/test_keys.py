"""API keys that do not open: each for its own reason, counted by it, on either listener; and no
refusal is remembered against a key that is right later."""

import re
import time

from conftest import wait_until


def refusals(server):
    with server.admin() as admin:
        text = admin.get("/metrics").text
    series = r'^banyan_auth_refusals_total\{method="(\w+)",reason="(\w+)"\} (\d+)$'
    return {f"{m}/{r}": int(n) for m, r, n in re.findall(series, text, re.M)}


def refused(server, key, reason, code=401, base=None, times=3):
    before = refusals(server)
    with server.http(key, base) as client:
        for _ in range(times):
            path = "/admin/v1/tenants" if base else "/v1/me"
            assert client.get(path).status_code == code, reason
    after = refusals(server)
    more = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert more == {reason: times}, (reason, more)


def works(server, key):
    with server.http(key) as client:
        return client.get("/v1/me").status_code == 200


def other_secret(key, other):
    """A key with the public id of `key`; its check digits are `other`'s, hence mistyped."""
    return key[:18] + other[18:]


def test_each_for_its_reason(server):
    tenant_id, key, key_id = server.tenant("key-reasons")
    keys = f"/admin/v1/tenants/{tenant_id}/keys"
    with server.admin() as admin:
        mine = admin.post(keys, json={"name": "to be deleted"}).json()
        assert works(server, mine["key"])
        refused(server, None, "none/missing")
        refused(server, "sk-by-short", "apikey/form")
        refused(server, other_secret(key, mine["key"]), "apikey/check")
        # A key that a backup of another server knows has the right form and is nobody's.
        unknown = "sk-by-Iu1234567890-" + "a" * 43 + "-"
        refused(server, unknown + check_digits(unknown[:-1]), "apikey/wrong")
        refused(server, server.admin_key, "apikey/face")
        refused(server, key, "apikey/face", base=server.admin_url)
        # Revoked: refused on the connection that has just used it.
        with server.http(mine["key"]) as client:
            assert client.get("/v1/me").status_code == 200
            assert admin.delete(f"{keys}/{mine['id']}").status_code == 200
            assert client.get("/v1/me").status_code == 401
        refused(server, mine["key"], "apikey/revoked")
        # Expired; when its end is moved it is right again: nothing was remembered.
        brief = admin.post(keys, json={"name": "b", "expires_at": int(time.time()) + 1}).json()
        wait_until(lambda: not works(server, brief["key"]), 30)
        refused(server, brief["key"], "apikey/expired")
        # Rotated: both until the overlap ends.
        fresh = admin.post(f"{keys}/{key_id}/rotate", json={"overlap_s": 0}).json()
        assert works(server, fresh["key"])
        wait_until(lambda: not works(server, key), 30)
        path = f"/admin/v1/tenants/{tenant_id}"
        assert admin.patch(path, json={"state": "suspended"}).status_code == 200
        refused(server, fresh["key"], "apikey/suspended", 403)
        assert admin.patch(path, json={"state": "active"}).status_code == 200
        assert works(server, fresh["key"])
        assert admin.delete(path).status_code == 200
        wait_until(lambda: not works(server, fresh["key"]), 30)


def check_digits(text):
    """CRC-32 in base 62, as wire.md has it."""
    import zlib

    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    crc, out = zlib.crc32(text.encode()), ""
    for _ in range(6):
        crc, digit = divmod(crc, 62)
        out = digits[digit] + out
    return out


def test_scopes_of_keys(server):
    """A key does what its scopes say and no more, from one request to the next."""
    tenant_id, key, key_id = server.tenant("key-scopes", scopes=["usage:read"])
    sent = {"prompt": "a", "max_tokens": 1}
    with server.admin() as admin, server.http(key) as client:
        assert client.get("/v1/usage").status_code in (200, 400)
        assert client.post("/v1/generate", json=sent).status_code == 403
        path = f"/admin/v1/tenants/{tenant_id}/keys/{key_id}"
        assert admin.patch(path, json={"scopes": ["inference"]}).status_code == 200
        assert client.post("/v1/generate", json=sent).status_code == 200
        assert client.get("/v1/usage").status_code == 403
        assert admin.get(path).json()["last_used_at"] is not None
