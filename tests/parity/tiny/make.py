"""Makes the goldens of the generated models (tests/parity/README.md).

usage: make.py LLAMA_CPP [name ...]     LLAMA_CPP: folder with llama.cpp's converter and gguf-py

Needs transformers, torch, safetensors and numpy; ordinary tests need none of them. Each model gets
random weights by the formula of tests/kit/tiny_model.h. transformers computes its log-probabilities
in float32, and llama.cpp's converter writes its GGUF file, of which the golden keeps keys and
digests.
"""

import json
import math
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
CONVERTER = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(CONVERTER / "gguf-py"), str(CONVERTER)]

import numpy as np
import safetensors.numpy
import torch
import transformers

import conversion
import conversion.base
import gguf

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 320
TOKENS = 48
POSITIONS = 16  # the last ones are kept
UNITS = 1 << 17  # of a log-probability, which is kept as a number of 24 bits
GAP = 1e-3  # between the last expert taken and the next
MXFP4_EXPONENT = 121


def llama3(factor, original, theta=500000.0):
    return dict(
        rope_type="llama3", rope_theta=theta, factor=factor, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=original,
    )  # fmt: skip


def longrope(pairs, original, **more):
    return dict(
        rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=original,
        short_factor=[1 + 0.01 * i for i in range(pairs)],
        long_factor=[1 + 0.5 * i for i in range(pairs)], **more,
    )  # fmt: skip


def yarn(original, factor=32.0):
    return dict(
        rope_type="yarn", rope_theta=150000.0, factor=factor, beta_fast=32.0, beta_slow=1.0,
        truncate=False, original_max_position_embeddings=original,
    )  # fmt: skip


def gemma3(full):
    return dict(
        full_attention=dict(rope_theta=1e6, **full),
        sliding_attention=dict(rope_type="default", rope_theta=1e4),
    )


def theta(value):
    return dict(rope_type="default", rope_theta=float(value))


WIDE = dict(hidden_size=128, intermediate_size=160)  # heads × head_dim = width
GEMMA = dict(
    tie_word_embeddings=True, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh",
)  # fmt: skip
GPT_OSS = dict(
    sliding_window=16, num_local_experts=4, num_experts_per_tok=2, intermediate_size=64,
    rope_parameters=yarn(64),
)  # fmt: skip

