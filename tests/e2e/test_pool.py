"""Several foreign servers behind one edge: models by name, the least busy of two with one model, one that
dies, hangs or fails, and one that comes back, as itself or as another."""

import contextlib
import pathlib
import re
import shlex
import threading

import httpx
import pytest

from conftest import Server, wait_until
from test_upstream_kinds import Player, ask, row_of, stream, whole

GOOD = stream("vllm_chat")
FIRST = b"\n\n".join(GOOD.split(b"\n\n")[:3]) + b"\n\n"


def named(name):
    player = Player("vllm")
    player.models["data"][0]["id"] = name
    player.answer = whole(GOOD)
    return player


def start(folder, players, *options):
    upstreams = [word for player in players for word in ("--upstream", player.url)]
    return Server(folder / "data", *upstreams, *options, model=None)


def stop(server, players):
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]
    for player in players:
        player.stop()


def commands_of_operations():
    """The words of each command of the section on several servers."""
    text = (pathlib.Path(__file__).parents[2] / "deploy/OPERATIONS.md").read_text()
    section = re.search(r"### Several servers\n(.*?)\n## ", text, re.S).group(1)
    block = re.search(r"```console\n(.*?)```", section, re.S).group(1)
    commands = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]
    assert len(commands) == 2 and all(words[:2] == ["banyan", "serve"] for words in commands)
    return [words[2:] for words in commands]


@pytest.mark.parametrize("words", commands_of_operations(), ids=["addresses", "members"])
def test_the_commands_of_operations_start(tmp_path, words):
    players = [named("one"), named("two")]
    (tmp_path / "key").write_text("secret\n")
    here = {"http://127.0.0.1:8000": players[0].url, "http://127.0.0.1:8001": players[1].url,
            "/etc/banyan/key": str(tmp_path / "key")}  # fmt: skip
    for name, ours in here.items():
        words = [word.replace(name, ours) for word in words]
    server = Server(tmp_path / "data", *words, model=None)
    tenant, key, _ = server.tenant("page")
    with server.http(key) as http:
        names = [model["id"] for model in http.get("/v1/models").json()["data"]]
        assert names == (["small"] if "model=small" in words[1] else ["one", "two"])
        for name in names * 4:
            done = http.post("/v1/chat/completions", json={"model": name, "messages": [{"role": "user", "content": "x"}]})
            assert done.status_code == 200, done.text
            assert done.json()["model"] == name
    for player, name in zip(players, ("one", "two")):  # each is asked for the model as it calls it
        assert {body["model"] for _, body in player.bodies} == {name}
    stop(server, players)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    players = [named("small"), named("large")]
    server = start(tmp_path_factory.mktemp("two"), players)
    yield server, players
    stop(server, players)


