#!/usr/bin/env python3
"""peers_vllm: measures vLLM's rates on request; started by peers.py with vLLM's own Python.

usage: peers_vllm.py MODEL_DIR      reads lines "STREAMS PROMPT OUT", answers each with "rate R"

With OUT = 1 the rate is that of prompt tokens, in tokens a second; else that of the tokens after the
first, from the times of OUT + 1 tokens and of one. Prompts are random, and not cached.
"""

import os
import random
import sys
import time

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")


def main():
    from vllm import LLM, SamplingParams

    llm = LLM(sys.argv[1], dtype="bfloat16", max_model_len=2048, enable_prefix_caching=False)

    def seconds(streams, prompt, out):
        prompts = [
            {"prompt_token_ids": random.choices(range(100, 40000), k=prompt)}
            for _ in range(streams)
        ]
        sampling = SamplingParams(max_tokens=out, temperature=0, ignore_eos=True)
        begin = time.perf_counter()
        llm.generate(prompts, sampling, use_tqdm=False)
        return time.perf_counter() - begin

    seconds(16, 64, 8)
    print("rate 0", flush=True)  # ready
    for line in sys.stdin:
        streams, prompt, out = (int(x) for x in line.split())
        if out == 1:
            rate = streams * prompt / seconds(streams, prompt, 1)
        else:
            first = seconds(streams, prompt, 1)
            rate = streams * out / (seconds(streams, prompt, out + 1) - first)
        print(f"rate {rate}", flush=True)


if __name__ == "__main__":
    main()
