"""What clients send: requests of their structured and tool modes as they were captured, and the
clients themselves where a Python that has them is at hand (BANYAN_CLIENTS_PYTHON)."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import MODEL_NAME, ROOT

SCHEMAS = pathlib.Path(os.environ.get("BANYAN_SCHEMAS", ROOT / "../shared/schemas"))
CAPTURED = SCHEMAS / "client_requests.jsonl"
# Without a bound the small model may write strings until its context is full.
TOKENS = 200


def captured():
    lines = [json.loads(line) for line in CAPTURED.read_text().splitlines()]
    return [line for line in lines if line["path"] == "/v1/chat/completions"]


def judge(body, answer):
    """None, or what is wrong with an answer."""
    if answer.status_code != 200:
        return answer.text[:300]
    choice = answer.json()["choices"][0]
    message = choice["message"]
    if choice["finish_reason"] == "length":
        return None
    wanted = body.get("tool_choice")
    if wanted == "required" or isinstance(wanted, dict):
        names = {tool["function"]["name"] for tool in body["tools"]}
        calls = message.get("tool_calls") or []
        if choice["finish_reason"] != "tool_calls" or not calls:
            return f"no call: {message}"
        for call in calls:
            assert call["function"]["name"] in names
            json.loads(call["function"]["arguments"])
    elif body.get("response_format"):
        json.loads(message["content"])
    return None


@pytest.mark.skipif(not CAPTURED.exists(), reason="../shared/schemas is not at hand (BANYAN_SCHEMAS)")
def test_captured_requests(server, key, capsys):
    requests = captured()
    wrong = []
    with server.http(key) as http:
        for request in requests:
            body = {**request["body"], "model": MODEL_NAME}
            if "max_tokens" not in body and "max_completion_tokens" not in body:
                body["max_tokens"] = TOKENS
            fault = judge(body, http.post(request["path"], json=body))
            if fault:
                wrong.append(f"{request['client']}: {fault}")
    with capsys.disabled():
        print(f"\n{len(requests) - len(wrong)} of {len(requests)} captured chat requests pass")
    assert not wrong, "\n".join(wrong)
    assert len(requests) > 10


def run_live(python, server, key, capsys, *libraries):
    script = pathlib.Path(__file__).with_name("live_clients.py")
    done = subprocess.run(
        [python, script, server.url + "/v1", key, MODEL_NAME, server.ca, *libraries],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    with capsys.disabled():
        print("\n" + done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def test_the_live_openai_client(server, key, capsys):
    """The tests have this library anyway."""
    assert "4 of 4 modes" in run_live(sys.executable, server, key, capsys, "openai")


@pytest.mark.long
@pytest.mark.skipif(
    "BANYAN_CLIENTS_PYTHON" not in os.environ,
    reason="the client libraries take 0.7 GB; BANYAN_CLIENTS_PYTHON names a Python that has them",
)
def test_live_clients(server, key, capsys):
    run_live(os.environ["BANYAN_CLIENTS_PYTHON"], server, key, capsys)