# name: class, what differs from BASE, scales that differ (by the end of a tensor's name)
BASE = dict(
    vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=96, max_position_embeddings=256, head_dim=32,
    tie_word_embeddings=False, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
MODELS = {
    "llama": ("Llama", dict(rope_parameters=llama3(32.0, 64)), {}),
    "mistral": ("Mistral", dict(sliding_window=16, rope_parameters=theta(1e4)), {}),
    "mixtral": ("Mixtral", dict(
        num_local_experts=4, num_experts_per_tok=2, intermediate_size=64, sliding_window=None,
        rope_parameters=theta(1e6)), {}),
    "qwen2": ("Qwen2", dict(
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters=theta(1e6)), {}),
    "qwen3": ("Qwen3", dict(rms_norm_eps=1e-6, rope_parameters=theta(1e6)), {}),
    "qwen3moe": ("Qwen3Moe", dict(
        num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
        rms_norm_eps=1e-6, rope_parameters=theta(1e6)), {}),
    "gemma": ("Gemma", dict(GEMMA, num_key_value_heads=1, rope_parameters=theta(1e4)), {}),
    "gemma2": ("Gemma2", dict(
        GEMMA, num_hidden_layers=4, sliding_window=16, query_pre_attn_scalar=32,
        attn_logit_softcapping=50.0, final_logit_softcapping=30.0, rope_parameters=theta(1e4)),
        {"q_proj.weight": 0.5, "k_proj.weight": 0.5}),
    "gemma3": ("Gemma3Text", dict(
        GEMMA, num_hidden_layers=7, sliding_window=16, query_pre_attn_scalar=32,
        rope_parameters=gemma3(dict(rope_type="default"))), {}),
    "gemma3_linear": ("Gemma3Text", dict(
        GEMMA, num_hidden_layers=7, sliding_window=16, query_pre_attn_scalar=32,
        rope_parameters=gemma3(dict(rope_type="linear", factor=8.0))), {}),
    "phi3_long": ("Phi3", dict(
        WIDE, original_max_position_embeddings=32,
        rope_parameters=longrope(12, 32, partial_rotary_factor=0.75)), {}),
    "phi3_short": ("Phi3", dict(
        WIDE, max_position_embeddings=64, original_max_position_embeddings=64,
        rope_parameters=longrope(16, 64)), {}),
    "olmo2": ("Olmo2", dict(WIDE, rope_parameters=theta(5e5)), {}),
    "olmo3": ("Olmo3", dict(
        WIDE, num_hidden_layers=5, sliding_window=16, rope_parameters=theta(5e5)), {}),
    "olmoe": ("Olmoe", dict(
        hidden_size=128, num_experts=8, num_experts_per_tok=2, intermediate_size=64,
        norm_topk_prob=False, rope_parameters=theta(1e4)), {}),
    "gpt_oss": ("GptOss", GPT_OSS, {"experts.gate_up_proj": 1.0, "q_proj.weight": 0.5}),
    "gpt_oss_mxfp4": ("GptOss", GPT_OSS, {}),
    "smollm3": ("SmolLM3", dict(
        hidden_size=128, num_hidden_layers=4, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters=theta(2e6)), {}),
    "starcoder2": ("Starcoder2", dict(
        WIDE, use_bias=True, norm_epsilon=1e-5, tie_word_embeddings=True, sliding_window=None,
        rope_parameters=theta(1e4)), {}),
}  # fmt: skip
# Their width is heads × head_dim, and their configuration has no head_dim.
NO_HEAD_DIM = {"Qwen2", "Phi3", "Olmo2", "Olmo3", "Olmoe", "SmolLM3", "Starcoder2"}

# Frequencies of models in use: class and what differs.
ROPES = {
    "llama_8": ("Llama", dict(head_dim=128, rope_parameters=llama3(8.0, 8192))),
    "llama_32": ("Llama", dict(head_dim=64, rope_parameters=llama3(32.0, 8192))),
    "gemma3_4b": ("Gemma3Text", dict(
        head_dim=256, rope_parameters=gemma3(dict(rope_type="linear", factor=8.0)))),
    "gpt_oss": ("GptOss", dict(
        head_dim=64, max_position_embeddings=131072, rope_parameters=yarn(4096))),
    "phi3_long": ("Phi3", dict(
        hidden_size=384, max_position_embeddings=131072, original_max_position_embeddings=4096,
        rope_parameters=longrope(48, 4096))),
}  # fmt: skip


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def bits(name, count):
    """splitmix64 of the name's hash + index."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(fnv(name.encode()))
        z += np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def weights(name, shape, add, scale):
    k = (bits(name, math.prod(shape)) >> np.uint64(40)).astype(np.int32) - (1 << 23)
    values = k.astype(np.float32) * np.float32(2.0**-23) * np.float32(scale)
    return (np.float32(add) + values).astype(np.float32).reshape(shape)


def kind(name, config, scales):
    """What is added to a tensor's weights, and their scale."""
    add, scale = 0.0, 2.0**-3
    if name.endswith("norm.weight"):
        # Gemma's norms multiply by 1 + weight.
        add, scale = 0.0 if "gemma" in config.model_type else 1.0, 2.0**-1
    elif name.endswith("bias") or name.endswith("sinks"):
        scale = 2.0**-1
    elif name.endswith(("gate.weight", "router.weight")):
        scale = 2.0**-2
    elif name.endswith("embed_tokens.weight") and not config.tie_word_embeddings:
        scale = 2.0
    for suffix, other in scales.items():
        if name.endswith(suffix):
            scale = other
    return add, scale


def make_config(class_name, changes):
    values = {**BASE, **changes}
    if class_name in NO_HEAD_DIM:
        del values["head_dim"]
    if class_name == "Starcoder2":
        del values["rms_norm_eps"]
    return getattr(transformers, class_name + "Config")(**values)


def fill(folder, config, scales):
    """Saves a model with weights by the formula, under the names that files have."""
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = {
        name: weights(name, old.shape, *kind(name, config, scales))
        for name, old in safetensors.numpy.load_file(path).items()
    }
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    # The converter wants to know how many tokens a tokenizer has.
    vocab = {"model": {"vocab": {str(i): i for i in range(VOCAB)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(vocab))
    return tensors


def pack_experts(folder, tensors):
    """Puts MXFP4 blocks in place of the experts' matrices; returns these blocks as floats."""
    steps = np.array([0, 1, 2, 3, 4, 6, 8, 12], dtype=np.float32)
    steps = np.concatenate([steps, -steps])
    packed, floats = {}, {}
    for name, old in tensors.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            packed[name] = floats[name] = old
            continue
        experts, inputs, outputs = old.shape
        shape = (experts, outputs, inputs // 32)
        count = math.prod(shape)
        codes = (bits(name + "_blocks", 16 * count) >> np.uint64(56)).astype(np.uint8)
        scales = (bits(name + "_scales", count) >> np.uint64(62)).astype(np.uint8) + MXFP4_EXPONENT
        packed[name + "_blocks"] = codes.reshape(*shape, 16)
        packed[name + "_scales"] = scales.astype(np.uint8).reshape(shape)
        values = steps[np.stack([codes & 15, codes >> 4], axis=1).reshape(count, 32)]
        # A scale is a power of two, and the steps are halves: 0, ½, 1, 1½, 2, 3, 4, 6.
        values = values * np.exp2(scales.astype(np.float32) - 128)[:, None]
        values = values.reshape(experts, outputs, inputs).transpose(0, 2, 1)
        floats[name] = np.ascontiguousarray(values)
    safetensors.numpy.save_file(
        packed, folder / "model.safetensors", metadata={"format": "pt"}
    )
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config))
    return floats


def frequencies(model):
    """The frequencies of each kind of layer, and what multiplies cos and sin."""
    out = {}
    for path, module in model.model.named_modules():
        for name, values in module.named_buffers(recurse=False):
            if not name.endswith("inv_freq") or "original" in name:
                continue
            kind = name.removesuffix("inv_freq").rstrip("_") or path.partition(".")[2] or "all"
            scaling = getattr(module, name.replace("inv_freq", "attention_scaling"))
            out[kind] = {"scaling": scaling, "frequencies": [float(f) for f in values]}
    assert out, "no frequencies were found"
    return out


def compute(folder):
    """Log-probabilities of a text whose experts are chosen clearly, its tokens, the model."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    gaps = []
    used = getattr(model.config, "num_experts_per_tok", 0)

    def look(module, inputs, _):
        x = inputs[0].reshape(-1, module.weight.shape[1])
        logits = x @ module.weight.T
        if getattr(module, "bias", None) is not None:
            logits = logits + module.bias
        best = logits.sort(-1, descending=True).values
        gaps.append((best[:, used - 1] - best[:, used]).min().item())

    for module in model.modules():
        if type(module).__name__.endswith("Router"):
            module.register_forward_hook(look)
    for seed in range(1000):
        gaps.clear()
        tokens = [(i * 37 + 11 + seed * 7) % VOCAB for i in range(TOKENS)]
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0].double()
        if min(gaps, default=1.0) >= GAP:
            break
    else:
        raise RuntimeError("no text whose experts are chosen clearly")
    if used:
        assert gaps, "no router was found"
    return torch.log_softmax(logits, -1).numpy(), tokens, model, min(gaps, default=None)


def convert(folder):
    """Keys and tensors of the file that llama.cpp's converter writes."""
    hparams = conversion.base.ModelBase.load_hparams(folder, False)
    cls = conversion.get_model_class(hparams["architectures"][0])
    cls.set_vocab = lambda self: self.gguf_writer.add_tokenizer_model("none")
    path = folder / "model.gguf"
    cls(folder, gguf.LlamaFileType.ALL_F32, path).write()
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    keys = {"general.architecture": ["STRING", architecture]}
    for name, field in reader.fields.items():
        if name.startswith(architecture + "."):
            keys[name] = ["+".join(t.name for t in field.types), field.contents()]
    tensors, values = {}, {}
    for t in reader.tensors:
        shape = [int(d) for d in t.shape]
        tensors[t.name] = [t.tensor_type.name, shape, f"{fnv(t.data.tobytes()):016x}"]
        if t.name.startswith("rope_"):
            values[t.name] = [float(x) for x in t.data]
    return keys, tensors, values


def rows(values):
    """A JSON object with one line for each entry."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in values.items()]
    return "{\n" + ",\n".join(lines) + "\n }"


def write(path, document):
    parts = [
        f" {json.dumps(k)}: {rows(v) if isinstance(v, dict) else json.dumps(v)}"
        for k, v in document.items()
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


MADE_WITH = {
    "transformers": transformers.__version__,
    "torch": torch.__version__,
    "numpy": np.__version__,
}


def make(name, folder):
    class_name, changes, scales = MODELS[name]
    config = make_config(class_name, changes)
    tensors = fill(folder, config, scales)
    source = folder
    if name.endswith("mxfp4"):
        source = folder / "packed"
        source.mkdir()
        for file in ("config.json", "tokenizer.json"):
            (source / file).write_bytes((folder / file).read_bytes())
        floats = pack_experts(source, tensors)
        safetensors.numpy.save_file(
            floats, folder / "model.safetensors", metadata={"format": "pt"}
        )
    logprobs, tokens, model, gap = compute(folder)
    keys, converted, values = convert(source)
    kept = logprobs[-POSITIONS:]
    units = np.rint(-kept * UNITS).astype(np.int64)
    assert units.min() >= 0 and units.max() < 1 << 24, f"{name}: {kept.min()}"
    low = units.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]
    (HERE / f"{name}.logprobs").write_bytes(low.tobytes())
    write(HERE / f"{name}.json", {
        "made_with": MADE_WITH, "config": json.loads((source / "config.json").read_text()),
        "scales": scales, "tokens": tokens, "positions": POSITIONS, "router_gap": gap,
        "ropes": frequencies(model), "keys": keys, "tensors": converted, "values": values,
    })  # fmt: skip
    print(f"{name}: least log-probability {kept.min():.2f}, router gap {gap}")


def make_ropes():
    out = {"made_with": MADE_WITH}
    for name, (class_name, changes) in ROPES.items():
        config = make_config(class_name, changes)
        out[name] = frequencies(transformers.AutoModelForCausalLM.from_config(config))
    write(HERE / "ropes.json", out)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in sys.argv[2:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            make(name, pathlib.Path(folder))
    if not sys.argv[2:]:
        make_ropes()


if __name__ == "__main__":
    main()