def test_models_by_name(two):
    server, (small, large) = two
    tenant, key, _ = server.tenant("names")
    with server.http(key) as http:
        listed = http.get("/v1/models").json()["data"]
        assert [m["id"] for m in listed] == ["small", "large"]
        assert http.get("/v1/models/large").json()["max_model_len"] == 2048
        assert http.get("/v1/models/none").status_code == 404
    for player, other in ((small, large), (large, small)):
        name = player.models["data"][0]["id"]
        before = len(player.bodies), len(other.bodies)
        done = ask(server, key, player)
        assert done.status_code == 200, done.text
        assert done.json()["model"] == name
        assert (len(player.bodies), len(other.bodies)) == (before[0] + 1, before[1])
        assert player.bodies[-1][1]["model"] == name
    sql = "select model, prompt_tokens, completion_tokens from requests where tenant_id = ? order by id"
    wait_until(lambda: len(server.ledger(sql, tenant)) == 2, 30, "two rows")
    assert server.ledger(sql, tenant) == [("small", 9, 4), ("large", 9, 4)]
    with server.http(key) as http:
        for name in ("none", ""):
            for path, prompt in (("chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                                 ("completions", {"prompt": "x"}), ("generate", {"prompt": "x"})):  # fmt: skip
                done = http.post(f"/v1/{path}", json={"model": name, **prompt})
                assert done.status_code == 404 and done.json()["error"]["code"] == "model_not_found", done.text


def test_a_model_of_one_tenant_is_not_anothers(two):
    """A permission is for a model, whichever server has it."""
    server, (small, large) = two
    _, key, _ = server.tenant("one-model", models=["large"])
    assert ask(server, key, large).status_code == 200
    before = len(small.bodies)
    assert ask(server, key, small).status_code == 403
    assert len(small.bodies) == before
    with server.http(key) as http:
        assert [m["id"] for m in http.get("/v1/models").json()["data"]] == ["large"]


def test_a_busy_model_does_not_show_in_anothers_time(two):
    """Tenant A holds a stream at one server. B's request at the other is answered, and has B's row alone."""
    server, (small, large) = two
    _, held_key, _ = server.tenant("holds")
    other, key, _ = server.tenant("beside")
    small.answer, small.keeps_open = whole(FIRST), True
    with server.http(held_key) as http, http.stream("POST", "/v1/chat/completions", json={
        "model": "small", "stream": True, "messages": [{"role": "user", "content": "x"}]}) as held:  # fmt: skip
        lines = held.iter_lines()
        next(lines)
        assert ask(server, key, large).status_code == 200
    small.answer, small.keeps_open = whole(GOOD), False
    assert row_of(server, other) == (9, 0, 4, "stop", 0)


@pytest.fixture
def twins(tmp_path):
    players = [named("same"), named("same")]
    server = start(tmp_path, players)
    yield server, players
    stop(server, players)


def test_the_least_busy_of_two_and_a_retry(twins):
    server, players = twins
    tenant, key, _ = server.tenant("twins")
    for _ in range(8):
        assert ask(server, key, players[0]).status_code == 200
    assert sorted(len(p.bodies) for p in players) == [4, 4]  # equals take turns
    # One is cut before its first byte: every request is answered by the other, once.
    players[0].answer = b""
    for _ in range(3):  # more retries at once are not allowed
        assert ask(server, key, players[0]).status_code == 200
    sql = "select finish, count(*) from requests where tenant_id = ? group by 1"
    wait_until(lambda: server.ledger(sql, tenant) == [("stop", 11)], 30, "eleven rows")
    wait_until(lambda: server.metric("banyan_pool_retries_total") >= 1, 20, "retries")
    # After a token nothing is sent again: the client hears of it.
    players[0].answer = players[1].answer = whole(FIRST)
    before = sum(len(p.bodies) for p in players)
    done = ask(server, key, players[0], stream=True)
    assert '"error"' in done.text and "[DONE]" not in done.text
    assert sum(len(p.bodies) for p in players) == before + 1


def test_whose_fault_a_refusal_is(twins):
    """What a request alone can bring about puts no server aside. Five of a server's own failures in a row do."""
    server, players = twins
    _, key, _ = server.tenant("refused")
    name = f"127.0.0.1:{players[0].port}"
    for code in (409, 413, 415, 431):
        players[0].answer = whole(b"{}", code=code)
        codes = [ask(server, key, players[0]).status_code for _ in range(4)]
        assert sorted(codes) == [200, 200, 400, 400]
    players[0].answer = whole(b"{}", code=500)
    for _ in range(10):
        ask(server, key, players[0])
    assert len(players[0].bodies) == 8 + 5
    wait_until(lambda: server.metric(f'banyan_pool_engine_failures_total{{engine="{name}"}}') == 5, 20, "five failures")
    players[0].answer = whole(GOOD)  # aside for a second, then three trials
    wait_until(lambda: ask(server, key, players[0]).status_code == 200 and len(players[0].bodies) > 8 + 5, 20, "a trial")


def test_one_dies_and_comes_back(twins):
    server, players = twins
    _, key, _ = server.tenant("dies")
    players[0].stop()
    for _ in range(6):
        assert ask(server, key, players[1]).status_code == 200
    name = f"127.0.0.1:{players[0].port}"
    wait_until(lambda: server.metric(f'banyan_pool_engine_up{{engine="{name}"}}') == 0, 20, "a server that is out")
    players[0].start(players[0].port)
    wait_until(lambda: server.metric(f'banyan_pool_engine_up{{engine="{name}"}}') == 1, 20, "a server that is back")
    before = len(players[0].bodies)
    for _ in range(4):
        assert ask(server, key, players[1]).status_code == 200
    assert len(players[0].bodies) > before


def is_up(server, player):
    return server.metric(f'banyan_pool_engine_up{{engine="127.0.0.1:{player.port}"}}') == 1


class Hanging(Player):
    """Takes connections and says nothing while it is paused, as a process that was stopped."""

    def __init__(self):
        self.goes = threading.Event()
        self.goes.set()
        super().__init__("vllm")
        self.answer = whole(GOOD)

    def serve_one(self, client):
        self.goes.wait(60)
        super().serve_one(client)


def test_a_server_that_hangs(tmp_path):
    """Clients that give up say nothing good of it: it gets no more requests, until it answers."""
    players = [Hanging(), Hanging()]
    server = start(tmp_path, players)
    _, key, _ = server.tenant("hangs")
    assert ask(server, key, players[0]).status_code == 200
    players[0].goes.clear()
    body = {"model": players[0].models["data"][0]["id"], "messages": [{"role": "user", "content": "Hi"}]}

    def is_out():
        try:
            with server.http(key) as http:
                http.post("/v1/chat/completions", json=body, timeout=0.3)
        except httpx.TimeoutException:
            pass
        return not is_up(server, players[0])

    wait_until(is_out, 30, "a server that is out")
    for _ in range(4):
        assert ask(server, key, players[1]).status_code == 200
    assert not is_up(server, players[0])
    players[0].goes.set()
    wait_until(lambda: is_up(server, players[0]), 30, "a server that is back")
    stop(server, players)


def test_a_server_that_becomes_another(twins):
    """Its answers would be sold as those of the model that it had."""
    server, players = twins
    _, key, _ = server.tenant("another")
    for _ in range(2):
        assert ask(server, key, players[1]).status_code == 200
    players[0].models["data"][0]["id"] = "other"
    wait_until(lambda: not is_up(server, players[0]), 30, "a server that is out")
    before = len(players[0].bodies)
    for _ in range(4):
        assert ask(server, key, players[1]).status_code == 200
    assert len(players[0].bodies) == before
    assert "pool_engine_mismatched" in server.log_text()
    players[0].models["data"].append({**players[0].models["data"][0], "id": "same"})
    wait_until(lambda: is_up(server, players[0]), 30, "a server that is back")


def test_trials_do_not_wait_for_old_answers(twins):
    """A server that failed is tried while a long answer from before still runs there."""
    server, players = twins
    _, key, _ = server.tenant("trials")
    _, held_key, _ = server.tenant("holds")
    body = {"model": "same", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with contextlib.ExitStack() as held:
        for player in players:
            player.answer, player.keeps_open = whole(FIRST), True
        http = held.enter_context(server.http(held_key))
        lines = [held.enter_context(http.stream("POST", "/v1/chat/completions", json=body)).iter_lines() for _ in players]
        for one in lines:  # they are kept: a stream ends with its iterator
            next(one)
        assert [len(p.bodies) for p in players] == [1, 1]
        for player in players:
            player.answer, player.keeps_open = whole(GOOD), False
        players[0].answer = whole(b"{}", "content-type: application/json", code=500)

        def is_out():
            ask(server, key, players[0])
            return not is_up(server, players[0])

        wait_until(is_out, 20, "a server that is ejected")
        players[0].answer = whole(GOOD)
        wait_until(lambda: ask(server, key, players[0]).status_code == 200 and is_up(server, players[0]), 20, "trials")
        held_at = [f'banyan_pool_engine_requests{{engine="127.0.0.1:{p.port}"}}' for p in players]
        wait_until(lambda: [server.metric(name) for name in held_at] == [1, 1], 20, "two streams that are still held")


def test_servers_that_are_sick_at_the_start(tmp_path):
    """A name without an address, a server that names no model and one that is no server of models do not keep
    the fourth from serving; one that gets well joins."""
    sick, odd, good = named("sick"), named("odd"), named("good")
    sick.models, odd.models = {"data": []}, ["what"]
    server = start(tmp_path, [sick, odd, good], "--upstream", f"http://{'x' * 64}.invalid:9")
    _, key, _ = server.tenant("well")
    assert ask(server, key, good).status_code == 200
    assert [word in server.log_text() for word in ("pool_engine_unknown", "pool_engine_away")] == [True, True]
    sick.models = {"data": [{**good.models["data"][0], "id": "sick"}]}
    wait_until(lambda: ask(server, key, sick).status_code == 200, 20, "one that got well")
    stop(server, [sick, odd, good])


def test_a_server_that_is_away_at_the_start(tmp_path):
    late, there = named("late"), named("there")
    late.stop()
    server = start(tmp_path, [late, there])
    _, key, _ = server.tenant("early")
    assert ask(server, key, there).status_code == 200
    assert ask(server, key, late).status_code == 404
    only, only_key, _ = server.tenant("only", models=["there"])
    late.start(late.port)

    def listed():
        with server.http(key) as http:
            return {m["id"] for m in http.get("/v1/models").json()["data"]}

    wait_until(lambda: listed() == {"late", "there"}, 30, "the late server's model")
    assert ask(server, key, late).status_code == 200
    # A body without a model gets the model whose permission and price were looked at, though the
    # server of another one is first in the list by now.
    before = len(late.bodies), len(there.bodies)
    for model in ({}, {"model": None}):
        with server.http(only_key) as http:
            done = http.post("/v1/generate", json={"prompt": "x", "max_tokens": 4, **model})
        assert done.status_code == 200, done.text
    assert (len(late.bodies), len(there.bodies)) == (before[0], before[1] + 2)
    sql = "select model, count(*) from requests where tenant_id = ? group by 1"
    wait_until(lambda: server.ledger(sql, only) == [("there", 2)], 30, "two rows")
    stop(server, [late, there])
