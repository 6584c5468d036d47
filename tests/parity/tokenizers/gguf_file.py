"""The keys of GGUF files: reads them, and writes files that have keys alone."""

import struct

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        form = "<" + FORMATS[kind]
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        length = self.number(10)
        value = bytes(self.data[self.at : self.at + length])
        self.at += length
        return value.decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.number(kind)
        inner, count = self.number(U32), self.number(10)
        if inner != STRING:
            form = f"<{count}{FORMATS[inner]}"
            values = list(struct.unpack_from(form, self.data, self.at))
            self.at += struct.calcsize(form)
            return values
        return [self.string() for _ in range(count)]


def read(path):
    """Returns the keys and values of a file."""
    with open(path, "rb") as file:
        reader = Reader(file.read(64 << 20))
    assert reader.data[:4] == b"GGUF", path
    reader.at = 8
    _, count = reader.number(10), reader.number(10)
    keys = {}
    for _ in range(count):
        name = reader.string()
        keys[name] = reader.value(reader.number(U32))
    return keys


def packed(value):
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        return STRING, struct.pack("<Q", len(raw)) + raw
    if value and isinstance(value[0], float):
        inner, body = F32, struct.pack(f"<{len(value)}f", *value)
    elif value and isinstance(value[0], int):
        inner, body = I32, struct.pack(f"<{len(value)}i", *value)
    else:
        inner, body = STRING, b"".join(packed(text)[1] for text in value)
    return ARRAY, struct.pack("<IQ", inner, len(value)) + body


def write(path, keys):
    """Writes a file without tensors."""
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)))
        for name, value in keys.items():
            kind, body = packed(value)
            file.write(packed(name)[1] + struct.pack("<I", kind) + body)
