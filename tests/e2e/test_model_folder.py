"""A Hugging Face directory served over TLS: it answers as the GGUF file of the same model does."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import BINARY, Server

PROMPTS = ("Once upon a time", "def f(x):\n    return 12345 + x", "naïve café 東京 😀")


@pytest.fixture(scope="module")
def folder():
    folder = pathlib.Path(tempfile.mkdtemp())  # which the users of edge and engine can reach
    folder.chmod(0o755)
    for path in ("model.gguf", "Tiny-0.5B/"):
        subprocess.run([BINARY.parent / "make_tiny", f"{folder}/{path}", "llama", "1024"], check=True)
    yield folder
    shutil.rmtree(folder)


def serve(data, model):
    return Server(data, "--context", "1024", "--kv-memory", "8M", model=model)


def answers(server, model):
    key = server.tenant("acme")[1]
    out = []
    with server.http(key) as http:
        assert http.get("/v1/models").json()["data"][0]["id"] == model
        for prompt in PROMPTS:
            body = {"model": model, "prompt": prompt, "max_tokens": 24, "temperature": 0, "logprobs": 4}
            done = http.post("/v1/completions", json=body)
            assert done.status_code == 200, done.text
            out.append((done.json()["choices"], done.json()["usage"]["prompt_tokens"]))
        body = {"model": model, "messages": [{"role": "user", "content": "Hello <|im_end|>"}], "max_tokens": 16}
        done = http.post("/v1/chat/completions", json={**body, "temperature": 0, "logprobs": True, "top_logprobs": 3})
        assert done.status_code == 200, done.text
        out.append((done.json()["choices"], done.json()["usage"]["prompt_tokens"]))
    return json.dumps(out, sort_keys=True)


def test_a_folder_answers_as_its_gguf_file_does(folder):
    results = []
    for path, name in (("model.gguf", "model"), ("Tiny-0.5B", "Tiny-0.5B")):
        server = serve(folder / f"data-{name}", folder / path)
        results.append(answers(server, name))
        assert server.stop() == 0, server.log_text()[-4000:]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("tokenizer.json", lambda text: text.replace('"Digits"', '"Whitespace"'), "Whitespace; ByteLevel words"),
        ("config.json", lambda text: text.replace('"hidden_act":', '"mystery":1,"hidden_act":'), "'mystery'"),
        ("model.safetensors.index.json", lambda text: text.replace("model-0", "../model-0", 1), "plain name"),
    ],
)
def test_what_is_not_supported_stops_the_start(folder, file, change, says):
    bad = folder / "bad"
    shutil.copytree(folder / "Tiny-0.5B", bad, dirs_exist_ok=True)
    (bad / file).write_text(change((bad / file).read_text()))
    done = subprocess.run(
        [BINARY, "bench", "--model", bad], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode != 0
    assert says in done.stdout + done.stderr
