"""The running options over the config API: looked at, checked, read again in parent and edge; groups."""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import BINARY, MODEL_NAME, ROOT, Server, wait_until


AT_FIRST = '{"request_timeout_s": 500}'


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    (folder / "options.json").write_text(AT_FIRST)
    server = Server(folder / "data", "--config", folder / "options.json", "--drain-timeout-s", "60")
    server.file = folder / "options.json"
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture
def own(started):
    """The server with the options that it was started with, whatever a test before this one has read."""
    started.file.write_text(AT_FIRST)
    reload(started)
    return started


def shown(server):
    with server.admin() as admin:
        answer = admin.get("/admin/v1/config")
    assert answer.status_code == 200, answer.text
    assert answer.headers["etag"] == f'"{answer.json()["revision"]}"'
    return answer.json()


def reload(server, code=200, **kwargs):
    with server.admin() as admin:
        answer = admin.post("/admin/v1/config/reload", **kwargs)
    assert answer.status_code == code, answer.text
    return answer.json()


def command(server, *words):
    return subprocess.run(
        [BINARY, "admin", *words, "--url", server.admin_url, "--data-dir", server.data_dir],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def reloadable():
    """Name → (default, least, most) of each option that options.def lets a reload change."""
    rows = (ROOT / "config/options.def").read_text().replace("\n", " ")
    found = re.findall(r"OPTION_NUMBER\((\w+), (\d+), (\d+), (\d+), true,", rows)
    others = re.findall(r"OPTION_(?:TEXT|BYTES|BOOL)\((\w+), [^()]*?\btrue, CONFIG_", rows)
    assert found and not others, "this test knows reloadable numbers alone"
    return {name: tuple(int(n) for n in rest) for name, *rest in found}


def test_every_option_says_where_it_came_from(own):
    config = shown(own)
    assert config["file"] == str(own.file)
    assert set(config["options"]) == set(config["sources"])
    assert config["sources"]["request_timeout_s"] == "file"
    assert config["sources"]["drain_timeout_s"] == "flag"
    assert config["sources"]["ledger_keep_days"] == "default"
    assert set(config["reloadable"]) == set(reloadable())
    table = command(own, "config", "show").stdout
    assert re.search(r"^request_timeout_s +500 +file +yes", table, re.M), table


def test_every_reloadable_option_is_taken_while_running(own):
    options = {n: least + 7 for n, (_, least, _) in reloadable().items() if n != "drain_timeout_s"}
    own.file.write_text(json.dumps(options))
    before = shown(own)
    parent = own.process.pid
    edge = own.child("edge")
    dry = reload(own, params={"dry_run": "true"})
    assert dry["dry_run"] is True and shown(own) == before
    told = reload(own)
    assert {c["option"]: c["to"] for c in told["changes"]} == options
    after = shown(own)
    assert after["revision"] > before["revision"] and told["revision"] == after["revision"]
    for name, value in options.items():
        assert (after["options"][name], after["sources"][name]) == (value, "file"), name
    with own.admin() as admin:
        row = admin.get("/admin/v1/audit", params={"order": "desc", "limit": 1}).json()["data"][0]
    assert row["type"] == "config.reloaded" and row["detail"]["changes"] == told["changes"]
    # The parent has taken them too: an edge that is started again begins with them, without asking.
    own.file.write_text("{}")  # which is not read before somebody asks for it
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: own.child("edge") not in (None, edge), 60, "another edge")

    def is_back():
        try:
            return shown(own)["options"]["request_timeout_s"] == options["request_timeout_s"]
        except Exception:
            return False

    wait_until(is_back, 60, "the new edge's options")
    assert own.process.pid == parent and own.process.poll() is None
    assert {n: shown(own)["options"][n] for n in options} == options


