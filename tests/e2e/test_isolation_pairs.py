"""Who finds what was computed before: in pairs, and the same after eviction, host tier, restart.

For each way to share there is one who must find a prefix and one who must not. A miss is exactly 0
cached tokens: finding one token of another's text is already too much.
"""

import itertools
import os
import random
import signal
import threading

import pytest

from conftest import MODEL_NAME, Server, wait_until

pytestmark = pytest.mark.long

PROMPT = 100  # tokens, six pages and a rest
FLOOD = 400
WORDS = "the cat sat on a mat and saw the sun go down over the hills of the old town".split()


def tokens(seed, count=PROMPT):
    """Ids that every vocabulary has, none of them special."""
    draw = random.Random(seed)
    return [draw.randrange(40, 120) for _ in range(count)]


class World:
    """A server with a small pool, and its tenants."""

    def __init__(self, folder, page_bytes, pool_pages, host_pages):
        self.server = Server(
            folder / "data", "--context", "512",
            "--kv-memory", str(max(pool_pages * page_bytes, 1 << 20)),
            "--kv-host-memory", str(host_pages * page_bytes),
        )  # fmt: skip
        self.names = itertools.count()
        self.seeds = itertools.count(1)
        self.pages = self.server.engine_stats()["pages_total"]
        self.admin = self.server.admin()

    def stop(self):
        self.admin.close()
        code = self.server.stop()
        assert code == 0, self.server.log_text()[-4000:]

    def tenant(self, **fields):
        """(id, key) of a new tenant: one that has sent nothing yet."""
        name = f"tenant-{next(self.names)}"
        made = self.admin.post("/admin/v1/tenants", json={"name": name, **fields})
        assert made.status_code in (200, 201), made.text
        tenant_id = made.json()["id"]
        key = self.admin.post(f"/admin/v1/tenants/{tenant_id}/keys", json={"name": "k"})
        return tenant_id, key.json()["key"]

    def new_prompt(self):
        return tokens(next(self.seeds))

    def ask(self, key, prompt, **more):
        body = {"model": MODEL_NAME, "prompt": prompt, "max_tokens": 2, "temperature": 0, **more}
        with self.server.http(key) as client:
            answer = client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def found(self, key, prompt):
        usage = self.ask(key, prompt)["usage"]
        return (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    def flood(self, key):
        """More than the pool holds, of texts that never come again."""
        for _ in range(self.pages * 16 // FLOOD + 2):
            self.ask(key, tokens(next(self.seeds), FLOOD))

    def publish(self, text, **grants):
        made = self.admin.post(
            "/admin/v1/shared-prompts",
            json={"name": f"prompt-{next(self.names)}", "text": text, **grants},
        )
        assert made.status_code in (200, 201, 202), made.text
        path = f"/admin/v1/shared-prompts/{made.json()['id']}"
        wait_until(lambda: self.admin.get(path).json()["state"] == "published", 300, "publishing")
        return path


@pytest.fixture(scope="module")
def page_bytes(server):
    return (512 << 20) // server.engine_stats()["pages_total"]


@pytest.fixture(scope="module")
def world(tmp_path_factory, page_bytes):
    """As many pages in the host tier as in the pool."""
    world = World(tmp_path_factory.mktemp("pairs"), page_bytes, 120, 120)
    yield world
    world.stop()


@pytest.fixture(scope="module")
def hostless(tmp_path_factory, page_bytes):
    world = World(tmp_path_factory.mktemp("hostless"), page_bytes, 120, 0)
    yield world
    world.stop()


def check_pair(world, who, other, prompt):
    """`who` finds the prompt, so that it is there; `other`, who never sent it, then does not."""
    assert world.found(who, prompt) >= PROMPT // 16 * 16
    assert world.found(other, prompt) == 0


def check_pairs(world):
    """All ways to share, with new texts and new strangers."""
    own, other = world.tenant()[1], world.tenant()[1]
    prompt = world.new_prompt()
    assert world.found(own, prompt) == 0
    check_pair(world, own, other, prompt)
    # What the other computed for itself is its own too.
    check_pair(world, other, world.tenant()[1], prompt)

    group = f"group-{next(world.names)}"
    one, two = (world.tenant(group=group, share="group")[1] for _ in range(2))
    private = world.tenant(group=group)[1]
    elsewhere = world.tenant(group=group + "-other", share="group")[1]
    prompt = world.new_prompt()
    assert world.found(one, prompt) == 0
    for member, stranger in ((two, own), (one, private), (two, elsewhere)):
        check_pair(world, member, stranger, prompt)


def check_published(world):
    """Granted by name or through a group: found at the first request. Not granted: not."""
    text = " ".join(random.Random(next(world.seeds)).choices(WORDS, k=80)) + "."
    group = f"group-{next(world.names)}"
    named_id, named = world.tenant()
    member = world.tenant(group=group)[1]
    path = world.publish(text, tenants=[named_id], groups=[group])
    ask = text + "\n\nWhat then?"
    for key in (named, member):
        assert world.found(key, ask) >= 16
    for stranger in (world.tenant()[1], world.tenant(group=group + "-other")[1]):
        assert world.found(stranger, ask) == 0
    return path, text, (named_id, named), group


def test_fresh(world):
    check_pairs(world)
    check_published(world)


def test_what_two_send_at_once_is_not_shared(world):
    """Neither does a stranger's prefill under way help."""
    prompt = tokens(next(world.seeds), 300)
    keys = [world.tenant()[1] for _ in range(4)]
    found = [None] * len(keys)

    def ask(index):
        found[index] = world.found(keys[index], prompt)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(keys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0] * len(keys)


def test_after_eviction(hostless):
    world = hostless
    own, other = world.tenant()[1], world.tenant()[1]
    prompt = world.new_prompt()
    world.found(own, prompt)
    check_pair(world, own, other, prompt)
    world.flood(own)
    assert world.found(own, prompt) < PROMPT // 16 * 16  # its own texts took its place
    assert world.found(world.tenant()[1], prompt) == 0
    check_pair(world, own, world.tenant()[1], prompt)
    check_pairs(world)
    check_published(world)


def test_a_flood_takes_only_its_own(hostless):
    """Whoever keeps within its share keeps its pages."""
    world = hostless
    own, flooder = world.tenant()[1], world.tenant()[1]
    prompt = world.new_prompt()
    world.found(own, prompt)
    before = world.found(own, prompt)
    world.flood(flooder)
    assert world.found(own, prompt) == before


def test_on_the_host_and_back(world):
    own, other = world.tenant()[1], world.tenant()[1]
    prompt = world.new_prompt()
    world.found(own, prompt)
    check_pair(world, own, other, prompt)
    # Pages that nobody uses go to the host tier, the oldest first; it holds as many as the pool.
    for _ in range(world.pages * 16 // FLOOD):
        world.ask(own, tokens(next(world.seeds), FLOOD))
        if world.server.engine_stats()["pages_host"] >= 20:
            break
    assert world.server.engine_stats()["pages_host"] > 0
    assert world.found(world.tenant()[1], prompt) == 0
    assert world.found(own, prompt) >= PROMPT // 16 * 16  # from wherever it lay
    check_pair(world, own, world.tenant()[1], prompt)
    check_pairs(world)
    check_published(world)


def test_after_a_revocation(world):
    path, text, (named_id, named), group = check_published(world)
    late = world.tenant(group=group)[1]
    changed = world.admin.patch(path, json={"tenants": [], "groups": [group]})
    assert changed.status_code == 200, changed.text
    # What it found before was never its own: another question finds nothing.
    assert world.found(named, text + "\n\nAnd who?") == 0
    assert world.found(late, text + "\n\nAnd who?") >= 16
    assert world.admin.delete(path).status_code in (200, 204)
    for key in (world.tenant()[1], world.tenant(group=group)[1]):
        assert world.found(key, text + "\n\nAnd where?") == 0
    check_pairs(world)


def test_after_a_restart(world):
    """Nothing outlives the engine but what is published, which is computed again."""
    own = world.tenant()[1]
    prompt = world.new_prompt()
    world.found(own, prompt)
    assert world.found(own, prompt) >= PROMPT // 16 * 16
    _, text, _, group = check_published(world)
    stranger = world.tenant()[1]
    before = world.server.child("engine")
    os.kill(before, signal.SIGKILL)
    wait_until(
        lambda: world.server.child("engine") not in (None, before), 300, "a new engine"
    )
    member = world.tenant(group=group)[1]
    ask = text + "\n\nWhat now?"

    def answers():  # until the edge has seen the new one, requests may be refused
        with world.server.http(member) as client:
            body = {"model": MODEL_NAME, "prompt": "Hello", "max_tokens": 1}
            ready = client.get("/ready").status_code
            return (ready, client.post("/v1/completions", json=body).status_code) == (200, 200)

    wait_until(answers, 300, "an answer of the new engine")
    wait_until(
        lambda: world.found(world.tenant(group=group)[1], ask) >= 16, 300, "the published prompt"
    )
    assert world.found(stranger, ask) == 0
    assert world.found(own, prompt) == 0
    check_pair(world, own, world.tenant()[1], prompt)
    check_pairs(world)


def test_canaries_stay_where_they_are(world):
    """A secret in prompts (whole, repeated, cut off) is in no log, metric or answer of another."""
    own = world.tenant()[1]
    secret = "".join(random.Random(99).choices("bcdfghjklmnpqrstvwxz", k=14))
    for number in range(2):
        for _ in range(2):
            world.ask(own, f"Remember {number}: {secret}. " * 4)
        with world.server.http(own) as client:
            body = {"model": MODEL_NAME, "prompt": f"Tell {number}: {secret}", "max_tokens": 64,
                    "stream": True}  # fmt: skip
            with client.stream("POST", "/v1/completions", json=body) as stream:
                next(stream.iter_lines())
    world.flood(own)
    shown = ""
    for start in ("Remember 0:", "Remember 1: " + secret[:3], "Tell 1:"):
        answer = world.ask(world.tenant()[1], start, max_tokens=48)
        assert (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0) == 0
        shown += answer["choices"][0]["text"]
    shown += world.admin.get("/metrics").text + world.admin.get("/admin/v1/audit").text
    for path in ("/metrics", "/internal/v1/stats", "/internal/v1/requests"):
        shown += world.server.engine("GET", path)[1].decode()
    assert secret not in shown
    assert secret not in world.server.log_text()
