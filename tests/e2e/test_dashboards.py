"""deploy/dashboards: the rules do what they say, and read nothing that the server does not tell."""

import json
import re
import shutil
import subprocess

from conftest import CACHE, ROOT, wait_until

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


def rule_expressions():
    text = RULES.read_text()
    found = re.findall(r"expr: (?:>-\n)?(.+(?:\n {10,}.+)*)", text)
    assert len(found) == text.count("expr:")
    return found


def reads(expression):
    """The series of ours that an expression reads, each with what it asks of a label."""
    for name, labels in re.findall(r"(?<![\w:])(banyan_\w+)(?:\{([^}]*)\})?", expression):
        asked = re.findall(r'(\w+)=~?"([^"$]*)"', labels)
        yield name, [(label, value) for label, values in asked for value in values.split("|")]


def grouped_by(expression):
    lists = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    untold = {"instance", "le", "engine", ""}  # a label "engine" is of several alone
    return {label.strip() for text in lists for label in text.split(",")} - untold


def metrics(server):
    with server.admin() as admin:
        return admin.get("/metrics").text


def test_all_that_they_read_is_told(server):
    wait_until(lambda: "banyan_kernel_info" in metrics(server), what="the engine's series")
    told = metrics(server)
    missing = set()
    for expression in rule_expressions() + board_expressions():
        series = list(reads(expression))
        for name, asked in series:
            for label, value in asked or [("", "")]:
                labels = rf'\{{(?:.*,)?{label}="{value}".*\}}' if label else r"(?:\{.*\})?"
                if label != "code" and not re.search(rf"^{name}{labels} ", told, re.M):
                    missing.add(f"{name} {label}={value}")
        for label in grouped_by(expression) if series else ():
            lines = [rf'^{name}\{{(?:.*,)?{label}="' for name, _ in series]
            if not any(re.search(line, told, re.M) for line in lines):
                missing.add(f"no label {label} in {expression}")
    assert not missing, "\n".join(sorted(missing))
