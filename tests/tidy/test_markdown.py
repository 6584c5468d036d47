"""What every document keeps to: lines that fit, tables with one figure a cell, links that lead somewhere.

How long a document is does not matter: text is cut because nobody needs it, never to fit a limit."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS_MAX = 100
# A number that stands alone. Part of a name (f16, HTTP/2, Zen 5, 2026-11-22, #3, sm_80) is none.
FIGURE = re.compile(r"(?<![\w./:§#-])(?<!Zen )[-+−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w/:-]|\.\d)")
# From … to … is one figure: the reader has nothing to pair up.
RANGE = re.compile(rf"{FIGURE.pattern} to {FIGURE.pattern}")


def documents():
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    return [name for name in done.stdout.split() if (ROOT / name).exists()]


def lines_of(name):
    """(number, line) of each line outside code blocks."""
    is_code = False
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def is_row(line):
    return line.lstrip().startswith("|")


def figures_of(cell):
    """The figures of a cell; those in code and in addresses are names."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell)
    return FIGURE.findall(RANGE.sub("0", text))


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def report(offences):
    assert not offences, "\n" + "\n".join(offences)


def test_lines_fit():
    report([
        f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
        for name in documents() for number, line in lines_of(name)
        if len(line) > COLUMNS_MAX and not is_row(line)
    ])  # fmt: skip


@pytest.mark.parametrize("cell, count", [
    ("4,754", 1), ("1.2 / 100 µs", 2), ("1 to 16", 1), ("316 ms, 5.4 ms", 2), ("+0.34 %", 1),
    ("`--shared 1024`, 3", 1), ("float16 over HTTP/2 on a Zen 5", 0), ("−1.1 to 3.0 µs", 1),
])  # fmt: skip
def test_figures_are_counted(cell, count):
    assert len(figures_of(cell)) == count


def test_a_cell_has_one_figure_at_most():
    """The first cell of a row says what is asked, and may name several sizes."""
    report([
        f"{name}:{number}: {figures_of(cell)} in one cell: {cell[:60]}"
        for name in documents() for number, line in lines_of(name) if is_row(line)
        for cell in cells_of(line)[1:] if len(figures_of(cell)) > 1
    ])  # fmt: skip


def heading_names(name):
    """The anchors of a document's headings, as GitHub makes them."""
    titles = [line.lstrip("#").strip() for _, line in lines_of(name) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    offences = []
    for name in documents():
        for number, line in lines_of(name):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"https?:", target):
                    continue
                path, _, heading = target.partition("#")
                file = (ROOT / name).parent / path if path else ROOT / name
                if not file.exists():
                    offences.append(f"{name}:{number}: there is no {target}")
                elif heading and heading not in heading_names(file.resolve().relative_to(ROOT)):
                    offences.append(f"{name}:{number}: {path or name} has no heading #{heading}")
    report(offences)


ROOMS = "config|radix|kernels|auth|engine|gateway|tests|deploy"
INVENTED = re.compile(r"whoami|example")  # files that CONTRIBUTING.md adds


def test_paths_are_there():
    """A path in code marks that begins with a room is a file, a folder, or a file without its ending."""
    offences = []
    for name in documents():
        for number, line in lines_of(name):
            for path in re.findall(rf"`((?:{ROOMS})/[\w./-]*\w)`", line):
                is_there = (ROOT / path).exists() or any(ROOT.glob(f"{path}.*"))
                if not is_there and not INVENTED.search(path):
                    offences.append(f"{name}:{number}: there is no {path}")
    report(offences)


def test_every_limit_is_documented():
    rows = re.findall(r'^QUOTA_LIMIT\(\w+, "?(\w+)', (ROOT / "auth/limits/quota_limits.def").read_text(), re.M)
    assert rows
    admin = (ROOT / "deploy/ADMIN.md").read_text()
    report([f"deploy/ADMIN.md has no limit {name}" for name in rows if f"`{name}`" not in admin])


def test_the_code_map_has_every_folder():
    """Two floors of each room of the product, and what it calls a folder is one."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    code_map = text[text.index("## Code map") : text.index("## The way of a request")]
    rooms = ("auth", "config", "engine", "gateway", "kernels", "radix")
    folders = {
        str(header.parent.relative_to(ROOT))
        for room in rooms for header in (ROOT / room).glob("**/*.h")
    }  # fmt: skip
    wanted = {"/".join(folder.split("/")[:2]) for folder in folders}
    report([f"ARCHITECTURE.md: the code map has no {folder}" for folder in sorted(wanted)
            if f"`{folder}`" not in code_map])  # fmt: skip


def test_the_readme_says_early_what_is_not_proven():
    """Its fifth line; and it shows five figures, each with its row in RESULTS.md."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert "Not proven" in lines[4] and "GPU" in lines[4], lines[4]
    figures = [line for line in lines[lines.index("## Figures") :] if is_row(line)]
    rows = [cells_of(line)[1] for line in figures[2 : figures.index("| document | what you find there |")]]
    results = (ROOT / "tests/bench/RESULTS.md").read_text()
    assert len(rows) == 5, rows
    report([f"README.md: {row} is not in RESULTS.md" for row in rows
            if f"| {figures_of(row)[0]}" not in results])  # fmt: skip
