"""A directory of sentence-transformers with a small encoder, made here: embeddings over TLS, and what it refuses."""

import base64
import json
import math
import pathlib
import random
import shutil
import struct
import tempfile

import pytest

from conftest import Server, wait_until
from test_bad_input import check_error

NAME, LAYERS, WIDTH, HIDDEN, CONTEXT = "tiny-encoder", 2, 64, 96, 96
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + c for c in LETTERS), ".", "café"]
CONFIG = {
    "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": WIDTH, "intermediate_size": HIDDEN,
    "layer_norm_eps": 1e-12, "max_position_embeddings": CONTEXT, "model_type": "bert", "num_attention_heads": 2,
    "num_hidden_layers": LAYERS, "type_vocab_size": 2, "vocab_size": len(TOKENS),
}  # fmt: skip


def shapes():
    for name, rows in (("word", len(TOKENS)), ("position", CONTEXT), ("token_type", 2)):
        yield f"embeddings.{name}_embeddings.weight", [rows, WIDTH]
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        head = f"encoder.layer.{layer}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            yield f"{head}.{name}.weight", [WIDTH, WIDTH]
            yield f"{head}.{name}.bias", [WIDTH]
        yield f"{head}.intermediate.dense.weight", [HIDDEN, WIDTH]
        yield f"{head}.intermediate.dense.bias", [HIDDEN]
        yield f"{head}.output.dense.weight", [WIDTH, HIDDEN]
        yield f"{head}.output.dense.bias", [WIDTH]
        norms += [f"{head}.attention.output.LayerNorm", f"{head}.output.LayerNorm"]
    for name in norms:
        yield f"{name}.weight", [WIDTH]
        yield f"{name}.bias", [WIDTH]


def write_weights(path):
    rng, header, data = random.Random(1), {}, b""
    for name, shape in shapes():
        values = [rng.uniform(-0.3, 0.3) + (name.endswith("LayerNorm.weight")) for _ in range(math.prod(shape))]
        begin, data = len(data), data + struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture(scope="module")
def folder():
    top = pathlib.Path(tempfile.mkdtemp())  # which the users of edge and engine can reach
    top.chmod(0o755)
    folder = top / NAME
    (folder / "1_Pooling").mkdir(parents=True)
    write_weights(folder / "model.safetensors")
    kind = "sentence_transformers.models."
    files = {
        "config.json": CONFIG,
        "modules.json": [
            {"idx": 0, "path": "", "type": kind + "Transformer"}, {"idx": 1, "path": "1_Pooling", "type": kind + "Pooling"},
            {"idx": 2, "path": "2_Normalize", "type": kind + "Normalize"},
        ],
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "tokenizer.json": {
            "added_tokens": [{"id": i, "content": TOKENS[i], "special": True} for i in range(4)],
            "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": False},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "vocab": {token: i for i, token in enumerate(TOKENS)}},
        },
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    yield folder
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def encoder(folder):
    server = Server(folder.parent / "data", model=folder)
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


@pytest.fixture(scope="module")
def key_of(encoder):
    return encoder.tenant("acme")[1]


def embed(http, texts):
    answer = http.post("/v1/embeddings", json={"model": NAME, "input": texts, "encoding_format": "base64"})
    assert answer.status_code == 200, answer.text
    return [base64.b64decode(one["embedding"]) for one in answer.json()["data"]], answer.json()["usage"]


def test_the_official_client(encoder, key_of):
    client = encoder.openai(key_of)
    answer = client.embeddings.create(model=NAME, input=["Café.", "café .", "a b c"])
    assert [len(one.embedding) for one in answer.data] == [WIDTH] * 3
    assert answer.data[0].embedding == answer.data[1].embedding != answer.data[2].embedding
    for one in answer.data:
        assert math.isclose(sum(x * x for x in one.embedding), 1, rel_tol=1e-5)
    assert answer.usage.prompt_tokens == 4 + 4 + 5  # [CLS] café . [SEP], twice, and [CLS] a b c [SEP]


def test_equal_bits_alone_and_in_a_list(encoder, key_of):
    texts = [" ".join(LETTERS[(i + j * j) % 26] for j in range(1 + i * 13 % 90)) for i in range(64)]
    with encoder.http(key_of) as http:
        alone = [embed(http, text)[0][0] for text in texts]
        assert len(set(alone)) == 64
        for _ in range(3):
            together, usage = embed(http, texts)
            assert together == alone
        assert usage["prompt_tokens"] == sum(len(text.split()) + 2 for text in texts)
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0  # later tokens change what is before them


def test_what_an_encoder_refuses(encoder, key_of):
    with encoder.http(key_of) as http:
        chat = {"model": NAME, "messages": [{"role": "user", "content": "a"}]}
        check_error(http.post("/v1/chat/completions", json=chat), 400, None, None)
        text = {"model": NAME, "prompt": "a", "max_tokens": 4}
        check_error(http.post("/v1/completions", json=text), 400, "unsupported_parameter", "model")
        assert len(embed(http, "a " * (CONTEXT - 2))[0]) == 1
        long = {"model": NAME, "input": ["a", "a " * (CONTEXT - 1)]}
        check_error(http.post("/v1/embeddings", json=long), 400, "context_length_exceeded", "input[1]")
        assert http.get("/v1/models").json()["data"][0]["max_model_len"] == CONTEXT
    wait_until(lambda: encoder.engine_stats()["requests"] == 0, what="the engine is idle")
    stats = encoder.engine_stats()
    assert stats["pages_free"] == stats["pages_total"]
