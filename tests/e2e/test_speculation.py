"""With --speculation lookup every answer is the one without: text, log-probabilities, ends, usage."""

import pytest

from conftest import MODEL, MODEL_NAME, Server, wait_until

pytestmark = pytest.mark.long

PATH = "/v1/completions"
# A text that repeats itself is gone on with by itself: guesses are right.
COPY = "The ledger names every ship, its cargo and the day on which it came and left. " * 8
KINDS = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.7, "seed": 3},
    "penalties": {"temperature": 0, "frequency_penalty": 0.4, "presence_penalty": 0.2},
    "stopped": {"temperature": 0, "stop": ["cargo and the"]},
    "two": {"temperature": 0.5, "seed": 4, "n": 2},
    "bias": {"temperature": 0, "logit_bias": {"32": 20}},
}


@pytest.fixture(scope="module")
def guessing(tmp_path_factory):
    guessing = Server(tmp_path_factory.mktemp("guessing") / "data", "--speculation", "lookup")
    guessing.key = guessing.tenant("acme")[1]
    yield guessing
    assert guessing.stop() == 0, guessing.log_text()[-4000:]


def ask(server, key, kind):
    body = {"model": MODEL_NAME, "prompt": COPY, "max_tokens": 48, "ignore_eos": True, "logprobs": 3, **KINDS[kind]}
    with server.http(key) as http:
        answer = http.post(PATH, json=body, headers={"x-banyan-explain": "1"})
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    usage = answer["usage"]
    return (answer["choices"], usage["completion_tokens"]), usage["banyan"]["drafts"]


def guesses(server, result):
    return server.metric(f'banyan_draft_tokens_total{{result="{result}"}}')


def test_the_same_answers(server, key, guessing):
    for kind in KINDS:
        told, drafts = ask(guessing, guessing.key, kind)
        alone, none = ask(server, key, kind)
        assert told == alone, kind
        assert none == {"accepted": 0, "rejected": 0}
        assert drafts["accepted"] < told[1]
    wait_until(lambda: guesses(guessing, "accepted") > 0, what="guesses that were right")
    wait_until(lambda: guesses(guessing, "rejected") > 0, what="guesses that were wrong")


def test_tokens_are_counted_once(guessing):
    (choices, tokens), drafts = ask(guessing, guessing.key, "greedy")
    assert 0 < drafts["accepted"] < tokens
    assert tokens == 48 == len(choices[0]["logprobs"]["tokens"])
    rows = guessing.ledger("select completion_tokens from requests")
    assert (48,) in rows and max(rows)[0] <= 96  # of two choices


def test_a_cut_stream_ends_at_once(guessing):
    body = {"model": MODEL_NAME, "prompt": COPY, "max_tokens": 1500, "stream": True, "ignore_eos": True}
    with guessing.http(guessing.key) as http, http.stream("POST", PATH, json=body) as stream:
        next(stream.iter_lines())
    wait_until(lambda: guessing.engine_stats()["sequences_running"] == 0, what="the end of a cut stream")


def test_by_rejection(server, key, tmp_path):
    judging = Server(tmp_path / "data", "--speculation", "lookup", "--speculation-accept", "rejection")
    its_key = judging.tenant("acme")[1]
    told, drafts = ask(judging, its_key, "greedy")  # nothing is left to chance: the same text
    assert told == ask(server, key, "greedy")[0]
    assert drafts["accepted"] > 0
    (choices, tokens), _ = ask(judging, its_key, "sampled")  # another text, as long
    assert tokens == 48 == len(choices[0]["logprobs"]["tokens"])
    assert judging.stop() == 0, judging.log_text()[-4000:]


def test_a_model_as_its_own_draft(server, key, tmp_path):
    """Whatever it guesses is what it draws: every guess is right, and the text is the one without.
    Those behind a stop string were for nothing."""
    own = Server(tmp_path / "data", "--speculation", "model", "--draft-model", str(MODEL))
    its_key = own.tenant("acme")[1]
    for kind in KINDS:
        told, drafts = ask(own, its_key, kind)
        assert told == ask(server, key, kind)[0], kind
        assert drafts["rejected"] == 0 or kind == "stopped", kind
    assert own.stop() == 0, own.log_text()[-4000:]


def test_its_own_first_layers(server, key, tmp_path):
    """This model was not trained for it: guesses are mostly wrong, and nobody sees them."""
    early = Server(tmp_path / "data", "--speculation", "exit", "--draft-layers", "24")
    its_key = early.tenant("acme")[1]
    for kind in KINDS:
        told, _ = ask(early, its_key, kind)
        assert told == ask(server, key, kind)[0], kind
    wait_until(lambda: guesses(early, "rejected") > 0, what="guesses that were wrong")
    assert early.stop() == 0, early.log_text()[-4000:]
