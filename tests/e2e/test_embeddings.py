"""POST /v1/embeddings against a decoder: by the official client, alone and in lists, beside generation; what is
refused, counted and cut."""

import base64
import math
import struct
import threading

import pytest

from conftest import MODEL_NAME, pages_at_hand, wait_until
from test_bad_input import check_error
from test_quotas import limit, me

PATH = "/v1/embeddings"
WIDTH = 576  # of SmolLM2-135M
TEXTS = [f"Text {i} is about the number {i * i}." + " And so it goes on." * (i % 7) for i in range(64)]
ROW = "select route, prompt_tokens, completion_tokens, finish, http_code, model from requests where request_id = ?"


def asked(**fields):
    return {"model": MODEL_NAME, "input": "Hi", **fields}


def vectors(answer):
    """The bytes of each embedding, in order."""
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert [one["index"] for one in data] == list(range(len(data)))
    assert {one["object"] for one in data} == {"embedding"}
    return [base64.b64decode(one["embedding"]) for one in data]


def embed(http, texts, **fields):
    return vectors(http.post(PATH, json=asked(input=texts, encoding_format="base64", **fields)))


def test_the_official_client(server, client):
    answer = client.embeddings.create(model=MODEL_NAME, input=TEXTS[:3])
    assert answer.object == "list" and answer.model == MODEL_NAME
    assert [one.index for one in answer.data] == [0, 1, 2]
    for one in answer.data:
        assert len(one.embedding) == WIDTH
        assert math.isclose(sum(x * x for x in one.embedding), 1, rel_tol=1e-5)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 10
    near, far = "The cat sat on the mat.", "Interest rates rose again in March."
    made = client.embeddings.create(model=MODEL_NAME, input=[near, near, far]).data
    dots = [sum(a * b for a, b in zip(made[0].embedding, other.embedding)) for other in made[1:]]
    assert dots[0] > 0.99999 > dots[1]


def test_both_encodings_are_the_same_numbers(server, key):
    with server.http(key) as http:
        numbers = http.post(PATH, json=asked(input=TEXTS[1])).json()["data"][0]["embedding"]
        assert struct.pack(f"<{WIDTH}f", *numbers) == embed(http, TEXTS[1])[0]


def test_equal_bits_alone_in_a_list_and_beside_generation(server, key):
    with server.http(key) as http:
        alone = [embed(http, text)[0] for text in TEXTS[:16]]
        assert len(set(alone)) == 16
        assert embed(http, TEXTS)[:16] == alone
        stop = threading.Event()

        def generate():
            with server.http(key) as other:
                while not stop.is_set():
                    body = {"model": MODEL_NAME, "prompt": "Once", "max_tokens": 40}
                    assert other.post("/v1/completions", json=body).status_code == 200

        thread = threading.Thread(target=generate)
        thread.start()
        try:
            assert embed(http, TEXTS)[:16] == alone
        finally:
            stop.set()
            thread.join()
        long = "A river and a road go side by side. " * 150  # in chunks, and then found in the cache
        first = embed(http, long)
        assert embed(http, long) == first
        ids = http.post("/v1/tokenize", json={"model": MODEL_NAME, "prompt": TEXTS[3]}).json()["tokens"]
        assert embed(http, ids) == embed(http, [ids])[:1] == alone[3:4]


def test_many_texts_are_counted(server):
    tenant_id, key, _ = server.tenant("embedder")
    texts = [f"word {i}" for i in range(2048)]
    with server.http(key) as http:
        answer = http.post(PATH, json=asked(input=texts, encoding_format="base64"))
        made = vectors(answer)
        assert len(made) == 2048 and {len(one) for one in made} == {4 * WIDTH}
        for i in (0, 1, 31, 32, 1000, 2047):
            assert embed(http, texts[i])[0] == made[i]
    tokens = answer.json()["usage"]["prompt_tokens"]
    row = server.ledger(ROW, answer.headers["x-request-id"])
    assert row == [(PATH, tokens, 0, "stop", 200, MODEL_NAME)]
    assert tokens > 4096


