#!/usr/bin/env python3
"""peers: measures `banyan bench`, llama.cpp and vLLM on the same weights, in turn, in one run.

usage: tests/bench/peers.py --llama DIR [--vllm DIR] [--larger F.gguf …] [--banyan PATH]
                            [--model F.gguf] [--threads N] [--rounds N] [--formats LIST]

--llama names the folder of llama-bench, llama-batched-bench and llama-quantize: llama.cpp runs the
same file, and the file requantised to each of --formats, of which the fastest for each workload is
compared. --vllm names a folder with venv/ and model/ (the same weights in bfloat16). --larger files
are compared with llama.cpp on the same file, in two rounds. Workloads: prefill of 512 tokens; decode
of one stream and of 16, with a mean context of 128.

Prints one JSON line at the end of each round, so that an interrupted run leaves what it has;
peers_show.py makes medians of the lines, a table and a plot. In a round all take turns, so that drift
of the machine's speed affects all alike. A round during which other processes used more than 5 % of a
processor is repeated, at most as often as there are rounds. The exit status says only that all ran.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import children
from others import OTHERS_MAX, Others, settle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT, CONTEXT, STREAMS = 512, 128, 16
GEN, GEN_SHORT = 128, 32
WORKS = {"prefill": 1, "decode_1": 1, f"decode_{STREAMS}": STREAMS}


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def depth(gen):
    """Returns the keys before the first token with which the mean context is CONTEXT."""
    return CONTEXT - gen // 2


# --- the programs that are measured ---


def banyan_command(args, file, gen):
    return [
        args.banyan, "bench", "--model", file, "--prompt", str(PROMPT), "--gen", str(gen),
        "--context", str(CONTEXT), "--batch", f"1,{STREAMS}", "--repeat", "1",
        "--threads", str(args.threads), "--json",
    ]  # fmt: skip


def by_work(rates):
    """Of the report's rates, or of their fractions of the ceiling."""
    decode = rates["decode_tokens_per_second"]
    return {
        work: rates["prefill_tokens_per_second"] if work == "prefill" else decode[str(streams)]
        for work, streams in WORKS.items()
    }


def llama_command(args, file, work, gen):
    tool = "llama-batched-bench" if WORKS[work] > 1 else "llama-bench"
    command = [os.path.join(args.llama, tool), "-m", file, "-t", str(args.threads)]
    if WORKS[work] > 1:
        return [
            *command, "-c", str(STREAMS * (depth(gen) + gen)), "-npp", str(depth(gen)),
            "-ntg", str(gen), "-npl", str(STREAMS), "--output-format", "jsonl",
        ]  # fmt: skip
    command += ["-r", "1", "-o", "json"]
    if work == "prefill":
        return [*command, "-p", str(PROMPT), "-n", "0"]
    return [*command, "-p", "0", "-n", str(gen), "-d", str(depth(gen))]


def llama_rate(args, file, work, gen=GEN):
    output = run(llama_command(args, file, work, gen))
    if WORKS[work] > 1:
        lines = [line for line in output.splitlines() if line.startswith("{")]
        return json.loads(lines[-1])["speed_tg"]
    return json.loads(output)[0]["avg_ts"]


def llama_version(args):
    command = llama_command(args, args.model, "prefill", GEN)
    build = json.loads(run([*command[: command.index("-p")], "-p", "1", "-n", "0"]))[0]
    return f"commit {build['build_commit']}, {build['backends']} backend"


def llama_fastest(args, folder):
    """Returns for each workload the format that was fastest in one try, its file, and all rates."""
    files, tried = {}, {}
    for form in args.formats.split(","):
        files[form] = str(pathlib.Path(folder) / f"{form}.gguf")
        quantize = os.path.join(args.llama, "llama-quantize")
        run([quantize, "--allow-requantize", args.model, files[form], form, str(args.threads)])
        tried[form] = {
            work: round(llama_rate(args, files[form], work, GEN_SHORT), 1) for work in WORKS
        }
    best = {work: max(tried, key=lambda form: tried[form][work]) for work in WORKS}
    return best, files, tried


