"""Runs one suite for tests/run, gives what failed a second try, and adds to the tally.

usage: tries.py ctest NAME FOLDER [arguments of ctest]
       tries.py pytest NAME [arguments of pytest]

A test that fails is run once more, alone, and counts when it passes then; never when a sanitizer or
a failed assertion of the product spoke at its first try, nor when so many fell that luck is no
explanation. The tally ($BANYAN_TALLY) gets lines "passed N", "second NAME" and "failed NAME".
$BANYAN_BUILDER names a process group that must not run beside a second try.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

SECOND_TRIES_MAX = 12
TAIL_LINES = 250
SUITE_S = 3600  # something hangs
REPORTS = re.compile(  # as they are printed, not as sources of tests name them
    r"(ERROR|WARNING|SUMMARY): (Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer"
    r"|runtime error: |: assertion failed: "
)
LOGS = pathlib.Path("build/logs")
SCRATCH = pathlib.Path(os.environ.get("BANYAN_SCRATCH", "/tmp"))


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


def signal_builder(number):
    group = int(os.environ.get("BANYAN_BUILDER") or 0)
    try:
        if group > 1:
            os.killpg(group, number)
    except ProcessLookupError:
        pass


def alone(command, log):
    signal_builder(signal.SIGSTOP)
    try:
        return run(command, log)
    finally:
        signal_builder(signal.SIGCONT)


def tail(text):
    lines = text.splitlines()
    print("\n".join(lines[-TAIL_LINES:]), flush=True)


def tally(name, passed, fell, hopeless, again):
    """`again(test)` tries one test alone and says (passed, output)."""
    lines = [f"passed {passed}"]
    luck = len(fell) <= SECOND_TRIES_MAX
    for test in fell:
        good = False
        if luck and test not in hopeless:
            good, text = again(test)
            if not good:
                print(f"---- second try of {test}")
                tail(text)
        lines.append(f"{'second' if good else 'failed'} {name}/{test}")
        print(f"{'ok  ' if good else 'FAIL'}  {name}/{test}{' at the second try' * good}")
    with open(os.environ.get("BANYAN_TALLY", os.devnull), "a") as out:
        out.write("\n".join(lines) + "\n")
    return 0 if all(not line.startswith("failed") for line in lines) else 1


def ctest(name, folder, *arguments):
    base = ["ctest", "--test-dir", folder, "--output-on-failure"]
    _, text = run([*base, "-j", str(os.cpu_count()), *arguments], LOGS / f"{name}.log")
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

    def again(test):
        code, text = alone([*base, "-R", f"^{re.escape(test)}$"], LOGS / f"{name}.second.log")
        return code == 0, text

    return tally(name, passed, fell, hopeless, again)


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

    def again(test):
        folder = SCRATCH / f"{name}.second"
        code, text = alone([*base, f"--basetemp={folder}", test], LOGS / f"{name}.second.log")
        reports = servers_reports(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return code == 0 and not reports, "\n".join([text, *reports])

    result = tally(
        name, int(passed[1]) if passed else 0, fell if code else [],
        set(fell) if is_hopeless else (), again,
    )  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    return result


if __name__ == "__main__":
    LOGS.mkdir(parents=True, exist_ok=True)
    sys.exit({"ctest": ctest, "pytest": pytest}[sys.argv[1]](*sys.argv[2:]))
