"""Several foreign servers behind one edge: models by name, the least busy of two with one model, one that
dies, and one that comes back."""

import pathlib
import re
import shlex

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
        next(held.iter_lines())
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
