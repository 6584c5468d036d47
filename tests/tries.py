"""Runs one suite for tests/run, adds to the tally, and gives what failed a second try.

usage: tries.py ctest NAME FOLDER [arguments of ctest]
       tries.py pytest NAME [arguments of pytest]
       tries.py again
       tries.py history

Suites run beside each other, so what fails is only written down ($BANYAN_SCRATCH/fell); `again`, when
all are over, runs each once more, alone, and it counts when it passes then. There is no second try when
a sanitizer or a failed assertion of the product spoke at the first, nor when so many fell that luck is
no explanation. The tally ($BANYAN_TALLY) gets lines "passed N", "second NAME" and "failed NAME", and
"ended NAME" when a suite has been counted.
`history` keeps who needed a second try or failed in the last runs, and names the tests that needed one in
two of them: such a test is mended or removed. It also prints what each part has taken ($BANYAN_SCRATCH/spent,
lines "NAME USER SYSTEM WALL" in seconds; tests/run adds the builds).
"""

import collections
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

SECOND_TRIES_MAX = 12
TAIL_LINES = 250
HISTORY_RUNS = 10
HISTORY_TRIES = 2
SUITE_S = 3600  # something hangs
REPORTS = re.compile(  # as they are printed, not as sources of tests name them
    r"(ERROR|WARNING|SUMMARY): (Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer"
    r"|runtime error: |: assertion failed: "
)
LOGS = pathlib.Path("build/logs")
SCRATCH = pathlib.Path(os.environ.get("BANYAN_SCRATCH", "/tmp"))
FELL = SCRATCH / "fell"  # a line of JSON for each that has a second try: what again() is told
SECOND = SCRATCH / "second"
SPENT = SCRATCH / "spent"


def run(command, log):
    """The exit code; what it says goes to a file, for a test may leave a process with the pipe."""
    with open(log, "w") as out:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=SUITE_S
            ).returncode
        except subprocess.TimeoutExpired:
            out.write(f"\n{command[0]} was ended after {SUITE_S} s\n")
            code = 124
    return code, log.read_text(errors="replace")


def tail(text):
    lines = text.splitlines()
    print("\n".join(lines[-TAIL_LINES:]), flush=True)


def append(path, lines):
    with open(path, "a") as out:  # in one piece: other suites append too
        out.write("".join(f"{line}\n" for line in lines))


def tally(name, passed, fell, hopeless, alone):
    """`alone(test)` is the command that runs one test."""
    lines, kept = [f"passed {passed}"], []
    for test in fell:
        is_over = test in hopeless or len(fell) > SECOND_TRIES_MAX
        print(f"FAIL  {name}/{test}{'' if is_over else ' at the first try'}")
        if is_over:
            lines.append(f"failed {name}/{test}")
        else:
            given = {key: os.environ.get(key, "") for key in ("BANYAN_BINARY", "BANYAN_TEST_MODEL")}
            kept.append(json.dumps([name, test, alone(test), given]))
    append(os.environ.get("BANYAN_TALLY", os.devnull), lines)
    append(FELL, kept)
    return 1 if fell else 0


def again():
    """The second tries, one after the other."""
    lines = []
    for line in FELL.read_text().splitlines() if FELL.exists() else ():
        name, test, command, environment = json.loads(line)
        shutil.rmtree(SECOND, ignore_errors=True)
        os.environ.update(environment)
        code, text = run(command, LOGS / f"{name}.second.log")
        reports = servers_reports(SECOND)
        good = code == 0 and not reports
        if not good:
            print(f"---- second try of {test}")
            tail("\n".join([text, *reports]))
        lines.append(f"{'second' if good else 'failed'} {name}/{test}")
        print(f"{'ok  ' if good else 'FAIL'}  {name}/{test} at the second try")
    append(os.environ.get("BANYAN_TALLY", os.devnull), lines)
    return 0 if all(line.startswith("second") for line in lines) else 1


def spent():
    """Prints what each part has taken of the processors; {part: [processor seconds, wall seconds]}."""
    parts = {}
    for line in SPENT.read_text().splitlines() if SPENT.exists() else ():
        name, user, system, wall = line.split()
        parts[name] = [round(float(user) + float(system), 1), round(float(wall), 1)]
    print("processor s   wall s  part")
    for name, (processor, wall) in parts.items():
        print(f"{processor:11.1f} {wall:8.1f}  {name}")
    print(f"{sum(processor for processor, _ in parts.values()):11.1f}           together")
    return parts


