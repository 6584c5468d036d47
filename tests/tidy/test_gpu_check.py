"""tests/gpu/check without a device: its report's figures, targets and form, and a dry run of all of
it over the processor."""

import importlib.util
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tarfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("check_report", ROOT / "tests/gpu/check_report.py")
check_report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_report)

THEMES = re.findall(r"^PARITY\((\w+)\)", (ROOT / "tests/gpu/gpu_parity.def").read_text(), re.M)
FIGURE_TYPES = {"value": (int, float), "unit": str}
ROW_TYPES = {
    "name": str, "wants": str, "target": (int, float), "seen": (int, float, type(None)), "unit": str,
    "is_met": (bool, type(None)),
}  # fmt: skip


def has_form(report):
    assert set(report) == {"script", "is_dry", "device", "machine", "parts", "advice", "parity", "targets", "figures"}
    assert all(set(line) == {"name", "words"} for line in report["advice"])
    assert isinstance(report["is_dry"], bool) and isinstance(report["device"], str)
    for part in report["parts"]:
        assert set(part) == {"name", "state", "seconds"} and isinstance(part["seconds"], int)
    assert set(report["parity"]) == {"checks", "above", "worst"}
    for row in report["targets"]:
        assert set(row) == set(ROW_TYPES) and row["wants"] in (">=", "<=")
        assert all(isinstance(row[key], kind) for key, kind in ROW_TYPES.items()), row
        assert (row["is_met"] is None) == (row["seen"] is None)
    for figure in report["figures"].values():
        assert set(figure) == set(FIGURE_TYPES)
        assert all(isinstance(figure[key], kind) for key, kind in FIGURE_TYPES.items())


def write_logs(logs, figures, parts=(), benches=None, parity=()):
    logs.mkdir(exist_ok=True)
    lines = [json.dumps({"name": n, "value": v, "unit": "u"}) for n, v in figures.items()]
    (logs / "figures.jsonl").write_text("\n".join(lines) + '\n{"name": "cut o')
    (logs / "parts.tsv").write_text("".join(f"{n}\t{s}\t3\n" for n, s in parts))
    (logs / "version.txt").write_text("banyan 1\n")
    (logs / "parity.txt").write_text("".join(f"{line}\n" for line in parity))
    for name, bench in (benches or {}).items():
        (logs / f"bench_{name}.txt").write_text("words before\n" + json.dumps(bench) + "\n")


def rows(logs):
    report = check_report.make(logs, False)
    has_form(report)
    check_report.table(report)
    return {row["name"]: row for row in report["targets"]}, report


def test_targets_of_nothing_are_not_seen(tmp_path):
    write_logs(tmp_path / "log", {})
    seen, _ = rows(tmp_path / "log")
    assert all(row["is_met"] is None for row in seen.values())
    assert len(seen) == 24


