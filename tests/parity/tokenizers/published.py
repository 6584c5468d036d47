"""The published pre-tokenizers of the rows of presplits.def, as the library `tokenizers` runs them."""

from tokenizers import Regex, normalizers, pre_tokenizers

S = pre_tokenizers.Sequence
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CASED = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
    "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124"
    "\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
EAST = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def digits():
    return pre_tokenizers.Digits(individual_digits=True)


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def to_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


ROWS = {
    "gpt-2": lambda: gpt2(),
    "olmo": lambda: gpt2(),
    "smollm": lambda: S([digits(), gpt2()]),
    "starcoder": lambda: S([digits(), gpt2()]),
    "llama-bpe": lambda: S([split(LLAMA), to_bytes()]),
    "dbrx": lambda: S([split(LLAMA), to_bytes()]),
    "smaug-bpe": lambda: S([split(LLAMA), to_bytes()]),
    "qwen2": lambda: S([split(QWEN2), to_bytes()]),
    "qwen35": lambda: S([split(QWEN35), to_bytes()]),
    "tekken": lambda: S([split(TEKKEN), to_bytes()]),
    "gpt-4o": lambda: S([split(GPT4O), to_bytes()]),
    "deepseek-v3": lambda: S([
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
              r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), to_bytes()]),
    "deepseek-coder": lambda: S([
        split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(EAST), digits(), to_bytes()]),
    "deepseek-llm": lambda: S([
        split("[\r\n]"), split(rf"\s?[{CASED}]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
        split(r"\s+$"), split(EAST), digits(), to_bytes()]),
}  # fmt: skip
IGNORES_MERGES = {"llama-bpe", "tekken"}
NFC = {"olmo", "qwen2", "qwen35"}


def normalizer(row):
    return normalizers.NFC() if row in NFC else None


def ends(row, text, made={}):  # noqa: B006 - the pre-tokenizers that were made
    """Where the pieces of a text end, in bytes."""
    if row not in made:
        made[row] = ROWS[row]()
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    out = [at[end] for _, (_, end) in made[row].pre_tokenize_str(text)]
    return sorted(set(out) - {0})
