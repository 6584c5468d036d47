"""check_report: writes report.txt and report.json of tests/gpu/check: its parts, the targets with what
was seen, and every figure.

usage: check_report.py LOGS FOLDER yes|no SCRIPT        yes: a dry run, whose figures mean nothing
       check_report.py --again SCRIPT REPORT.json…      prints the script's parts that failed or did
                                                        not begin, in the form of CHECK_ONLY

LOGS holds parts.tsv (name, state, seconds), advice.tsv (name, what to do), machine.txt (a description),
figures.jsonl (one figure a line), parity*.txt, and bench_SHAPE_TYPE.txt, printed by `banyan bench
--json`. Any of them may be missing. A target is met, missed, or not seen."""

import json
import math
import pathlib
import re
import sys

# The shapes of tests/gpu/gpu_shape: weights in the layers and of the output layer.
LAYERS_8B = 32 * (4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336)
HEAD_8B = 128256 * 4096
KV_BYTES_8B = 32 * 8 * 128 * 2 * 2  # of a token
CONTEXT = 2048
THEMES = pathlib.Path(__file__).parent / "gpu_parity.def"
LARGE = ("linear", "attention", "draw", "chain")  # themes that --large changes
CAPTURES = (  # key in bench's report, the figure's name, its unit
    ("in_measured_runs", "captures_measured", "captures"),
    ("ms_each", "capture_ms", "ms"),
    ("bytes_each", "capture_bytes", "bytes"),
)
DRY = "DRY RUN on the processor: no figure here is a device's"


def read_lines(path):
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def read_figures(logs):
    figures = {}
    for line in read_lines(logs / "figures.jsonl"):
        try:
            figure = json.loads(line)
            value = float(figure["value"])
            if math.isfinite(value):  # JSON has no other numbers
                figures[figure["name"]] = {"value": value, "unit": figure["unit"]}
        except (ValueError, KeyError, TypeError):
            continue  # the last line of a part that was killed
    return figures


def read_parts(logs):
    parts = []
    for line in read_lines(logs / "parts.tsv"):
        name, state, seconds = line.split("\t")
        parts.append({"name": name, "state": state, "seconds": int(seconds)})
    return parts


def read_advice(logs):
    advice = []
    for line in read_lines(logs / "advice.tsv"):
        name, words = line.split("\t", 1)
        advice.append({"name": name, "words": words})
    return advice


def read_benches(logs, figures):
    """Adds rates of whole models, as figures bench_SHAPE_TYPE_decode_STREAMS and …_prefill."""
    for path in sorted(logs.glob("bench_*_*.txt")):
        for line in read_lines(path):
            if not line.startswith("{"):
                continue
            try:
                bench = json.loads(line)
            except ValueError:
                continue
            for streams, rate in bench.get("decode_tokens_per_second", {}).items():
                figures[f"{path.stem}_decode_{streams}"] = {"value": rate, "unit": "tok/s"}
            if "prefill_tokens_per_second" in bench:
                rate = bench["prefill_tokens_per_second"]
                figures[f"{path.stem}_prefill"] = {"value": rate, "unit": "tok/s"}
            if "model_ready_seconds" in bench:
                seconds = bench["model_ready_seconds"]
                figures[f"{path.stem}_ready"] = {"value": seconds, "unit": "s"}
            captures = bench.get("captures", {})
            for key, name, unit in CAPTURES:
                if key in captures:
                    figures[f"{path.stem}_{name}"] = {"value": captures[key], "unit": unit}


def read_parity(logs):
    """Returns the checks of parity*.txt: how many there are, which are above their bound, and the worst.
    The small checks run twice; one is above its bound if either run is."""
    checks = {}
    for path in sorted(logs.glob("parity*.txt")):
        for line in read_lines(path):
            match = re.match(r"(\S.*?)\s+(inf|-?nan|\d+\.\d+) (ok|ABOVE ITS BOUND)$", line)
            if match:
                checks.setdefault(match.group(1), []).append((match.group(2), match.group(3)))
    finite = [(float(e), n) for n, runs in checks.items() for e, _ in runs if e[0].isdigit()]
    return {
        "checks": len(checks),
        "above": sorted(n for n, runs in checks.items() if any(state != "ok" for _, state in runs)),
        "worst": {"name": max(finite)[1], "error_to_bound": max(finite)[0]} if finite else None,
    }


