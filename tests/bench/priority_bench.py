#!/usr/bin/env python3
"""priority_bench: classes, preemption and fairness, measured through the server.

usage: tests/bench/priority_bench.py [--only NAME[,NAME]] [--binary PATH] [--model FILE]
                                     [--rounds N] [--probes N]

Figures, one JSON line each. Both sides of a ratio come from one run, in alternate turns with the same
lengths of prompts; no prompt comes twice. With each is its bound:

  realtime   time to the first token, p99, of realtime prompts of 256 to 512 tokens: with the machine
             full of batch work ÷ idle. Bound: ≤ 1.5
  batch      time of the same batch work beside the same realtime arrivals, without preemption ÷ with
             preemption by swap. Bound: ≥ 0.95
  swap       the same schedule with preemption by swap, by recompute and by the server's choice (auto):
             time of the batch work, p99 of realtime. Bound: auto ≤ 1.05 × the better one of each
  flood      time to the first token, p99, of a tenant that asks now and then: while another of its
             class has 1,000 requests outstanding ÷ alone. Bound: ≤ 1.5
  floor      tokens of batch work ÷ all, over each second, under a permanent flood of realtime work.
             Bound: ≥ 0.05, the floor of --class-floor-percent

It exits with 1 when a ratio misses its bound. Times need a quiet machine.
"""

import argparse
import contextlib
import http.client
import json
import math
import os
import re
import shlex
import socket
import statistics
import sys
import threading
import time
import urllib.parse

from prefix_bench import ROOT, Bench, conftest

PROMISED = {"realtime": 1.5, "batch": 0.95, "swap": 1.05, "flood": 1.5, "floor": 0.05}
# So few that 16 sequences of batch work hold all pages: an urgent prompt needs some of theirs.
SMALL = ("--sequences", "32", "--kv-memory", "96M", "--context", "2048")
JOB_PROMPT, JOB_TOKENS = 64, 192
URGENT = (256, 512)
FLOOD_GAP_S = 0.25  # on average, between two requests of the light tenant
QUEUES = ("--queue-requests", "4096", "--queue-tenant-requests", "2048")


class Client:
    """One connection of a tenant, one request at a time."""

    def __init__(self, server, key):
        self.url = urllib.parse.urlsplit(server.url)
        self.context = server.context
        self.headers = {
            "authorization": f"Bearer {key}", "content-type": "application/json",
            "x-banyan-explain": "1",
        }  # fmt: skip
        self.connection, self.has_asked = None, False

    def post(self, prompt, tokens, tier, stream=False):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(
                self.url.hostname, self.url.port, context=self.context, timeout=600
            )
        body = {
            "model": conftest.MODEL_NAME, "prompt": prompt, "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True, "service_tier": tier, "stream": stream,
        }  # fmt: skip
        self.connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
        self.has_asked = True
        return self.connection.getresponse()

    def whole(self, prompt, tokens, tier):
        """Returns the parsed answer, or None when the request was refused."""
        response = self.post(prompt, tokens, tier)
        data = response.read()
        return json.loads(data) if response.status == 200 else None

    def first_token_s(self, prompt, tier, tokens=4):
        begin = time.perf_counter()
        response = self.post(prompt, tokens, tier, stream=True)
        took = None
        for line in response:
            if took is None and line.startswith(b"data: {"):
                took = time.perf_counter() - begin
                if b'"error"' in line:
                    sys.exit(line.decode())
        if took is None:
            sys.exit(f"a stream gave no token: {response.status}")
        return took

    def close(self):
        """Ends the request under way, so that the server notices. May be called from any thread."""
        connection = self.connection
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Load:
    """A context in which `count` requests of one tenant are kept outstanding."""

    def __init__(self, bench, server, key, count, prompt, tokens, tier):
        self.stopping, self.done, self.refused = threading.Event(), 0, 0
        self.clients = [Client(server, key) for _ in range(count)]
        self.what = (bench, prompt, tokens, tier)
        threading.stack_size(256 << 10)
        self.threads = [threading.Thread(target=self.keep, args=(c,)) for c in self.clients]
        threading.stack_size(0)

    def keep(self, client):
        bench, prompt, tokens, tier = self.what
        while not self.stopping.is_set():
            try:
                is_taken = client.whole(bench.tokens(prompt), tokens, tier) is not None
            except (OSError, http.client.HTTPException):
                if not self.stopping.is_set():
                    raise
                return
            self.done += is_taken
            self.refused += not is_taken
            if not is_taken:
                self.stopping.wait(0.5)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def is_whole(self):
        """Returns whether every client has sent a request, so that the burst of handshakes is over."""
        return all(client.has_asked for client in self.clients)

    def __exit__(self, *_):
        self.stopping.set()
        for client in self.clients:
            client.close()
        for thread in self.threads:
            thread.join()


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def ms(seconds):
    return round(1e3 * seconds, 1)


