"""Grammars of schemas over single bytes, by the program parity_schema."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = (ROOT / os.environ.get("BANYAN_BINARY", "build/release/banyan")).parent / "parity_schema"
SCHEMAS = pathlib.Path(os.environ.get("BANYAN_SCHEMAS", ROOT.parent / "shared" / "schemas"))


def ways(data):
    """The three ways in which an instance is written."""
    yield json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    yield json.dumps(data, ensure_ascii=False)
    yield json.dumps(data, ensure_ascii=False, indent=2)


class Grammars:
    """One process that compiles a schema and then judges texts."""

    def __init__(self):
        self.process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.out = self.process.stdout
        self.left = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def ask(self, records):
        """Sends records, and returns the line that answers each."""
        answers = []
        for kind, text in records:
            bytes_ = text.encode() if isinstance(text, str) else text
            self.process.stdin.write(f"{kind} {len(bytes_)}\n".encode() + bytes_)
            while b"\n" not in self.left:
                more = self.out.read(65536)
                assert more, f"parity_schema ended on {kind} {text[:500]}"
                self.left += more
            line, self.left = self.left.split(b"\n", 1)
            answers.append(line.decode())
        return answers

    def compile(self, schema, strict=False):
        """Returns None, or status, path, keyword and sentence of a refusal."""
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        answer = self.ask([("T" if strict else "S", text)])[0].split("\t")
        self.cpu_us, self.steps = int(answer[1]), int(answer[2])
        return None if answer[0] == "ok" else [answer[0], *answer[3:]]

    def accepts(self, texts):
        return [answer.startswith("1") for answer in self.ask([("I", text) for text in texts])]

    def walk(self, seed):
        """A text that random allowed bytes lead to, or None where it did not end."""
        answer = self.ask([("W", str(seed))])[0]
        assert answer != "stuck", "the grammar leads to a place where no byte is allowed"
        return None if answer == "-" else bytes.fromhex(answer).decode()
