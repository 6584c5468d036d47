"""What common clients send and the schema lets them: empty lists, null contents, zeros, long lists."""

import pytest

from conftest import MODEL_NAME

USER = {"role": "user", "content": "Say hi."}


def chat(client, messages, **fields):
    return client.chat.completions.create(
        model=MODEL_NAME, messages=messages, max_tokens=8, temperature=0, **fields
    )


@pytest.mark.parametrize("answer", [
    {"content": None}, {}, {"content": None, "tool_calls": []}, {"content": "", "tool_calls": []},
    {"content": None, "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None},
])  # fmt: skip
def test_an_answer_without_text(client, answer):
    empty = chat(client, [USER, {"role": "assistant", "content": ""}, USER])
    got = chat(client, [USER, {"role": "assistant", **answer}, USER])
    assert got.choices[0].message.content == empty.choices[0].message.content
    assert got.usage.prompt_tokens == empty.usage.prompt_tokens


@pytest.mark.parametrize("answer", [{"content": None}, {}])
def test_a_call_without_text(client, answer):
    """The history of a client with tools: SmolLM2's template cannot take null in place of a text."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    called = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "It rains."}
    empty = chat(client, [USER, {**called, "content": ""}, result])
    got = chat(client, [USER, {**called, **answer}, result])
    assert got.choices[0].message.content == empty.choices[0].message.content
    assert got.usage.prompt_tokens == empty.usage.prompt_tokens


def test_an_answer_is_sent_back_as_it_came(client):
    message = chat(client, [USER]).choices[0].message
    assert chat(client, [USER, message, USER]).choices[0].message.content
    assert chat(client, [USER, message.model_dump(), USER]).choices[0].message.content


def test_no_tools(client):
    assert chat(client, [USER], tools=[]).choices == chat(client, [USER]).choices


def test_ways_to_stop(client):
    """A stop token ends the answer before its text; a stop string may be shown."""
    def ask(**more):
        return chat(client, [USER], extra_body={"return_token_ids": True, **more}).choices[0]

    whole = ask()
    cut = ask(stop_token_ids=[whole.token_ids[3]])
    assert cut.finish_reason == "stop" and cut.token_ids == whole.token_ids[:4]
    assert whole.message.content.startswith(cut.message.content)
    word = whole.message.content[6:10]
    hidden, shown = ask(stop=[word]), ask(stop=[word], include_stop_str_in_output=True)
    assert shown.message.content == hidden.message.content + word
    assert shown.finish_reason == hidden.finish_reason == "stop"


def test_values_without_effect(client):
    more = {"repetition_penalty": 1.0, "min_tokens": 0, "reasoning_effort": "none", "verbosity": "medium"}
    assert chat(client, [USER], extra_body=more).choices == chat(client, [USER]).choices


def test_top_p_of_zero_takes_the_most_likely(client):
    def ask(**fields):
        return client.chat.completions.create(
            model=MODEL_NAME, messages=[USER], max_tokens=16, **fields
        ).choices[0].message.content

    assert ask(top_p=0, temperature=2, seed=1) == ask(temperature=0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompts, n", [(20, 1), (32, 1), (4, 8)])
def test_long_lists_of_prompts(client, prompts, n, stream):
    texts = [f"{i}, {i + 1}, {i + 2}," for i in range(prompts)]
    fields = {"model": MODEL_NAME, "max_tokens": 4, "temperature": 0, "stream": stream}
    answer = client.completions.create(prompt=texts, n=n, **fields)
    found = {}
    for part in answer if stream else [answer]:
        for choice in part.choices:
            found[choice.index] = found.get(choice.index, "") + choice.text
    assert sorted(found) == list(range(prompts * n))
    for i in (0, prompts - 1):
        alone = client.completions.create(
            model=MODEL_NAME, prompt=texts[i], max_tokens=4, temperature=0
        ).choices[0].text  # fmt: skip
        assert {found[i * n + k] for k in range(n)} == {alone}


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_is_scored_alone(client, stream):
    fields = {"model": MODEL_NAME, "prompt": "The capital of France is", "echo": True, "logprobs": 2, "temperature": 0}
    with_answer = client.completions.create(max_tokens=1, **fields).choices[0].logprobs
    answer = client.completions.create(max_tokens=0, stream=stream, **fields)
    parts = list(answer) if stream else [answer]
    choices = [choice for part in parts for choice in part.choices]
    assert "".join(choice.text for choice in choices) == fields["prompt"]
    assert choices[-1].finish_reason == "length"
    assert sum((c.logprobs.tokens for c in choices if c.logprobs), []) == with_answer.tokens[:5]
    logprobs = sum((c.logprobs.token_logprobs for c in choices if c.logprobs), [])
    assert logprobs == with_answer.token_logprobs[:5]
    if not stream:
        assert answer.usage.completion_tokens == 0 and answer.usage.prompt_tokens == 5


def test_a_prompt_that_ends_inside_a_character_is_scored(server, client):
    with server.http(client.api_key) as http:
        body = {"model": MODEL_NAME, "prompt": "Hi 🦤"}
        ids = http.post("/v1/tokenize", json=body).json()["tokens"][:-1]
        body = {"model": MODEL_NAME, "tokens": ids}
        text = http.post("/v1/detokenize", json=body).json()["prompt"]
    answer = client.completions.create(model=MODEL_NAME, prompt=ids, echo=True, max_tokens=0)
    assert answer.choices[0].text == text and text.endswith("\ufffd")


def test_a_long_list_that_meets_a_limit_ends_each_choice_once(server):
    tenant, key, _ = server.tenant("long-list")
    with server.admin() as admin:
        limits = {"output_tokens_per_minute": 300}
        assert admin.put(f"/admin/v1/tenants/{tenant}/limits", json=limits).status_code == 200
    client = server.openai(key, max_retries=0)
    reasons = {}
    for part in client.completions.create(
        model=MODEL_NAME, prompt=["Count: 1, 2,"] * 20, max_tokens=60, temperature=0, stream=True,
        extra_body={"ignore_eos": True},
    ):  # fmt: skip
        for choice in part.choices:
            if choice.finish_reason:
                reasons.setdefault(choice.index, []).append(choice.finish_reason)
    assert reasons == {index: ["length"] for index in range(20)}


def test_the_token_itself_is_among_the_top(client):
    fields = {"model": MODEL_NAME, "prompt": "Once", "max_tokens": 24, "temperature": 2, "seed": 3}
    for count in (0, 1, 2):
        logprobs = client.completions.create(logprobs=count, **fields).choices[0].logprobs
        sizes = set()
        for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            assert top[token] == logprob
            sizes.add(len(top))
        assert max(sizes) == count + 1 and min(sizes) >= max(count, 1)
