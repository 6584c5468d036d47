"""Prints engine/text/unicode_text.def: what Python's str knows of characters that are not ASCII.

Run it with Python 3.11 (Unicode 14): python3 tests/parity/jinja/unicode_text.py
"""

import unicodedata

POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF]


def unprintable():
    runs = []
    for c in POINTS:
        if chr(c).isprintable():
            continue
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def mapping(change, other=lambda c: c):
    """Runs of characters that move by the same distance, and those that become several. `other`
    makes what is assumed of a character that stands in neither list."""
    runs, several = [], []
    for c in POINTS:
        made = change(chr(c))
        if made == other(chr(c)):
            continue
        if len(made) > 1:
            several.append((c, [ord(x) for x in made]))
            continue
        delta = ord(made) - c
        if runs:
            first, last, step, before = runs[-1]
            if delta == before and (c - last == step or (first == last and c - last == 2)):
                runs[-1] = [first, c, c - last if first == last else step, delta]
                continue
        runs.append([c, c, 1, delta])
    return runs, several


def rows(items):
    line = ""
    for item in items:
        if len(line) + len(item) > 99:
            print(line.rstrip())
            line = ""
        line += item + " "
    print(line.rstrip())


def main():
    print(f"""/* unicode_text.def: made by tests/parity/jinja/unicode_text.py from Unicode \
{unicodedata.unidata_version}.
 * UNPRINTABLE(first, last)
 * UPPER, LOWER, TITLE(first, last, step, delta): simple changes of case; a title that is the upper
 * case stands in UPPER alone.
 * UPPERS, LOWERS, TITLES(character, the characters that it becomes, 0 at the end). */""")
    rows(f"UNPRINTABLE({a:#x}, {b:#x})" for a, b in unprintable())
    for name, change, other in (
        ("UPPER", str.upper, lambda c: c),
        ("LOWER", str.lower, lambda c: c),
        ("TITLE", str.title, str.upper),
    ):
        runs, several = mapping(change, other)
        rows(f"{name}({a:#x}, {b:#x}, {step}, {delta})" for a, b, step, delta in runs)
        rows(f"{name}S({c:#x}, " + ", ".join(f"{x:#x}" for x in (made + [0])[:3]) + ")" for c, made in several)


main()