def test_targets_of_the_issue(tmp_path):
    """The ceilings are those of shared/design/performance.md: 4.3 TB/s and 790 TFLOP/s."""
    bench = {"decode_tokens_per_second": {"1": 250.0, "64": 6000.0}, "prefill_tokens_per_second": 40000.0,
             "captures": {"count": 9, "in_measured_runs": 2, "ms_each": 1.5, "bytes_each": 65536}}  # fmt: skip
    write_logs(
        tmp_path / "log",
        {
            "device_copy": 4300, "torch_product_tflops": 790, "transformers_version": 5.0,
            "transformers_decode_1": 80, "transformers_decode_64": 2500, "transformers_prefill": 38000,
            "gaps_host": 5.0, "gaps_graph": 10.1, "shared_once_to_same": 0.33, "shared_once_to_own": 0.2,
            "swap_out": 20, "bus_out": 24, "swap_in": 10, "bus_in": 24, "step_beside_swap": -1.0,
        },
        parts=[*((f"parity_{theme}", "ok") for theme in THEMES),
               *((f"parity_large_{theme}", "ok") for theme in check_report.LARGE), ("model", "failed (1)"), ("engine", "ok"), ("errors", "ok"),
               ("sanitizer_memcheck", "out of time"), ("sanitizer_racecheck", "ok")],
        benches={"8b_bf16": bench, "8b_bf16_free": {"prefill_tokens_per_second": 20000.0},
                 "8b_bf16_int4": {"decode_tokens_per_second": {"1": 600.0}}},
        parity=["linear q4_0 37 × 256, 1 rows      0.250 ok", "gather 5 × 37      inf ABOVE ITS BOUND"],
    )  # fmt: skip
    seen, report = rows(tmp_path / "log")

    def of(text):
        (row,) = [row for name, row in seen.items() if text in name]
        return row["seen"], row["is_met"]

    ceiling = check_report.ceilings(check_report.Targets(report["figures"], []))
    assert round(ceiling["decode_1"]) == 281  # 286 without its own 2,048 keys
    assert round(ceiling["decode_64"]) == 8549
    assert 54000 < ceiling["prefill"] < 55000
    assert of("decode_1: of the ceiling") == (pytest.approx(88.9, abs=0.2), True)
    assert of("decode_64: of the ceiling") == (pytest.approx(70.2, abs=0.2), False)
    assert of("prefill: of the ceiling")[1] is True
    assert of("prefill, --deterministic false: of the ceiling") == (pytest.approx(36.7, abs=0.1), False)
    assert of("decode_1: times the peer (transformers)")[1] is True
    assert of("decode_64: times the peer")[1] is False
    assert of("4-bit") == (pytest.approx(2.4), False)
    assert of("captured inside measured runs") == (2, False)
    assert report["figures"]["bench_8b_bf16_capture_ms"] == {"value": 1.5, "unit": "ms"}
    assert of("gaps of the host")[1] is True and of("gaps in the graph")[1] is False
    assert of("same pages")[1] is True and of("own pages")[1] is False
    assert of("swap out")[1] is True and of("swap in")[1] is False
    assert of("beside a swap")[1] is True
    assert of("within its bound") == (0, True)
    assert of("greedy") == (1, False)
    assert of("errors") == (0, True)
    assert of("memcheck") == (None, None)  # out of time: it has not been through
    assert of("racecheck") == (0, True)
    assert report["parity"]["checks"] == 2 and report["parity"]["above"] == ["gather 5 × 37"]
    assert report["parity"]["worst"] == {"name": "linear q4_0 37 × 256, 1 rows", "error_to_bound": 0.25}


def test_a_lower_ceiling_is_named(tmp_path):
    bench = {"prefill_tokens_per_second": 30000.0}
    write_logs(tmp_path / "log", {"product_mma": 500}, benches={"8b_bf16": bench})
    seen, _ = rows(tmp_path / "log")
    assert seen["8B bf16 prefill: of the ceiling"]["unit"] == "% of m16n8k16"


def test_no_number_is_no_figure(tmp_path):
    write_logs(tmp_path / "log", {"device_copy": float("nan"), "gaps_host": float("inf"), "bus_in": 2})
    check_report.main(tmp_path / "log", tmp_path, "no")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert list(report["figures"]) == ["bus_in"]


def test_a_check_above_its_bound_in_one_of_two_runs(tmp_path):
    write_logs(tmp_path / "log", {}, parity=["gather 5 × 37      inf ABOVE ITS BOUND"])
    (tmp_path / "log" / "parity_large.txt").write_text("gather 5 × 37      0.000 ok\n")
    _, report = rows(tmp_path / "log")
    assert report["parity"]["checks"] == 1 and report["parity"]["above"] == ["gather 5 × 37"]


def test_a_part_that_is_not_there(tmp_path):
    """All but one came to a good end: that is no target met."""
    write_logs(tmp_path / "log", {}, parts=[("parity_linear", "ok"), ("model", "ok"), ("engine", "ok")])
    seen, _ = rows(tmp_path / "log")
    assert seen["every operation within its bound of ref"]["is_met"] is None
    assert seen["models: logits, greedy tokens, bits after a swap"]["is_met"] is None


