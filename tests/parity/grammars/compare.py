"""Masks of Lark grammars over single bytes: parity_lark against llguidance, bit by bit.

Each grammar is walked along random texts that llguidance allows. Before each byte, and behind the
last one, the 256 bits and whether the text may end are compared.
"""

import argparse
import json
import random
import subprocess
import sys

from llguidance import LLMatcher, LLTokenizer

WRITTEN = [
    'start: "a" "b"* ("c" | "dd")+',
    'start: item ("," item)*\nitem: NAME "=" INT\nNAME: /[a-z]{1,5}/\nINT: /[0-9]+/',
    'start: value\nvalue: "[" (value ("," value)*)? "]" | NUM\nNUM: /-?[0-9]+(\\.[0-9]+)?/',
    'start: expr\nexpr: term (("+" | "-") term)*\nterm: atom (("*" | "/") atom)*\n'
    'atom: INT | "(" expr ")"\nINT: /[0-9]{1,4}/',
    'start: STRING (":" STRING)?\nSTRING: /"([^"\\\\\\x00-\\x1f]|\\\\["\\\\nt])*"/',
    'start: "ab"{2,5} /x+/ "y"?',
    'start: line+\nline: /[^\\n]+/ LF\n%import common.LF',
    'start: begin hunk+ end\nbegin: "*** Begin Patch" LF\nend: "*** End Patch" LF?\n'
    'hunk: "*** Add File: " name LF line+\nname: /([^\\n]+)/\nline: "+" /([^\\n]*)/ LF\n%import common.LF',
    'start: "\\u00e9".."\\u00ff" /[\\u0400-\\u04ff]{2}/',
    'start: a | b\na: "x" a "y" |\nb: "x" b |',
]


def random_grammar(rng):
    """Rules over lexemes that one byte tells apart, so that both lexers cut alike. A rule uses only
    rules behind it, and no lexeme can follow itself without a mark: llguidance does not end otherwise."""
    lexemes = ['"a"', '"b"', '"cd"', "/e+;/", "/f[gh]*i/", '"j"', "/k{1,3};/"]
    names = [f"r{i}" for i in range(rng.randint(1, 4))]
    lines = ["start: r0"]
    for place, name in enumerate(names):
        alternatives = []
        for _ in range(rng.randint(1, 3)):
            parts = []
            for _ in range(rng.randint(1, 3)):
                below = names[place + 1 :] if rng.random() < 0.5 else []
                part = rng.choice(below or lexemes)
                parts.append(part + rng.choice(["", "", "", "?", "{2}", "{1,3}"] + ["*", "+"] * (not below)))
            alternatives.append(" ".join(parts))
        if rng.random() < 0.4:  # recursion with marks on both sides
            alternatives.append(f'"(" {name} ")"')
        lines.append(f"{name}: " + " | ".join(alternatives))
    return "\n".join(lines)


def walk(tokenizer, grammar, rng, length):
    """The places of one random text, and the text."""
    matcher = LLMatcher(tokenizer, grammar)
    places, text = [], []
    while True:
        if matcher.is_error():
            return None, None
        stopped = matcher.is_stopped()  # nothing can follow
        bits = bytes(32) if stopped else bytes(matcher.compute_bitmask()[:32])
        places.append([bits.hex(), matcher.is_accepting() or stopped])
        allowed = [i for i in range(256) if bits[i // 8] >> i % 8 & 1]
        if not allowed or len(text) == length:
            return places, text
        text.append(rng.choice(allowed))
        matcher.consume_token(text[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--grammars", type=int, default=300)
    parser.add_argument("--walks", type=int, default=6)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    tokenizer = LLTokenizer("byte")
    other = subprocess.Popen([args.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    compared = differing = skipped = 0
    grammars = WRITTEN + [random_grammar(rng) for _ in range(args.grammars)]
    for source in grammars:
        grammar = LLMatcher.grammar_from_lark(source)
        if LLMatcher.validate_grammar(grammar, tokenizer):
            skipped += 1
            continue
        walks = [walk(tokenizer, grammar, rng, args.length) for _ in range(args.walks)]
        walks = [(places, text) for places, text in walks if places is not None]
        other.stdin.write(json.dumps({"lark": source, "texts": [text for _, text in walks]}) + "\n")
        other.stdin.flush()
        answer = json.loads(other.stdout.readline())
        if "error" in answer:
            print(json.dumps({"grammar": source, "refused": answer["error"]}))
            differing += 1
            continue
        for (places, text), got in zip(walks, answer["walks"]):
            for at, place in enumerate(places):
                compared += 1
                if at >= len(got) or got[at] != place:
                    differing += 1
                    print(json.dumps({
                        "grammar": source, "text": bytes(text[:at]).decode("latin-1"),
                        "wanted": place, "got": got[at] if at < len(got) else None,
                    }))  # fmt: skip
                    break
    other.stdin.close()
    other.wait()
    print(json.dumps({
        "grammars": len(grammars) - skipped, "skipped": skipped,
        "masks of 256 bits": compared, "differing": differing,
    }))  # fmt: skip
    sys.exit(1 if differing or not compared else 0)


if __name__ == "__main__":
    main()