class Vllm:
    """vLLM in its own process, which computes only when asked."""

    def __init__(self, folder):
        script = pathlib.Path(__file__).with_name("peers_vllm.py")
        python = os.path.join(folder, "venv/bin/python")
        self.process = children.start(
            [python, script, os.path.join(folder, "model")], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("rate "):
                return float(line.split()[1])
        sys.exit(f"vLLM ended: status {self.process.wait()}")

    def rate(self, work):
        ask = f"1 {PROMPT} 1" if work == "prefill" else f"{WORKS[work]} {depth(GEN)} {GEN}"
        self.process.stdin.write(ask + "\n")
        self.process.stdin.flush()
        return self.answer()

    def stop(self):
        children.kill(self.process)


# --- rounds ---


def one_round(args, file, gen, peers):
    theirs = {name: {} for name in peers}
    with Others() as beside:
        settle()
        report = json.loads(run(banyan_command(args, file, gen)))
        for name, rate in peers.items():
            for work in WORKS:
                settle()
                theirs[name][work] = rate(work)
    ours = by_work(report)
    fractions = by_work(report["fraction_of_ceiling"])
    return {
        "ours": ours, "theirs": theirs, "others": beside.share, "ceilings": report["ceilings"],
        "isa": report["isa"], "at_ceiling": {work: ours[work] / fractions[work] for work in WORKS},
    }  # fmt: skip


def take_rounds(args, file, gen, peers, count, told):
    told = {
        "what": "round", "file": os.path.basename(file), "threads": args.threads,
        "sha256": hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest(),
        "mean_context": CONTEXT, "command": " ".join(banyan_command(args, file, gen)), **told,
    }  # fmt: skip
    undisturbed = 0
    for _ in range(2 * count):
        taken = one_round(args, file, gen, peers)
        print(json.dumps({**taken, **told}), flush=True)
        undisturbed += taken["others"] <= OTHERS_MAX
        if undisturbed == count:
            return


def compare_model(args, folder):
    best, files, tried = llama_fastest(args, folder)
    vllm = Vllm(args.vllm) if args.vllm else None
    fastest = "llama.cpp, fastest format"
    peers = {
        "llama.cpp": lambda work: llama_rate(args, args.model, work),
        fastest: lambda work: llama_rate(args, files[best[work]], work),
    }
    if vllm:
        peers["vLLM"] = vllm.rate
    told = {
        "versions": {"llama.cpp": llama_version(args)},
        "commands": {
            work: " ".join(llama_command(args, args.model, work, GEN)) for work in WORKS
        },
        "formats": {fastest: best},
        "tried": tried,
    }
    take_rounds(args, args.model, GEN, peers, args.rounds, told)
    if vllm:
        vllm.stop()


def arguments():
    cache = os.environ.get("BANYAN_CACHE") or os.path.expanduser("~/.cache/banyan")
    model = os.environ.get("BANYAN_TEST_MODEL") or f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama", required=True, help="folder of llama.cpp's programs")
    parser.add_argument("--vllm", help="folder with vLLM's venv and model")
    parser.add_argument("--banyan", default=str(ROOT / "build/release/banyan"))
    parser.add_argument("--model", default=model)
    parser.add_argument("--larger", nargs="*", default=[], help="more files to compare with llama.cpp")
    parser.add_argument("--formats", default="Q4_0,IQ4_NL,Q8_0", help="formats of llama-quantize")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="0: only the larger files")
    args = parser.parse_args()
    if args.rounds < 0 or args.threads < 1:
        parser.error("--rounds must be at least 0 and --threads at least 1")
    return args


def main():
    args = arguments()
    if args.rounds > 0:
        with tempfile.TemporaryDirectory() as folder:
            compare_model(args, folder)
    for file in args.larger:
        peers = {"llama.cpp": lambda work, file=file: llama_rate(args, file, work, GEN_SHORT)}
        take_rounds(args, file, GEN_SHORT, peers, 2, {})


if __name__ == "__main__":
    main()