class Targets:
    def __init__(self, figures, parts):
        self.figures, self.rows = figures, []
        self.states = {part["name"]: part["state"] for part in parts}

    def get(self, *names):
        """Returns the greatest of these figures, or None if there is none."""
        seen = [self.figures[n]["value"] for n in names if n in self.figures]
        return max(seen, default=None)

    def ratio(self, above, below):
        return above / below if above is not None and below else None

    def row(self, name, wants, target, seen, unit):
        """Adds a target. wants: ">=" or "<="."""
        is_met = None
        if seen is not None:
            is_met = seen >= target if wants == ">=" else seen <= target
        self.rows.append(
            {"name": name, "wants": wants, "target": target, "seen": seen, "unit": unit, "is_met": is_met}
        )

    def passed(self, name, *parts):
        """Adds the target that all parts passed: not seen where a part is missing and none failed."""
        states = [self.states.get(p) for p in parts]
        states = [None if state == "not here" else state for state in states]
        failures = sum(state not in ("ok", None) for state in states)
        is_seen = failures > 0 or None not in states
        self.row(name, "<=", 0, failures if is_seen else None, "checks not ok")

    def sanitized(self, tool):
        """Adds a sanitizer's target: not seen unless it ended or found something; a device may refuse it."""
        state = self.states.get(f"sanitizer_{tool}")
        found = f"sanitizer_{tool}_found" in self.states
        seen = 1 if found else 0 if state == "ok" else None
        self.row(f"compute-sanitizer {tool}: finds", "<=", 0, seen, "checks not ok")


def ceilings(targets):
    """Returns the tokens a second that the card's own rates allow, when a step reads every weight and
    key once, and makes every product."""
    copy = targets.get("device_copy", "torch_copy_gbps")
    product = targets.get("torch_product_tflops", "product_mma")
    out = {}
    for streams in (1, 64):
        step = 2 * (LAYERS_8B + HEAD_8B) + streams * CONTEXT * KV_BYTES_8B
        out[f"decode_{streams}"] = copy * 1e9 * streams / step if copy else None
    # A token sees half of the prompt on average: q · k and the weighted sum of values, in all layers.
    token = 2 * LAYERS_8B + 4 * 32 * 32 * 128 * CONTEXT / 2
    out["prefill"] = product * 1e12 / token if product else None
    return out


def target_rows(figures, parts):
    targets = Targets(figures, parts)
    peer = "transformers" if "transformers_version" in figures else "plain"
    most = ceilings(targets)
    # Products from registers are slower than the device's best: the unit says which was the divisor.
    of_product = "%" if "torch_product_tflops" in figures else "% of m16n8k16"
    for name, part, times in (("decode_1", 85, 3), ("decode_64", 75, 3), ("prefill", 70, 1)):
        rate = targets.get(f"bench_8b_bf16_{name}")
        fraction = targets.ratio(rate, most[name])
        targets.row(f"8B bf16 {name}: of the ceiling", ">=", part,
                    None if fraction is None else 100 * fraction,
                    of_product if name == "prefill" else "%")  # fmt: skip
        targets.row(f"8B bf16 {name}: times the peer ({peer})", ">=", times,
                    targets.ratio(rate, targets.get(f"{peer}_{name}")), "x")  # fmt: skip
    # The same without deterministic bits, so that a library computes many rows.
    rate = targets.get("bench_8b_bf16_free_prefill")
    fraction = targets.ratio(rate, most["prefill"])
    name = "8B bf16 prefill, --deterministic false"
    targets.row(f"{name}: of the ceiling", ">=", 70,
                None if fraction is None else 100 * fraction, of_product)  # fmt: skip
    targets.row(f"{name}: times the peer ({peer})", ">=", 1,
                targets.ratio(rate, targets.get(f"{peer}_prefill")), "x")  # fmt: skip
    bits = targets.ratio(
        targets.get("bench_8b_bf16_int4_decode_1"), targets.get("bench_8b_bf16_decode_1")
    )
    targets.row("8B 4-bit decode_1: times its bf16 rate", ">=", 2.5, bits, "x")
    measured = [name for name in figures if name.endswith("_captures_measured")]
    targets.row("graphs captured inside measured runs", "<=", 0, targets.get(*measured), "captures")
    targets.row("1B decode_1: gaps of the host", "<=", 5, targets.get("gaps_host"), "% of a step")
    targets.row("1B decode_1: gaps in the graph", "<=", 10, targets.get("gaps_graph"), "% of a step")
    targets.row("64 streams, 4k in common: of the plain kernel, same pages", "<=", 1 / 3,
                targets.get("shared_once_to_same"), "")  # fmt: skip
    targets.row("64 streams, 4k in common: of the plain kernel, own pages", "<=", 1 / 8,
                targets.get("shared_once_to_own"), "")  # fmt: skip
    for way in ("out", "in"):
        rate = targets.ratio(targets.get(f"swap_{way}"), targets.get(f"bus_{way}"))
        targets.row(f"swap {way}: of the bus's own rate", ">=", 80,
                    None if rate is None else 100 * rate, "%")  # fmt: skip
    targets.row("a step beside a swap: longer by", "<=", 5, targets.get("step_beside_swap"), "%")
    themes = re.findall(r"^PARITY\((\w+)\)", THEMES.read_text(encoding="utf-8"), re.M)
    targets.passed("every operation within its bound of ref", *(f"parity_{theme}" for theme in themes),
                   *(f"parity_large_{theme}" for theme in LARGE))  # fmt: skip
    targets.passed("models: logits, greedy tokens, bits after a swap", "model", "engine", "engine_1b_bf16",
                   "engine_8b_q4_0", "graph", "experts", "ranks")  # fmt: skip
    targets.passed("the engine's sandbox: a backend, graphs and a swap behind it", "sandbox")
    targets.passed("errors: too little memory says how much of what", "errors")
    # A device cannot be broken on purpose, and the gateway is not built here.
    targets.row("a lost device: the engine ends, the edge answers 503", "<=", 0, None,
                "simulated alone: tests/e2e/test_device.py")  # fmt: skip
    targets.sanitized("memcheck")
    targets.sanitized("racecheck")
    return targets.rows


