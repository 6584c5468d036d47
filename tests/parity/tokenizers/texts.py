"""Texts for comparing tokenizers: written ones, and random ones from what tells libraries apart.

usage: texts.py > TEXT      4 MB of mixed text for bench_tokenizer: this project's documents and sources, and words of
                            many languages
"""

import pathlib
import random
import sys
import unicodedata

WRITTEN = [
    "", " ", "  ", "\n", "\n\n\n", "\r\n", "\t\tx", "a", " a", "\0", "a\0b", "Hello, world!",
    "Hello   world  ", " Hello", "don't won't I'M we'Ll they'VE 'S '\u017f",
    "1234567890 3.14159 2,718 1e-9 0xDEADBEEF", "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m e\u0301 \u1e0b\u0323",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002\u30ab\u30fb\u30ab\u309b", "\u4f60\u597d\uff0c\u4e16\u754c 123 \u4e2d\u6587abc",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u043f\u0440\u0438\u0432\u0435\u0442\u041c\u0438\u0440", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u00c9COLE \u00c9cole \u00e9cole L\u2019\u00c9tat", "\u1112\u1161\u11ab \ud55c\uad6d\uc5b4",
    "\U0001f44b\U0001f3fd \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7", "\u200b zero \ufeff width \u00a0 \u3000 blanks \u2003",
    "tab\tsep\r\nCRLF \r lone", "a\n b\n  c\n   d  \n\n  e", "x = y+z*(w-1)/2; // comment\n",
    "camelCaseIdentifier ALLCAPSWords HTTPServer snake_case", "https://example.com/path?q=1&r=2#frag",
    '{"key": [1, 2.5, null, true], "s": "\\n"}', "<|im_start|>user\nhi<|im_end|>\n", "<s>x</s><unk><0x0A>",
    "\u2168 \u00bd \u00b2 \u2083 \u2460 \u0663\u0664", "\ufb01 \u01c5 \u00df \u1e9e \u02b0A \u02b0a A\u02b0A", "\u2581\u2581x \u2581 y",
    "<table>\n\t<tr><td>x</td></tr>\n</table>", "if (a) {\n\treturn b;\n}\n\n\n\n#define X\n", "!!!???...///\\\\\\---",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\U00020000\U0001d15f\u0958\u212b", "\x7f\x80\x9f\xad\u0378",
]  # fmt: skip

# Pieces that patterns treat in different ways.
ATOMS = (
    ["a", "b", "the", "ing", "A", "B", "XY", "Zz", "'s", "'LL", "'", "1", "23", "4567", " ", "  ", "   ", "\n", "\r",
     "\r\n", "\t", ".", ",", "!", "/", "//", "-", "_", "(", ")", "<", ">", "|", "&", "=", "\\", "\"", "#", "0x", "$", "\0"]
    + ["\u00e9", "\u00c9", "\u00df", "\u0301", "\u0323", "e\u0301", "\u4e2d", "\u6587", "\u3042", "\u30ab", "\u30fb", "\u309b", "\u3002", "\uff0c", "\uff21", "\uff42",
       "\uff11", "\u3000", "\u2003", "\u00a0", "\u0085", "\u200b", "\u2028", "\ufeff", "\u02b0", "\u01c5", "\u017f", "\u212a", "\u212b"]
    + ["\U0001f600", "\U0001f3fd", "\u200d", "\u00b2", "\u00bd", "\u2460", "\u2167", "\u0663", "\u0967", "\u0928", "\u094d", "\u0915", "\u0ba8", "\u0e2a", "\u0e31",
       "\ud55c", "\u1112", "\u1161", "\u11ab", "\u0434", "\u0416", "\u05d0", "\u0639", "\u064b", "\u03b1", "\u03a9", "\u1e00", "\u2018", "\u201d", "\u2014",
       "\u2026", "\u00a3", "\u20ac", "\u2581", "\u00ad", "\u10d0", "\u13a0", "\U0001d400", "\U00010400", "\ue000", "\u00b5", "\u2082", "\u0345"]
)  # fmt: skip

WORDS = (
    "the of and to in is for with that page token model server memory cache function return value error int static "
    "void const struct import from class self def print while if else request answer stream unser der die das und "
    "nicht \u00fcber gr\u00f6\u00dfe \u00e9t\u00e9 cr\u00e9\u00e9e na\u00efve sch\u00f6n ma\u00f1ana coraz\u00f3n \u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0441\u0435\u0440\u0432\u0435\u0440 \u043f\u0430\u043c\u044f\u0442\u044c \u043c\u043e\u0434\u0435\u043b\u044c "
    "\u4e2d\u6587 \u6a21\u578b \u670d\u52a1\u5668 \u5185\u5b58 \u8bf7\u6c42 \u65e5\u672c\u8a9e \u30e2\u30c7\u30eb \u30b5\u30fc\u30d0\u30fc \ud55c\uad6d\uc5b4 \ubaa8\ub378 \u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0645\u0631\u062d\u0628\u0627"
).split()


def atoms(rng):
    out = []
    for _ in range(rng.randint(1, 24)):
        out.append(rng.choice(ATOMS) * (rng.randint(2, 9) if rng.random() < 0.15 else 1))
    return "".join(out)


def prose(rng):
    out = []
    for _ in range(rng.randint(3, 40)):
        word = rng.choice(WORDS)
        if rng.random() < 0.2:
            word = word.capitalize()
        out.append(word + rng.choice([" ", " ", " ", ", ", ". ", "\n", "(", ") ", "_", "", " = ", ";\n\t", "'s ", " 42 "]))
    return "".join(out)


def points(rng):
    """Any characters that Unicode has had for long: the libraries know different versions of it."""
    out = []
    for _ in range(rng.randint(1, 16)):
        point = rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x2100), rng.randrange(0x3000, 0xA000)])
        if unicodedata.ucd_3_2_0.category(chr(point)) != "Cn":
            out.append(chr(point))
    return "".join(out)


def make(count, seed=1):
    """Returns `count` texts, the written ones first."""
    rng = random.Random(seed)
    texts = list(WRITTEN)
    while len(texts) < count:
        texts.append(rng.choice((atoms, atoms, prose, points))(rng))
    return texts[:count]


def mixed(size=4_000_000):
    """Documents, sources and other languages in turns of some hundred bytes: 40, 30 and 30 percent."""
    root, rng = pathlib.Path(__file__).resolve().parents[3], random.Random(5)

    def read(*patterns):
        paths = sorted(p for pattern in patterns for p in root.glob(pattern) if "build" not in p.parts)
        return "\n".join(p.read_text() for p in paths)

    documents, sources = read("*.md", "*/*.md"), read("engine/*/*.c", "tests/e2e/*.py")
    out, length = [], 0
    while length < size:
        way = rng.random()
        source = documents if way < 0.4 else sources
        at = rng.randrange(len(source) - 1000)
        out.append(source[at : at + rng.randint(200, 800)] if way < 0.7 else prose(rng) + prose(rng))
        length += len(out[-1].encode())
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(mixed())
