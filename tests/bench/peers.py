#!/usr/bin/env python3
"""peers: `banyan bench` and llama.cpp on the same file, interleaved in one run.

usage: tests/bench/peers.py --llama DIR [--banyan PATH] [--model F.gguf] [--threads N] [--rounds N]

DIR holds llama-bench and llama-batched-bench. Prints one JSON line a figure: both rates of every
round, the ratio of each round and the median ratio, with commands, versions, threads and file.
Rounds alternate between the two so that a machine whose speed drifts treats both alike; what else
ran is in load_average. It reports and never judges: the exit status says only that both ran.
"""

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT, GEN, CONTEXT, STREAMS = 512, 128, 128, 16
DEPTH = CONTEXT - GEN // 2  # keys before the first token, so that the mean context is CONTEXT


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def banyan_command(args):
    return [
        args.banyan, "bench", "--model", args.model, "--prompt", str(PROMPT), "--gen", str(GEN),
        "--context", str(CONTEXT), "--batch", f"1,{STREAMS}", "--repeat", "1",
        "--threads", str(args.threads), "--json",
    ]  # fmt: skip


def peer_commands(args):
    threads = ["-t", str(args.threads)]
    bench = [os.path.join(args.llama, "llama-bench"), "-m", args.model, *threads, "-r", "1"]
    batched = [os.path.join(args.llama, "llama-batched-bench"), "-m", args.model, *threads]
    return {
        "prefill": [*bench, "-o", "json", "-p", str(PROMPT), "-n", "0"],
        "decode_1": [*bench, "-o", "json", "-p", "0", "-n", str(GEN), "-d", str(DEPTH)],
        f"decode_{STREAMS}": [
            *batched, "-c", str(STREAMS * (DEPTH + GEN)), "-npp", str(DEPTH), "-ntg", str(GEN),
            "-npl", str(STREAMS), "--output-format", "jsonl",
        ],
    }  # fmt: skip


def peer_version(args):
    sample = run([*peer_commands(args)["prefill"][:-4], "-p", "1", "-n", "0"])
    build = json.loads(sample)[0]
    return f"commit {build['build_commit']}, {build['backends']} backend"


def peer_rate(what, output):
    if what == f"decode_{STREAMS}":
        lines = [line for line in output.splitlines() if line.startswith("{")]
        return json.loads(lines[-1])["speed_tg"]
    return json.loads(output)[0]["avg_ts"]


def ours_rate(what, report):
    if what == "prefill":
        return report["prefill_tokens_per_second"]
    return report["decode_tokens_per_second"][what.split("_")[1]]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def arguments():
    cache = os.environ.get("BANYAN_CACHE") or os.path.expanduser("~/.cache/banyan")
    model = os.environ.get("BANYAN_TEST_MODEL") or f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama", required=True, help="folder of llama.cpp's programs")
    parser.add_argument("--banyan", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=model)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads must be at least 1")
    return args


def main():
    args = arguments()
    commands = peer_commands(args)
    ours = {what: [] for what in commands}
    theirs = {what: [] for what in commands}
    reports = []
    load_before = os.getloadavg()[0]
    for _ in range(args.rounds):
        reports.append(json.loads(run(banyan_command(args))))
        for what, command in commands.items():
            ours[what].append(ours_rate(what, reports[-1]))
            theirs[what].append(peer_rate(what, run(command)))
    common = {
        "unit": "tokens/s", "threads": args.threads, "file": os.path.basename(args.model),
        "sha256": sha256(args.model), "isa": reports[-1]["isa"], "peer": "llama.cpp",
        "peer_version": peer_version(args), "rounds": args.rounds, "mean_context": CONTEXT,
        "load_average_before": load_before, "ceilings": reports[-1]["ceilings"],
    }  # fmt: skip
    for what, command in commands.items():
        ratios = [a / b for a, b in zip(ours[what], theirs[what])]
        line = {
            "what": f"{what}_{PROMPT}" if what == "prefill" else f"{what}_streams",
            "ratio": round(statistics.median(ratios), 3),
            "ratio_least": round(min(ratios), 3),
            "ours": [round(x, 1) for x in ours[what]],
            "theirs": [round(x, 1) for x in theirs[what]],
            **common,
            "command": " ".join(banyan_command(args)),
            "peer_command": " ".join(command),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
