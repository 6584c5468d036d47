"""With --engines 2 two engines serve behind one edge: the same answers, each conversation where its pages
are, published prompts in both, every row counted once, one queue and one drain."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import MODEL_NAME, Server, wait_until
from test_shared_prompts import Prompt

pytestmark = pytest.mark.long

PATH = "/v1/completions"
ASKED = 16


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    two = Server(tmp_path_factory.mktemp("two") / "data", "--engines", "2", "--kv-memory", "256M")
    two.key = two.tenant("acme")[1]
    yield two
    assert two.stop() == 0, two.log_text()[-4000:]


def ask(server, key, text, tokens=8):
    body = {"model": MODEL_NAME, "prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "logprobs": 2}
    with server.http(key) as http:
        answer = http.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def generated(server):
    """Tokens of each engine. An engine that has generated none has no such series yet."""
    with server.admin() as admin:
        text = admin.get("/metrics").text
    found = dict(re.findall(r'^banyan_engine_tokens_total\{engine="(\d)",kind="generated"\} (\S+)$', text, re.M))
    return [float(found.get(str(i), 0)) for i in (0, 1)]


def test_the_same_answers_from_both(two, server, key):
    tenant, own_key, _ = two.tenant("same-answers")
    before = generated(two)
    prompts = [f"Page {i} of the ledger begins with the name of a ship and" for i in range(ASKED)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda text: ask(two, own_key, text), prompts))
    for text, answer in zip(prompts[:4], answers):
        assert answer["choices"] == ask(server, key, text)["choices"]
    wait_until(lambda: sum(generated(two)) - sum(before) == 8 * ASKED, what="the figures of both engines")
    more = [after - b for after, b in zip(generated(two), before)]
    assert min(more) > 0, more
    rows = two.ledger("select completion_tokens from requests where tenant_id = ?", tenant)
    assert rows == [(8,)] * ASKED


def test_a_conversation_stays_with_its_pages(two):
    for i in range(6):
        text = f"Conversation {i}. " + "The harbour keeps a book of what comes and goes. " * 30
        first = ask(two, two.key, text)["usage"]
        again = ask(two, two.key, text + " And then?")["usage"]
        assert first["prompt_tokens_details"]["cached_tokens"] < 32  # at most the words all begin with
        assert again["prompt_tokens_details"]["cached_tokens"] >= first["prompt_tokens"] - 32


def test_published_prompts_are_in_both(two):
    tenant, key = two.tenant("reader")[:2]
    prompt = Prompt(two, "both", tenants=[tenant])
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda _: prompt.has(key), range(8)))
    pages = prompt.look()["pages"]
    assert pages > 0
    for i in (0, 1):
        name = f'banyan_kv_pages{{engine="{i}",state="pinned"}}'
        wait_until(lambda name=name: two.metric(name) == pages / 2, what=f"half of {pages} pages in each")


def test_cut_streams_end_in_both(two):
    body = {"model": MODEL_NAME, "prompt": "Count:", "max_tokens": 1500, "stream": True, "ignore_eos": True}

    def cut(_):
        with two.http(two.key) as http, http.stream("POST", PATH, json=body) as stream:
            next(stream.iter_lines())

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(cut, range(6)))
    wait_until(lambda: two.engine_stats()["requests"] == 0, what="the end of cut streams")
