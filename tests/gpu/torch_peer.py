"""torch_peer: the peer on the same card: PyTorch, and transformers if it is installed, on the shapes of
tests/gpu/gpu_shape, in bfloat16, with seeded random weights.

usage: torch_peer.py --json FILE [--limit SECONDS] [--device cpu --tiny]

Appends one line for each figure when it is measured: the card's own rates (a copy of 1 GiB, counting bytes
read and written; a bfloat16 product of 8192 × 8192 × 8192 of random numbers), then tokens a second
of decode (1 stream and 64, mean context 2,048) and of a prefill of 2,048 tokens, by

    transformers   LlamaForCausalLM with sdpa, unchanged (eager); the faster of its growing cache and
                   its static one counts
    plain          a plain Llama of the same shape: sdpa, a static cache, decode replayed as a CUDA
                   graph; about the best that PyTorch can do without custom kernels

Figures are medians of three. When the limit is near, nothing more is begun. --tiny tests the program;
its figures mean nothing."""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

REPEAT = 3
SHAPES = {
    "8b": {"width": 4096, "hidden": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "layers": 32, "vocab": 128256},
    "tiny": {"width": 64, "hidden": 128, "heads": 4, "kv_heads": 2, "head_dim": 16, "layers": 2, "vocab": 300},
}  # fmt: skip


class Figures:
    def __init__(self, path, limit):
        self.file = open(path, "a", encoding="utf-8") if path else None
        self.end = time.monotonic() + limit

    def __call__(self, name, value, unit):
        print(f"{name:<48} {value:12.2f} {unit}", flush=True)
        if self.file:
            self.file.write(json.dumps({"name": name, "value": value, "unit": unit}) + "\n")
            self.file.flush()

    def attempt(self, name, work, seconds):
        """Runs work() if there is time. An exception is printed, not raised."""
        left = self.end - time.monotonic()
        if left < seconds:
            print(f"{name}: not begun, {left:.0f} s are left", flush=True)
            return None
        try:
            return work()
        except Exception as error:  # noqa: BLE001: other versions have other names; or out of memory
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            return None