def test_limits(server, one_day):
    tenant_id, key, _ = server.tenant("embeds-a-little")
    limit(server, tenant_id, tokens_per_day=1000, requests_per_minute=100)
    with server.http(key) as http:
        answer = http.post(PATH, json=asked(input=TEXTS[:4]))
        usage = answer.json()["usage"]
        used = usage["total_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]  # these are free
        assert me(server, key)["tokens_per_day"]["remaining"] == 1000 - used
        check_error(http.post(PATH, json=asked(input=TEXTS * 20)), 429, None, "tokens_per_day")
        assert me(server, key)["tokens_per_day"]["remaining"] == 1000 - used
    _, other, _ = server.tenant("reads-alone", scopes=["usage:read"])
    with server.http(other) as http:
        check_error(http.post(PATH, json=asked()), 403, None, None)


def test_a_client_that_leaves_is_counted(server):
    tenant_id, key, _ = server.tenant("leaves")
    long = ["One two three four five six seven. " * 200] * 40
    with server.http(key) as http:
        with pytest.raises(Exception):
            http.post(PATH, json=asked(input=[f"{i} {text}" for i, text in enumerate(long)]), timeout=1)
    query = "select finish, http_code, prompt_tokens, completion_tokens from requests where tenant_id = ?"
    wait_until(lambda: server.ledger(query, tenant_id), what="the row")
    finish, code, tokens, generated = server.ledger(query, tenant_id)[0]
    assert (finish, code, generated) == ("cancelled", 499, 0) and 0 < tokens < 40 * 1400
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="the engine is idle")


CASES = [
    ({"model": MODEL_NAME}, None, "input"),
    (asked(input=[]), None, "input"),
    (asked(input=""), None, "input"),
    (asked(input=["a", ""]), None, "input[1]"),
    (asked(input=["a"] * 2049), "invalid_value", "input"),
    (asked(input=7), None, "input"),
    (asked(input={"text": "a"}), None, "input"),
    (asked(input=["a", 7]), None, "input[1]"),
    (asked(input=[1.5]), None, "input[0]"),
    (asked(input=[[1, 2.5]]), None, "input[0][1]"),
    (asked(input=[[1], []]), None, "input[1]"),
    (asked(input=[[1], "a"]), None, "input[1]"),
    (asked(input=[99999999]), "invalid_value", "input[0]"),
    (asked(input="a " * 9000), "context_length_exceeded", "input"),
    (asked(input=["a", "b", "a " * 9000]), "context_length_exceeded", "input[2]"),
    (asked(dimensions=256), "unsupported_parameter", "dimensions"),
    (asked(dimensions=WIDTH), "unsupported_parameter", "dimensions"),
    (asked(stream=True), "unsupported_parameter", "stream"),
    (asked(encoding_format="int8"), "invalid_value", "encoding_format"),
    (asked(encoding_format=1), None, "encoding_format"),
    (asked(max_tokens=1), "unsupported_parameter", "max_tokens"),
    (asked(user=1), None, "user"),
]  # fmt: skip


@pytest.mark.parametrize("body,code,param", CASES, ids=[f"{i}-{case[2]}" for i, case in enumerate(CASES)])
def test_wrong_bodies(server, key, body, code, param):
    wait_until(lambda: server.engine_stats()["requests"] == 0, what="the engine is idle")
    before = pages_at_hand(server.engine_stats())
    with server.http(key) as http:
        answer = http.post(PATH, json=body)
        check_error(answer, 400, code, param)
        assert answer.json()["error"]["type"] == "invalid_request_error"
        check_error(http.post(PATH, json=asked(model="nothing")), 404, "model_not_found", "model")
        wait_until(lambda: server.engine_stats()["requests"] == 0, what="the engine is idle")
        assert pages_at_hand(server.engine_stats()) == before
        assert len(embed(http, "Hi")) == 1


def test_metrics_count_texts(server, key):
    before = server.metric("banyan_embeddings_total")
    with server.http(key) as http:
        embed(http, TEXTS[:5])
    wait_until(lambda: server.metric("banyan_embeddings_total") >= before + 5, what="the metric")