def test_what_is_read_through_the_snapshot():
    """Each reloadable option is read where it is used, from the present snapshot: never copied once."""
    sources = [p for p in (ROOT / "gateway").rglob("*.c")]
    for name in reloadable():
        uses = [(p, line) for p in sources for line in p.read_text().splitlines() if f"->{name}" in line]
        assert uses, name
        for path, line in uses:
            assert re.search(rf"(edge|serve|process|admin)->config->{name}\b", line), (path, line)


def test_a_request_is_held_to_the_new_deadline(own):
    """`request_timeout_s` and `queue_commit_after_s` as a request meets them after a reload."""
    own.file.write_text('{"request_timeout_s": 3, "queue_commit_after_s": 0, "replay_wait_s": 1}')
    reload(own)
    _, key, _ = own.tenant("deadline")
    engine = own.child("engine")
    os.kill(engine, signal.SIGSTOP)
    try:
        with own.http(key) as http:
            answer = http.post("/v1/completions", json={"model": "any", "prompt": "a", "max_tokens": 1})
            assert answer.status_code in (503, 504), answer.text
    finally:
        os.kill(engine, signal.SIGCONT)
    with own.http(key) as http:
        assert http.get("/v1/me").json()["limits"]["request_timeout_s"] == 3
    own.file.write_text("{}")
    reload(own)


@pytest.mark.parametrize(
    "text, code, words",
    [
        ('{"request_timeout_s": 0}', 400, ["request_timeout_s", "1 to 86400"]),
        ('{"request_timeout_s": "5"}', 400, ["request_timeout_s", "a whole number"]),
        ('{"request_timeout": 5}', 400, ["did you mean request_timeout_s?"]),
        ('{"body_limit": 2048, "drain_delay_s": 4}', 409, ["only a restart changes: body_limit"]),
        ('{"drain_delay_s": 4,', 400, ["line 1"]),
        ("[]", 400, ["one JSON object"]),
    ],
)
def test_a_wrong_file_is_refused_as_a_whole(own, text, code, words):
    own.file.write_text(text)
    before = shown(own)
    told = reload(own, code)
    assert all(word in told["error"]["message"] for word in words), told
    refused = command(own, "config", "reload")
    assert refused.returncode == 1 and words[0] in refused.stderr, refused.stderr
    assert shown(own) == before
    own.file.write_text("{}")


def test_two_who_reload_at_one_revision(own):
    own.file.write_text("{}")
    revision = shown(own)["revision"]
    reload(own, headers={"if-match": f'"{revision}"'})
    told = reload(own, 412, headers={"if-match": f'"{revision}"'})
    assert told["error"]["param"] == "if-match"


def test_a_file_is_checked_before_it_is_there(own, tmp_path):
    def check(options, code=200):
        with own.admin() as admin:
            answer = admin.post("/admin/v1/config/validate", json={"options": options})
        assert answer.status_code == code, answer.text
        return answer.json()

    own.file.write_text("{}")
    reload(own)
    before = shown(own)
    told = check({"request_timeout_s": 9, "body_limit": "2M", "drain_timeout_s": 5})
    assert told["valid"] and told["overridden"] == ["drain_timeout_s"]
    assert {c["option"]: c["takes"] for c in told["changes"]} == {
        "request_timeout_s": "reload", "body_limit": "restart",
    }  # fmt: skip
    told = check({"drain_delay": 1, "threads": 9999, "model": 5})
    assert not told["valid"] and [e["param"] for e in told["errors"]] == ["drain_delay", "threads", "model"]
    assert "did you mean drain_delay_s?" in told["errors"][0]["message"]
    assert check([], 400)["error"]["param"] == "options"
    assert shown(own) == before
    file = tmp_path / "options.json"
    file.write_text('{"drain_delay": 1}')
    wrong = command(own, "config", "validate", file)
    assert wrong.returncode != 0 and "did you mean drain_delay_s?" in wrong.stdout
    file.write_text('{"drain_delay_s": 1}')
    right = command(own, "config", "validate", file)
    assert right.returncode == 0 and re.search(r"^drain_delay_s +0 +1 +reload", right.stdout, re.M)


