"""tests/judge.py finds warnings in what a build leaves out, and only there."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD, BAD = "int main(void)\n{\n    return 0;\n}\n", "int main(void)\n{\n    int unused;\n    return 0;\n}\n"


@pytest.fixture
def build(tmp_path):
    """A build of two programs and a library, of which one program and the library have a warning."""
    entries = []
    for target, source in (("good", GOOD), ("bad", BAD), ("banyan_room", BAD)):
        (tmp_path / f"{target}.c").write_text(source)
        made = f"CMakeFiles/{target}.dir/{target}.c.o"
        command = f"gcc -Wall -Werror -O1 -g1 -MD -MT {made} -MF {made}.d -o {made} -c {tmp_path}/{target}.c"
        entries.append({"directory": str(tmp_path), "command": command, "file": f"{tmp_path}/{target}.c"})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    return tmp_path


def judge(*words):
    return subprocess.run(
        [sys.executable, ROOT / "tests/judge.py", *words], capture_output=True, text=True
    )  # fmt: skip


def test_a_warning_of_a_program_that_was_not_built(build):
    done = judge(build)
    assert done.returncode == 1
    assert "unused" in done.stdout and "1 of 2 files" in done.stdout
    assert not list(build.rglob("*.o")) and not list(build.rglob("*.d"))


def test_what_was_built_is_not_judged_again(build):
    done = judge(build, "bad")
    assert done.returncode == 0, done.stdout
    assert "1 of 1 files" in done.stdout
