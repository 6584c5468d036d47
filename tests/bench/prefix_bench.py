#!/usr/bin/env python3
"""prefix_bench: the effect of the prefix cache, measured through the server.

usage: tests/bench/prefix_bench.py [--only NAME[,NAME]] [--binary PATH] [--model FILE]
                                   [--rounds N] [--probes N]

Figures, one JSON line each. Counts of tokens come from the answers' `usage` and the engine's counters,
and hold on a busy machine; times do not:

  published    256 tenants send one published prompt of 1,000 tokens: prefix tokens computed ÷ 1,000
  together     16 requests of one tenant at once, a cold common prefix of 1,000 tokens: the same
  warm         time to the first token of a prompt of 1,060 tokens, warm ÷ cold
  onoff        unrelated prompts, 16 at once: tokens/s with the cache on ÷ off
  bits         whether the same requests give equal bits with cache, sharing and batching on and off
  flood        tenant A sends texts that never return: how much of its prompts tenant B finds cached
  rank         a tenant times prompts that it sent itself, that another tenant sent, that nobody
               sent: Mann-Whitney test of the first and of the second against the third, with the
               pages in the pool (plain) and in the host tier (host). The first must be faster
               (p < 0.001: the test is sensitive), the second must not (p ≥ 1e-4 and AUC ≤ 0.55)

It exits with 1 when a count or the rank test misses its bound, whatever the times are.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import conftest  # noqa: E402  (the server of the end-to-end tests)

PREFIX, WARM_PROMPT, TENANTS, TOGETHER = 1000, 1060, 256, 16
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Bench:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(5)
        self.failed = False

    def report(self, what, is_good=True, **figures):
        self.failed = self.failed or not is_good
        line = {"what": what, **figures, "as_promised": is_good,
                "model": os.path.basename(self.args.model), "load_average": os.getloadavg()[0]}  # fmt: skip
        print(json.dumps(line), flush=True)

    @contextlib.contextmanager
    def server(self, *options):
        with tempfile.TemporaryDirectory(prefix="banyan-bench-") as folder:
            server = conftest.Server(
                pathlib.Path(folder) / "data", *options, model=self.args.model,
                binary=self.args.binary,
            )  # fmt: skip
            try:
                yield server
            finally:
                server.stop()

    def tokens(self, count):
        """Returns a prompt of random ids, which does not come twice."""
        return [self.random.randrange(10, 250) for _ in range(count)]

    # --- one request ---

    @staticmethod
    def ask(client, prompt, max_tokens=1, **more):
        body = {"model": conftest.MODEL_NAME, "max_tokens": max_tokens, "temperature": 0, **more}
        path = "/v1/chat/completions" if isinstance(prompt, list) and isinstance(prompt[0], dict) else "/v1/completions"
        body["messages" if path.startswith("/v1/chat") else "prompt"] = prompt
        answer = client.post(path, json=body)
        if answer.status_code != 200:
            sys.exit(f"{path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    @staticmethod
    def cached(answer):
        return (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    @staticmethod
    def first_token_s(client, prompt):
        body = {"model": conftest.MODEL_NAME, "prompt": prompt, "max_tokens": 1, "temperature": 0, "stream": True}
        begin = time.perf_counter()
        with client.stream("POST", "/v1/completions", json=body) as stream:
            took = None
            for line in stream.iter_lines():
                if took is None and line.startswith("data: {"):
                    took = time.perf_counter() - begin
        return took if took is not None else sys.exit("a stream gave no token")

    def at_once(self, clients, prompts, **more):
        answers = [None] * len(prompts)

        def one(index):
            answers[index] = self.ask(clients[index % len(clients)], prompts[index], **more)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if None in answers:
            sys.exit("a request failed")
        return answers

    # --- figures ---

    def published(self):
        with self.server() as server, server.admin() as admin:
            words = "the of and to in is was for on that with as at by from".split()
            text = " ".join(self.random.choice(words) for _ in range(PREFIX - 4))
            system = {"role": "system", "content": text}
            tenants = []
            for i in range(TENANTS):
                tenant = admin.post("/admin/v1/tenants", json={"name": f"t{i}", "group": "all"}).json()
                key = admin.post(f"/admin/v1/tenants/{tenant['id']}/keys", json={"name": "k"}).json()
                tenants.append(key["key"])
            answer = admin.post(
                "/admin/v1/shared-prompts",
                json={"name": "system", "messages": [system], "groups": ["all"]},
            )
            if answer.status_code not in (200, 201, 202):
                sys.exit(f"publishing: {answer.status_code} {answer.text}")
            path = f"/admin/v1/shared-prompts/{answer.json()['id']}"
            conftest.wait_until(
                lambda: admin.get(path).json()["state"] == "published", 120, "publishing"
            )
            prefix = admin.get(path).json()["tokens"]
            computed = prefix  # by publishing
            for number, key in enumerate(tenants):
                with server.http(key) as client:
                    question = {"role": "user", "content": f"Question {number * 7919}?"}
                    computed += max(0, prefix - self.cached(self.ask(client, [system, question])))
            ratio = computed / prefix
            self.report(
                "published", ratio <= 1.0, tenants=TENANTS, prefix_tokens=prefix,
                prefix_tokens_computed=computed, ratio=round(ratio, 4),
            )  # fmt: skip

    def together(self):
        with self.server() as server:
            key = server.tenant("one")[1]
            ratios = []
            with server.http(key) as client:
                for _ in range(self.args.rounds):
                    prefix = self.tokens(PREFIX)
                    prompts = [prefix + self.tokens(20) for _ in range(TOGETHER)]
                    before = server.engine_stats()["rows"]
                    answers = self.at_once([client], prompts)
                    rows = server.engine_stats()["rows"] - before
                    told = sum(max(0, PREFIX - self.cached(a)) for a in answers)
                    ratios.append((told / PREFIX, (rows - TOGETHER * 20) / PREFIX))
        worst = max(max(pair) for pair in ratios)
        self.report(
            "together", worst <= 1.05, requests=TOGETHER, prefix_tokens=PREFIX,
            ratio=round(worst, 4), rounds=[[round(x, 4) for x in pair] for pair in ratios],
            meaning="each round: by usage, by rows of the engine's steps",
        )  # fmt: skip

    def warm(self):
        with self.server() as server:
            key = server.tenant("one")[1]
            cold, warm = [], []
            with server.http(key) as client:
                self.ask(client, self.tokens(64))
                for _ in range(2 * self.args.rounds):
                    prompt = self.tokens(WARM_PROMPT)
                    cold.append(self.first_token_s(client, prompt))
                    warm.append(self.first_token_s(client, prompt))
        ratio = statistics.median(warm) / statistics.median(cold)
        self.report(
            "warm", prompt_tokens=WARM_PROMPT, ratio=round(ratio, 4), one_in=round(1 / ratio, 1),
            cold_ms=[round(s * 1e3, 1) for s in cold], warm_ms=[round(s * 1e3, 1) for s in warm],
        )  # fmt: skip

    def onoff(self):
        """Runs both servers in alternate rounds, so that drift of the machine affects both alike."""
        rates = {"on": [], "off": []}
        with self.server("--prefix-cache") as on, self.server("--prefix-cache=false") as off:
            servers = {"on": on, "off": off}
            clients = {name: s.http(s.tenant("one")[1]) for name, s in servers.items()}
            for _ in range(1 + self.args.rounds):
                for name, client in clients.items():
                    prompts = [self.tokens(200) for _ in range(TOGETHER)]
                    begin = time.perf_counter()
                    answers = self.at_once([client], prompts, max_tokens=16, seed=1)
                    took = time.perf_counter() - begin
                    rates[name].append(sum(a["usage"]["total_tokens"] for a in answers) / took)
        ratios = [a / b for a, b in list(zip(rates["on"], rates["off"]))[1:]]
        self.report(
            "onoff", ratio=round(statistics.median(ratios), 4),
            rounds=[round(r, 4) for r in ratios], unit="tokens/s with the cache ÷ without",
        )  # fmt: skip

    def bits(self):
        """Sends prompts that share much: all at once with the cache, and one by one without it."""
        system = self.tokens(150)
        prompts = [system + self.tokens(self.random.randrange(1, 40)) for _ in range(12)]
        prompts += prompts[:4]
        prompts += [prompts[5] + self.tokens(9), prompts[6][:-1], prompts[7][:100]]
        given = {}
        for name, options in {
            "together": ["--prefix-cache"],
            "alone": ["--prefix-cache=false", "--sequences", "1", "--threads", "1"],
        }.items():
            with self.server(*options) as server, server.http(server.tenant("one")[1]) as client:
                more = {"max_tokens": 24, "logprobs": 5}
                if name == "together":
                    answers = self.at_once([client], prompts, **more)
                    answers = self.at_once([client], prompts, **more)  # all prefixes cached
                else:
                    answers = [self.ask(client, prompt, **more) for prompt in prompts]
                given[name] = [a["choices"] for a in answers]
        same = sum(a == b for a, b in zip(given["together"], given["alone"]))
        self.report("bits", same == len(prompts), answers=len(prompts), same=same)

    def flood(self):
        with self.server("--context", "2048", "--kv-memory", "96M", "--kv-host-memory", "0") as server:
            found = {}
            own = [self.tokens(160) for _ in range(4)]
            with server.http(server.tenant("a")[1]) as a, server.http(server.tenant("b")[1]) as b:
                for prompt in own:
                    self.ask(b, prompt)
                for state in ("alone", "flooded"):
                    found[state] = []
                    for turn in range(12):
                        if state == "flooded":
                            self.at_once([a], [self.tokens(400) for _ in range(4)])
                        found[state].append(self.cached(self.ask(b, own[turn % 4])))
        asked = 160 * 12
        rates = {state: round(sum(f) / asked, 4) for state, f in found.items()}
        self.report("flood", rates["flooded"] >= rates["alone"], **rates)

    # --- the rank test ---

    def rank(self):
        for state in ("plain", "host"):
            self.rank_state(state)

    def rank_state(self, state):
        """Times blocks of prompts in random order; all of a block are sent before the first is
        timed. In the host state each tenant then sends more than the pool holds, since no tenant's
        pages are evicted while another has more than its share."""
        length = 96
        options = ["--context", "512", "--kv-memory", "24M"] if state == "host" else []
        times = {"nobody": [], "foreign": [], "own": []}
        with self.server(*options) as server:
            clients = {n: server.http(server.tenant(n)[1]) for n in ("prober", "other")}
            for client in clients.values():
                self.ask(client, self.tokens(length))
            while len(times["foreign"]) < self.args.probes // 2:
                kinds = ["nobody"] * 10 + ["foreign"] * 10 + ["own"] * 4
                self.random.shuffle(kinds)
                block = [(kind, self.tokens(length)) for kind in kinds]
                for kind, prompt in block:
                    if kind != "nobody":
                        self.ask(clients["other" if kind == "foreign" else "prober"], prompt)
                for client in clients.values() if state == "host" else ():
                    self.ask(client, self.tokens(480))
                    self.ask(client, self.tokens(480))
                for kind, prompt in block:
                    times[kind].append(self.first_token_s(clients["prober"], prompt))
            stats = server.engine_stats()
        own_auc, own_p = mann_whitney(times["own"], times["nobody"])
        foreign_auc, foreign_p = mann_whitney(times["foreign"], times["nobody"])
        is_good = own_p < 1e-3 and foreign_p >= 1e-4 and foreign_auc <= 0.55
        self.report(
            "rank", is_good, state=state, probes=len(times["foreign"]) + len(times["nobody"]),
            own={"p": own_p, "auc": own_auc}, foreign={"p": foreign_p, "auc": foreign_auc},
            median_ms={k: round(statistics.median(v) * 1e3, 2) for k, v in times.items()},
            pages_host=stats.get("pages_host"),
        )  # fmt: skip


def mann_whitney(a, b):
    """Returns (AUC, two-sided p) of `a` against `b`. AUC is the share of pairs in which a < b, where
    ties count half; p is from the normal approximation with correction for ties (Mann and Whitney
    1947)."""
    ranked = sorted((value, group) for group, values in enumerate((a, b)) for value in values)
    rank_sum, ties, at = 0.0, 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        rank_sum += (at + end + 1) / 2 * sum(group == 0 for _, group in ranked[at:end])
        ties += (end - at) ** 3 - (end - at)
        at = end
    n, m = len(a), len(b)
    u = rank_sum - n * (n + 1) / 2
    variance = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    z = (u - n * m / 2) / math.sqrt(variance)
    return round(1 - u / (n * m), 4), math.erfc(abs(z) / math.sqrt(2))


def main():
    names = ["published", "together", "warm", "onoff", "bits", "flood", "rank"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(names))
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--probes", type=int, default=400)
    args = parser.parse_args()
    wanted = args.only.split(",")
    if not set(wanted) <= set(names) or args.rounds < 1 or args.probes < 10:
        parser.error(f"--only takes {', '.join(names)}; --rounds ≥ 1, --probes ≥ 10")
    bench = Bench(args)
    for name in wanted:
        getattr(bench, name)()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
