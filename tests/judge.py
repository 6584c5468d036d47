"""Lets the compiler of a build judge the programs that the build leaves out, without making code of them.

usage: judge.py FOLDER TARGET...

FOLDER is a build with compile_commands.json, and the TARGETs are what was built. Each other program's
files are compiled once more with -fsyntax-only: that gives the same warnings, which are errors, in a
fraction of the time. The libraries are not judged again, because every build has them.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

DROPPED = re.compile(r"-fsanitize=\S+|-MD")
WITH_A_WORD = {"-o", "-MT", "-MF"}


def judged(command):
    """The compiler's command without what makes code and files."""
    words = shlex.split(command)
    kept, is_word = [], False
    for word in words:
        if not is_word and word not in WITH_A_WORD and not DROPPED.fullmatch(word):
            kept.append(word)
        is_word = not is_word and word in WITH_A_WORD
    return [*kept, "-fsyntax-only"]


def target_of(entry):
    """The program or library that a file of the list belongs to."""
    found = re.search(r"CMakeFiles/([^/]+)\.dir/", entry["command"])
    assert found, entry
    return found[1]


def main(folder, *built):
    entries = json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())
    left = [entry for entry in entries if target_of(entry) not in built and not target_of(entry).startswith("banyan")]

    def judge(entry):
        done = subprocess.run(judged(entry["command"]), cwd=entry["directory"], capture_output=True, text=True)
        if done.returncode:
            print(f"{entry['file']}\n{done.stderr}", flush=True)
        return done.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        verdicts = list(workers.map(judge, left))
    print(f"{sum(verdicts)} of {len(verdicts)} files that were not built have no warning")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