def history():
    """Adds this run to the file of the last runs, and tells who needs second tries again and again."""
    folder = pathlib.Path(os.environ.get("BANYAN_CACHE", pathlib.Path.home() / ".cache/banyan"))
    path = folder / "tests-history.jsonl"
    runs = path.read_text().splitlines() if path.exists() else []
    tally = pathlib.Path(os.environ["BANYAN_TALLY"]).read_text().split("\n")
    words = [line.split(" ", 1) for line in tally if line]
    runs.append(json.dumps({
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "second": [what for kind, what in words if kind == "second"],
        "failed": [what for kind, what in words if kind == "failed"],
        "spent": spent(),
    }))  # fmt: skip
    runs = runs[-HISTORY_RUNS:]
    path.with_suffix(".part").write_text("".join(f"{run}\n" for run in runs))
    path.with_suffix(".part").replace(path)
    seen = collections.Counter(test for run in runs for test in json.loads(run)["second"])
    for test, times in seen.most_common():
        if times >= HISTORY_TRIES:
            print(f"needs mending: {test} needed a second try in {times} of {len(runs)} runs ({path})")
    return 0


def ctest(name, folder, *arguments):
    base = ["ctest", "--test-dir", folder, "--output-on-failure"]
    jobs = str(os.cpu_count() + 1)  # some only wait
    _, text = run([*base, "-j", jobs, *arguments], LOGS / f"{name}.log")
    count = re.search(r"^\d+% tests passed, .* out of (\d+)$", text, re.M)
    if not count or count[1] == "0":
        tail(text)
        return tally(name, 0, ["no test ran"], {"no test ran"}, None)
    listed = text.partition("The following tests FAILED:")[2]
    fell = re.findall(r"^\s+\d+ - (\S+) \(", listed, re.M)
    # What each has said stands between its line and the next one's.
    pieces = re.split(r"^ *\d+/\d+ Test +#\d+: (\S+)", text.partition("The following tests")[0], flags=re.M)
    hopeless = {test for test, said in zip(pieces[1::2], pieces[2::2]) if REPORTS.search(said)}
    passed = int(count[1]) - len(fell)
    print(f"{'FAIL' if fell else 'ok  '}  {name}: {passed} of {count[1]}")
    if fell:
        tail(re.sub(r"^( *\d+/\d+ Test.*Passed.*| +Start +\d+: .*)\n", "", text, flags=re.M))
    return tally(name, passed, fell, hopeless, lambda test: [*base, "-R", f"^{re.escape(test)}$"])


def servers_reports(folder):
    """Lines of the servers' logs under a folder that are reports; there are FIFOs among the files."""
    lines = []
    for path, _, names in os.walk(folder):
        for file in (pathlib.Path(path) / name for name in names if name.endswith(".log")):
            if file.is_file() and not file.is_symlink():
                text = file.read_text(errors="replace").splitlines()
                lines += [f"{file}: {line}" for line in text if REPORTS.search(line)]
    return lines


def pytest(name, *arguments):
    cache = SCRATCH / f"{name}.cache"
    shutil.rmtree(cache, ignore_errors=True)
    base = [sys.executable, "-m", "pytest", "-q", "-rfE", "--rootdir=.", "--durations=40"]
    base += ["-o", f"cache_dir={cache}"]
    if "BANYAN_TEST_ALL" in os.environ:  # each run holds one of two orders
        os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).parent)
        base += ["-p", "backwards"]
    folder = SCRATCH / name
    code, text = run([*base, f"--basetemp={folder}", *arguments], LOGS / f"{name}.log")
    line = re.findall(r"^.*\b\d+ (?:passed|failed|errors?|skipped).* in [\d.]+s.*$", text, re.M)
    passed = re.search(r"(\d+) passed", line[-1]) if line else None
    last = cache / "v/cache/lastfailed"
    fell = list(json.loads(last.read_text())) if last.exists() else []
    print(f"{'FAIL' if code else 'ok  '}  {name}: {line[-1] if line else 'no test ran'}")
    reports = servers_reports(folder) if code else []
    if code:
        tail(text)
        print("\n".join(reports))
        fell = fell or [f"pytest ended with {code}"]
    is_hopeless = bool(reports) or REPORTS.search(text) or not last.exists()
    result = tally(
        name, int(passed[1]) if passed else 0, fell if code else [],
        set(fell) if is_hopeless else (), lambda test: [*base, f"--basetemp={SECOND}", test],
    )  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    return result


def suite(command, name, *arguments):
    """What is left behind, like a server that a killed test has started, is not counted."""
    began = time.monotonic()
    code = command(name, *arguments)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    append(SPENT, [f"{name} {used.ru_utime:.1f} {used.ru_stime:.1f} {time.monotonic() - began:.1f}"])
    append(os.environ.get("BANYAN_TALLY", os.devnull), [f"ended {name}"])
    return code


def main(what, *arguments):
    LOGS.mkdir(parents=True, exist_ok=True)
    if what in ("again", "history"):
        return {"again": again, "history": history}[what]()
    return suite({"ctest": ctest, "pytest": pytest}[what], *arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
