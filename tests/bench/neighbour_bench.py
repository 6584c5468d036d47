#!/usr/bin/env python3
"""neighbour_bench: one tenant's stream beside another tenant's many, measured through the server.

usage: tests/bench/neighbour_bench.py [--only NAME[,NAME]] [--binary PATH] [--model FILE]
                                      [--seconds N] [--rounds N] [--options "…"]

One JSON line for each case and round. The heavy tenant keeps its requests outstanding; meanwhile the
neighbour streams answers of 48 tokens to prompts of 32, one after the other. A line has the
neighbour's tokens a second after its first token (median of its streams), its time to the first
token (p99), and the tokens a second of all.

  alone       nobody else
  ordinary    64 sequences: 8 requests of n = 8, temperature 1
  top_k       the same with top_k 49,000 and top_p 0.999999
  filters     the same with top_k 10,000, top_p 0.3 and temperature 2, the most expensive known
  fields      the same with 300 biases, penalties, 20 log-probabilities and four stop strings of 256
              bytes
  ordinary64  64 sequences of 32 to 432 tokens, a request each
  long64      64 sequences of 150 to 1,750 tokens, a request each
  ordinary128, long128   128 of them
  old64, old128   long64 and long128 with --shared-step-ms 0: all decodes in every step

Cases of a round share a server where their options are the same. At the end comes a line for each
case that has as many ordinary requests beside it: medians over the rounds of what the neighbour got
beside the case ÷ what it got beside those ordinary requests of the same round. Bounds: at least 0.8
for the tokens a second, at most 1.5 for the time to the first token. It exits with 1 when a ratio
misses its bound. Times need a quiet machine.
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time

from prefix_bench import ROOT, Bench, conftest
from priority_bench import Client, ms, p99

ANSWER = 48
MANY = {"n": 8, "temperature": 1, "max_tokens": 400, "prompt_tokens": 32}
LONG = {"n": 1, "temperature": 0, "max_tokens": 1600, "prompt_tokens": 150}
SHORT = {"n": 1, "temperature": 1, "max_tokens": 400, "prompt_tokens": 32}
FIELDS = {
    "logprobs": 5, "presence_penalty": 0.5, "frequency_penalty": 0.1,
    "logit_bias": {str(i): -0.5 for i in range(100, 400)},
    "stop": [chr(97 + i) * 255 + "!" for i in range(4)],
}  # fmt: skip
MANY_CONNECTIONS = ("--connections-per-address", "0", "--connects-per-address-s", "0")
CASES = {
    "alone": (0, {}, ()),
    "ordinary": (8, MANY, ()),
    "top_k": (8, {**MANY, "top_k": 49000, "top_p": 0.999999}, ()),
    "filters": (8, {**MANY, "top_k": 10000, "top_p": 0.3, "temperature": 2}, ()),
    "fields": (8, {**MANY, **FIELDS}, ()),
    "ordinary64": (64, SHORT, ()),
    "long64": (64, LONG, ()),
    "ordinary128": (128, SHORT, ()),
    "long128": (128, LONG, ()),
    "old64": (64, LONG, ("--shared-step-ms", "0")),
    "old128": (128, LONG, ("--shared-step-ms", "0")),
}
# As many ordinary requests as the case has. The old cases show what there was before, and are bound
# to nothing.
BESIDE = {
    "top_k": "ordinary", "filters": "ordinary", "fields": "ordinary", "long64": "ordinary64",
    "long128": "ordinary128",
}  # fmt: skip
PROMISED_RATE, PROMISED_FIRST = 0.8, 1.5


class Streams(Client):
    """A client whose requests have more fields."""

    def ask(self, body):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(
                self.url.hostname, self.url.port, context=self.context, timeout=600
            )
        self.connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
        return self.connection.getresponse()

    def stream(self, prompt):
        """Returns the seconds to the first token, and the tokens a second after it."""
        begin = time.perf_counter()
        response = self.ask({
            "model": conftest.MODEL_NAME, "prompt": prompt, "max_tokens": ANSWER, "temperature": 0,
            "ignore_eos": True, "stream": True,
        })  # fmt: skip
        times = [time.perf_counter() for line in response if line.startswith(b'data: {"')]
        if response.status != 200 or len(times) < 2:
            sys.exit(f"the neighbour was refused: {response.status}")
        return times[0] - begin, (ANSWER - 1) / (times[-1] - times[0])


class Heavy:
    """A context in which `count` requests are kept outstanding."""

    def __init__(self, bench, server, key, count, fields):
        self.stopping = threading.Event()
        self.clients = [Streams(server, key) for _ in range(count)]
        self.what = (bench, dict(fields))
        threading.stack_size(256 << 10)
        self.threads = [threading.Thread(target=self.keep, args=(c,)) for c in self.clients]
        threading.stack_size(0)

    def keep(self, client):
        bench, fields = self.what
        fields = dict(fields)
        length = fields.pop("prompt_tokens")
        while not self.stopping.is_set():
            try:
                response = client.ask({
                    "model": conftest.MODEL_NAME, "prompt": bench.tokens(length), "ignore_eos": True, **fields,
                })  # fmt: skip
                data = response.read()
                if response.status != 200 and not self.stopping.is_set():
                    print(f"heavy: {response.status} {data[:200]}", file=sys.stderr)
                    self.stopping.wait(1)
            except (OSError, http.client.HTTPException):  # closed meanwhile, or at the end
                client.connection = None

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for client in self.clients:
            client.close()
        for thread in self.threads:
            thread.join()


class NeighbourBench(Bench):
    def __init__(self, args):
        super().__init__(args)
        self.found = {}  # (case, round): the neighbour's tokens a second, and its first token's p99

    @staticmethod
    def generated(server):
        return server.engine_stats()["tokens_generated"]

    def case(self, name, server, number):
        count, fields, _ = CASES[name]
        sequences = count * fields.get("n", 1)
        keys = [server.tenant(f"{name}-{who}-{self.random.randrange(10**9)}")[1] for who in ("heavy", "light")]
        with Heavy(self, server, keys[0], count, fields):
            conftest.wait_until(
                lambda: server.engine_stats()["sequences_running"] >= sequences * 3 // 8, 60, "a full engine"
            )
            time.sleep(5)
            light = Streams(server, keys[1])
            light.stream(self.tokens(32))
            begin, before, first, rates = time.perf_counter(), self.generated(server), [], []
            while time.perf_counter() - begin < self.args.seconds:
                took, rate = light.stream(self.tokens(32))
                first.append(took)
                rates.append(rate)
            total = (self.generated(server) - before) / (time.perf_counter() - begin)
        conftest.wait_until(lambda: server.engine_stats()["requests"] == 0, 120, "an idle engine")
        self.found[name, number] = statistics.median(rates), p99(first)
        self.report(
            name, neighbour_tokens_s=round(statistics.median(rates), 1), first_token_p99_ms=ms(p99(first)),
            first_token_median_ms=ms(statistics.median(first)), streams=len(rates), all_tokens_s=round(total),
        )  # fmt: skip

    def run(self, names, number):
        for options in dict.fromkeys(CASES[name][2] for name in names):
            with self.server(*MANY_CONNECTIONS, *options, *self.args.options.split()) as server:
                for name in names:
                    if CASES[name][2] == options:
                        self.case(name, server, number)

    def ratios(self, names):
        for name in names:
            base = BESIDE.get(name)
            if base not in names:
                continue
            pairs = [
                (self.found[name, i], self.found[base, i]) for i in range(self.args.rounds)
            ]
            rate, first = (
                statistics.median(case[part] / ordinary[part] for case, ordinary in pairs)
                for part in (0, 1)
            )
            self.report(
                f"{name} / {base}", rate >= PROMISED_RATE and first <= PROMISED_FIRST,
                rate_ratio=round(rate, 3), first_ratio=round(first, 3), rounds=len(pairs),
                bounds=[PROMISED_RATE, PROMISED_FIRST],
            )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--options", default="")
    args = parser.parse_args()
    bench = NeighbourBench(args)
    names = args.only.split(",")
    for number in range(args.rounds):
        bench.run(names, number)
    bench.ratios(names)
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
