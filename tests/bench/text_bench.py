#!/usr/bin/env python3
"""text_bench: what one tenant's texts cost another tenant, the neighbour.

usage: tests/bench/text_bench.py [--binary PATH] [--seconds N] [--rounds N] [--connections N]
                                 [--only NAME[,NAME]]

Starts a server with its default limits. The neighbour decodes one stream after the other and sends
small chats in between. The heavy tenant, from an address of its own, keeps one request under way on
each connection:

  ordinary   chats of some 60 tokens, answered with 16
  word       a chat of one "word" of 200 kB, refused because it is too long
  long       a chat of 4 MB of sentences, refused for the same reason
  tokenize   4 MB of sentences to /v1/tokenize
  blanks     4 MB of blanks to /v1/tokenize: the text that takes longest
  flood      1 kB to /v1/tokenize, again and again, so that connections, not text, are what costs
  leave      as word, but the client leaves after 50 ms

One JSON line for each case and round: the neighbour's decode rate, the p99 of its time to the first
token and of a small tokenize, how many of the heavy tenant's requests were answered, and the ratios
to `ordinary` in the same round. At the end one line for each case with the medians of its ratios.
Bounds: at least 0.8 for the decode rate, at most 1.5 for the time to the first token. It exits with 1
when a median misses its bound. Times need a quiet machine.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import conftest  # noqa: E402

SENTENCE = "The quick brown fox jumps over a lazy dog and then it goes home. "
PROMISED_RATE, PROMISED_FIRST = 0.8, 1.5


def chat(text, tokens, stream=False):
    return "/v1/chat/completions", json.dumps({
        "model": conftest.MODEL_NAME, "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens, "stream": stream, "temperature": 0, "ignore_eos": True,
    })  # fmt: skip


def tokenize(text):
    return "/v1/tokenize", json.dumps({"model": conftest.MODEL_NAME, "prompt": text})


def requests():
    rng = random.Random(1)
    word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(200_000))
    long = SENTENCE * (4_000_000 // len(SENTENCE))
    return {
        "ordinary": chat(SENTENCE * 4, 16),
        "word": chat(word, 16),
        "long": chat(long, 16),
        "tokenize": tokenize(long),
        "blanks": tokenize(" " * 4_000_000),
        "flood": tokenize(SENTENCE * 16),
        "leave": chat(word, 16),
    }


# What `banyan serve` has by default; the tests' servers have no limits of addresses.
DEFAULTS = (
    "--connections-per-address", "64", "--connects-per-address-s", "50", "--handshakes-s", "400",
)  # fmt: skip
HEAVY_ADDRESS, NEIGHBOUR_ADDRESS = "127.0.0.2", "127.0.0.1"


class Client:
    def __init__(self, server, key, address=NEIGHBOUR_ADDRESS):
        url = urllib.parse.urlsplit(server.url)
        self.make = lambda: http.client.HTTPSConnection(
            url.hostname, url.port, context=server.context, timeout=120,
            source_address=(address, 0),
        )
        self.headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self.connection = self.make()

    def send(self, request):
        self.connection.request("POST", request[0], request[1], self.headers)
        return self.connection

    def whole(self, request):
        response = self.send(request).getresponse()
        return response.status, response.read()


def attack(client, request, stopping, counts, leaves):
    while not stopping.is_set():
        try:
            if leaves:
                client.send(request)
                time.sleep(0.05)
                client.connection.close()
                client.connection = client.make()
                counts["left"] = counts.get("left", 0) + 1
            else:
                status, _ = client.whole(request)
                counts[status] = counts.get(status, 0) + 1
        except (OSError, http.client.HTTPException):
            counts["refused"] = counts.get("refused", 0) + 1
            client.connection.close()
            client.connection = client.make()
            time.sleep(0.02)


def decode_rate(client, seconds):
    """Returns tokens a second between the first and the last token of a stream, over all streams."""
    tokens, took, end, number = 0, 0.0, time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        stream = client.send(chat(f"Tell me story {number}.", 256, stream=True)).getresponse()
        assert stream.status == 200, stream.read()
        first = None
        for line in stream:
            if line.startswith(b"data: {"):
                now = time.perf_counter()
                first = first or now
                tokens, last = tokens + 1, now
        took += last - first
        tokens -= 1
    return tokens / took


def percentile99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def first_tokens(client, stopping, out):
    number = 0
    while not stopping.is_set():
        number += 1
        begin = time.perf_counter()
        stream = client.send(chat(f"Question {number}: why?", 1, stream=True)).getresponse()
        for line in stream:
            if line.startswith(b"data: {"):
                out["first"].append(time.perf_counter() - begin)
                break
        stream.read()
        begin = time.perf_counter()
        client.whole(tokenize("A small text."))
        out["tokenize"].append(time.perf_counter() - begin)
        time.sleep(0.05)


def processor_times(server):
    """Returns the seconds of processor time of each thread of the server, and of this program."""
    times = {"client": time.process_time()}
    for half in ("edge", "engine"):
        pid = server.child(half)
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir() if pid else ():
            fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
            ticks = int(fields[11]) + int(fields[12])
            times[f"{half} {thread.name} nice {fields[16]}"] = ticks / os.sysconf("SC_CLK_TCK")
    return times


def measure(server, keys, name, request, args):
    stopping, counts, out = threading.Event(), {}, {"first": [], "tokenize": []}
    connections = args.connections if name != "alone" else 0
    clients = [Client(server, keys[0], HEAVY_ADDRESS) for _ in range(connections)]
    threads = [
        threading.Thread(target=attack, args=(c, request, stopping, counts, name == "leave"))
        for c in clients
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    before = processor_times(server)
    rate = decode_rate(Client(server, keys[1]), args.seconds)
    after = processor_times(server)
    looking = threading.Event()
    prober = threading.Thread(
        target=first_tokens, args=(Client(server, keys[1]), looking, out)
    )
    prober.start()
    time.sleep(args.seconds)
    looking.set()
    prober.join()
    stopping.set()
    for thread in threads:
        thread.join()
    return {
        "beside": name, "decode_tokens_s": round(rate, 1),
        "first_p50_ms": round(statistics.median(out["first"]) * 1e3, 1),
        "first_p99_ms": round(percentile99(out["first"]) * 1e3, 1),
        "tokenize_p99_ms": round(percentile99(out["tokenize"]) * 1e3, 1),
        "probes": len(out["first"]), "answers": {str(k): v for k, v in counts.items()},
        "processor_s": {
            k: round(v - before.get(k, 0), 2) for k, v in after.items() if v - before.get(k, 0) > 0.05
        },
    }  # fmt: skip


def one_round(server, keys, names, args):
    """Returns the ratios of each case to `ordinary`."""
    todo = requests()
    alone = measure(server, keys, "alone", None, args)
    print(json.dumps(alone), flush=True)
    base = measure(server, keys, "ordinary", todo["ordinary"], args)
    print(json.dumps(base), flush=True)
    ratios = {}
    for name in names:
        found = measure(server, keys, name, todo[name], args)
        rate = found["decode_tokens_s"] / base["decode_tokens_s"]
        first = found["first_p99_ms"] / base["first_p99_ms"]
        ratios[name] = rate, first
        found["rate_ratio"], found["first_ratio"] = round(rate, 3), round(first, 3)
        found["rate_alone"] = round(found["decode_tokens_s"] / alone["decode_tokens_s"], 3)
        print(json.dumps(found), flush=True)
    return ratios


def show_medians(names, rounds):
    is_kept = True
    for name in names:
        rate, first = (statistics.median(ratios[name][part] for ratios in rounds) for part in (0, 1))
        kept = rate >= PROMISED_RATE and first <= PROMISED_FIRST
        is_kept &= kept
        print(
            json.dumps({
                "case": name, "rounds": len(rounds), "rate_ratio": round(rate, 3),
                "first_ratio": round(first, 3), "kept": kept,
            }),
            flush=True,
        )  # fmt: skip
    return is_kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=os.environ.get("BANYAN_BINARY", conftest.BINARY))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    names = [n for n in args.only.split(",") if n] or [n for n in requests() if n != "ordinary"]
    with tempfile.TemporaryDirectory() as folder:
        server = conftest.Server(
            pathlib.Path(folder) / "data", *DEFAULTS, log_dir=folder, binary=args.binary,
        )  # fmt: skip
        try:
            keys = [server.tenant(name)[1] for name in ("other", "neighbour")]
            rounds = [one_round(server, keys, names, args) for _ in range(args.rounds)]
        finally:
            server.stop()
    sys.exit(0 if show_medians(names, rounds) else 1)


if __name__ == "__main__":
    main()
