"""Every character that JSON can say reaches the model and comes back; names refuse what no name has."""

import pytest

from conftest import MODEL_NAME

NUL = "a\x00b"


@pytest.fixture(scope="module")
def http(server):
    with server.http(server.tenant("odd-characters")[1]) as client:
        yield client


def post(http, path, status=200, **fields):
    answer = http.post(path, json={"model": MODEL_NAME, **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("text", [NUL, "\x00", "\uffff\ufdd0\U0010ffff", "\x7f\u0080\u2028", "\ufeffbom"])
def test_there_and_back(http, text):
    ids = post(http, "/v1/tokenize", prompt=text)["tokens"]
    assert post(http, "/v1/detokenize", tokens=ids)["prompt"] == text
    answer = post(http, "/v1/completions", prompt=text, echo=True, max_tokens=1, logprobs=0)
    assert answer["choices"][0]["text"].startswith(text)
    listed = post(http, "/v1/completions", prompt=["x", text], echo=True, max_tokens=1)
    assert listed["choices"][1]["text"].startswith(text)


def test_a_nul_in_a_chat(http, client):
    with_nul = [{"role": "user", "content": NUL}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "a\x00"}, {"type": "text", "text": "b"}]}]
    without = [{"role": "user", "content": "ab"}]
    joined = [{"role": "user", "content": "a\x00\nb"}]  # as SmolLM2's template, which takes no parts
    ids = post(http, "/v1/tokenize", messages=with_nul)["tokens"]
    whole = post(http, "/v1/tokenize", messages=joined)["tokens"]
    assert whole == post(http, "/v1/tokenize", messages=parts)["tokens"]
    assert len(ids) > len(post(http, "/v1/tokenize", messages=without)["tokens"])
    answer = client.chat.completions.create(model=MODEL_NAME, messages=with_nul, max_tokens=1, stop=["\x00"])
    assert answer.usage.prompt_tokens == len(ids)
    assert post(http, "/v1/generate", prompt=NUL, max_tokens=1)["usage"]["prompt_tokens"] > 0


def test_a_nul_in_an_answer_and_in_a_stop_string(http):
    [zero] = post(http, "/v1/tokenize", prompt="\x00")["tokens"]
    fields = {"prompt": "Hi", "max_tokens": 3, "temperature": 0, "logit_bias": {str(zero): 100}}
    assert post(http, "/v1/completions", **fields)["choices"][0]["text"] == "\x00\x00\x00"
    stopped = post(http, "/v1/completions", **fields, stop=["\x00\x00"])["choices"][0]
    assert stopped["text"] == "" and stopped["finish_reason"] == "stop"
    with http.stream("POST", "/v1/completions", json={"model": MODEL_NAME, **fields, "stream": True}) as answer:
        assert "".join(answer.iter_text()).count("\\u0000") == 3


@pytest.mark.parametrize("field, value, param", [
    ("model", MODEL_NAME + "\x00", "model"),
    ("model", "\x00", "model"),
    ("service_tier", "flex\x00", "service_tier"),
    ("user", "me\x00", "user"),
    ("safety_identifier", "\x00", "safety_identifier"),
    ("metadata", {"a": "\x00"}, "metadata.a"),
    ("messages", [{"role": "user\x00", "content": "x"}], "messages[0].role"),
    ("response_format", {"type": "text\x00"}, "response_format.type"),
])  # fmt: skip
def test_names_with_a_nul(http, field, value, param):
    body = {"messages": [{"role": "user", "content": "x"}], field: value}
    error = post(http, "/v1/chat/completions", 400, **body)["error"]
    assert error["param"] == param and "NUL" in error["message"]


@pytest.mark.parametrize("inside, word", [
    (rb'"prompt":"\ud83d"', "surrogate"),
    (rb'"prompt":"\ude42\ud83d"', "surrogate"),
    (rb'"prompt":"x","stop":"\ud83dx"', "surrogate"),
    (b'"prompt":"\xed\xa0\x80"', "UTF-8"),
    (b'"prompt":"\xc0\x80"', "UTF-8"),
    (b'"prompt":"\xf4\x90\x80\x80"', "UTF-8"),
    (b'"prompt":"\x00"', "JSON"),
    (rb'"prompt":"x","a\u0000":1', "NUL"),
])  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/tokenize"])
def test_what_is_no_character(http, path, inside, word):
    body = b'{"model":"%s",%s}' % (MODEL_NAME.encode(), inside)
    answer = http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and word in answer.json()["error"]["message"], answer.text
