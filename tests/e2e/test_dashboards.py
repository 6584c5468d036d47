"""deploy/dashboards: the rules do what they say, and read nothing that the server does not tell."""

import itertools
import json
import re
import shutil
import subprocess

from conftest import CACHE, MODEL_NAME, ROOT, wait_until

FOLDER = ROOT / "deploy/dashboards"
COUNT = itertools.count()
RULES = FOLDER / "banyan_rules.yml"
BOARD = FOLDER / "banyan_board.json"


def promtool(*arguments, text=None):
    """deploy/prepare test fetches it."""
    tool = shutil.which("promtool") or CACHE / "promtool"
    done = subprocess.run(
        [tool, *arguments], cwd=FOLDER, input=text, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


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


def page_after_traffic(server):
    """Everything that a request can make appear: answers, refusals, streams, unknown paths, both protocols."""
    _, key, _ = server.tenant(f"promtool-{next(COUNT)}")
    body = {"model": MODEL_NAME, "prompt": "Hi", "max_tokens": 3}
    for http2 in (False, True):
        with server.http(key, http2=http2) as http:
            assert http.post("/v1/completions", json=body).status_code == 200
            assert http.post("/v1/completions", json={**body, "stream": True}).status_code == 200
            assert http.post("/v1/completions", json={**body, "max_tokens": 0.5}).status_code == 400
            assert http.get("/nowhere").status_code == 404
            assert http.get("/v1/models", headers={"authorization": "Bearer wrong"}).status_code == 401
    wait_until(lambda: "banyan_kernel_info" in metrics(server), what="the engine's series")
    return metrics(server)


def test_promtool_finds_no_fault(server):
    assert promtool("check", "metrics", text=page_after_traffic(server)) == ""


def test_names_say_what_they_count(server):
    """A counter ends in _total and nothing else does; one name has one type and one help; what is
    measured is measured in seconds and bytes."""
    page = page_after_traffic(server)
    types = re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M)
    helps = re.findall(r"^# HELP (\S+) (.+)$", page, re.M)
    assert len(types) == len(dict(types)) == len(helps) == len(dict(helps)) > 60
    for name, kind in types:
        assert name.startswith("banyan_") and (kind == "counter") == name.endswith("_total"), (name, kind)
        assert not re.search("_(ms|us|ns|milliseconds|microseconds|kb|kib|mb|mib|percent)(_|$)", name), name
    known = {name for name, _ in types}
    for name in re.findall(r"^(banyan_\w+)[ {]", page, re.M):
        assert name in known or re.sub("_(bucket|sum|count)$", "", name) in known, name
