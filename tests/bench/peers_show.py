#!/usr/bin/env python3
"""peers_show: the lines of peers.py as a Markdown table and as a plot.

usage: tests/bench/peers_show.py LINES.jsonl [--plot OUT.svg]      the table goes to stdout

A bar is a rate ÷ the rate at which this machine's ceiling would be reached with that file (int8
products for prefill and many streams, reading for one), so that works compare. Peers that use
other weights (bfloat16, another format) stand on the same scale.
"""

import argparse
import json
import pathlib
from xml.sax.saxutils import escape

COLOURS = ("#1b7f5c", "#8a8f98", "#b9bec6", "#d9a441")
NAMES = {
    "prefill_512": "prefill, 512 tokens",
    "decode_1_streams": "decode, 1 stream",
    "decode_16_streams": "decode, 16 streams",
}
LEFT, BAR, GAP, WIDE = 250, 16, 14, 430


def peer_names(lines):
    names = []
    for line in lines:
        names += [name for name in line["peers"] if name not in names]
    return names


def work_name(line, with_file):
    name = NAMES.get(line["what"], line["what"])
    return f"{name}; {pathlib.Path(line['file']).stem}" if with_file else name


def table(lines):
    names = peer_names(lines)
    with_file = len({line["file"] for line in lines}) > 1
    rows = ["| tokens a second | Banyan | of the ceiling | " + " | ".join(names) + " |"]
    rows.append("| --- | --- | --- |" + " --- |" * len(names))
    for line in lines:
        cells = []
        for name in names:
            peer = line["peers"].get(name)
            form = f" {peer['format']}" if peer and "format" in peer else ""
            ratio = f"(**{peer['ratio']:.1f}×**)" if peer else ""
            cells.append(f"{peer['rate']:,.0f}{form} {ratio}" if peer else "–")
        rows.append(
            f"| {work_name(line, with_file)} | **{line['rate']:,.0f}** | "
            f"{100 * line['fraction_of_ceiling']:.0f} % | " + " | ".join(cells) + " |"
        )
    return "\n".join(rows) + "\n"


def plot(lines):
    names = ["Banyan", *peer_names(lines)]
    with_file = len({line["file"] for line in lines}) > 1
    out, y = [], 34
    for line in lines:
        ceiling = line["rate"] / line["fraction_of_ceiling"]
        rates = {"Banyan": line["rate"], **{n: p["rate"] for n, p in line["peers"].items()}}
        middle = y + BAR * len(rates) / 2 + 4
        label = escape(work_name(line, with_file))
        out.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{label}</text>')
        for name, rate in rates.items():
            wide = WIDE * min(1.0, rate / ceiling)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            text = f"{rate:,.0f} tok/s, {100 * rate / ceiling:.0f} %"
            out.append(
                f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR - 2}" fill="{colour}"/>'
                f'<text x="{LEFT + wide + 6:.1f}" y="{y + BAR - 5}">{text}</text>'
            )
            y += BAR
        y += GAP
    legend, x = [], LEFT
    for i, name in enumerate(names):
        legend.append(
            f'<rect x="{x}" y="8" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>'
            f'<text x="{x + 15}" y="17">{escape(name)}</text>'
        )
        x += 35 + 7 * len(name)
    grid = [
        f'<path d="M{LEFT + WIDE * p // 4} 28V{y}" stroke="#ddd"/>'
        f'<text x="{LEFT + WIDE * p // 4}" y="{y + 14}" text-anchor="middle">{25 * p} %</text>'
        for p in range(5)
    ]
    under = "of the rate at which the machine's ceiling would be reached with this file"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 150} {y + 40}" '
        'font-family="sans-serif" font-size="12" fill="#333">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        *grid, *legend, *out,
        f'<text x="{LEFT}" y="{y + 32}" font-size="11">{under}</text>',
        "</svg>\n",
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines")
    parser.add_argument("--plot")
    args = parser.parse_args()
    text = pathlib.Path(args.lines).read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    print(table(lines), end="")
    if args.plot:
        pathlib.Path(args.plot).write_text(plot(lines))


if __name__ == "__main__":
    main()