def sync(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_seconds(work, device, calls=1, warm=1):
    """Returns the median seconds of one call, of REPEAT runs of `calls` calls."""
    times = []
    for run in range(REPEAT + warm):
        sync(device)
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        sync(device)
        if run >= warm:
            times.append((time.perf_counter() - begin) / calls)
    return sorted(times)[len(times) // 2]


def card(figures, device, tiny):
    n = 128 if tiny else 8192
    a = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    b = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    seconds = median_seconds(lambda: torch.matmul(a, b), device, calls=10, warm=2)
    figures("torch_product_tflops", 2 * n**3 / seconds / 1e12, "TFLOP/s")
    source = torch.empty(1 << (12 if tiny else 30), device=device, dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    seconds = median_seconds(lambda: target.copy_(source), device, calls=10, warm=2)
    figures("torch_copy_gbps", 2 * source.numel() / seconds / 1e9, "GB/s")


# --- transformers ---


def make_transformers(shape, device):
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=shape["width"], intermediate_size=shape["hidden"], head_dim=shape["head_dim"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"], vocab_size=shape["vocab"],
        max_position_embeddings=8192, tie_word_embeddings=False, attn_implementation="sdpa",
    )  # fmt: skip
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(torch.float32)
    return transformers, model.to(device=device, dtype=torch.bfloat16).eval()


def fill(cache, shape, streams, tokens, device):
    """Returns `tokens` random keys for each stream, so that no prefill is needed."""
    for layer in range(shape["layers"]):
        size = (streams, shape["kv_heads"], tokens, shape["head_dim"])
        k = torch.randn(size, device=device, dtype=torch.bfloat16)
        cache.update(k, k.clone(), layer)
    return cache


def decode_growing(transformers, model, shape, streams, context, steps, device):
    cache = fill(transformers.DynamicCache(), shape, streams, context - steps // 2, device)
    token = torch.ones(streams, 1, device=device, dtype=torch.long)

    def step():
        model(input_ids=token, past_key_values=cache, use_cache=True)

    step()
    return steps_median(step, steps, device)


def decode_static(transformers, model, shape, streams, context, steps, device):
    start = context - steps // 2
    room = start + steps + 2
    cache = transformers.StaticCache(config=model.config, max_cache_len=room)
    token = torch.ones(streams, 1, device=device, dtype=torch.long)
    # Its layers allocate memory at the first update, which brings the keys that precede the steps.
    for layer in range(shape["layers"]):
        size = (streams, shape["kv_heads"], start, shape["head_dim"])
        k = torch.randn(size, device=device, dtype=torch.bfloat16)
        cache.update(k, k.clone(), layer, {"cache_position": torch.arange(start, device=device)})
    place = [start]

    def step():
        position = torch.tensor([place[0]], device=device)
        model(input_ids=token, past_key_values=cache, use_cache=True, cache_position=position,
              position_ids=position.unsqueeze(0))  # fmt: skip
        place[0] += 1

    step()
    return steps_median(step, steps, device)


def steps_median(step, steps, device):
    """Returns the seconds of a step: the median of three consecutive thirds of the steps."""
    times = []
    for _ in range(REPEAT):
        sync(device)
        begin = time.perf_counter()
        for _ in range(steps // REPEAT):
            step()
        sync(device)
        times.append((time.perf_counter() - begin) / (steps // REPEAT))
    return sorted(times)[REPEAT // 2]


def run_transformers(figures, shape, device, sizes):
    made = figures.attempt("transformers", lambda: make_transformers(shape, device), 20)
    if made is None:
        return False
    transformers, model = made
    figures("transformers_version", float(".".join(transformers.__version__.split(".")[:2])), "")
    with torch.inference_mode():
        for streams, context in sizes["decode"]:
            rates = []
            for kind, decode in (("growing", decode_growing), ("static", decode_static)):
                seconds = figures.attempt(
                    f"transformers, {streams} streams, {kind} cache",
                    lambda: decode(transformers, model, shape, streams, context, sizes["steps"], device),
                    15,
                )
                if device == "cuda":
                    torch.cuda.empty_cache()
                if seconds is not None:
                    rates.append(streams / seconds)
                    figures(f"transformers_{kind}_decode_{streams}", rates[-1], "tok/s")
            if rates:
                figures(f"transformers_decode_{streams}", max(rates), "tok/s")
        prompt = torch.randint(0, shape["vocab"], (1, sizes["prompt"]), device=device)

        def prefill():
            model(input_ids=prompt, use_cache=True, logits_to_keep=1)

        seconds = figures.attempt(
            "transformers, prefill", lambda: median_seconds(prefill, device, warm=2), 15
        )
        if seconds is not None:
            figures("transformers_prefill", sizes["prompt"] / seconds, "tok/s")
    return True


# --- a plain Llama ---


class Plain:
    """The same arithmetic without a framework's layers: a static cache, and equal shapes in all steps."""

    def __init__(self, shape, device, streams, room):
        self.shape, self.device, self.room = shape, device, room
        width, dim = shape["width"], shape["head_dim"]
        q, kv = shape["heads"] * dim, shape["kv_heads"] * dim

        def matrix(rows, cols):
            return torch.randn(rows, cols, device=device, dtype=torch.bfloat16) * cols**-0.5

        self.layers = [
            (matrix(q + 2 * kv, width), matrix(width, q), matrix(2 * shape["hidden"], width),
             matrix(width, shape["hidden"]))
            for _ in range(shape["layers"])
        ]  # fmt: skip
        self.embedding = matrix(shape["vocab"], width)
        self.output = matrix(shape["vocab"], width)
        self.norm = torch.ones(width, device=device, dtype=torch.bfloat16)
        angle = torch.outer(
            torch.arange(room, device=device).float(),
            500000 ** -(torch.arange(0, dim, 2, device=device).float() / dim),
        )
        self.cos = torch.cat([angle.cos()] * 2, -1).bfloat16()
        self.sin = torch.cat([angle.sin()] * 2, -1).bfloat16()
        self.streams(streams)

    def streams(self, streams):
        size = (streams, self.shape["kv_heads"], self.room, self.shape["head_dim"])
        self.k = [torch.randn(size, device=self.device, dtype=torch.bfloat16) for _ in self.layers]
        self.v = [torch.randn(size, device=self.device, dtype=torch.bfloat16) for _ in self.layers]

    def rotate(self, x, at):
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos[at] + turned * self.sin[at]

    def forward(self, tokens, at, keys):
        """Computes tokens [streams][n] at positions `at` [n], over the first `keys` keys of the cache. A
        step sees all of them (its own is the last); a prompt is causal."""
        shape, streams, n = self.shape, *tokens.shape
        heads, kv_heads, dim = shape["heads"], shape["kv_heads"], shape["head_dim"]
        x = self.embedding[tokens]
        for layer, (qkv, out, gate_up, down) in enumerate(self.layers):
            y = F.linear(F.rms_norm(x, self.norm.shape, self.norm), qkv)
            q, k, v = y.view(streams, n, -1, dim).transpose(1, 2).split([heads, kv_heads, kv_heads], 1)
            self.k[layer].index_copy_(2, at, self.rotate(k, at))
            self.v[layer].index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(
                self.rotate(q, at), self.k[layer][:, :, :keys], self.v[layer][:, :, :keys],
                is_causal=n > 1, enable_gqa=heads != kv_heads,
            )  # fmt: skip
            x = x + F.linear(y.transpose(1, 2).reshape(streams, n, -1), out)
            gate, up = F.linear(F.rms_norm(x, self.norm.shape, self.norm), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(F.rms_norm(x[:, -1], self.norm.shape, self.norm), self.output)


def plain_decode(plain, streams, context):
    """Returns the seconds of a step over `context` keys, by replaying its graph."""
    device = plain.device
    plain.k = plain.v = None
    plain.streams(streams)
    tokens = torch.ones(streams, 1, device=device, dtype=torch.long)
    at = torch.tensor([context - 1], device=device)
    work = lambda: plain.forward(tokens, at, context)  # noqa: E731
    if device == "cuda":
        for _ in range(3):
            work()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        work = graph.replay
    return median_seconds(work, device, calls=10, warm=1)


def run_plain(figures, shape, device, sizes):
    room = max(max(context for _, context in sizes["decode"]), sizes["prompt"])
    with torch.inference_mode():
        plain = figures.attempt("plain", lambda: Plain(shape, device, 1, room), 15)
        if plain is None:
            return
        for streams, context in sizes["decode"]:
            seconds = figures.attempt(
                f"plain, {streams} streams", lambda: plain_decode(plain, streams, context), 10
            )
            if seconds is not None:
                figures(f"plain_decode_{streams}", streams / seconds, "tok/s")
        plain.streams(1)
        prompt = torch.randint(0, shape["vocab"], (1, sizes["prompt"]), device=device)
        at = torch.arange(sizes["prompt"], device=device)
        seconds = figures.attempt(
            "plain, prefill",
            lambda: median_seconds(lambda: plain.forward(prompt, at, sizes["prompt"]), device, warm=2),
            10,
        )
        if seconds is not None:
            figures("plain_prefill", sizes["prompt"] / seconds, "tok/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=150)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: PyTorch reports none")
        return 77
    figures = Figures(options.json, options.limit)
    shape = SHAPES["tiny" if options.tiny else "8b"]
    sizes = {"decode": ((1, 2048), (64, 2048)), "prompt": 2048, "steps": 24}
    if options.tiny:
        sizes = {"decode": ((1, 16), (3, 24)), "prompt": 24, "steps": 6}
    torch.manual_seed(7)
    print(f"PyTorch {torch.__version__}", flush=True)
    figures.attempt("the card", lambda: card(figures, options.device, options.tiny), 5)
    if not run_transformers(figures, shape, options.device, sizes):
        print("transformers cannot be had: the peer is the plain llama", flush=True)
    if options.device == "cuda":
        torch.cuda.empty_cache()
    run_plain(figures, shape, options.device, sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
