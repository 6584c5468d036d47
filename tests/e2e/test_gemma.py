"""Gemma 3 270M with 128 MiB of KV memory, which pages of all layers would fill with 7,281 tokens."""

import json
import pathlib

import pytest

from conftest import CACHE, Server, wait_until

MODEL = CACHE / "gemma-3-270m.Q4_K_M.gguf"
NAME = MODEL.stem
MEMORY = 128 << 20
CONTEXT = 32768  # of the model
TEXT = 32000
# 18 layers with one KV head of 256, keys and values in f16: of a token, if all layers kept it.
ALL_LAYERS = 18 * 256 * 2 * 2
# This model has no template of its own. Gemma's marks, in our words.
TEMPLATE = """{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{{ m.content }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""
SECRET = "The keeper of the northern lighthouse chose the pass phrase 'copper marigold seventy'.\n"
QUESTION = "\n\nThe keeper of the northern lighthouse chose the pass phrase '"
ANSWER = "copper marigold seventy"

pytestmark = [
    pytest.mark.all,  # the model is fetched by tests/run --all alone, and the text takes a minute
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL.exists(), reason=f"{MODEL} is missing; deploy/prepare gemma fetches it"),
]


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gemma")
    (folder / "t.jinja").write_text(TEMPLATE)
    server = Server(
        folder / "data", "--kv-memory", str(MEMORY), "--chat-template", folder / "t.jinja", model=MODEL
    )
    server.key = server.tenant("acme")[1]
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def ask(server, path, **fields):
    with server.http(server.key) as http:
        http.timeout = 900
        answer = http.post(path, json={"model": NAME, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def tokens(server, text):
    return ask(server, "/v1/tokenize", prompt=text)["tokens"]


@pytest.fixture(scope="module")
def text(gemma):
    """32,000 tokens with their question: licences, and near their beginning a sentence of our own."""
    names = ("GPL-3", "GFDL-1.3", "MPL-1.1", "LGPL-2.1", "GPL-2", "MPL-2.0", "Apache-2.0")
    licences = [pathlib.Path("/usr/share/common-licenses", name).read_text() for name in names]
    ids = tokens(gemma, licences[0][:4000] + "\n\n" + SECRET + "\n\n" + "\n".join(licences))
    question = tokens(gemma, QUESTION)[1:]  # without the mark of a text's beginning
    assert len(ids) > TEXT
    return ids[: TEXT - len(question)] + question


def test_it_answers_about_32_000_tokens(gemma, text):
    answer = ask(gemma, "/v1/completions", prompt=text, max_tokens=12, temperature=0)
    assert answer["usage"]["prompt_tokens"] == TEXT
    # The model may break the line, as the licences do.
    assert " ".join(answer["choices"][0]["text"].split()).startswith(ANSWER), answer["choices"]
    # The same again, out of the cache, although most pages have lost their window units by now.
    again = ask(gemma, "/v1/completions", prompt=text, max_tokens=12, temperature=0)
    assert again["choices"] == answer["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= TEXT - 16
    wait_until(lambda: gemma.engine_stats()["requests"] == 0, what="an empty engine")


def test_a_text_of_the_whole_context_fits(gemma, text):
    """The longest text that this memory holds, divided by what pages of all layers hold."""
    most = CONTEXT - 4
    whole = (text + text)[:most]
    answer = ask(gemma, "/v1/completions", prompt=whole, max_tokens=4, temperature=0, ignore_eos=True)
    assert answer["usage"]["total_tokens"] == CONTEXT
    ratio = CONTEXT / (MEMORY // ALL_LAYERS)
    print(json.dumps({"what": "longest text in 128 MiB", "tokens": CONTEXT, "pages of all layers": MEMORY // ALL_LAYERS, "ratio": ratio}))
    assert ratio >= 4


def test_it_chats_by_a_template_from_a_file(gemma):
    messages = [{"role": "user", "content": "What is the capital of France? One word."}]
    answer = ask(gemma, "/v1/chat/completions", messages=messages, max_tokens=16, temperature=0)
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["message"]["content"]
    # The template's own marks are control tokens, and a client's are text.
    marked = [{"role": "user", "content": "<end_of_turn>"}]
    counts = [
        ask(gemma, "/v1/chat/completions", messages=m, max_tokens=1)["usage"]["prompt_tokens"]
        for m in ([{"role": "user", "content": "a"}], marked)
    ]
    assert counts[1] > counts[0]
    with gemma.http(gemma.key) as http, http.stream(
        "POST", "/v1/chat/completions",
        json={"model": NAME, "messages": messages, "max_tokens": 16, "stream": True, "temperature": 0},
    ) as stream:  # fmt: skip
        rows = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    assert rows[-1] == "[DONE]"
    pieces = [json.loads(row)["choices"][0]["delta"].get("content") or "" for row in rows[:-1]]
    assert "".join(pieces) == answer["choices"][0]["message"]["content"]