def number(value):
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def table(report):
    lines = [f"tests/gpu/{report['script']}", report["device"], *report["machine"], ""]
    if report["is_dry"]:
        lines = [DRY, "", *lines]
    lines += [f"{'part':<34} {'state':<16} seconds"]
    lines += [f"{p['name']:<34} {p['state']:<16} {p['seconds']:7}" for p in report["parts"]]
    if report["advice"]:
        lines += ["", "what to do", *(f"  {a['name']}: {a['words']}" for a in report["advice"])]
    parity = report["parity"]
    lines += ["", f"parity: {parity['checks']} checks, {len(parity['above'])} above their bound"]
    lines += [f"  above: {name}" for name in parity["above"]]
    if parity["worst"]:
        lines += [f"  worst: {parity['worst']['error_to_bound']} of its bound, {parity['worst']['name']}"]
    lines += ["", f"{'target':<62} {'wanted':>9} {'seen':>9}       unit"]
    words = {True: "met", False: "MISSED", None: "not seen"}
    for row in report["targets"]:
        lines.append(
            f"{row['name']:<62} {row['wants'] + ' ' + number(row['target']):>9} {number(row['seen']):>9} "
            f"{words[row['is_met']]:<9} {row['unit']}".rstrip()
        )
    lines += ["", f"{'figure':<56} {'value':>12}"]
    for name, figure in report["figures"].items():
        lines.append(f"{name:<56} {figure['value']:12.4g} {figure['unit']}".rstrip())
    return "\n".join(lines) + "\n"


def make(logs, is_dry, script="check"):
    figures, parts = read_figures(logs), read_parts(logs)
    read_benches(logs, figures)
    # A check shows all targets, a visit only those that it has seen.
    targets = [row for row in target_rows(figures, parts) if script == "check" or row["seen"] is not None]
    return {
        "script": script,
        "is_dry": is_dry,
        "device": "\n".join(read_lines(logs / "version.txt")),
        "machine": read_lines(logs / "machine.txt"),
        "parts": parts,
        "advice": read_advice(logs),
        "parity": read_parity(logs),
        "targets": targets,
        "figures": figures,
    }


def put(path, text):
    """Replaces a file at once, since the check may be killed at any time."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def again(script, *reports):
    """Prints the names of the script's parts to run again, for CHECK_ONLY. A part that only helps
    another is replaced by that one."""
    names = set()
    for path in map(pathlib.Path, reports):
        report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        parts = report.get("parts", []) if report.get("script") == script else []
        names |= {part["name"] for part in parts if part["state"] not in ("ok", "not here")}
    names.discard("build")
    names = {re.sub(r"^memcheck_of_|_found$", "", name) for name in names}
    # Only the engine uses models of two layers; whole ones are for all parts of bench.
    names = {re.sub(r"^write_(.*)_2$", r"engine_\1", name) for name in names}
    names = {"bench" if name.startswith("write_") else name for name in names}
    print(",".join(sorted(names)))
    return 0


def main(logs, folder, is_dry, script="check"):
    report = make(pathlib.Path(logs), is_dry == "yes", script)
    folder = pathlib.Path(folder)
    put(folder / "report.json", json.dumps(report, indent=1, allow_nan=False) + "\n")
    text = table(report)
    put(folder / "report.txt", text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(again(*sys.argv[2:]) if sys.argv[1] == "--again" else main(*sys.argv[1:]))
