"""deploy/dashboards: the rules and the board are well formed, and each alert fires where it must."""

import json
import re
import shutil
import subprocess

from conftest import CACHE, ROOT

FOLDER = ROOT / "deploy/dashboards"
RULES = FOLDER / "banyan_rules.yml"
BOARD = FOLDER / "banyan_board.json"


def promtool(*arguments):
    """deploy/prepare test fetches it."""
    tool = shutil.which("promtool") or CACHE / "promtool"
    done = subprocess.run(
        [tool, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def board_expressions():
    panels = json.loads(BOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_the_rules_are_rules():
    promtool("check", "rules", str(RULES))


def test_every_alert_fires_and_rests_where_it_must():
    promtool("test", "rules", "banyan_rules_test.yml")
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = re.findall(r"- name: (\w+ \w+)", (FOLDER / "banyan_rules_test.yml").read_text())
    assert sorted(tested) == sorted(f"{a} {how}" for a in alerts for how in ("fires", "rests"))


def test_the_boards_expressions_are_expressions(tmp_path):
    rules = [
        {"record": f"panel_{i}", "expr": expr.replace("$__rate_interval", "1m")}
        for i, expr in enumerate(board_expressions())
    ]
    file = tmp_path / "board.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))
