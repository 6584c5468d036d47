#!/usr/bin/env python3
"""speculation_bench: the effect of speculative decoding, measured through the server.

usage: tests/bench/speculation_bench.py [--binary PATH] [--model FILE] [--rounds N] [--tokens N]
                                        [--kinds copy,fresh]
                                        [--guess lookup | exit:LAYERS | model:FILE]

Two servers, with and without --speculation, are asked in turn, so that drift of the machine affects
both alike. One JSON line for each kind of text and number of streams: tokens a second with ÷ without
(median of the rounds), the share of drafted tokens that were right, and whether all texts were equal:

  copy      a repeated passage, which the answer continues to repeat: 1, 4 and 16 streams.
            Bound with one stream: ≥ 2
  revise    a passage, and the request to write it again: 1 stream
  fresh     prompts that repeat nothing, sampled: 1 stream. Bound: ≥ 0.97

It exits with 1 when a text differs, or, on a quiet machine, when a ratio misses its bound.
"""

import argparse
import os
import statistics
import sys
import time

from prefix_bench import ROOT, Bench, conftest

PASSAGE = (
    "The harbour master keeps a ledger of every ship, its cargo of salt, timber or wool, the day on "
    "which it came and the day on which it left, and the name of the captain who signed for it. "
)
STREAMS = {"copy": (1, 4, 16), "revise": (1,), "fresh": (1,)}
PROMISED = {("copy", 1): 2.0, ("fresh", 1): 0.97}


class Speculation(Bench):
    def prompts(self, kind, count):
        """Returns the prompts of a round: equal for both servers, new in each round."""
        numbers = [self.random.randrange(10**6) for _ in range(count)]
        if kind == "copy":
            return [f"Note {n}. " + PASSAGE * 6 for n in numbers]
        if kind == "revise":
            return [
                [{"role": "user", "content": f"Write this text again, word for word. ({n})\n\n{PASSAGE * 2}"}]
                for n in numbers
            ]
        return [self.tokens(200) for _ in numbers]

    def turn(self, client, kind, prompts):
        """Returns (texts, tokens a second, drafts). Prompts are computed before the clock starts."""
        more = {"temperature": 1.5, "seed": 7} if kind == "fresh" else {}  # at 0.8 it repeats itself
        self.at_once([client], prompts)
        begin = time.perf_counter()
        answers = self.at_once([client], prompts, max_tokens=self.args.tokens, **more)
        took = time.perf_counter() - begin
        texts = [a["choices"][0].get("text") or a["choices"][0]["message"]["content"] for a in answers]
        drafts = [a["usage"]["banyan"]["drafts"] for a in answers]
        return texts, sum(a["usage"]["completion_tokens"] for a in answers) / took, drafts

    def figure(self, clients, kind, streams):
        ratios, same, drafts = [], True, []
        for _ in range(1 + self.args.rounds):
            prompts = self.prompts(kind, streams)
            told = {name: self.turn(client, kind, prompts) for name, client in clients.items()}
            same = same and told["on"][0] == told["off"][0]
            ratios.append(told["on"][1] / told["off"][1])
            drafts += told["on"][2]
        right = sum(d["accepted"] for d in drafts)
        made = right + sum(d["rejected"] for d in drafts)
        ratio = statistics.median(ratios[1:])  # the first round warms up
        is_quiet = os.getloadavg()[0] < 2 * (os.cpu_count() or 1)
        promised = PROMISED.get((kind, streams), 0) if self.args.guess == "lookup" else 0
        self.report(
            kind, same and (ratio >= promised or not is_quiet), streams=streams, ratio=round(ratio, 3),
            promised=promised, rounds=[round(r, 3) for r in ratios[1:]], same_text=same,
            guess=self.args.guess, guesses=made, guesses_right=round(right / made, 3) if made else None,
        )  # fmt: skip

    def run(self):
        name, _, what = self.args.guess.partition(":")
        more = {"lookup": [], "exit": ["--draft-layers", what], "model": ["--draft-model", what]}[name]
        with self.server() as off, self.server("--speculation", name, *more) as on:
            servers = {"off": off, "on": on}
            clients = {name: s.http(s.tenant("one")[1]) for name, s in servers.items()}
            for client in clients.values():
                client.headers["x-banyan-explain"] = "1"
            for kind in self.args.kinds.split(","):
                for streams in STREAMS[kind]:
                    self.figure(clients, kind, streams)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--kinds", default=",".join(STREAMS))
    parser.add_argument("--guess", default="lookup")
    bench = Speculation(parser.parse_args())
    bench.run()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
