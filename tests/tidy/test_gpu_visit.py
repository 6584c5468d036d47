"""tests/gpu/check and tests/gpu/visit on a machine that is not as they want it: a tree of programs that end as a test
says, and a PATH with the tools that a test gives. Then dry runs of the visits over the processor."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("check_report", ROOT / "tests/gpu/check_report.py")
check_report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_report)

SCRIPTS = ("check", "visit", "parts.sh", "check_report.py", "gpu_parity.def")
TOOLS = (
    "awk", "bash", "cat", "cp", "dirname", "env", "flock", "free", "git", "grep", "head", "lscpu", "mkdir", "mktemp",
    "mv", "nproc", "paste", "python3", "rm", "sed", "sleep", "sort", "tail", "tar",
)  # fmt: skip
PROGRAMS = (
    "banyan", "gpu_parity", "gpu_model", "gpu_engine", "gpu_graph", "gpu_ranks", "gpu_sandbox", "gpu_bench",
    "gpu_shape", "gpu_probe",
)  # fmt: skip
H100 = 'case "$*" in *compute_cap,*) echo "NVIDIA H100, 580.1, 9.0" ;; *=name*) echo "NVIDIA H100" ;; *) echo 9.0 ;; esac'
ROOM = """echo "Filesystem 1024-blocks Used Available Capacity Mounted"
for place in "${@:2}"; do echo "disk 1 1 %d000000 1 $place"; done"""


class Tree:
    """The scripts over programs that do as `act` says; each call's words are in calls.txt."""

    def __init__(self, root):
        self.root = root
        self.bin = root / "bin"
        self.out = root / "out"
        (root / "tests/gpu").mkdir(parents=True)
        (root / "build/gpu").mkdir(parents=True)
        self.bin.mkdir()
        for name in SCRIPTS:
            shutil.copy(ROOT / "tests/gpu" / name, root / "tests/gpu" / name)
        for name in TOOLS:
            (self.bin / name).symlink_to(sys.executable if name == "python3" else shutil.which(name))
        for name in PROGRAMS:
            self.act(name, "", "build/gpu")
        self.act("cmake", "")
        self.act("nvidia-smi", H100)
        self.act("df", ROOM % 100)
        # A part that hangs does so for a second; what is asked of the machine has its time.
        self.act("timeout", f"""
            words=()
            for word in "$@"; do
              if [ "$word" = 60 ] || [ "$word" = 90 ]; then word=1; fi
              words+=("$word")
            done
            exec {shutil.which("timeout")} "${{words[@]}}" """)  # fmt: skip

    def act(self, name, words, folder="bin"):
        path = self.root / folder / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.root}/calls.txt"\n{words}\n')
        path.chmod(0o755)

    def run(self, *words, **more):
        environment = {"PATH": str(self.bin), "CUDA_HOME": "/nonexistent", "HOME": str(self.root), **more}
        return subprocess.run(
            [self.root / "tests/gpu" / words[0], *words[1:], self.out], env=environment, cwd=self.root,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip

    def report(self):
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def states(self):
        return {part["name"]: part["state"] for part in self.report()["parts"]}

    def advice(self, name):
        words = [line["words"] for line in self.report()["advice"] if line["name"] == name]
        text = (self.out / "report.txt").read_text(encoding="utf-8")
        assert all(f"{name}: {line}" in text for line in words)
        return " / ".join(words)

    def calls(self):
        return (self.root / "calls.txt").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_all_is_well(tree):
    done = tree.run("check", CHECK_ONLY="parity,errors,sandbox,engine")
    assert done.returncode == 0, done.stdout
    assert set(tree.states().values()) == {"ok"} and "engine_8b_q4_0" in tree.states()
    assert "=90-real" in tree.calls() and tree.report()["advice"] == []


@pytest.mark.parametrize(
    "words, says",
    [("no CUDA device: the driver reports no device", "the driver shows no device"),
     ("no CUDA device: CUDA driver version is insufficient for CUDA runtime version", "older than the toolkit")],
)  # fmt: skip
def test_no_device_that_the_driver_shows(tree, words, says):
    tree.act("gpu_parity", f'echo "{words}"; exit 77', "build/gpu")
    assert tree.run("check").returncode == 77
    assert says in tree.advice("machine")
    assert list(tree.states().values()) == ["ok", "not here"]  # the build, and the first check


@pytest.mark.parametrize("act", [None, ""])
def test_nvidia_smi_is_missing_or_silent(tree, act):
    (tree.bin / "nvidia-smi").unlink()
    if act is not None:
        tree.act("nvidia-smi", act)
    more = {} if act is None else {"CHECK_ARCH": "80-real"}
    assert tree.run("check", CHECK_ONLY="errors", **more).returncode == 0
    assert f"-DBANYAN_CUDA_ARCHITECTURES={'90' if act is None else '80'}-real" in tree.calls()
    assert "built for sm_90, unless" in tree.advice("machine")


def test_no_device_at_all(tree):
    (tree.bin / "nvidia-smi").unlink()
    tree.act("gpu_bench", 'echo "no CUDA device"; exit 77', "build/gpu")
    assert tree.run("visit", "2").returncode == 77
    assert "there is no device" in tree.advice("machine")
    assert "gpu_shape" not in tree.calls()  # no model is written for it


def test_a_device_that_is_too_old(tree):
    tree.act("nvidia-smi", 'case "$*" in *compute_cap,*) echo "Tesla T4, 580.1, 7.5" ;; *) echo 7.5 ;; esac')
    words = "CUDA device 0, Tesla T4, has compute capability 7.5; at least 8.0 is needed"
    tree.act("gpu_parity", f'echo "gpu_parity: open: {words}"; exit 1', "build/gpu")
    assert tree.run("check", CHECK_ONLY="parity_rows,errors").returncode == 1
    assert "too old" in tree.advice("machine") and "too old" in tree.advice("parity_rows")
    assert tree.states()["errors"] == "ok"


def test_it_does_not_build(tree):
    tree.act("cmake", 'echo "No CMAKE_CUDA_COMPILER could be found."; exit 1')
    assert tree.run("check").returncode == 2
    assert "PATH" in tree.advice("build") and tree.states() == {"build": "failed"}
    with tarfile.open(tree.out / "logs.tar") as logs:
        assert b"CMAKE_CUDA_COMPILER" in logs.extractfile("./build.txt").read()


def test_a_disk_with_10_GB(tree):
    tree.act("df", ROOM % 10)
    assert tree.run("check", CHECK_ONLY="engine,bench").returncode == 0
    assert "no place has room for 20 GB" in tree.advice("models")
    assert tree.states()["engine_8b_q4_0"] == "ok" and "bench_8b_bf16" not in tree.states()


@pytest.mark.parametrize("has_gdb", [False, True])
def test_each_part_ends_alone(tree, has_gdb):
    """A model is cut while it is written, a part hangs, another is killed for memory, and there is no
    compute-sanitizer."""
    if has_gdb:
        tree.act("cuda-gdb", 'echo "k_linear_few_cuda waits"')
    tree.act("gpu_shape", 'echo half >"$3"; echo "$3: No space left on device"; exit 1', "build/gpu")
    tree.act("gpu_graph", "sleep 30", "build/gpu")
    tree.act("gpu_ranks", "kill -KILL $$", "build/gpu")
    assert tree.run("check", CHECK_ONLY="engine,bench_8b_bf16,errors,graph,ranks,sandbox,sanitizer").returncode == 1
    states = tree.states()
    assert states["write_1b_bf16_2"] == states["write_8b_bf16"] == "failed (1)"
    assert "engine_1b_bf16" not in states and "bench_8b_bf16" not in states  # nothing has read the half
    assert "disk is full" in tree.advice("write_8b_bf16") and "is removed" in tree.advice("write_8b_bf16")
    assert states["graph"] == "out of time"
    assert "graph.hang.txt" in tree.advice("graph") and "--no-early" in tree.advice("graph")
    assert states["ranks"] == "failed (killed)" and "for memory" in tree.advice("ranks")
    assert states["sanitizer_racecheck"] == "not here"
    assert "must be on PATH" in tree.advice("sanitizer_memcheck")
    assert states["engine"] == states["errors"] == states["sandbox"] == "ok"
    with tarfile.open(tree.out / "logs.tar") as logs:
        assert ("./graph.hang.txt" in logs.getnames()) == has_gdb
        assert not has_gdb or b"k_linear_few_cuda waits" in logs.extractfile("./graph.hang.txt").read()


def test_what_to_do_about_a_part_that_fails(tree):
    cases = {
        "rows": ("gather 5 × 37      inf ABOVE ITS BOUND", "bound"),
        "linear": ("gpu_parity: step: misaligned address", "memcheck_of_"),
        "draw": ("gpu_parity: open: no kernel image is available", "CHECK_ARCH"),
        "pages": ("Segmentation fault", "end of parity_pages.txt"),
    }
    words = " ".join(f'{theme}) echo "{words}" ;;' for theme, (words, _) in cases.items())
    tree.act("gpu_parity", f'case "$2" in {words} esac; exit 1', "build/gpu")
    names = [f"parity_{theme}" for theme in cases]
    assert tree.run("check", CHECK_ONLY=",".join(names)).returncode == 1
    assert tree.states() == {"build": "ok"} | dict.fromkeys(names, "failed (1)")
    for theme, (_, says) in cases.items():
        assert says in tree.advice(f"parity_{theme}")


def test_a_name_that_no_part_has(tree):
    assert tree.run("check", CHECK_ONLY="engines").returncode == 1
    assert "engines" in tree.advice("CHECK_ONLY")


def test_a_model_is_written_for_a_part_that_wants_it(tree):
    tree.act("gpu_shape", 'echo whole >"$3"', "build/gpu")
    assert tree.run("check", CHECK_ONLY="bench_8b_bf16_int4").returncode == 0
    assert list(tree.states()) == ["build", "write_8b_bf16", "bench_8b_bf16_int4"]


def test_variants_of_the_second_visit(tree):
    tree.act("gpu_shape", 'echo whole >"$3"', "build/gpu")
    tree.act("ncu", 'case "$*" in *draw*) echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1 ;; esac')
    tree.act("compute-sanitizer", "")
    done = tree.run("visit", "2")
    assert done.returncode == 0, done.stdout
    trials = ("no_early", "no_graphs", "carveout", "few_stages")
    wanted = ["probe", "gaps", "gaps_no_early", *(f"bench_8b_{t}" for t in ("bf16", "bf16_int4")),
              *(f"bench_8b_{t}_{trial}" for t in ("bf16", "bf16_int4") for trial in trials), "sanitizer_racecheck"]  # fmt: skip
    states = tree.states()
    assert {name: states.get(name) for name in wanted} == dict.fromkeys(wanted, "ok")
    counters = {name: state for name, state in states.items() if name.startswith("ncu_")}
    assert len(counters) == 8 and counters.pop("ncu_draw_scan") == "failed (1)"
    assert set(counters.values()) == {"ok"} and "keeps its counters" in tree.advice("ncu_draw_scan")
    assert tree.calls().count("\nncu --clock-control none") == 8
    for trial in trials:
        assert f"--weights int4 --{trial.replace('_', '-')}" in tree.calls()
    assert tree.report()["script"] == "visit 2" and (tree.root / "build/gpu/former-visit-2.json").is_file()


def test_a_third_visit_repeats_what_was_broken(tree):
    tree.act("gpu_ranks", "exit 1", "build/gpu")
    assert tree.run("visit", "1", CHECK_ONLY="ranks,graph").returncode == 1
    tree.act("ncu", "exit 1")
    assert tree.run("visit", "2", CHECK_ONLY="ncu_draw_scan,gaps").returncode == 0
    tree.act("gpu_ranks", "", "build/gpu")
    (tree.root / "calls.txt").write_text("")
    done = tree.run("visit", "3")
    assert done.returncode == 0, done.stdout
    assert list(tree.states()) == ["build", "ranks"] and tree.states()["ranks"] == "ok"
    second = json.loads((tree.out / "visit-2/report.json").read_text(encoding="utf-8"))
    assert [part["name"] for part in second["parts"]] == ["build", "ncu_draw_scan"]


def test_a_third_visit_without_any_report(tree):
    """It runs the first call, rather than nothing."""
    done = tree.run("visit", "3", CHECK_ONLY="ranks")
    assert done.returncode == 0 and "this runs call 1" in done.stdout, done.stdout
    assert tree.report()["script"] == "check" and list(tree.states()) == ["build", "ranks"]


@pytest.mark.parametrize("card", ["H100", "H200"])
def test_a_third_visit_with_nothing_broken(tree, card):
    tree.act("nvidia-smi", H100.replace("H100", card))
    tree.act("gpu_shape", 'echo whole >"$3"', "build/gpu")
    assert tree.run("visit", "1", CHECK_ONLY="ranks").returncode == 0
    done = tree.run("visit", "3")
    assert done.returncode == 0, done.stdout
    assert "former-visit-2.json" in done.stdout  # is not there
    if card == "H200":
        assert list(tree.states()) == ["build", "write_8b_bf16", "bench_8b_bf16", "bench_8b_bf16_free"]
    else:
        assert tree.states() == {} and "nothing to run again" in tree.advice("visit")


def test_names_to_run_again(tmp_path, capsys):
    states = {"build": "ok", "parity_rows": "ok", "memcheck_of_parity_draw": "failed (9)", "peer": "not here",
              "sanitizer_racecheck_found": "failed (9)", "write_8b_bf16": "failed (1)", "write_1b_bf16_2": "not begun",
              "graph": "out of time"}  # fmt: skip
    report = {"script": "check", "parts": [{"name": n, "state": s} for n, s in states.items()]}
    (tmp_path / "a.json").write_text(json.dumps(report))
    check_report.again("check", tmp_path / "a.json", tmp_path / "not there.json")
    check_report.again("visit 2", tmp_path / "a.json")
    assert capsys.readouterr().out.splitlines() == [
        "bench,engine_1b_bf16,graph,parity_draw,sanitizer_racecheck", ""]  # fmt: skip


@pytest.mark.parametrize("words, status, said", [
    (["check", "--help"], 0, "usage: tests/gpu/check"), (["visit", "--help"], 0, "usage: tests/gpu/visit"),
    (["visit", "2", "--help"], 0, "usage: tests/gpu/visit"), (["visit"], 2, "usage: tests/gpu/visit"),
    (["visit", "4"], 2, "usage: tests/gpu/visit"), (["check", "--drive"], 2, "there is no option --drive"),
    (["visit", "2", "--dry", "nowhere"], 2, "nowhere has no gpu_banyan_simt"),
])  # fmt: skip
def test_wrong_words_are_told(words, status, said):
    before = set(ROOT.iterdir())
    done = subprocess.run(
        [f"tests/gpu/{words[0]}", *words[1:]], cwd=ROOT, timeout=60, capture_output=True, text=True
    )
    assert done.returncode == status and said in done.stdout + done.stderr
    assert set(ROOT.iterdir()) == before, "an option's name is no folder's"


def dry(call, folder, **more):
    done = subprocess.run(
        ["tests/gpu/visit", call, "--dry", ROOT / "build/release", folder], cwd=ROOT, timeout=600, capture_output=True,
        text=True, env={**os.environ, "CHECK_PEER": "no", **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.all  # programs that the dry check has run before
def test_dry_visits(tmp_path):
    """All of the second; of the first, which is tests/gpu/check, and of the third a part."""
    report = dry("1", tmp_path / "1", CHECK_ONLY="errors")
    assert report["is_dry"] and report["script"] == "check" and [part["name"] for part in report["parts"]] == ["errors"]
    report = dry("2", tmp_path / "2")
    states = {part["name"]: part["state"] for part in report["parts"]}
    away = {name for name, state in states.items() if state == "not here"}
    assert {"probe", "sanitizer_racecheck"} <= away and len(away) == 10  # and eight kernels' counters
    assert {state for name, state in states.items() if name not in away} == {"ok"}
    assert away <= {line["name"] for line in report["advice"]}
    figures = report["figures"]
    assert {"gap between two kernels", "no-early gap between two kernels", "bench_tiny_bf16_decode_3",
            "bench_tiny_bf16_no_early_decode_3", "bench_tiny_bf16_int4_decode_1"} <= set(figures)  # fmt: skip
    assert figures["bench_tiny_bf16_no_graphs_capture_bytes"]["value"] == 0
    former = tmp_path / "former.json"
    former.write_text(json.dumps({"script": "check", "parts": [{"name": "errors", "state": "out of time"}]}))
    report = dry("3", tmp_path / "3", VISIT_FORMER=str(former))
    assert {part["name"]: part["state"] for part in report["parts"]} == {"errors": "ok"}
