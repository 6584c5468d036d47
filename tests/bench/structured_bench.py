#!/usr/bin/env python3
"""structured_bench: what constraints cost those who use them and their neighbours, through the server.

usage: tests/bench/structured_bench.py [--only NAME[,NAME]] [--binary PATH] [--model FILE]
                                       [--rounds N] [--tokens N] [--hostile N]

One JSON line for each case: the median over the rounds of a ratio, and its bound.

  schemas   16 streams whose answers follow a schema that forces little, ÷ 16 streams without:
            tokens a second. Bound ≥ 0.97
  forced    the same with a schema of long keys, most of whose text is forced. Bound ≥ 1.05
  hostile   15 plain streams beside one whose grammar has many ways to go on, ÷ the same 15 alone:
            time between tokens, p99. Bound ≤ 1.1
  compile   time to the first token of a tenant while another sends --hostile schemas that take
            long to compile, ÷ the same alone: p99. Bound ≤ 1.5

It exits with 1 when a ratio misses its bound on a quiet machine.
"""

import argparse
import http.client
import json
import os
import statistics
import sys
import threading
import time

from neighbour_bench import Streams
from prefix_bench import ROOT, Bench, conftest
from priority_bench import p99

STREAMS, FIRST_TOKENS = 16, 30
LITTLE = {"type": "array", "items": {"type": "string", "minLength": 20, "maxLength": 60}, "minItems": 100}
NAMES = ("identification", "displacement", "nationality", "destination")
KEYS = [f"{name}_of_the_registered_vessel" for name in NAMES]
HEAVY = {
    "type": "array", "minItems": 100,
    "items": {"type": "object", "properties": {key: {"type": "integer", "minimum": 10, "maximum": 99} for key in KEYS},
              "required": KEYS, "additionalProperties": False},
}  # fmt: skip
# Each byte may belong to every one of these texts, so no mask can be kept for the next place.
MANY_WAYS = "(" + "|".join(f"([a-z ]{{{n},{n + 97}}}[a-{chr(98 + n % 24)}])" for n in range(1, 60)) + "){20,}"


def answer_format(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}


def slow_schema(number):
    """Another one for each number, so that none is found in the cache."""
    texts = [f"{number}-{i * 7919 % 4093}-{'x' * (i % 40)}" for i in range(4000)]
    pattern = {"type": "string", "pattern": "^([a-z]{1,90}-){9}$"}
    return {"type": "array", "items": {"anyOf": [{"enum": texts}, pattern]}}


class StructuredBench(Bench):
    def gaps(self, client, fields, out):
        """Streams one answer; adds the times between its frames to `out`, and returns its tokens."""
        body = {
            "model": conftest.MODEL_NAME, "prompt": self.tokens(32), "max_tokens": self.args.tokens,
            "temperature": 1, "seed": 7, "stream": True, "stream_options": {"include_usage": True}, **fields,
        }  # fmt: skip
        response = client.ask(body)
        last, usage = None, {}
        for line in response:
            if not line.startswith(b'data: {"'):
                continue
            now = time.perf_counter()
            if last is not None:
                out.append(now - last)
            last = now
            usage = json.loads(line[6:]).get("usage") or usage
        if response.status != 200 or not usage:
            sys.exit(f"a stream was refused: {response.status}")
        return usage["completion_tokens"]

    def together(self, server, all_fields):
        """Runs one stream for each of `all_fields` at once; returns (tokens a second, gaps of each)."""
        key = server.tenant(f"t-{self.random.randrange(10**9)}")[1]
        clients = [Streams(server, key) for _ in all_fields]
        gaps, counts = [[] for _ in clients], [0] * len(clients)

        def one(index):
            counts[index] = self.gaps(clients[index], all_fields[index], gaps[index])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(clients))]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - begin
        for client in clients:
            client.close()
        return sum(counts) / took, gaps

    def ratio(self, name, ratios, bound, is_least):
        ratio = statistics.median(ratios)
        is_met = ratio >= bound if is_least else ratio <= bound
        is_quiet = os.getloadavg()[0] < 2 * (os.cpu_count() or 1)
        self.report(name, is_met or not is_quiet, ratio=round(ratio, 3), bound=bound, is_met=is_met,
                    rounds=[round(r, 3) for r in ratios])  # fmt: skip

    def rates(self, name, server, schema, bound):
        ratios = []
        plain, under = [{"ignore_eos": True}] * STREAMS, [answer_format(schema)] * STREAMS
        self.together(server, under)
        for _ in range(self.args.rounds):
            without, _ = self.together(server, plain)
            ratios.append(self.together(server, under)[0] / without)
        forced = server.metric("banyan_forced_tokens_total")
        self.report(f"{name}: forced tokens", forced=forced)
        self.ratio(name, ratios, bound, True)

    def schemas(self, server):
        self.rates("schemas", server, LITTLE, 0.97)

    def forced(self, server):
        self.rates("forced", server, HEAVY, 1.05)

    def hostile(self, server):
        ratios = []
        plain = [{"ignore_eos": True}] * (STREAMS - 1)
        self.together(server, plain)
        for _ in range(self.args.rounds):
            _, alone = self.together(server, plain)
            _, beside = self.together(server, [*plain, {"structured_outputs": {"regex": MANY_WAYS}}])
            ratios.append(p99(sum(beside[:-1], [])) / p99(sum(alone, [])))
        self.ratio("hostile", ratios, 1.1, False)

    def compile(self, server):
        light = Streams(server, server.tenant("light")[1])
        heavy = server.tenant("heavy")[1]
        light.stream(self.tokens(32))
        alone = [light.stream(self.tokens(32))[0] for _ in range(FIRST_TOKENS)]
        numbers, lock, answers = iter(range(self.args.hostile)), threading.Lock(), {}

        def send():
            client = Streams(server, heavy)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                body = {"model": conftest.MODEL_NAME, "prompt": "x", "max_tokens": 1}
                body |= answer_format(slow_schema(number))
                try:
                    response = client.ask(body)
                    response.read()
                    status = response.status
                except (OSError, http.client.HTTPException):
                    client.connection, status = None, 0
                with lock:
                    answers[status] = answers.get(status, 0) + 1

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        beside = []
        while any(thread.is_alive() for thread in threads):
            beside.append(light.stream(self.tokens(32))[0])
        self.report("compile: answers", answers=answers, first_tokens=len(beside))
        self.ratio("compile", [p99(beside) / p99(alone)], 1.5, False)

    def run(self):
        with self.server() as server:
            for name in self.args.only.split(","):
                getattr(self, name)(server)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="schemas,forced,hostile,compile")
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--hostile", type=int, default=1000)
    bench = StructuredBench(parser.parse_args())
    bench.run()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
