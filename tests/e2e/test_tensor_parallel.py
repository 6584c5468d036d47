"""--tensor-parallel 3: SmolLM2's three KV heads in three processes, with one's text; two such engines side by side."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BINARY, MODEL, MODEL_NAME, USERS, Server, wait_until

pytestmark = pytest.mark.slow  # the real model, whose KV heads are three

RANKS = 3
PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a miller who had three sons. " * 12,  # several pages, found again
    "def fibonacci(n):\n",
)
TOKENS = 32
# Sums in another order may round an input of 8 bits to its neighbour, so much of a logit.
TOLERANCE = 0.25


def served(*options):
    folder = pathlib.Path(tempfile.mkdtemp())  # which the halves' users can reach
    folder.chmod(0o755)
    server = Server(folder / "data", "--tensor-parallel", RANKS, "--sandbox", "required", *USERS, *options)
    server.key = server.tenant("acme")[1]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def split():
    yield from served()


@pytest.fixture(scope="module")
def two():
    yield from served("--engines", "2", "--kv-memory", "256M", "--kv-host-memory", "0")


def ranks(server):
    """Pids of the engine's own children, by name."""
    out = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(server.child("engine"))], capture_output=True, text=True
    ).stdout
    return {name: int(pid) for pid, name in (line.split() for line in out.splitlines())}


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(") ")[1][0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"  # an orphan stays one where the first process of a container waits for nobody


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T", what="its stop")


def have_ended(pids):
    return all(state(pid) == "Z" for pid in pids)


def ask(server, key, prompt, **more):
    body = {"model": MODEL_NAME, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "logprobs": 2,
            "ignore_eos": True, **more}  # fmt: skip
    with server.http(key) as http:
        answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["logprobs"]


def code(server):
    with server.http(server.key) as http:
        body = {"model": MODEL_NAME, "prompt": "a", "max_tokens": 2}
        return http.post("/v1/completions", json=body).status_code


def test_the_text_of_one_process(server, key, split):
    same = 0
    for prompt in PROMPTS:
        alone = ask(server, key, prompt)
        told = ask(split, split.key, prompt)
        for i in range(TOKENS):
            if alone["tokens"][i] != told["tokens"][i]:
                best = sorted(alone["top_logprobs"][i].values())
                assert best[-1] - best[-2] < 2 * TOLERANCE, (prompt, i, alone["top_logprobs"][i])
                break
            assert abs(alone["token_logprobs"][i] - told["token_logprobs"][i]) < TOLERANCE
            same += 1
        assert ask(split, split.key, prompt) == told  # from the cache, bit by bit
    assert same >= TOKENS * len(PROMPTS) // 2, same


def assert_may_nothing(server):
    for pid in ranks(server).values():
        status = open(f"/proc/{pid}/status").read()
        assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
        if os.geteuid() == 0:
            assert status.split("Uid:\t")[1].split()[0] != "0"
            files = os.listdir(f"/proc/{pid}/fd")
            links = [os.readlink(f"/proc/{pid}/fd/{f}") for f in files]
            assert sum(link.startswith("socket:") for link in links) == 1, links  # rank 0's
            assert not any("/engine" in link for link in links), links  # its state and its lock


def test_three_processes_that_may_nothing(split):
    assert sorted(ranks(split)) == ["rank1", "rank2"]
    wait_until(lambda: split.metric("banyan_tensor_parallel_ranks") == RANKS, what="the engine's metrics")
    assert_may_nothing(split)


def test_memory_is_of_all_ranks(server, split):
    """The same --kv-memory holds as many pages, each a third as large in each process."""
    assert split.engine_stats()["pages_total"] == server.engine_stats()["pages_total"]


RANKS_OF_TWO = ["engine0.rank1", "engine0.rank2", "engine1.rank1", "engine1.rank2"]


def test_two_engines_with_ranks_of_their_own(split, two):
    """The bits of one such engine, from both; no rank holds a socket of the other engine's."""
    with ThreadPoolExecutor(len(PROMPTS)) as threads:
        told = list(threads.map(lambda prompt: ask(two, two.key, prompt), PROMPTS))
    assert told == [ask(split, split.key, prompt) for prompt in PROMPTS]
    assert sorted(ranks(two)) == RANKS_OF_TWO
    for i in (0, 1):
        name = f'banyan_engine_tokens_total{{engine="{i}",kind="generated"}}'
        wait_until(lambda name=name: code(two) == 200 and two.metric(name) > 0, what=f"work of engine {i}")
        assert two.metric(f'banyan_tensor_parallel_ranks{{engine="{i}"}}') == RANKS
    assert_may_nothing(two)


def test_a_rank_of_the_second_engine_that_dies(two):
    old, children = two.child("engine"), ranks(two)
    os.kill(children["engine1.rank2"], signal.SIGKILL)
    wait_until(lambda: two.child("engine") not in (None, old), what="another process")
    wait_until(lambda: sorted(ranks(two)) == RANKS_OF_TWO, what="all ranks anew")
    wait_until(lambda: have_ended(children.values()), what="the old ranks' end")
    assert '"event":"rank_ended","engine":1' in two.log_text()
    wait_until(lambda: code(two) == 200, what="service by itself")


def test_a_rank_that_dies(split):
    old = split.child("engine")
    os.kill(ranks(split)["rank2"], signal.SIGKILL)

    assert code(split) in (200, 502, 503)  # told, or sent again to the engine that comes next
    wait_until(lambda: code(split) == 200, what="service by itself")
    assert split.child("engine") != old
    assert sorted(ranks(split)) == ["rank1", "rank2"]


def test_a_rank_that_dies_while_nobody_asks(split):
    """No request has to find out."""
    old = split.child("engine")
    os.kill(ranks(split)["rank1"], signal.SIGKILL)
    wait_until(lambda: split.child("engine") not in (None, old), what="another engine")
    wait_until(lambda: sorted(ranks(split)) == ["rank1", "rank2"], what="its ranks")


def test_a_rank_that_stands_still(split):
    """Half a minute later it is as dead: an error, or the answer of the engine that comes next."""
    wait_until(lambda: code(split) == 200, what="the engine that came last")
    old, children = split.child("engine"), ranks(split)
    stop(children["rank2"])
    assert code(split) in (200, 502, 503)
    wait_until(lambda: split.child("engine") not in (None, old), what="another engine")
    wait_until(lambda: have_ended(children.values()), what="the old ranks' end")
    wait_until(lambda: sorted(ranks(split)) == ["rank1", "rank2"], what="its ranks")


def test_heads_that_do_not_divide(tmp_path):
    out = subprocess.run(
        [BINARY, "serve", "--model", MODEL, "--data-dir", tmp_path / "d", "--listen", "127.0.0.1:0",
         "--admin-listen", "127.0.0.1:0", "--tensor-parallel", "2"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert out.returncode == 1
    assert "tensor parallel: 3 key-value heads do not divide by 2 ranks" in out.stderr, out.stderr


def test_nothing_outlives_the_engine(split):
    """Not even who is stopped, and whom no socket's end can reach."""
    wait_until(lambda: code(split) == 200, what="the engine that came last")
    children = ranks(split)
    stop(children["rank1"])
    os.kill(split.child("engine"), signal.SIGKILL)
    wait_until(lambda: have_ended(children.values()), what="the ranks' end")
