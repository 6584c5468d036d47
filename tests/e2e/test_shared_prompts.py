"""Published prompts on the real model: computed once, found by whom they are granted to and by nobody
else, gone when they are revoked, and there again before /ready says yes."""

import json
import os
import re
import signal
import time

import pytest

from conftest import MODEL_NAME, Server, wait_until
from test_banyan_admin import admin as command, answer as told

PATH = "/admin/v1/shared-prompts"
PAGE = 16  # tokens
LORE = " ".join(f"Rule {i}: answer question {i} in {i + 2} words." for i in range(40))


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("prompts") / "data")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


class Prompt:
    """A published prompt and those who ask with it."""

    def __init__(self, server, name, **grants):
        self.server = server
        # Its own first words: what one test computes is no other's.
        self.system = {"role": "system", "content": f"{name}. {LORE}"}
        with server.admin() as admin:
            made = admin.post(PATH, json={"name": name, "messages": [self.system], **grants})
        # 202: the engine of a server that has just started is not known yet.
        assert made.status_code in (201, 202), made.text
        self.path = f"{PATH}/{made.json()['id']}"
        wait_until(lambda: self.look()["state"] == "published", 300, "the prompt")
        self.made = self.look()
        self.count = 0

    def cached(self, key):
        """cached_tokens of a first request with it: the question is new each time."""
        self.count += 1
        body = {
            "model": MODEL_NAME, "max_tokens": 1,
            "messages": [self.system, {"role": "user", "content": f"{self.count}?"}],
        }  # fmt: skip
        with self.server.http(key) as http:
            answer = http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    def has(self, key):
        """Whether a request finds it (a page less, or what its tenant asked before); else nothing."""
        cached = self.cached(key)
        tokens = self.made["tokens"]
        assert cached == 0 or tokens - PAGE < cached < tokens + PAGE, (cached, tokens)
        return cached > 0

    def change(self, **fields):
        with self.server.admin() as admin:
            answer = admin.patch(self.path, json=fields)
        assert answer.status_code == 200, answer.text

    def look(self):
        with self.server.admin() as admin:
            return admin.get(self.path).json()


def ready(server):
    with server.http() as http:
        return http.get("/ready")


