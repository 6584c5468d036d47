#!/usr/bin/env python3
"""prefix_peers: 16 streams at once with a common system prompt, compared with llama.cpp and vLLM.

usage: tests/bench/prefix_peers.py [--llama DIR] [--vllm DIR] [--binary PATH] [--model FILE]
                                   [--streams N] [--rounds N]

--llama names the folder of llama.cpp's llama-server, --vllm a folder with `serve PORT`, which
serves the same weights as "model". All servers run at the same time and are asked in turn, each
round with a system prompt of 1,050 tokens that none of them has seen. Every stream adds its own
question and asks for exactly 32 tokens. llama.cpp, which takes a minute, takes part in one round only.
The figure is the time from the first request sent to the last stream's end. `where_ms` divides
Banyan's time by `usage.banyan`: the prompt of the first stream, the others' wait for it, their own
parts of the prompt, the tokens. A round during which other processes used more than 5 % of a
processor is repeated, at most as often as there are rounds. Prints a JSON line at the end of each
round, and one for the rounds that count. The exit status says only that all ran.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import socket
import statistics
import sys
import tempfile
import threading
import time

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import children  # noqa: E402
import conftest  # noqa: E402  (the server of the end-to-end tests)
from others import OTHERS_MAX, Others, settle  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM, OUT = 1050, 32
CHAT = "/v1/chat/completions"
EXPLAIN = {"x-banyan-explain": "1"}
WORDS = "the of and to in is was for on that with as at by from".split()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def running(command, port, log):
    process = children.start(command, stdout=log, stderr=log)
    try:
        limit = time.monotonic() + 300
        while True:
            if process.poll() is not None or time.monotonic() > limit:
                sys.exit(f"{command[0]} did not start: see {log.name}")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        children.kill(process)


def stream(client, model, system, question, out, index):
    body = {
        "model": model, "max_tokens": OUT, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
    }  # fmt: skip
    with client.stream("POST", CHAT, json=body, headers=EXPLAIN, timeout=600) as answer:
        if answer.status_code != 200:
            return
        for line in answer.iter_lines():
            if line.startswith("data: {") and '"usage":{' in line.replace(" ", ""):
                out[index] = json.loads(line[6:])["usage"]


def round_s(client, model, system, streams):
    usage = [None] * streams
    threads = [
        threading.Thread(
            target=stream, args=(client, model, system, f"Tell me about {i}.", usage, i)
        )
        for i in range(streams)
    ]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    if None in usage:
        sys.exit(f"{model}: {usage.count(None)} of {streams} streams failed")
    return took, usage


def where_ms(usage):
    """Returns the times of the stream that computed the common prefix, and medians of the others."""
    told = sorted((u["banyan"] for u in usage), key=lambda banyan: banyan["queue_ms"])
    first, rest = told[0], told[1:] or told
    return {
        "prefix": first["prefill_ms"],
        "wait": statistics.median(banyan["queue_ms"] for banyan in rest),
        "own_end": statistics.median(banyan["prefill_ms"] for banyan in rest),
        "tokens": statistics.median(banyan["decode_ms"] for banyan in rest),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama")
    parser.add_argument("--vllm")
    parser.add_argument("--binary", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=str(conftest.MODEL))
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    draw = random.Random()
    times, used, where, others = {}, {}, [], []
    load_before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context(open(folder / "peers.log", "w"))
        ours = conftest.Server(folder / "data", model=args.model, binary=args.binary)
        stack.callback(ours.stop)
        limits = httpx.Limits(max_connections=args.streams)
        clients = {"banyan": (ours.http(ours.tenant("one")[1], limits=limits), conftest.MODEL_NAME)}
        if args.llama:
            port = free_port()
            command = [
                pathlib.Path(args.llama) / "llama-server", "-m", args.model, "--port", port,
                "-np", args.streams, "-c", args.streams * 2048, "-t", os.cpu_count(), "-kvu",
            ]  # fmt: skip
            base = stack.enter_context(running(command, port, log))
            clients["llama.cpp"] = (httpx.Client(base_url=base, limits=limits), "any")
        if args.vllm:
            port = free_port()
            base = stack.enter_context(running([pathlib.Path(args.vllm) / "serve", port], port, log))
            clients["vllm"] = (httpx.Client(base_url=base, limits=limits), "model")
        for attempt in range(2 * args.rounds):
            system = " ".join(draw.choices(WORDS, k=SYSTEM))
            took = {}
            with Others() as beside:
                for name, (client, model) in clients.items():
                    if name == "llama.cpp" and name in times:
                        continue
                    settle()  # the threads of the server before spin for a while
                    took[name], used[name] = round_s(client, model, system, args.streams)
            line = {"what": "round", "seconds": took, "others": beside.share}
            print(json.dumps({**line, "where_ms": where_ms(used["banyan"])}), flush=True)
            left = 2 * args.rounds - attempt
            if beside.share > OTHERS_MAX and left > args.rounds - len(others):
                continue
            others.append(beside.share)
            where.append(where_ms(used["banyan"]))
            for name, seconds in took.items():
                times.setdefault(name, []).append(round(seconds, 3))
            if len(others) == args.rounds:
                break
    ratios = {
        f"{name}_over_banyan": round(statistics.median(s) / statistics.median(times["banyan"]), 2)
        for name, s in times.items()
        if name != "banyan"
    }
    print(json.dumps({
        "what": "common_prefix_streams", "streams": args.streams, "tokens_out": OUT, **ratios,
        "median_s": {n: statistics.median(s) for n, s in times.items()}, "seconds": times,
        "prompt_tokens": {n: u[0]["prompt_tokens"] for n, u in used.items()},
        "where_ms": {k: round(statistics.median(w[k] for w in where), 1) for k in where[0]},
        "others": others, "load_average_before": load_before,
        "model": os.path.basename(args.model),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
