"""Fields that shape an answer: each is honoured, refused by name, or a hint without effect."""

import pytest

from conftest import MODEL_NAME

CHAT, TEXT, SIMPLE = "/v1/chat/completions", "/v1/completions", "/v1/generate"
HI = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 60}
TEXTS = {"prompt": "Once upon a time there was a", "max_tokens": 40}
PARTS = {CHAT: HI, TEXT: TEXTS, SIMPLE: TEXTS}
REFUSED = "refused"
HINT = "hint"


def ask(http, path, **fields):
    return http.post(path, json={"model": MODEL_NAME, "temperature": 0, **PARTS[path], **fields})


def answer(http, path, **fields):
    """Text, tokens and finish reason."""
    response = ask(http, path, **fields)
    assert response.status_code == 200, response.text
    body = response.json()
    choice = body["choices"][0] if path != SIMPLE else body
    text = choice["message"]["content"] if path == CHAT else choice["text"]
    return text, body["usage"]["completion_tokens"], choice["finish_reason"]


@pytest.mark.parametrize("path", PARTS)
def test_min_tokens(server, key, path):
    with server.http(key) as http:
        text, tokens, finish = answer(http, path)
        if path == CHAT:  # it ends of itself, and later if it must
            assert finish == "stop"
            longer, more, finish = answer(http, path, min_tokens=tokens + 5)
            assert more > tokens + 5 or finish == "length"
            assert longer.startswith(text.rstrip("!.")[:20])
        stop = text[2:5]
        assert answer(http, path, stop=[stop])[1] <= tokens
        passed, count, _ = answer(http, path, stop=[stop], min_tokens=min(tokens - 1, 20))
        assert count >= min(tokens - 1, 20)
        assert stop in passed
        assert answer(http, path, min_tokens=0) == (text, tokens, finish) or path == CHAT
        exact = answer(http, path, min_tokens=30, max_tokens=30)
        assert exact[1:] == (30, "length")


def test_min_tokens_and_stop_tokens(server, key):
    with server.http(key) as http:
        ids = ask(http, TEXT, return_token_ids=True).json()["choices"][0]["token_ids"]
        first = next(i for i in range(1, 20) if ids[i] not in ids[:i])
        stop = {"stop_token_ids": [ids[first]], "return_token_ids": True}
        short = ask(http, TEXT, **stop).json()["choices"][0]
        assert (short["finish_reason"], len(short["token_ids"])) == ("stop", first + 1)
        late = ask(http, TEXT, **stop, min_tokens=first + 3).json()["choices"][0]
        assert ids[first] not in late["token_ids"][: first + 3]
        assert late["token_ids"][:first] == ids[:first]
        assert len(late["token_ids"]) > first + 3


@pytest.mark.parametrize("path", PARTS)
def test_repetition_penalty(server, key, path):
    with server.http(key) as http:
        plain = answer(http, path, min_tokens=40, max_tokens=40)
        assert answer(http, path, min_tokens=40, max_tokens=40, repetition_penalty=1) == plain
        other = answer(http, path, min_tokens=40, max_tokens=40, repetition_penalty=2)
        assert other[0] != plain[0]
        assert answer(http, path, min_tokens=40, max_tokens=40, repetition_penalty=2) == other


def test_repetition_penalty_counts_the_prompt(server, key):
    """Greedy, with the greatest penalty: no token of the prompt or of the answer comes again while
    others are near."""
    with server.http(key) as http:
        prompt = "one two three four five six one two three four five six one two three"
        ids = http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": prompt}).json()["tokens"]
        body = {"prompt": prompt, "max_tokens": 4, "return_token_ids": True}
        plain = ask(http, TEXT, **body).json()["choices"][0]
        assert set(plain["token_ids"]) <= set(ids)  # it goes on as the prompt does
        other = ask(http, TEXT, **body, repetition_penalty=2).json()["choices"][0]
        assert not set(other["token_ids"]) & set(ids)
        assert len(set(other["token_ids"])) == 4


