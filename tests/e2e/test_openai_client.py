"""The official client over TLS: what customers use."""

import openai
import pytest

from conftest import MODEL_NAME

QUESTION = [{"role": "user", "content": "Where is Paris? Answer in one short sentence."}]


def test_models(client):
    models = client.models.list().data
    assert [m.id for m in models] == [MODEL_NAME]
    one = client.models.retrieve(MODEL_NAME)
    assert one.object == "model" and one.id == MODEL_NAME
    with pytest.raises(openai.NotFoundError) as info:
        client.models.retrieve("gpt-5")
    assert info.value.code == "model_not_found"


def test_chat(server):
    # A tenant of its own: nobody has asked for it before.
    client = server.openai(server.tenant("chat")[1], max_retries=0)
    answer = client.chat.completions.create(
        model=MODEL_NAME, messages=QUESTION, max_tokens=24, temperature=0
    )
    choice = answer.choices[0]
    assert "France" in choice.message.content
    assert choice.message.role == "assistant"
    assert choice.finish_reason in ("stop", "length")
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    usage = answer.usage
    assert usage.prompt_tokens > 10 and 1 <= usage.completion_tokens <= 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0


def test_stream_is_the_answer_in_pieces(client):
    whole = client.chat.completions.create(
        model=MODEL_NAME, messages=QUESTION, max_tokens=24, temperature=0
    )
    chunks = list(
        client.chat.completions.create(
            model=MODEL_NAME, messages=QUESTION, max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert len({c.id for c in chunks}) == 1
    usage = chunks[-1].usage
    assert chunks[-1].choices == [] and usage.total_tokens == whole.usage.total_tokens
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert all(c.usage is None for c in chunks[:-1])
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] == whole.choices[0].finish_reason and not any(reasons[:-1])
    assert all(not (c.model_extra or {}).get("n") for c in chunks), "wire field reached a client"


def test_completion_of_text_and_of_ids(server, key, client):
    with server.http(key) as http:
        ids = http.post(
            "/v1/tokenize", json={"model": MODEL_NAME, "prompt": "The capital of France is"}
        ).json()
    assert ids["tokens"] == [504, 3575, 282, 4649, 314] and ids["count"] == 5
    by_text = client.completions.create(
        model=MODEL_NAME, prompt="The capital of France is", max_tokens=8, temperature=0
    )
    by_ids = client.completions.create(
        model=MODEL_NAME, prompt=ids["tokens"], max_tokens=8, temperature=0
    )
    assert by_text.choices[0].text == by_ids.choices[0].text
    assert by_text.choices[0].text.startswith(" Paris")
    assert by_text.usage.prompt_tokens == 5


def test_completion_lists_choices_and_token_ids(client):
    answer = client.completions.create(
        model=MODEL_NAME, prompt=["One two three", "Red green"], n=2, max_tokens=4, temperature=1,
        seed=7, extra_body={"return_token_ids": True},
    )  # fmt: skip
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    assert all(1 <= len(c.token_ids) <= 4 for c in answer.choices)
    assert answer.usage.completion_tokens == sum(len(c.token_ids) for c in answer.choices)


def test_echo_with_logprobs(client):
    answer = client.completions.create(
        model=MODEL_NAME, prompt="The capital of France is", max_tokens=1, temperature=0, echo=True,
        logprobs=2,
    )  # fmt: skip
    choice = answer.choices[0]
    assert choice.text.startswith("The capital of France is Paris")
    assert choice.logprobs.tokens[:5] == ["The", " capital", " of", " France", " is"]
    assert choice.logprobs.token_logprobs[0] is None
    reference = [-11.539297, -0.337616, -2.438663, -0.450953]
    for got, expected in zip(choice.logprobs.token_logprobs[1:5], reference):
        assert abs(got - expected) < 0.4, "int8 activations move single log-probabilities a little"
    assert choice.logprobs.text_offset == [0, 3, 11, 14, 21, 24]


def test_chat_logprobs(client):
    answer = client.chat.completions.create(
        model=MODEL_NAME, messages=QUESTION, max_tokens=6, temperature=0, logprobs=True,
        top_logprobs=3,
    )  # fmt: skip
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for item in content:
        assert len(item.top_logprobs) == 3
        assert item.logprob <= 0 and item.token == item.top_logprobs[0].token
        ordered = [t.logprob for t in item.top_logprobs]
        assert ordered == sorted(ordered, reverse=True)


def test_seed_repeats_and_choices_differ(client):
    def ask(seed):
        answer = client.chat.completions.create(
            model=MODEL_NAME, messages=[{"role": "user", "content": "Write a short poem."}],
            max_tokens=24, temperature=1.2, seed=seed, n=3,
        )  # fmt: skip
        return [c.message.content for c in sorted(answer.choices, key=lambda c: c.index)]

    first = ask(11)
    assert first == ask(11)
    assert len(set(first)) == 3
    assert first != ask(12)


def test_stop_strings_and_length(client):
    prompt = "1, 2, 3, 4, 5, 6, 7,"
    plain = client.completions.create(
        model=MODEL_NAME, prompt=prompt, max_tokens=24, temperature=0
    ).choices[0]
    assert plain.finish_reason == "length"
    word = plain.text[6:9]
    stopped = client.completions.create(
        model=MODEL_NAME, prompt=prompt, max_tokens=24, temperature=0, stop=[word]
    ).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.text == plain.text[: plain.text.index(word)]


def test_logit_bias_forbids_and_forces(client):
    forced = client.completions.create(
        model=MODEL_NAME, prompt="The capital of France is", max_tokens=3, temperature=0,
        logit_bias={"7042": -100, "28120": 100}, extra_body={"return_token_ids": True},
    )  # fmt: skip
    assert set(forced.choices[0].token_ids) == {28120}


def test_errors_as_the_client_sees_them(server, client):
    with pytest.raises(openai.AuthenticationError) as info:
        server.openai("sk-by-nonsense", max_retries=0).models.list()
    assert info.value.status_code == 401 and info.value.code == "invalid_api_key"
    assert info.value.request_id.startswith("req_")
    with pytest.raises(openai.BadRequestError) as info:
        client.chat.completions.create(model=MODEL_NAME, messages=QUESTION, temperature=9)
    assert info.value.param == "temperature" and info.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as info:
        client.chat.completions.create(model="gpt-5", messages=QUESTION)
    assert info.value.code == "model_not_found" and info.value.param == "model"
    with pytest.raises(openai.BadRequestError) as info:
        client.completions.create(model=MODEL_NAME, prompt="word " * 9000, max_tokens=1)
    assert info.value.code == "context_length_exceeded"


def test_wrong_keys_are_not_retried(server):
    seen = []
    http = server.http(event_hooks={"response": [lambda r: seen.append(r.status_code)]})
    client = openai.OpenAI(
        base_url=server.url + "/v1", api_key="sk-by-wrong", http_client=http, max_retries=3
    )
    with pytest.raises(openai.AuthenticationError):
        client.models.list()
    assert seen == [401]
