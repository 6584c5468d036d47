"""Model files that must not be served: the start fails, says what is wrong, and leaves nothing."""

import struct
import subprocess

import pytest

from conftest import BINARY


def made(folder, name, context=256):
    path = folder / f"{name}.gguf"
    subprocess.run([BINARY.parent / "make_tiny", path, name, str(context)], check=True)
    return path


def text(value):
    return struct.pack("<Q", len(value)) + value


def number(value):
    return struct.pack("<II", 4, value)


def word(value):
    return struct.pack("<I", 8) + text(value)


def changed(path, before, after):
    """The file with one key, value or name changed into another of the same length."""
    data = path.read_bytes()
    assert len(before) == len(after) and data.count(before) == 1, before
    path.write_bytes(data.replace(before, after))


def start(folder, model, *options):
    """Status and words of a start. It returns when no process is left that could write more words."""
    done = subprocess.run(
        [BINARY, "serve", "--model", model, "--data-dir", folder / "data", "--kv-memory", "16M",
         "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *options],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


CASES = {
    "architecture": ("qwen2", text(b"general.architecture") + word(b"qwen2"),
                     text(b"general.architecture") + word(b"qwerk"), "architecture 'qwerk' is not supported"),
    "key": ("qwen2", text(b"qwen2.rope.freq_base"), text(b"qwen2.rope.freq_bias"), "'qwen2.rope.freq_bias'"),
    "tensor": ("qwen2", text(b"blk.0.attn_q.bias"), text(b"blk.0.attn_q.bics"), "'blk.0.attn_q.bics'"),
    "tokenizer model": ("qwen2", text(b"tokenizer.ggml.model") + word(b"gpt2"),
                        text(b"tokenizer.ggml.model") + word(b"rwkv"), "tokenizer model 'rwkv' is not supported"),
    "no experts": ("qwen3moe", text(b"qwen3moe.expert_count") + number(8),
                   text(b"qwen3moe.expert_count") + number(0), "'qwen3moe.expert_count'"),
    "too few experts": ("mixtral", text(b"llama.expert_count") + number(4),
                        text(b"llama.expert_count") + number(1), "there are 1 experts"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_stops_the_start(tmp_path, case):
    name, before, after, words = CASES[case]
    model = made(tmp_path, name)
    changed(model, before, after)
    code, said = start(tmp_path, model)
    assert code != 0 and words in said, said
    assert "ready https://" not in said


@pytest.mark.parametrize("name,options,words", [
    ("olmo2", ("--tensor-parallel", "2"), "architecture olmo2 norms queries and keys over all heads together"),
    ("gemma3", ("--kv-type", "k4v8"), "k4v8"),
    ("gemma3", ("--kv-memory", "1M"), "units ="),
])  # fmt: skip
def test_options_that_a_model_forbids_stop_the_start(tmp_path, name, options, words):
    code, said = start(tmp_path, made(tmp_path, name, 65536), *options)
    assert code != 0 and words in said, said