class PriorityBench(Bench):
    kernel = None

    def kernel_of(self, server):
        with server.admin() as admin:
            self.kernel = re.search(r"banyan_kernel_info\{(.*?)\}", admin.get("/metrics").text)[1]

    def say(self, what, is_good, **figures):
        self.report(
            what, is_good, promised=PROMISED[what], **figures, kernel=self.kernel,
            threads=len(os.sched_getaffinity(0)), command=shlex.join(sys.argv),
        )  # fmt: skip

    @staticmethod
    def settled(server):
        conftest.wait_until(lambda: server.engine_stats()["requests"] == 0, 120, "an idle engine")

    @staticmethod
    def full(server):
        """Returns whether several sequences compute and others are queued."""
        stats = server.engine_stats()
        return stats["sequences_running"] >= 6 and stats["sequences_waiting"] > 4

    def lengths(self):
        return [self.random.randrange(*URGENT) for _ in range(self.args.probes)]

    def probe(self, client, lengths, tier, gap_s=0):
        """Sends one prompt after the other, with random pauses of up to twice `gap_s`."""
        took = []
        for length in lengths:
            time.sleep(self.random.random() * 2 * gap_s)
            took.append(client.first_token_s(self.tokens(length), tier))
        return took

    # --- figures ---

    def realtime(self):
        """Five turns of the same lengths, on the idle machine and then beside 48 batch requests."""
        turns = [self.lengths()[i::5] for i in range(5)]
        idle, full, counts = [], [], {}
        with self.server(*SMALL) as server:
            batch, urgent = server.tenant("batch")[1], Client(server, server.tenant("urgent")[1])
            self.probe(urgent, turns[0][:3], "priority")
            for turn in turns:
                self.settled(server)
                idle += self.probe(urgent, turn, "priority")
                with Load(self, server, batch, 48, JOB_PROMPT, JOB_TOKENS, "flex"):
                    conftest.wait_until(lambda: self.full(server), 120, "a full machine")
                    full += self.probe(urgent, turn, "priority")
            stats = server.engine_stats()
            counts = {k: v for k, v in stats.items() if "preempt" in k or "swap_" in k}
            self.kernel_of(server)
        ratio = p99(full) / p99(idle)
        self.say(
            "realtime", ratio <= PROMISED["realtime"], ratio=round(ratio, 3), n=len(idle),
            idle_ms=self.spread(idle), full_ms=self.spread(full), prompt_tokens=URGENT,
            batch_outstanding=48, **counts,
        )  # fmt: skip

    @staticmethod
    def spread(values):
        return {"p50": ms(statistics.median(values)), "p99": ms(p99(values)), "max": ms(max(values))}

    def schedule(self, server, keys, jobs, arrivals):
        """Sends all batch jobs at once, and urgent requests at their times until the jobs are done.
        Returns (seconds of the jobs, times to the first token, preemptions of the jobs)."""
        answers, first = [None] * len(jobs), []
        is_done = threading.Event()

        def job(index):
            answers[index] = Client(server, keys[0]).whole(jobs[index], JOB_TOKENS, "flex")

        def urgent(at, prompt):
            if not is_done.wait(max(0, begin + at - time.perf_counter())):
                first.append(Client(server, keys[1]).first_token_s(prompt, "priority", 16))

        threads = [threading.Thread(target=job, args=(i,)) for i in range(len(jobs))]
        beside = [threading.Thread(target=urgent, args=a) for a in arrivals]
        begin = time.perf_counter()
        for thread in threads + beside:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - begin
        is_done.set()
        for thread in beside:
            thread.join()
        if None in answers:
            sys.exit("a batch job was refused")
        told = [a["usage"].get("banyan", {}) for a in answers]
        return took, first, sum(t.get("preemptions", 0) for t in told)

    def compare(self, ways):
        """Each round is one schedule, run with every way of preemption in turn, each on its own server.
        Half of the rounds start the servers in the opposite order, since the last one is some
        percent slower whatever its way (because of where its memory is)."""
        took, first, paused = ({way: [] for way in ways} for _ in range(3))
        for order in (ways, ways[::-1]):
            with contextlib.ExitStack() as stack:
                servers = {
                    w: stack.enter_context(self.server(*SMALL, "--preemption", w)) for w in order
                }
                keys = {w: [s.tenant(n)[1] for n in ("batch", "urgent")] for w, s in servers.items()}
                for turn in range(1 + (self.args.rounds + 1) // 2):
                    lengths = [self.random.randrange(*URGENT) for _ in range(64)]
                    for way in sorted(ways, key=lambda _: self.random.random()):
                        jobs = [self.tokens(JOB_PROMPT) for _ in range(32)]
                        arrivals = [(0.5 + 0.7 * i, self.tokens(n)) for i, n in enumerate(lengths)]
                        figures = self.schedule(servers[way], keys[way], jobs, arrivals)
                        if turn > 0:  # the first one measures rates and touches memory
                            took[way].append(figures[0])
                            first[way] += figures[1]
                            paused[way].append(figures[2])
                self.kernel_of(servers[ways[0]])
        return took, first, paused

    def batch(self):
        took, first, paused = self.compare(["off", "swap"])
        ratios = [a / b for a, b in zip(took["off"], took["swap"])]
        ratio = statistics.median(ratios)
        self.say(
            "batch", ratio >= PROMISED["batch"], ratio=round(ratio, 3), n=len(ratios),
            rounds=[round(r, 3) for r in ratios], preemptions=paused,
            realtime_ms={way: self.spread(v) for way, v in first.items()},
        )  # fmt: skip

    def swap(self):
        took, first, paused = self.compare(["swap", "recompute", "auto"])
        batch_s = {way: statistics.median(v) for way, v in took.items()}
        tail_s = {way: p99(v) for way, v in first.items()}
        worse = [side["auto"] / min(side["swap"], side["recompute"]) for side in (batch_s, tail_s)]
        self.say(
            "swap", max(worse) <= PROMISED["swap"], ratio=round(max(worse), 3),
            n=len(took["auto"]), batch_s={way: round(s, 3) for way, s in batch_s.items()},
            realtime_ms={way: self.spread(v) for way, v in first.items()},
            auto_to_better={"batch": round(worse[0], 3), "realtime_p99": round(worse[1], 3)},
            preemptions=paused,
        )  # fmt: skip

    def flood(self):
        """Two turns only, since a flood begins with a thousand handshakes. Both tenants are of class
        standard; the flood's requests are short."""
        lengths = self.lengths()
        turns = [lengths[i::2] for i in range(2)]
        alone, flooded, taken = [], [], 0
        with self.server(*QUEUES) as server:
            heavy, light = server.tenant("heavy")[1], Client(server, server.tenant("light")[1])
            self.probe(light, turns[0][:3], "default")
            for turn in turns:
                self.settled(server)
                alone += self.probe(light, turn, "default", FLOOD_GAP_S)
                with Load(self, server, heavy, 1000, 128, 32, "default") as load:
                    conftest.wait_until(
                        lambda load=load: load.is_whole() and self.full(server), 120, "a flood"
                    )
                    flooded += self.probe(light, turn, "default", FLOOD_GAP_S)
                taken += load.done
            self.kernel_of(server)
        ratio = p99(flooded) / p99(alone)
        self.say(
            "flood", ratio <= PROMISED["flood"], ratio=round(ratio, 3), n=len(alone),
            alone_ms=self.spread(alone), flooded_ms=self.spread(flooded), prompt_tokens=URGENT,
            heavy_outstanding=1000, heavy_answers=taken,
        )  # fmt: skip

    def floor(self):
        """Measures the rows of the engine's steps by class, read each second from its metrics."""
        shares = []
        with self.server(*SMALL) as server:
            keys = [server.tenant(name)[1] for name in ("batch", "urgent")]
            with (
                Load(self, server, keys[0], 16, JOB_PROMPT, JOB_TOKENS, "flex"),
                Load(self, server, keys[1], 64, URGENT[0], 64, "priority"),
            ):
                conftest.wait_until(lambda: self.full(server), 120, "a flood")
                before = self.class_tokens(server)
                for _ in range(max(10, self.args.probes // 5)):
                    time.sleep(1)
                    now = self.class_tokens(server)
                    whole = sum(now.values()) - sum(before.values())
                    shares.append((now["batch"] - before["batch"]) / max(1, whole))
                    before = now
            self.kernel_of(server)
        worst = min(shares)
        self.say(
            "floor", worst >= PROMISED["floor"], ratio=round(worst, 4), n=len(shares),
            median=round(statistics.median(shares), 4), realtime_outstanding=64, batch_outstanding=16,
        )  # fmt: skip

    @staticmethod
    def class_tokens(server):
        status, text = server.engine("GET", "/metrics")
        if status != 200:
            sys.exit(f"the engine's metrics: {status}")
        found = re.findall(r'^banyan_class_tokens_total\{class="(\w+)"\} (\d+)', text.decode(), re.M)
        return {name: int(count) for name, count in found} or sys.exit("no tokens by class")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PROMISED))
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--probes", type=int, default=100)
    args = parser.parse_args()
    wanted = args.only.split(",")
    if not set(wanted) <= set(PROMISED) or args.rounds < 1 or args.probes < 10:
        parser.error(f"--only takes {', '.join(PROMISED)}; --rounds ≥ 1, --probes ≥ 10")
    bench = PriorityBench(args)
    for name in wanted:
        getattr(bench, name)()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