def test_groups_are_made_by_hand_or_by_a_tenant(own):
    made = command(own, "group", "create", "north", "--meta", "floor=3", "--json")
    assert made.returncode == 0, made.stderr
    tenant, _, _ = own.tenant("in-north", group="north")
    own.tenant("in-south", group="south")
    with own.admin() as admin:
        north = admin.get("/admin/v1/groups/north").json()
        assert (north["tenants"], north["members"], north["metadata"]) == (1, [tenant], {"floor": "3"})
        assert admin.get("/admin/v1/groups/south").json()["tenants"] == 1
        assert admin.delete("/admin/v1/groups/north").status_code == 409
        assert admin.patch(f"/admin/v1/tenants/{tenant}", json={"group": ""}).status_code == 200
        assert admin.delete(f"/admin/v1/groups/{north['id']}").status_code == 200
        assert admin.get("/admin/v1/groups/north").status_code == 404
    table = command(own, "group", "list").stdout
    assert "south" in table and "north" not in table


@pytest.mark.parametrize("way", ["suspend", "archive", "import"])
def test_a_tenant_that_is_closed_with_streams_open(own, way):
    """They end with an error event, and who does not stream is answered 403; both rows are written."""
    tenant, key, _ = own.tenant(f"closed-by-{way}")
    body = {
        "model": MODEL_NAME, "prompt": "Once", "max_tokens": 3000, "ignore_eos": True, "stream": True,
    }  # fmt: skip
    with own.http(key) as http, http.stream("POST", "/v1/completions", json=body) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        for line in lines:
            if line.startswith("data: ") and '"text"' in line:
                break
        with own.admin() as admin:
            path = f"/admin/v1/tenants/{tenant}"
            if way == "suspend":
                done = admin.patch(path, json={"state": "suspended"})
            elif way == "archive":
                done = admin.delete(path)
            else:
                row = {"name": f"closed-by-{way}", "state": "suspended"}
                done = admin.post("/admin/v1/config/import", json={"version": 1, "tenants": [row]})
        assert done.status_code == 200, done.text
        events = [json.loads(l[6:]) for l in lines if l.startswith("data: ") and l != "data: [DONE]"]
    assert "was suspended" in events[-1]["error"]["message"], events[-1]
    assert sum("error" in event for event in events) == 1
    wait_until(
        lambda: own.ledger("select count(*) from requests where tenant_id = ?", tenant) == [(1,)],
        60, "the row of the stream",
    )  # fmt: skip
    with own.http(key) as http:
        assert http.post("/v1/completions", json=body).status_code in (401, 403)


def test_the_audit_is_filtered(own):
    with own.admin() as admin:
        tenant = admin.post("/admin/v1/tenants", json={"name": "audited"}).json()
        admin.patch(f"/admin/v1/tenants/{tenant['id']}", json={"weight": 3})

        def rows(code=200, **query):
            answer = admin.get("/admin/v1/audit", params={"limit": 100, **query})
            assert answer.status_code == code, answer.text
            return answer.json().get("data") or answer.json().get("error") or []

        types = [row["type"] for row in rows(subject=tenant["id"])]
        assert types == ["tenant.created", "tenant.updated"]
        latest = rows(subject=tenant["id"], order="desc", limit=1)[0]
        assert latest["type"] == "tenant.updated"
        assert rows(subject=tenant["id"], actor=latest["actor"]["id"]) and not rows(actor="key_nobody")
        assert {row["type"].split(".")[0] for row in rows(type="tenant")} == {"tenant"}
        now = latest["effective_at"]
        assert rows(subject=tenant["id"], since=now + 1) == [] == rows(subject=tenant["id"], until=now - 60)
        for query in ({"since": "soon"}, {"until": -1}, {"type": "a b"}, {"actor": "x" * 40}, {"who": "x"}):
            assert rows(400, **query)["param"] in query
    table = command(own, "audit", "list", "--subject", tenant["id"], "--from", "1h").stdout
    assert table.count(tenant["id"]) == 2, table
