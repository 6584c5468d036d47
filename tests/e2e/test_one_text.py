"""One decoder's view: echo + answer is the text of all ids, and offsets point into that text.

Ids that cut characters, control tokens, bytes that are no UTF-8; streamed and not, several choices
and prompts.
"""

import json
import random

import pytest

from conftest import MODEL_NAME

EMOJI = "🧑‍🚀🙂🎉 世界 Grüße 🇫🇷"
CHAT = "<|im_start|>user\nWhere is Paris? Answer in one short sentence.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def http(server):
    with server.http(server.tenant("one-text")[1]) as client:
        yield client


def post(http, path, **fields):
    answer = http.post(path, json={"model": MODEL_NAME, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids_of(http, text):
    return post(http, "/v1/tokenize", prompt=text)["tokens"]


def text_of(http, ids, **fields):
    return post(http, "/v1/detokenize", tokens=ids, **fields)["prompt"]


def ask(http, is_stream, **fields):
    """Choices by index: text, token_ids and logprobs joined over the frames of a stream."""
    body = {"model": MODEL_NAME, "return_token_ids": True, "ignore_eos": True, **fields}
    if not is_stream:
        choices = post(http, "/v1/completions", **body)["choices"]
        return {c["index"]: (c["text"], c["token_ids"], c["logprobs"]) for c in choices}
    found = {}
    with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        for choice in json.loads(line[6:])["choices"]:
            text, ids, logprobs = found.get(choice["index"], ("", [], None))
            if choice["logprobs"] is not None:
                logprobs = logprobs or {name: [] for name in choice["logprobs"]}
                for name, values in choice["logprobs"].items():
                    logprobs[name] += values
            found[choice["index"]] = (text + choice["text"], ids + choice["token_ids"], logprobs)
    return found


def check_offsets(text, logprobs, hidden=()):
    offsets = logprobs["text_offset"]
    assert len(offsets) == len(logprobs["tokens"]) and offsets == sorted(offsets)
    for token, offset in zip(logprobs["tokens"], offsets):
        if token.startswith("bytes:\\x"):
            assert offset <= len(text)
        elif token not in hidden:
            assert text[offset:].startswith(token), (token, offset, text[offset:][:20])


def test_a_prompt_that_ends_inside_a_character(http):
    ids = ids_of(http, "Hello world 🙂")
    for cut in range(1, len(ids)):
        [(text, made, logprobs)] = ask(
            http, False, prompt=ids[:cut], echo=True, logprobs=0, max_tokens=6, temperature=0,
            logit_bias={str(ids[cut]): 100} if cut == len(ids) - 1 else None,
        ).values()  # fmt: skip
        assert text == text_of(http, ids[:cut] + made)
        check_offsets(text, logprobs)
    assert text.startswith("Hello world 🙂"), "the answer went on with the character's last byte"


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("is_stream", [False, True])
def test_offsets_of_an_answer_with_control_tokens(http, is_stream, echo):
    fields = {"prompt": CHAT, "echo": echo, "logprobs": 0, "max_tokens": 40, "temperature": 0}
    [(text, made, logprobs)] = ask(http, is_stream, **fields).values()
    assert 2 in made, "the prompt was chosen so that an end token comes"
    assert text == (CHAT if echo else "") + text_of(http, made)
    check_offsets(text, logprobs)
    [(text, made, logprobs)] = ask(http, is_stream, **fields, skip_special_tokens=True).values()
    whole = ids_of(http, CHAT) if echo else []
    assert text == text_of(http, whole + made, skip_special_tokens=True) and "<|" not in text
    check_offsets(text, logprobs, hidden=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))


def test_a_chat_hides_control_tokens_unless_asked(http):
    body = {"messages": [{"role": "user", "content": "Where is Paris? Answer in one short sentence."}], "max_tokens": 40, "temperature": 0,
            "ignore_eos": True, "return_token_ids": True}  # fmt: skip
    for skips in (None, True, False):
        shown = skips is False
        choice = post(http, "/v1/chat/completions", **body, skip_special_tokens=skips)["choices"][0]
        text = choice["message"]["content"]
        assert ("<|im_end|>" in text) == shown
        assert text == text_of(http, choice["token_ids"], skip_special_tokens=not shown)


def test_a_stop_string_cuts_the_text_and_not_the_places(http):
    fields = {"prompt": "1, 2, 3, 4, 5, 6,", "max_tokens": 24, "temperature": 0, "logprobs": 0}
    [(whole, _, free)] = ask(http, False, **fields).values()
    stop = whole[9:13]
    [(text, made, cut)] = ask(http, False, **fields, stop=stop).values()
    assert text == whole[: whole.index(stop)]
    assert cut["text_offset"] == free["text_offset"][: len(made)]


@pytest.mark.parametrize("is_stream", [False, True])
def test_any_ids(http, is_stream):
    rng = random.Random(7 + is_stream)
    pieces = ids_of(http, EMOJI)
    for _ in range(40):
        prompts = [
            [rng.choice([rng.randrange(280), rng.randrange(49152), rng.choice(pieces)])
             for _ in range(rng.randrange(1, 12))]
            for _ in range(rng.randrange(1, 4))
        ]  # fmt: skip
        n = rng.randrange(1, 3)
        skips = rng.random() < 0.3
        # Ids that cut characters are likely in the answer too.
        bias = {str(rng.choice(pieces + list(range(20)))): 30 for _ in range(20)}
        found = ask(
            http, is_stream, prompt=prompts, n=n, echo=True, logprobs=0, max_tokens=8, seed=rng.randrange(1000),
            temperature=1.5, logit_bias=bias, skip_special_tokens=skips,
        )  # fmt: skip
        assert sorted(found) == list(range(len(prompts) * n))
        for index, (text, made, logprobs) in found.items():
            ids = prompts[index // n] + made
            assert len(made) == 8 and text == text_of(http, ids, skip_special_tokens=skips)
            if not skips:
                check_offsets(text, logprobs)
