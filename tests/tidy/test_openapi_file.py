"""config/openapi.json says what the server does: its routes, scopes, fields and bounds.

Whether answers are as the file says is tests/e2e/test_openapi.py's question.
"""

import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ("get", "post", "put", "patch", "delete")
# Bounds of which x-limit may speak.
BOUNDS = ("maximum", "maxItems", "maxLength", "maxProperties")


def load():
    def no_twice(pairs):
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"a name stands twice among {names}"
        return dict(pairs)

    return json.loads((ROOT / "config/openapi.json").read_text(), object_pairs_hook=no_twice)


def operations(document):
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), re.sub(r"\{[^}]+\}", "{id}", path), item[method]


def table(face):
    """Rows of a face's routes.def: {(method, path): the rest of the row}."""
    text = (ROOT / f"gateway/{face}/routes.def").read_text()
    rows = re.findall(r'^ROUTE\("([A-Z]+)", "([^"]+)", (.*)\)$', text, re.M)
    assert rows, face
    return {(method, path.replace("{rest}", "{id}")): rest for method, path, rest in rows}


def walk(node, where=""):
    yield where, node
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, f"{where}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from walk(value, f"{where}/{index}")


def test_version_is_the_programs():
    version = re.search(r"project\(banyan VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert load()["info"]["version"] == version.group(1)


def test_routes_are_those_of_the_server():
    document = load()
    for tag, face in (("tenants", "edge"), ("admins", "admin")):
        told = {(m, p) for m, p, operation in operations(document) if tag in operation["tags"]}
        served = set(table(face))
        assert told <= served, f"not served: {sorted(told - served)}"
        assert served <= told, f"not told: {sorted(served - told)}"


def test_scopes_are_those_of_the_server():
    rows = table("admin")
    for method, path, operation in operations(load()):
        if "admins" not in operation["tags"] or (method, path) not in rows:
            continue
        scope = rows[method, path].rsplit(", ", 1)[1]
        word = scope.removeprefix("AUTH_SCOPE_").lower().replace("_", ":")
        told = operation["security"]
        if scope == "0":
            assert told == [], (method, path)
        else:
            assert told == [{"adminKey": [word]}, {"adminKeyHeader": [word]}], (method, path)


def test_bounds_are_the_servers_limits():
    defines = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "config/base/limits.h", "-include", "config/base/limits_grammar.h",
         "-include", "config/base/limits_embed.h",
         "config/base/limits_tools.h"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    limits = dict(re.findall(r"^#define (LIMIT_\w+) (.+)$", defines, re.M))

    def value(expression):
        while re.search(r"LIMIT_\w+", expression):
            expression = re.sub(r"LIMIT_\w+", lambda m: f"({limits[m.group()]})", expression)
        assert re.fullmatch(r"[0-9u+\-*<>() ]+", expression), expression
        return eval(expression.replace("u", ""), {})  # digits and operators alone

    seen = 0
    for where, node in walk(load()):
        if isinstance(node, dict) and "x-limit" in node:
            bounds = [node[bound] for bound in BOUNDS if bound in node]
            assert bounds == [value(node["x-limit"])], f"{where}: {bounds} is not {node['x-limit']}"
            seen += 1
    assert seen > 20


def test_fields_are_those_of_the_validator():
    schemas = load()["components"]["schemas"]
    rows = (ROOT / "gateway/dialect/ask_fields.def").read_text()
    fields = re.findall(r"^(?:HONOURED|HINT)\((\w+), ([A-Z |]+), .+\)$", rows, re.M)
    assert len(fields) == len(re.findall(r"^(?:HONOURED|HINT)\(", rows, re.M)) > 40
    for dialect, name in (
        ("CHAT", "ChatRequest"), ("TEXT", "CompletionRequest"), ("SIMPLE", "GenerateRequest"),
        ("EMBED", "EmbeddingRequest"),
    ):
        wanted = {field for field, which in fields if dialect in which.split(" | ")}
        assert set(schemas[name]["properties"]) == wanted, name
        assert schemas[name]["additionalProperties"] is False


def test_limits_are_those_of_the_table():
    """Wherever one limit is named, all are, in the table's order and with the bound of their row."""
    text = next(ROOT.glob("auth/**/quota_limits.def")).read_text()
    rows = re.findall(r"^QUOTA_LIMIT\((\w+), (\w+), \w+, \w+, (\w+),", text, re.M)
    assert rows and all(NAME.lower() == name for NAME, name, _ in rows)
    wanted = {name: {"LIMIT_QUOTA_RATE": "RateLimit", "LIMIT_QUOTA_BUDGET": "BudgetLimit"}[most]
              for _, name, most in rows}  # fmt: skip
    seen = 0
    for where, node in walk(load()):
        if "/example" in where or not isinstance(node, (dict, list)):
            continue
        named = [name for name in node if isinstance(name, str) and name in wanted]
        if not named:
            continue
        missing = [name for name in wanted if name not in named]
        assert not missing, f"{where} does not name {missing}"
        assert named == list(wanted), f"{where}: not in the order of quota_limits.def"
        seen += 1
        if isinstance(node, dict):
            refs = {name: node[name]["$ref"].rsplit("/", 1)[1] for name in named}
            assert refs in (wanted, dict.fromkeys(wanted, "LimitStanding")), f"{where}: {refs}"
    assert seen > 10


def test_references_lead_somewhere_and_nothing_is_left_over():
    document = load()
    used = set()
    for where, node in walk(document):
        if not isinstance(node, dict) or "$ref" not in node:
            continue
        found = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            assert part in found, f"{where}: {node['$ref']}"
            found = found[part]
        used.add(node["$ref"])
    for kind in ("schemas", "parameters", "responses", "headers"):
        for name in document["components"][kind]:
            assert f"#/components/{kind}/{name}" in used, f"{kind}/{name} is used nowhere"


def test_operations_have_names_and_answers():
    names = []
    for method, path, operation in operations(load()):
        names.append(operation["operationId"])
        assert operation["summary"] and operation["responses"], (method, path)
        assert any(code.startswith("2") for code in operation["responses"]), (method, path)
        assert "default" not in operation["responses"], f"{path}: every code is named"
    assert len(names) == len(set(names)), "an operationId stands twice"


# Routes without a command of `banyan admin`, and why.
NO_COMMAND = {
    ("GET", "/admin/v1/openapi.json"): "a file for programs",
    ("GET", "/v1/metrics"): "another name of /metrics",
    ("GET", "/health"): "asked by load balancers",
    ("GET", "/v1/organization/usage/completions"): "/admin/v1/usage in OpenAI's shape",
    ("GET", "/v1/organization/costs"): "/admin/v1/usage in OpenAI's shape",
}


def test_every_route_of_the_config_api_has_a_command():
    cli = ROOT / "gateway/cli"
    defined = (cli / "cli_commands.def").read_text()
    words = {(r, v) for r, v in re.findall(r'^CLI_COMMAND\("([a-z-]+)", "([a-z-]+)"', defined, re.M)}
    verbs = {
        "GET": {"list", "show"}, "POST": {"create"}, "PUT": {"set"}, "PATCH": {"change"},
        "DELETE": {"delete", "archive", "revoke", "cancel"},
    }  # fmt: skip
    for method, path in set(table("admin")) - set(NO_COMMAND):
        parts = [p for p in path.removeprefix("/admin/v1/").strip("/").split("/") if p != "{id}"]
        if parts[0] == "tenants" and len(parts) > 1:  # what belongs to a tenant is a resource of its own
            parts = parts[1:]
        if parts[-1] == "limits":
            parts = parts[-1:]  # of a key too: --key
        singular = {"shared-prompts": "prompt", "limits": "limits", "metrics": "metrics"}
        resource = singular.get(parts[0], parts[0].removesuffix("s"))
        wanted = {parts[1]} if len(parts) > 1 else verbs[method]  # .../rotate, config/validate
        assert any((resource, verb) in words for verb in wanted), f"{method} {path}: no {resource} {sorted(wanted)}"
    assert set(NO_COMMAND) <= set(table("admin")), "an exception that is not needed"