def test_what_the_sanitizer_says(tmp_path):
    parts = [("sanitizer_memcheck", "out of time"), ("sanitizer_memcheck_found", "failed (9)"),
             ("sanitizer_racecheck", "failed (77)")]  # fmt: skip
    write_logs(tmp_path / "log", {}, parts=parts)
    seen, _ = rows(tmp_path / "log")
    assert seen["compute-sanitizer memcheck: finds"]["is_met"] is False
    assert seen["compute-sanitizer racecheck: finds"]["is_met"] is None  # refused, not well


@pytest.mark.long
def test_dry_run(tmp_path):
    build = ROOT / "build/release"
    assert (build / "gpu_bench_simt").exists(), "build the release preset first"
    done = subprocess.run(
        ["tests/gpu/check", "--dry", build, tmp_path], cwd=ROOT, timeout=600, capture_output=True, text=True,
        env={**os.environ, "CHECK_PEER": "no"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    has_form(report)
    assert report["is_dry"] and [part["state"] for part in report["parts"]] == ["ok"] * 10
    assert {"device_copy", "bus_out", "swap_in", "step_beside_swap", "shared_once_to_own",
            "linear_bf16_1_us", "bench_tiny_bf16_decode_4",
            "bench_tiny_bf16_free_prefill", "bench_tiny_bf16_int4_decode_1"} <= set(report["figures"])  # fmt: skip
    # Steps are captured before a run is measured, and no measuring of ceilings drops them.
    for name in ("bench_tiny_bf16", "bench_tiny_bf16_free", "bench_tiny_bf16_int4"):
        assert report["figures"][f"{name}_captures_measured"]["value"] == 0
        assert report["figures"][f"{name}_capture_bytes"]["value"] > 0
    assert report["parity"]["checks"] > 0 and report["parity"]["above"] == []
    assert (tmp_path / "report.txt").read_text(encoding="utf-8").startswith(check_report.DRY)


def dry(folder, **more):
    return subprocess.Popen(
        ["tests/gpu/check", "--dry", ROOT / "build/release", folder], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, "CHECK_PEER": "no", **more},
    )  # fmt: skip


@pytest.mark.long
def test_only_the_wanted_parts(tmp_path):
    check = dry(tmp_path, CHECK_ONLY="parity,errors")
    words = check.communicate(timeout=300)[0]
    assert check.returncode == 0, words
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [part["name"] for part in report["parts"]] == ["parity_pages", "errors"]
    assert any(re.fullmatch("commit: .+", line) for line in report["machine"])


def look(folder):
    """What a check that ends now leaves: report and logs of all parts that had ended are there, and whole."""
    ended = folder / "log/parts.tsv"
    names = [line.split("\t")[0] for line in ended.read_text().splitlines()] if ended.exists() else []
    before = names[:-1]  # the last one may be on its way into the report
    if not before:
        return 0
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [part["name"] for part in report["parts"]][: len(before)] == before
    with tarfile.open(folder / "logs.tar") as logs:
        assert {f"./{name}.txt" for name in before} <= set(logs.getnames())
    return len(before)


@pytest.mark.long
def test_a_check_that_is_killed_leaves_the_parts_before(tmp_path):
    """Stopped at ten random moments of a dry run, which is what a kill would leave on the disk; then killed."""
    check = dry(tmp_path)
    seen = []
    for moment in range(10):
        time.sleep(random.Random(moment).uniform(0.1, 0.9))
        os.killpg(check.pid, signal.SIGSTOP)
        seen.append(look(tmp_path))
        os.killpg(check.pid, signal.SIGCONT)
    while seen[-1] == 0 and check.poll() is None:  # a slow machine
        time.sleep(0.2)
        seen.append(look(tmp_path))
    os.killpg(check.pid, signal.SIGKILL)
    check.communicate()
    assert look(tmp_path) > 0
