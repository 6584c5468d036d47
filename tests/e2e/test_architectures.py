"""Generated models of architectures with experts, served like any other: prompts that are found
again, streams that are preempted and resume, and the same answer whatever else is computed."""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import BINARY, Server, wait_until

KINDS = ("mixtral", "qwen3moe", "olmoe", "gpt_oss")
PATH = "/v1/completions"
PAGE = 16
# 128 pages of 16 tokens; a model with windows has about twice as many for long texts. The batch work
# and the urgent requests together need more.
OPTIONS = (
    "--kv-memory", "1M", "--kv-host-memory", "4M", "--context", "2048", "--sequences", "8",
    "--preemption", "swap",
)  # fmt: skip
ENOUGH = 1000  # tokens of the batch work in pages when the urgent request comes
TRIES = 6  # batch work may be over before the urgent request is let in
BATCH = {"prompt": "Once upon a time", "max_tokens": 1300, "service_tier": "flex", "logprobs": 2}
URGENT = [
    {"prompt": f"{i} one two three four " * 52, "max_tokens": 32, "service_tier": "priority"}
    for i in range(3)
]


@pytest.fixture(scope="module", params=KINDS)
def tiny(request):
    folder = pathlib.Path(tempfile.mkdtemp())  # which the users of edge and engine can reach
    folder.chmod(0o755)
    model = folder / f"{request.param}.gguf"
    subprocess.run([BINARY.parent / "make_tiny", model, request.param, "2048"], check=True)
    server = Server(folder / "data", *OPTIONS, model=model)
    server.kind = request.param
    server.keys = [server.tenant(name)[1] for name in ("acme", "globex")]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    shutil.rmtree(folder)


def ask(server, fields, key=0):
    body = {"model": server.kind, "temperature": 0, "ignore_eos": True, **fields}
    with server.http(server.keys[key]) as http:
        answer = http.post(PATH, json=body, headers={"x-banyan-explain": "1"})
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    return json.dumps(answer["choices"], sort_keys=True), answer["usage"]


def test_a_prompt_is_found_again_with_the_same_bits(tiny):
    fields = {"prompt": "The river runs past the mill. " * 8, "max_tokens": 24, "logprobs": 3}
    first, usage = ask(tiny, fields)
    prompt = usage["prompt_tokens"]
    assert prompt > 8 * PAGE and usage["prompt_tokens_details"]["cached_tokens"] == 0
    again, usage = ask(tiny, fields)
    assert again == first
    assert (prompt - 1) // PAGE * PAGE <= usage["prompt_tokens_details"]["cached_tokens"] < prompt
    others, usage = ask(tiny, fields, key=1)
    assert others == first and usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_company_changes_no_bit(tiny):
    prompts = [{"prompt": f"{i} birds on a wire, " * (1 + i), "max_tokens": 20, "logprobs": 2} for i in range(6)]
    alone = [ask(tiny, fields)[0] for fields in prompts]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda fields: ask(tiny, fields, key=1)[0], prompts))
    assert together == alone


def test_a_preempted_stream_resumes_with_the_same_bits(tiny):
    alone = ask(tiny, BATCH)[0]

    def is_long():
        with tiny.admin() as admin:
            listed = admin.get("/admin/v1/requests").json()["data"]
        found = [row for row in listed if row["class"] == "batch"]
        return batch.done() or (found and found[0]["computed_tokens"] >= ENOUGH)

    for _ in range(TRIES):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            batch = pool.submit(ask, tiny, BATCH)
            wait_until(is_long, what="long batch work")
            list(pool.map(lambda fields: ask(tiny, fields, key=1), URGENT))
            text, usage = batch.result()
        assert text == alone
        if usage["banyan"]["preemptions"] > 0:
            return
    pytest.fail(f"never preempted: {usage}")
