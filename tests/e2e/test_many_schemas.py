"""Answers of the small model under many schemas: each that ended of itself is valid.

By default a few answers under the schemas of tests/parity/schemas; with --all 500 under 50 schemas
of the sample that BANYAN_SCHEMAS names, also by the Python package jsonschema where it is at hand.
"""

import json
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

import jsonschema_rs
import pytest

from conftest import MODEL_NAME, ROOT

SCHEMAS = pathlib.Path(os.environ.get("BANYAN_SCHEMAS", ROOT.parent / "shared" / "schemas"))
SAMPLE = SCHEMAS / "maskbench_sample.jsonl"
CORPUS = ROOT / "tests" / "parity" / "schemas" / "corpus.jsonl"
CHOICES = 5
TOKENS = 250
# Requests for one schema, with other temperatures and seeds, until enough of its answers have ended.
TRIES = 6


def wrong_with(schema, text):
    """None, or what is wrong with an answer."""
    try:
        data = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    if not jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(data):
        return "jsonschema_rs says that it is invalid"
    try:
        import jsonschema
    except ImportError:
        return None
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    error = next(kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(data), None)
    return error and f"jsonschema: {error.message[:200]}"


class Asker:
    """Collects answers under schemas, and what is wrong with them."""

    def __init__(self, server, key, each):
        self.http = server.http(key)
        self.each = each
        self.refused = []
        self.endless = []
        self.cut = 0
        self.counts = {}
        self.wrong = []

    def ask(self, name, schema):
        """Up to `each` answers that ended; True if there are so many."""
        ended = []
        for seed in range(TRIES):
            choices = min(CHOICES, self.each - len(ended))
            answer = self.http.post(
                "/v1/chat/completions",
                json={
                    "model": MODEL_NAME, "n": choices, "seed": seed, "temperature": 0.3 + 0.2 * seed,
                    "max_tokens": TOKENS,
                    "messages": [{"role": "user", "content": "Write one short example of the data, as JSON."}],
                    "response_format": {"type": "json_schema", "json_schema": {"name": "data", "schema": schema}},
                },
            )  # fmt: skip
            if answer.status_code == 400 and answer.json()["error"]["code"] == "unsupported_schema":
                self.refused.append(name)
                return False
            assert answer.status_code == 200, (name, answer.text)
            for choice in answer.json()["choices"]:
                if choice["finish_reason"] == "stop":
                    ended.append(choice["message"]["content"])
                else:
                    assert choice["finish_reason"] == "length", choice
                    self.cut += 1
            if len(ended) == self.each:
                break
            if seed >= 2 and not ended:
                break
        for text in ended:
            fault = wrong_with(schema, text)
            if fault:
                self.wrong.append(f"{name}: {fault}: {text[:300]}")
        if len(ended) < self.each:
            self.endless.append(name)
        self.counts[name] = len(ended)
        return len(ended) == self.each

    def report(self, capsys):
        ended = sum(self.counts.values())
        with capsys.disabled():
            print(
                f"\n{ended - len(self.wrong)} of {ended} answers that ended are valid, under "
                f"{sum(n == self.each for n in self.counts.values())} schemas with {self.each} each; "
                f"{self.cut} were cut by length, {len(self.endless)} schemas had too few that ended, "
                f"{len(self.refused)} were refused"
            )
        assert not self.wrong, "\n".join(self.wrong)
        return ended


def read(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line.strip()]


@pytest.mark.long
def test_the_corpus(server, key, capsys):
    asker = Asker(server, key, 2)
    schemas = [case["schema"] for case in read(CORPUS)]
    with asker.http, ThreadPoolExecutor(4) as pool:
        list(pool.map(asker.ask, range(12), schemas[:12]))
    assert asker.report(capsys) >= 20


@pytest.mark.all
@pytest.mark.skipif(not SAMPLE.exists(), reason="../shared/schemas is not at hand (BANYAN_SCHEMAS)")
def test_the_sample(server, key, capsys):
    asker = Asker(server, key, 10)
    cases = read(SAMPLE)
    # A step that has no factor in common with 713 visits all, those of all origins early.
    order = [cases[i * 100 % len(cases)] for i in range(len(cases))]
    done = 0
    with asker.http, ThreadPoolExecutor(4) as pool:
        while done < 50 and order:
            some, order = order[: 50 - done], order[50 - done :]
            done += sum(pool.map(lambda case: asker.ask(case["id"], case["schema"]), some))
    ended = asker.report(capsys)
    assert done == 50 and ended >= 500