# Rows of the list of knobs: path, field, value, and what becomes of it: REFUSED, HINT, or None where it
# is honoured in a way that its own test sees.
ROWS = [
    (CHAT, "repetition_penalty", 1.2, None),
    (CHAT, "min_tokens", 3, None),
    (SIMPLE, "repetition_penalty", 1.2, None),
    (SIMPLE, "min_tokens", 3, None),
    (CHAT, "stop_token_ids", [5], None),
    (SIMPLE, "stop_token_ids", [5], None),
    (TEXT, "stop_token_ids", list(range(33)), REFUSED),
    (CHAT, "include_stop_str_in_output", True, None),
    (SIMPLE, "include_stop_str_in_output", True, None),
    (CHAT, "top_k", 5, None),
    (SIMPLE, "top_k", 5, None),
    (CHAT, "min_p", 0.1, None),
    (SIMPLE, "min_p", 0.1, None),
    (CHAT, "ignore_eos", True, None),
    (TEXT, "echo", True, None),
    (CHAT, "echo", True, REFUSED),
    (CHAT, "n", 2, None),
    (CHAT, "seed", 7, None),
    (CHAT, "logit_bias", {"5": -100}, None),
    (CHAT, "logit_bias", {str(i): 1 for i in range(301)}, REFUSED),
    (CHAT, "return_token_ids", True, None),
    (TEXT, "best_of", 1, None),
    (TEXT, "best_of", 2, REFUSED),
    (CHAT, "skip_special_tokens", False, None),
    (TEXT, "suffix", "the end", REFUSED),
    (CHAT, "continue_final_message", True, REFUSED),
    (CHAT, "service_tier", "fast", None),
    (CHAT, "service_tier", "scale", None),
    (CHAT, "service_tier", "standard_only", None),
    (CHAT, "service_tier", "none", REFUSED),
    (CHAT, "user", "u", HINT),
    (CHAT, "metadata", {"a": "b"}, HINT),
    (CHAT, "client_metadata", {"a": "b"}, HINT),
    (CHAT, "safety_identifier", "s", HINT),
    (CHAT, "prompt_cache_key", "k", HINT),
    (CHAT, "prompt_cache_retention", "24h", HINT),
    (CHAT, "cache_control", {"type": "ephemeral"}, HINT),
    (CHAT, "metadata", {"a": 1}, REFUSED),
    (CHAT, "cache_control", "ephemeral", REFUSED),
    (CHAT, "verbosity", "medium", HINT),
    (CHAT, "verbosity", "low", REFUSED),
    (CHAT, "reasoning_effort", "none", HINT),
    (CHAT, "reasoning_effort", "low", REFUSED),
    (CHAT, "thinking_token_budget", 9, REFUSED),
    (CHAT, "prompt_logprobs", 1, REFUSED),
    (TEXT, "prompt_logprobs", 1, REFUSED),
    (CHAT, "use_beam_search", True, REFUSED),
    (CHAT, "length_penalty", 1.5, REFUSED),
    (CHAT, "bad_words", ["x"], REFUSED),
    (CHAT, "allowed_token_ids", [5], REFUSED),
    (CHAT, "chat_template", "{{ messages }}", REFUSED),
    (CHAT, "ebnf", "root ::= x", REFUSED),
    (CHAT, "truncation", "auto", REFUSED),
    (CHAT, "truncate_prompt_tokens", 5, REFUSED),
    (CHAT, "audio", {"voice": "a"}, REFUSED),
    (CHAT, "modalities", ["audio"], REFUSED),
]


@pytest.mark.parametrize("path,field,value,effect", ROWS, ids=[f"{r[0][4:]}-{r[1]}-{i}" for i, r in enumerate(ROWS)])
def test_each_field(server, key, path, field, value, effect):
    with server.http(key) as http:
        response = ask(http, path, **{field: value})
        if effect == REFUSED:
            error = response.json()["error"]
            assert response.status_code == 400 and error["param"].startswith(field), response.text
            assert field in error["message"]
            return
        assert response.status_code == 200, response.text
        if effect == HINT:
            assert answer(http, path, **{field: value}) == answer(http, path)


def test_tiers(server, key):
    with server.http(key) as http:
        for tier, used in (("fast", "priority"), ("scale", "default"), ("standard_only", "default")):
            got = ask(http, CHAT, service_tier=tier).json()["service_tier"]
            assert got == ask(http, CHAT, service_tier=used).json()["service_tier"], tier


def test_names_reach_the_template_or_are_hints(server, key):
    with server.http(key) as http:
        named = {"messages": [{"role": "user", "name": "ada", "content": "Say hi."}]}
        assert answer(http, CHAT, **named) == answer(http, CHAT)


def test_an_image_is_refused(server, key):
    with server.http(key) as http:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        response = ask(http, CHAT, messages=[{"role": "user", "content": [image]}])
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "messages[0].content[0].type"
