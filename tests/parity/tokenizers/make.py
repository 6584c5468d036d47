#!/usr/bin/env python3
"""make: makes the fixtures of this folder anew with the published libraries.

usage: make.py cuts | pieces

  cuts    cuts.json: where each row of presplits.def cuts each text (tokenizers)
  pieces  pieces.json: small vocabularies that sentencepiece trains, and its ids of each text
"""

import io
import json
import pathlib
import random
import sys

import texts

FOLDER = pathlib.Path(__file__).resolve().parent


def dump(name, value, about):
    """One row a line, so that changes can be read."""
    lines = [f'"about": {json.dumps(about)}']
    for key, rows in value.items():
        open_, close = ("{", "}") if isinstance(rows, dict) else ("[", "]")
        items = rows.items() if isinstance(rows, dict) else enumerate(rows)
        body = ",\n".join(
            (f"{json.dumps(k)}: " if isinstance(rows, dict) else "") + json.dumps(v, separators=(",", ":"))
            for k, v in items
        )
        lines.append(f'"{key}": {open_}\n{body}\n{close}')
    (FOLDER / name).write_text("{" + ",\n".join(lines) + "}\n")


def cuts():
    import published

    made = texts.make(240, seed=11)
    rows = {row: [published.ends(row, text) for text in made] for row in published.ROWS}
    dump("cuts.json", {"texts": made, "ends": rows}, "ends of pieces in bytes, by tokenizers 0.23.3")


def pieces():
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    made = texts.make(160, seed=12)
    rng = random.Random(13)
    corpus = texts.WRITTEN + [texts.prose(rng) for _ in range(1500)]
    models = []
    for name, options in {
        "bytes": dict(byte_fallback=True, character_coverage=0.99, add_dummy_prefix=True),
        "unknown": dict(
            byte_fallback=False, character_coverage=0.98, add_dummy_prefix=False,
            # With a blank at the beginning they differ by design: GGUF puts one behind each, too.
            user_defined_symbols=["\n\n", "\u2581\u2581\u2581", "e\u0301", "23", "234"],
        ),
    }.items():
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in corpus for line in text.split("\n") if line and "\0" not in line),
            model_writer=out, vocab_size=900, model_type="bpe", normalization_rule_name="identity",
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1,
            **options,
        )  # fmt: skip
        proto = pb.ModelProto()
        proto.ParseFromString(out.getvalue())
        library = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        ids = [library.EncodeAsIds(text) for text in made]
        models.append({
            "name": name, "adds_blank": proto.normalizer_spec.add_dummy_prefix,
            "pieces": [[p.piece, p.score, p.type] for p in proto.pieces], "ids": ids,
        })  # fmt: skip
    dump("pieces.json", {"texts": made, "models": models},
         "ids by sentencepiece 0.2.3")  # fmt: skip


if __name__ == "__main__":
    {"cuts": cuts, "pieces": pieces}[sys.argv[1]]()
