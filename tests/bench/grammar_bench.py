"""Masks and compilations of JSON Schemas: processor time beside llguidance, in one run.

usage: grammar_bench.py --schemas ../shared/schemas/maskbench_sample.jsonl --binary build/release/bench_grammar
       FILE.gguf [FILE.gguf …]

The valid instances of each schema are written compactly and cut into the longest tokens of each
vocabulary. Before each token both make a mask. Only instances that both take whole are compared.
Prints a JSON line for each vocabulary. llguidance is taken from the Python that runs this.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import time

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper


class Words:
    """What llguidance wants to know of a vocabulary."""

    def __init__(self, tokens, eos):
        self.tokens, self.eos_token_id, self.bos_token_id = tokens, eos, None
        self.special_token_ids = [eos]
        self.by_bytes = {token: at for at, token in reversed(list(enumerate(tokens)))}

    def __call__(self, text):
        data, ids = text if isinstance(text, bytes) else text.encode(), []
        while data:
            length = max(n for n in range(1, len(data) + 1) if data[:n] in self.by_bytes)
            ids.append(self.by_bytes[data[:length]])
            data = data[length:]
        return ids


def at(values, share):
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 1) if values else None


def figures(values):
    return {"p50": at(values, 0.5), "p90": at(values, 0.9), "p99": at(values, 0.99),
            "p99.9": at(values, 0.999), "most": round(max(values), 1), "mean": round(sum(values) / len(values), 1)}  # fmt: skip


def timed(call):
    before = time.thread_time_ns()
    result = call()
    return result, (time.thread_time_ns() - before) / 1000


def other_walk(tokenizer, grammar, tokens, bits):
    """Times of llguidance's masks; None if it refuses a token."""
    matcher = LLMatcher(tokenizer, grammar)
    times = []
    for token in [*tokens, None]:
        times.append(timed(lambda: matcher.unsafe_compute_mask_ptr(ctypes.addressof(bits), ctypes.sizeof(bits)))[1])
        if token is None:
            return times if matcher.is_accepting() else None
        if not matcher.consume_token(token):
            return None


def measure(binary, path, lines):
    vocab = [json.loads(line) for line in
             subprocess.run([binary, path, "--vocab"], capture_output=True, text=True, check=True).stdout.splitlines()]  # fmt: skip
    tokens = [b"\xff<" + str(i).encode() + b">" if v["control"] else bytes.fromhex(v["bytes"])
              for i, v in enumerate(vocab)]  # fmt: skip
    eos = next(i for i, v in enumerate(vocab) if v["control"])
    tokenizer = LLTokenizer(TokenizerWrapper(Words(tokens, eos)))
    bits = (ctypes.c_uint32 * ((tokenizer.vocab_size + 31) // 32))()
    ours = subprocess.Popen([binary, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    result = {"masks": [], "other_masks": [], "first": [], "other_first": [], "compile": [],
              "other_compile": [], "bytes": []}  # fmt: skip
    counts = dict(schemas=0, refused=0, other_refused=0, refused_both=0, walks=0, not_whole=0)
    for line in lines:
        texts = [json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))
                 for test in line["tests"] if test["valid"]]  # fmt: skip
        ours.stdin.write(json.dumps({"schema": json.dumps(line["schema"]), "texts": texts}) + "\n")
        ours.stdin.flush()
        answer = json.loads(ours.stdout.readline())
        counts["schemas"] += 1
        grammar = LLMatcher.grammar_from_json_schema(
            json.dumps(line["schema"]), {"whitespace_flexible": True})  # fmt: skip
        matcher, compile_us = timed(lambda: LLMatcher(tokenizer, grammar))
        is_refused, other_refused = "refused" in answer, matcher.is_error()
        counts["refused"] += is_refused
        counts["other_refused"] += other_refused
        counts["refused_both"] += is_refused and other_refused
        if is_refused or other_refused:
            continue
        result["compile"].append(answer["compile_us"])
        result["other_compile"].append(compile_us)
        result["bytes"].append(answer["bytes"])
        for walk in answer["walks"]:
            times = other_walk(tokenizer, grammar, walk["tokens"], bits) if walk["whole"] else None
            if times is None:
                counts["not_whole"] += 1
                continue
            counts["walks"] += 1
            result["masks"] += walk["mask_us"]
            result["other_masks"] += times
            result["first"].append(walk["mask_us"][0])
            result["other_first"].append(times[0])
    ours.stdin.close()
    ours.wait()
    return {"file": pathlib.Path(path).name, "tokens": len(tokens), **counts, "masks": len(result["masks"]),
            **{f"{name}_us": figures(values) for name, values in result.items() if name != "bytes"},
            "bytes": figures(result["bytes"]),
            "ratio": {share: round(at(result["masks"], share) / at(result["other_masks"], share), 3)
                      for share in (0.5, 0.99)}}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schemas", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--count", type=int, default=1 << 30)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    lines = [json.loads(line) for line in open(args.schemas, encoding="utf-8")][: args.count]
    for path in args.files:
        print(json.dumps(measure(args.binary, path, lines)), flush=True)


if __name__ == "__main__":
    main()
