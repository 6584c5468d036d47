#!/usr/bin/env python3
"""peers_show: shows the rounds of peers.py as a Markdown table and as a plot.

usage: tests/bench/peers_show.py LINES.jsonl [--plot OUT.svg]      the table goes to stdout

Rates are medians of the rounds that nobody disturbed (of all, if each was), ratios are medians of each
round's ratio. So that workloads can be compared, a bar is a rate ÷ the rate at which that file would
reach this machine's ceiling, the highest of all rounds (int8 products for prefill and many streams,
reading for one stream). Peers that use other weights (bfloat16, another format) are on the same scale.
"""

import argparse
import json
import pathlib
import statistics
from xml.sax.saxutils import escape

from others import OTHERS_MAX

COLOURS = ("#1b7f5c", "#8a8f98", "#b9bec6", "#d9a441")
NAMES = {
    "prefill": "prefill, 512 tokens",
    "decode_1": "decode, 1 stream",
    "decode_16": "decode, 16 streams",
}
LEFT, BAR, GAP, WIDE = 300, 16, 14, 430


def summary(rounds):
    """Returns one row for each workload of one file's rounds."""
    rounds = [one for one in rounds if one["others"] <= OTHERS_MAX] or rounds
    first = rounds[0]
    for work in first["ours"]:
        peers = {}
        for name in first["theirs"]:
            pairs = [(one["ours"][work], one["theirs"][name][work]) for one in rounds]
            peers[name] = {
                "rate": statistics.median(theirs for _, theirs in pairs),
                "ratio": statistics.median(ours / theirs for ours, theirs in pairs),
                "format": first.get("formats", {}).get(name, {}).get(work, ""),
            }
        yield {
            "file": first["file"], "work": work, "peers": peers, "rounds": len(rounds),
            "rate": statistics.median(one["ours"][work] for one in rounds),
            "at_ceiling": max(one["at_ceiling"][work] for one in rounds),
            "others": max(one["others"] for one in rounds),
        }  # fmt: skip


def summaries(lines):
    files = {}
    for line in lines:
        files.setdefault(line["file"], []).append(line)
    return [row for rounds in files.values() for row in summary(rounds)]


def peer_names(rows):
    names = []
    for row in rows:
        names += [name for name in row["peers"] if name not in names]
    return names


def work_name(row, with_file):
    name = NAMES.get(row["work"], row["work"])
    return f"{name}; {pathlib.Path(row['file']).stem}" if with_file else name


def table(rows):
    names = peer_names(rows)
    with_file = len({row["file"] for row in rows}) > 1
    out = ["| tokens a second | Banyan | of the ceiling | " + " | ".join(names) + " | rounds |"]
    out.append("| --- | --- | --- |" + " --- |" * (len(names) + 1))
    for row in rows:
        cells = []
        for name in names:
            peer = row["peers"].get(name)
            cells.append(
                f"{peer['rate']:,.0f} {peer['format']}".strip() + f" (**{peer['ratio']:.1f}×**)"
                if peer
                else "–"
            )
        out.append(
            f"| {work_name(row, with_file)} | **{row['rate']:,.0f}** | "
            f"{100 * row['rate'] / row['at_ceiling']:.0f} % of {row['at_ceiling']:,.0f} | "
            + " | ".join(cells)
            + f" | {row['rounds']}, others ≤ {row['others']:.2f} |"
        )
    return "\n".join(out) + "\n"


def plot(rows):
    names = ["Banyan", *peer_names(rows)]
    with_file = len({row["file"] for row in rows}) > 1
    out, y = [], 34
    for row in rows:
        rates = {"Banyan": row["rate"], **{n: p["rate"] for n, p in row["peers"].items()}}
        middle = y + BAR * len(rates) / 2 + 4
        label = escape(work_name(row, with_file))
        out.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{label}</text>')
        for name, rate in rates.items():
            wide = WIDE * min(1.0, rate / row["at_ceiling"])
            colour = COLOURS[names.index(name) % len(COLOURS)]
            text = f"{rate:,.0f} tok/s, {100 * rate / row['at_ceiling']:.0f} %"
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
    rows = summaries(json.loads(line) for line in text.splitlines() if line.endswith("}"))
    print(table(rows), end="")
    if args.plot:
        pathlib.Path(args.plot).write_text(plot(rows))


if __name__ == "__main__":
    main()
