"""schemathesis asks the real server everything that config/openapi.json says, rightly and wrongly:
codes, types, headers and shapes of the answers, methods and keys that are not allowed, and chains of
calls. Values are drawn from a fixed seed."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import MODEL_NAME, ROOT, Server

HERE = pathlib.Path(__file__).parent
VOCAB = 49152  # of the test's model


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    """A server of its own: tenants are archived and keys revoked at random."""
    server = Server(tmp_path_factory.mktemp("openapi") / "data", "--embeddings", "last")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def narrowed(path):
    """The file with what depends on the model that is served: its name and its token ids."""
    document = json.loads((ROOT / "config/openapi.json").read_text())
    document["components"]["schemas"]["ModelName"] = {"const": MODEL_NAME}

    def walk(node):
        if isinstance(node, dict):
            if node.get("x-limit") == "LIMIT_VOCAB - 1":
                node["maximum"] = VOCAB - 1
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)
    path.write_text(json.dumps(document))


def run(server, folder, tag, url, key, *more):
    narrowed(folder / "openapi.json")
    env = {
        **os.environ, "BANYAN_CA": str(server.ca), "BANYAN_KEY": key, "PYTHONPATH": str(HERE),
        "SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).parent / "st", "--config-file", HERE / "schemathesis.toml",
            "run", "openapi.json", "--url", url, "--include-tag", tag, "--warnings", "off", *more,
        ],
        cwd=folder, env=env, capture_output=True, text=True, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    paths = json.loads((ROOT / "config/openapi.json").read_text())["paths"].values()
    operations = [o for item in paths for o in item.values() if isinstance(o, dict) and "tags" in o]
    count = sum(tag in operation["tags"] for operation in operations)
    assert re.search(rf"Tested: {count}$", done.stdout, re.M), done.stdout[-2000:]
    for phase in ("Coverage", "Fuzzing"):
        assert re.search(rf"✅ +{phase}", done.stdout), done.stdout[-2000:]


@pytest.mark.slow
def test_the_tenants_face(own_server, tmp_path):
    _, key, _ = own_server.tenant("openapi", ["inference", "usage:read", "priority"])
    run(own_server, tmp_path, "tenants", own_server.url, key)


@pytest.mark.slow
def test_the_config_api(own_server, tmp_path):
    # Wrong keys are answered 429 after a few: test_no_call_without_a_key is about keys.
    run(
        own_server, tmp_path, "admins", own_server.admin_url, own_server.admin_key,
        "--exclude-checks", "ignored_auth",
    )  # fmt: skip


def test_no_call_without_a_key(own_server):
    document = json.loads((ROOT / "config/openapi.json").read_text())
    faces = {"tenants": own_server.url, "admins": own_server.admin_url}
    asked = 0
    for path, item in document["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            for tag in item.get(method, {}).get("tags", []):
                wanted = 401 if item[method]["security"] else 200
                with own_server.http(base=faces[tag]) as nobody:
                    answer = nobody.request(method, re.sub(r"\{\w+\}", "x", path))
                assert answer.status_code == wanted, (method, path, answer.text)
                asked += 1
    assert asked > 30
