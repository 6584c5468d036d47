"""Classes of service from the field to the ledger: what is asked for, what is given, what is said."""

import json
import time

import pytest

from conftest import MODEL_NAME
from test_bad_input import check_error

ALL = ["inference", "usage:read", "priority"]
TIERS = {"realtime": "priority", "standard": "default", "batch": "flex"}
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/generate": {"prompt": "Hi"},
}
PATHS = list(BODIES)


@pytest.fixture(scope="module")
def keys(server):
    """A key for each kind of tenant: (default class, best class, may send priority)."""
    kinds = {
        "usual": {}, "modest": {"best_class": "standard"},
        "slow": {"default_class": "batch", "best_class": "batch"},
        "fast": {"default_class": "realtime"},
    }  # fmt: skip
    return {
        name: server.tenant(f"class-{name}", ALL, **fields)[1] for name, fields in kinds.items()
    }


def ask(server, key, path, fields, stream=False):
    """The tiers that the answer names, one for each chunk, and the class in its ledger row."""
    body = {"model": MODEL_NAME, "max_tokens": 2, "stream": stream, **BODIES[path], **fields}
    with server.http(key) as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        lines = [line for line in answer.text.split("\n\n") if line.startswith("data: {")]
        objects = [json.loads(line.removeprefix("data: ")) for line in lines]
    else:
        objects = [answer.json()]
    assert objects
    rows = server.ledger(
        "select service_class from requests where request_id = ?", answer.headers["x-request-id"]
    )
    return [each.get("service_tier") for each in objects], rows[0][0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "who,fields,served",
    [
        ("usual", {}, "standard"),
        ("usual", {"service_tier": "priority"}, "realtime"),
        ("usual", {"service_tier": "flex"}, "batch"),
        ("modest", {"service_tier": "priority"}, "standard"),
        ("fast", {"priority": 1}, "standard"),
    ],
)
def test_every_answer_says_the_tier_used(server, keys, who, fields, served, path, stream):
    tiers, row = ask(server, keys[who], path, fields, stream)
    assert set(tiers) == {TIERS[served]}, tiers
    assert row == served


@pytest.mark.parametrize(
    "who,fields,served",
    [
        ("usual", {"service_tier": None, "priority": None}, "standard"),
        ("usual", {"service_tier": "auto"}, "standard"),
        ("usual", {"service_tier": "default"}, "standard"),
        ("slow", {"service_tier": "default"}, "batch"),
        ("slow", {"service_tier": "priority"}, "batch"),
        ("fast", {"service_tier": "auto"}, "realtime"),
        ("fast", {"priority": 0}, "realtime"),
        ("fast", {"priority": 2}, "batch"),
        ("usual", {"service_tier": "priority", "priority": 1}, "standard"),
        ("modest", {"service_tier": "priority", "priority": 1}, "batch"),
        ("usual", {"priority": 2147483647}, "batch"),
    ],
)
def test_what_is_asked_for_and_what_is_given(server, keys, who, fields, served):
    tiers, row = ask(server, keys[who], "/v1/completions", fields)
    assert (tiers, row) == ([TIERS[served]], served)


def test_a_key_has_classes_of_its_own(server):
    """No higher than its tenant's best: one key of a tenant may be urgent, another may not."""
    tenant, urgent, _ = server.tenant("class-keyed", ALL)
    path = f"/admin/v1/tenants/{tenant}/keys"
    with server.admin() as admin:
        made = admin.post(path, json={"name": "slow", "scopes": ALL}).json()
        path += f"/{made['id']}/limits"
        put = admin.put(path, json={"default_class": "batch", "best_class": "standard"})
        assert put.status_code == 200, put.text
        assert admin.get(path).json()["best_class"] == "standard"
        wrong = {"default_class": "realtime", "best_class": "batch"}
        check_error(admin.put(path, json=wrong), 400, None, "default_class")
        check_error(admin.put(path, json={"weight": 5}), 400, None, "weight")
    for asked, of_urgent, of_slow in (
        ("priority", "realtime", "standard"), ("auto", "standard", "batch"),
        ("default", "standard", "batch"), ("flex", "batch", "batch"),
    ):  # fmt: skip
        for key, served in ((urgent, of_urgent), (made["key"], of_slow)):
            tiers, row = ask(server, key, "/v1/completions", {"service_tier": asked})
            assert (tiers, row) == ([TIERS[served]], served), asked


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "fields,param",
    [
        ({"service_tier": "gold"}, "service_tier"),
        ({"service_tier": 1}, "service_tier"),
        ({"service_tier": ""}, "service_tier"),
        ({"priority": -1}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": "1"}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": 2147483648}, "priority"),
    ],
)
def test_wrong_fields(server, keys, path, fields, param):
    with server.http(keys["usual"]) as http:
        body = {"model": MODEL_NAME, "max_tokens": 2, **BODIES[path], **fields}
        check_error(http.post(path, json=body), 400, None, param)


@pytest.mark.parametrize("path", PATHS)
def test_priority_needs_its_scope(server, key, path):
    with server.http(key) as http:
        body = {"model": MODEL_NAME, "max_tokens": 2, **BODIES[path], "priority": 0}
        answer = http.post(path, json=body)
    check_error(answer, 400, None, "priority")
    assert "scope" in answer.json()["error"]["message"]


def test_a_downgrade_is_counted(server, keys):
    before = server.metric("banyan_downgrades_total")
    ask(server, keys["modest"], "/v1/completions", {"service_tier": "priority"})
    ask(server, keys["modest"], "/v1/completions", {"service_tier": "flex"})
    assert server.metric("banyan_downgrades_total") == before + 1


def test_a_key_is_told_its_classes(server, keys):
    with server.http(keys["modest"]) as http:
        me = http.get("/v1/me").json()
    assert me["tenant"]["default_class"] == "standard"
    assert me["tenant"]["best_class"] == "standard"
    assert set(me["key"]["scopes"]) == set(ALL)


def test_usage_by_class(server, keys):
    ask(server, keys["usual"], "/v1/completions", {"service_tier": "flex"})
    with server.http(keys["usual"]) as http:
        start = int(time.time()) - 86400
        page = http.get("/v1/usage", params={"group_by": "class", "start_time": start}).json()
    results = [row for bucket in page["data"] for row in bucket["results"]]
    assert "batch" in {row["class"] for row in results}, page
