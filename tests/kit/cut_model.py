"""Writes a model's file with its first layers alone, for tests under sanitizers.

usage: cut_model.py MODEL OUT LAYERS

Tokenizer, template, vocabulary and widths stay, so a server of the small file answers the same routes
through the same code, in a fraction of the time. What it says is nonsense.
"""

import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity/tokenizers"))
from gguf_file import U32, Reader  # noqa: E402

ALIGNMENT = 32  # of tensors, where the file has no key for it


def cut(data, layers):
    """The file's bytes with the first `layers` layers."""
    reader = Reader(data)
    assert data[:4] == b"GGUF"
    reader.at = 8
    tensor_count, key_count = reader.number(10), reader.number(10)
    keys = bytearray()
    for _ in range(key_count):
        begin = reader.at
        name = reader.string()
        assert name != "general.alignment"
        reader.value(reader.number(U32))
        keys += data[begin : reader.at]
        if name.endswith(".block_count"):
            keys[-4:] = struct.pack("<I", layers)
    tensors = []
    for _ in range(tensor_count):
        begin = reader.at
        name = reader.string()
        dimensions = reader.number(U32)
        reader.at += 8 * dimensions + 4  # and the type
        tensors.append((name, data[begin : reader.at], reader.number(10)))
    start = -(-reader.at // ALIGNMENT) * ALIGNMENT
    begins = sorted(offset for _, _, offset in tensors)
    ends = dict(zip(begins, [*begins[1:], len(data) - start]))
    infos, body = bytearray(), bytearray()
    kept = 0
    for name, info, offset in tensors:
        block = re.match(r"blk\.(\d+)\.", name)
        if block and int(block[1]) >= layers:
            continue
        kept += 1
        infos += info + struct.pack("<Q", len(body))
        body += data[start + offset : start + ends[offset]]
        body += bytes(-len(body) % ALIGNMENT)
    head = data[:8] + struct.pack("<QQ", kept, key_count) + keys + infos
    return head + bytes(-len(head) % ALIGNMENT) + body


def main(model, out, layers):
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cut(pathlib.Path(model).read_bytes(), int(layers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
