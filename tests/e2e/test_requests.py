"""What an admin sees of requests under way, and how one is ended; usage explained when asked."""

import json
import subprocess

import pytest

from conftest import BINARY, MODEL_NAME, wait_until

REQUESTS = "/admin/v1/requests"
TEXT = "/v1/completions"
LONG = {"model": MODEL_NAME, "prompt": "Once", "max_tokens": 3000, "ignore_eos": True, "stream": True}


def find(admin, request_id):
    """The row of that request, or None once it has ended."""
    page = admin.get(f"{REQUESTS}?limit=100")
    assert page.status_code == 200, page.text
    assert page.json()["object"] == "list"
    rows = [row for row in page.json()["data"] if row["id"] == request_id]
    return rows[0] if rows else None


def events(text):
    return [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]


@pytest.mark.parametrize("way", ["api", "command"])
def test_a_stream_is_seen_and_ended(server, tenants, way):
    tenant_id, key, key_id = tenants["acme"]
    seen = ""
    with server.http(key) as http, server.admin() as admin:
        with http.stream("POST", TEXT, json=LONG) as stream:
            assert stream.status_code == 200
            request_id = stream.headers["x-request-id"]
            parts = stream.iter_text()
            seen += next(parts)
            # Nobody reads on: sooner or later it stands still, and does not end by itself.
            moving = ("decode", "throttled")
            wait_until(lambda: find(admin, request_id)["state"] in moving, what="decoding")
            row = find(admin, request_id)
            assert row["tenant_id"] == tenant_id and row["tenant_name"] == "acme"
            assert row["key_id"] == key_id and row["class"] == "standard"
            assert row["route"] == TEXT and row["stream"] is True
            assert row["prompt_tokens"] >= 1 and row["computed_tokens"] >= 1
            assert row["completion_tokens"] >= 1 and row["cached_tokens"] == 0
            assert set(row["explain"]) == {
                "position", "estimate_ms", "fairness", "pages_needed", "pages_free", "preempted_by",
            }  # fmt: skip
            assert row["explain"]["fairness"] in ("over", "even", "owed")
            assert row["explain"]["preempted_by"] is None
            dry = admin.delete(f"{REQUESTS}/{request_id}?dry_run=true")
            assert dry.status_code == 200 and dry.json()["dry_run"] is True
            assert find(admin, request_id)["state"] != "ending"
            if way == "api":
                done = admin.delete(f"{REQUESTS}/{request_id}")
                assert done.status_code == 200 and done.json()["id"] == request_id, done.text
            else:
                words = ["--url", server.admin_url, "--data-dir", server.data_dir]
                listed = subprocess.run(
                    [BINARY, "admin", "request", "list", *words],
                    capture_output=True, text=True, timeout=300, check=True,
                )  # fmt: skip
                assert request_id in listed.stdout and "acme" in listed.stdout, listed.stdout
                subprocess.run(
                    [BINARY, "admin", "request", "cancel", request_id, *words],
                    capture_output=True, text=True, timeout=300, check=True,
                )  # fmt: skip
            for part in parts:
                seen += part
        assert "[DONE]" not in seen
        error = json.loads(events(seen)[-1])["error"]
        assert error["message"] == "The request was cancelled by an administrator."
        wait_until(lambda: find(admin, request_id) is None, what="its end")
        assert admin.delete(f"{REQUESTS}/{request_id}").status_code == 404
        audit = admin.get("/admin/v1/audit?limit=1&order=desc").json()["data"][0]
        assert audit["type"] == "request.cancelled" and audit["subject"] == request_id
        assert audit["detail"] == {"tenant_id": tenant_id}
    rows = server.ledger("select finish, completion_tokens from requests where request_id = ?", request_id)
    assert len(rows) == 1 and rows[0][0] == "cancelled" and 1 <= rows[0][1] < 3000
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="the engine's end of it")


def test_only_admins_see_and_end_requests(server, key):
    with server.http(key) as http:
        assert http.get(REQUESTS).status_code == 404
        assert http.delete(f"{REQUESTS}/req_x").status_code == 404
    with server.admin() as admin:
        made = admin.post("/admin/v1/admin-keys", json={"scopes": ["admin:read"]}).json()
    with server.admin(made["key"]) as reader:
        assert reader.get(REQUESTS).status_code == 200
        assert reader.delete(f"{REQUESTS}/req_x").status_code == 403


BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Name a tree."}]},
    "/v1/completions": {"prompt": "A tree is"},
    "/v1/generate": {"prompt": "A tree is"},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_usage_is_explained_when_asked(server, key, path, stream):
    body = {"model": MODEL_NAME, "max_tokens": 3, "stream": stream, **BODIES[path]}
    told = {}
    with server.http(key) as http:
        for asked in ("1", "0", None):
            headers = {} if asked is None else {"x-banyan-explain": asked}
            answer = http.post(path, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            chunks = [json.loads(e) for e in events(answer.text)[:-1]] if stream else [answer.json()]
            told[asked] = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    always = not stream or path == "/v1/generate"
    for asked in ("0", None):
        assert len(told[asked]) == (1 if always else 0)
        assert all("banyan" not in usage for usage in told[asked])
    (usage,) = told["1"]
    how = usage["banyan"]
    assert set(how) == {
        "service_tier", "queue_ms", "prefill_ms", "decode_ms", "swap_ms", "paused_ms", "preemptions",
        "swapped_pages", "recomputed_tokens", "drafts", "cached_tokens",
    }  # fmt: skip
    assert how["service_tier"] == "default"
    assert how["prefill_ms"] > 0 and how["queue_ms"] >= 0 and how["decode_ms"] >= 0
    assert how["drafts"] == {"accepted": 0, "rejected": 0}
    parts = how["cached_tokens"]
    assert set(parts) == {"published", "group", "own", "device", "host"}
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert parts["published"] + parts["group"] + parts["own"] == cached
    assert parts["device"] + parts["host"] == cached