def test_published_and_granted(own_server):
    one, two, other = (own_server.tenant(name) for name in ("one", "two", "other"))
    prompt = Prompt(own_server, "granted", tenants=[one[0], two[0]])
    assert prompt.made["state"] == "published"
    assert prompt.made["tokens"] > 300
    assert prompt.made["pages"] == -(-prompt.made["tokens"] // PAGE)
    # The first request of each: nobody has computed it for them but the operator.
    assert prompt.has(one[1])
    assert prompt.has(two[1])
    assert not prompt.has(other[1])
    wait_until(lambda: prompt.look()["hits"] == 2, 300, "two hits")
    assert prompt.look()["hit_tokens"] > 2 * (prompt.made["tokens"] - PAGE)
    # At once: the very next request of who lost it finds nothing of it.
    prompt.change(tenants=[two[0]])
    assert not prompt.has(one[1])
    assert prompt.has(two[1])
    with own_server.admin() as admin:
        assert admin.delete(prompt.path).status_code == 200
    assert not prompt.has(two[1])


def test_granted_to_a_group(own_server):
    member, stranger = own_server.tenant("member"), own_server.tenant("stranger")
    with own_server.admin() as admin:
        done = admin.patch(f"/admin/v1/tenants/{member[0]}", json={"group": "labs"})
        assert done.status_code == 200, done.text
    prompt = Prompt(own_server, "group", groups=["labs"])
    assert prompt.has(member[1])
    assert not prompt.has(stranger[1])


@pytest.mark.slow
def test_expires(own_server):
    tenant = own_server.tenant("late")
    prompt = Prompt(own_server, "expires", tenants=[tenant[0]], pin_until=int(time.time()) + 3600)
    assert prompt.has(tenant[1])
    held = own_server.engine_stats()["pages_pinned"]
    assert held >= prompt.made["pages"]
    prompt.change(pin_until=int(time.time()) + 8)
    wait_until(lambda: prompt.look()["state"] == "expired", 60, "the expiry")
    wait_until(
        lambda: own_server.engine_stats()["pages_pinned"] <= held - prompt.made["pages"],
        60, "its pages",
    )  # fmt: skip
    # It comes back as another version, computed anew.
    prompt.change(pin_until=None)
    wait_until(lambda: prompt.look()["state"] == "published", 300, "its return")
    assert prompt.look()["version"] == 2


def test_refused_with_the_numbers(own_server):
    tenant = own_server.tenant("refused")
    with own_server.admin() as admin:

        def refused(code, words, **body):
            answer = admin.post(PATH, json={"name": "no", **body})
            assert answer.status_code == code, answer.text
            assert all(word in answer.json()["error"]["message"] for word in words), answer.text

        refused(404, ["tnt_nobody"], text="a", tenants=[tenant[0], "tnt_nobody"])
        refused(404, ["nogroup"], text="a", groups=["nogroup"])
        refused(400, ["tokens", "context"], text="word " * 20000)
        rows = admin.get(PATH).json()["data"]
        assert "no" not in [row["name"] for row in rows]


@pytest.mark.slow
def test_over_the_cap(tmp_path):
    server = Server(
        tmp_path / "data", "--kv-memory", "256M", "--context", "2048", "--pin-percent", "10"
    )
    try:
        with server.admin() as admin:
            text = "word " * 600
            codes = []
            for i in range(40):
                answer = admin.post(PATH, json={"name": f"p{i}", "text": f"{i} {text}"})
                codes.append(answer.status_code)
                if answer.status_code != 201:
                    break
            dry = admin.post(f"{PATH}?dry_run=true", json={"name": "dry", "text": text})
            assert dry.status_code == 409 and "of at most" in dry.text, dry.text
            assert codes[-1] == 409 and codes.count(201) == len(codes) - 1, codes
            assert any(c.isdigit() for c in answer.json()["error"]["message"]), answer.text
            # One goes, and there is room again.
            rows = admin.get(PATH).json()["data"]
            if rows:
                assert admin.delete(f"{PATH}/{rows[0]['id']}").status_code == 200

                def fits():
                    again = admin.post(PATH, json={"name": "again", "text": text})
                    assert again.status_code in (201, 409), again.text
                    return again.status_code == 201

                wait_until(fits, 300, "room")
    finally:
        assert server.stop() == 0


def test_engine_and_server_die(tmp_path):
    server = Server(tmp_path / "data")
    tenant = server.tenant("one")
    prompt = Prompt(server, "deaths", tenants=[tenant[0]])
    assert prompt.has(tenant[1])
    pid = server.child("engine")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: server.child("engine") not in (None, pid), 300, "another engine")
    wait_until(lambda: ready(server).status_code == 200, 300, "readiness")
    # Ready means computed: the first request of this engine finds it.
    assert prompt.look()["state"] == "published"
    assert prompt.has(tenant[1])
    assert server.stop() == 0
    server = Server(tmp_path / "data")
    try:
        prompt.server = server
        wait_until(lambda: ready(server).status_code == 200, 300, "readiness")
        assert prompt.has(tenant[1])
        assert prompt.look()["tokens"] == prompt.made["tokens"]
    finally:
        assert server.stop() == 0


def test_from_the_command_line(own_server, tmp_path):
    tenant = own_server.tenant("cli-one")
    system = {"role": "system", "content": f"command line. {LORE}"}
    (tmp_path / "messages.json").write_text(json.dumps([system]))
    words = ("prompt", "create", "cli", "--messages", str(tmp_path / "messages.json"))
    dry = told(own_server, *words, "--dry-run")
    assert dry["dry_run"] and dry["tokens"] > 300 and dry["pages"] == -(-dry["tokens"] // PAGE)
    made = told(own_server, *words, "--until", "30d")
    assert made["state"] == "published" and made["tokens"] == dry["tokens"] and made["tenants"] == []
    assert told(own_server, "prompt", "grant", "cli", "--tenants", "cli-one")["tenants"] == [tenant[0]]
    table = command(own_server, "prompt", "list").stdout
    assert re.search(rf"^{made['id']} +cli +published +{made['tokens']} +{made['pages']} ", table, re.M)
    assert told(own_server, "prompt", "show", "cli")["messages"] == [system]
    assert told(own_server, "prompt", "revoke", made["id"], "--tenants", tenant[0])["tenants"] == []
    refused = command(own_server, "prompt", "grant", "cli", "--groups", "nogroup")
    assert refused.returncode == 1 and "nogroup" in refused.stderr
    assert command(own_server, "prompt", "delete", "cli").returncode == 0
    assert command(own_server, "prompt", "show", "cli").returncode == 1
