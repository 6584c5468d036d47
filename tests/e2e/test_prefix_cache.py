"""What was computed once is found again: by its tenant, by its group when it shares, by nobody else."""

import hashlib
import hmac
import json
import uuid

import pytest

from conftest import MODEL_NAME, Server, wait_until

PAGE = 16
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/generate")


def new_text():
    """About 200 tokens that no test before had."""
    return f"Notes {uuid.uuid4().hex}. " + "The river runs past the mill and under the old bridge. " * 14


def body_of(path, text, **fields):
    prompt = {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}
    return {"model": MODEL_NAME, "max_tokens": 2, "temperature": 0, **prompt, **fields}


def usage_of(answer):
    """The usage of an answer, streamed or not."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json()["usage"]
    data = [e.removeprefix("data: ") for e in answer.text.split("\n\n") if e.startswith("data: {")]
    return json.loads(data[-1])["usage"]


def ask(server, key, text, path="/v1/completions", headers=None, http2=False, **fields):
    """(prompt tokens, cached tokens, how it went)"""
    headers = {"x-banyan-explain": "1", **(headers or {})}
    with server.http(key, http2=http2) as http:
        usage = usage_of(http.post(path, json=body_of(path, text, **fields), headers=headers))
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["banyan"]


def whole_pages(tokens):
    return (tokens - 1) // PAGE * PAGE


def is_found(prompt, cached):
    """Everything but the last, partly filled page, at least; never all: one token is computed."""
    return whole_pages(prompt) <= cached < prompt


@pytest.fixture(scope="module")
def make(server):
    """A new tenant: (id, key)."""

    def make(**fields):
        tenant_id, key, _ = server.tenant(f"cache-{uuid.uuid4().hex}")
        with server.admin() as admin:
            assert admin.patch(f"/admin/v1/tenants/{tenant_id}", json=fields).status_code == 200
        return tenant_id, key

    return make


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_the_second_request_finds_the_first(server, make, path, stream):
    text = new_text()
    mine, others = make()[1], make()[1]
    prompt, cached, _ = ask(server, mine, text, path, stream=stream)
    assert prompt > 8 * PAGE and cached == 0
    again, cached, how = ask(server, mine, text, path, stream=stream)
    assert again == prompt and is_found(prompt, cached)
    assert how["cached_tokens"] == {
        "published": 0, "group": 0, "own": cached, "device": cached, "host": 0,
    }  # fmt: skip
    assert ask(server, others, text, path, stream=stream)[1] == 0


def answers_of(server, keys):
    """What each key is told twice about one new text: all different answers."""
    text = new_text()
    answers = set()
    for key in keys:
        with server.http(key) as http:
            for _ in range(2):
                body = body_of("/v1/completions", text, max_tokens=24, logprobs=3)
                choice = http.post("/v1/completions", json=body).json()["choices"][0]
                answers.add(json.dumps(choice, sort_keys=True))
    return answers


def test_same_answer_with_and_without(server, make):
    """The same bits, whoever computed the prompt."""
    assert len(answers_of(server, (make()[1], make()[1]))) == 1


@pytest.mark.parametrize("kv_type, part", [("i8", 0.54), ("k4v8", 0.46), ("k4v4", 0.35)])
def test_pages_of_fewer_bits(server, make, tmp_path, kv_type, part):
    """Less memory for a token; found again, with the same bits, as pages of halves are."""
    ask(server, make()[1], new_text())
    small = Server(tmp_path / "data", "--kv-type", kv_type)
    try:
        keys = [small.tenant(f"{kv_type}-{i}")[1] for i in range(2)]
        assert len(answers_of(small, keys)) == 1
        text = new_text()
        prompt, cached, _ = ask(small, keys[0], text)
        assert cached < PAGE  # its first words are those of the text before
        assert is_found(prompt, ask(small, keys[0], text)[1])
        name = "banyan_kv_token_bytes"
        wait_until(lambda: 0 < small.metric(name) < part * server.metric(name))  # the edge's may be 5 s old
    finally:
        assert small.stop() == 0


def test_cached_tokens_are_counted_everywhere(server, make):
    def metric():
        with server.admin() as admin:
            lines = admin.get("/metrics").text.splitlines()
        return float(next(x for x in lines if x.startswith('banyan_tokens_total{kind="cached"}')).split()[1])

    before = metric()
    tenant_id, key = make()
    text = new_text()
    asked = [ask(server, key, text, path) for path in ("/v1/completions", "/v1/generate", "/v1/completions")]
    prompt_sum, cached_sum = sum(a[0] for a in asked), sum(a[1] for a in asked)
    assert is_found(asked[2][0], asked[2][1])
    rows = server.ledger(
        "select prompt_tokens, cached_tokens from requests where tenant_id = ? order by rowid", tenant_id
    )
    assert rows == [(prompt, cached) for prompt, cached, _ in asked]
    assert metric() - before == cached_sum
    with server.http(key) as http:
        me = http.get("/v1/me").json()
        assert me["cache"] == {"prompt_tokens": prompt_sum, "cached_tokens": cached_sum}
        assert me["usage_today"]["input_cached_tokens"] == cached_sum
        day = http.get("/v1/usage", params={"start_time": me["usage_today"]["start_time"]}).json()
    results = [result for bucket in day["data"] for result in bucket["results"]]
    assert sum(result["input_cached_tokens"] for result in results) == cached_sum

    def logged():
        lines = [line for line in server.log_text().splitlines() if f'"{tenant_id}"' in line]
        told = [json.loads(line) for line in lines]
        generations = [e for e in told if e["event"] == "request" and e["method"] == "POST"]
        return [(e["prompt_tokens"], e["cached_tokens"]) for e in generations]

    wait_until(lambda: logged() == rows, what="the access log")


def test_n_answers_count_the_prompt_once(server, make):
    key, text = make()[1], new_text()
    prompt, _, _ = ask(server, key, text, n=3)
    again, cached, _ = ask(server, key, text, n=3)
    assert again == prompt and is_found(prompt, cached)


def test_a_group_shares_inside_itself(server, make):
    group = f"east-{uuid.uuid4().hex}"
    one = make(group=group, share="group")[1]
    two_id, two = make(group=group, share="group")
    private_id, private = make(group=group, share="private")
    elsewhere = make(group=f"west-{group}", share="group")[1]
    alone = make(share="group")[1]
    text = new_text()
    prompt, cached, _ = ask(server, one, text)
    assert cached == 0
    for key in (private, elsewhere, alone):
        assert ask(server, key, text)[1] == 0
    prompt, cached, how = ask(server, two, text)
    assert is_found(prompt, cached)
    assert how["cached_tokens"]["group"] == cached and how["cached_tokens"]["own"] == 0
    # Who keeps to itself has not given either: no more is found than the first words of any text.
    kept = new_text()
    ask(server, private, kept)
    assert ask(server, two, kept)[1] < PAGE
    # Who leaves finds nothing of the group's, and who comes does.
    with server.admin() as admin:
        assert admin.patch(f"/admin/v1/tenants/{two_id}", json={"group": ""}).status_code == 200
        path = f"/admin/v1/tenants/{private_id}"
        assert admin.patch(path, json={"share": "group"}).status_code == 200
    assert ask(server, two, text)[1] == 0
    assert is_found(prompt, ask(server, private, text)[1])
    # A group of the same name, made when that one is gone, is another: nothing of it is found.
    with server.admin() as admin:
        for member in admin.get(f"/admin/v1/groups/{group}").json()["members"]:
            moved = admin.patch(f"/admin/v1/tenants/{member}", json={"group": ""})
            assert moved.status_code == 200, moved.text
        assert admin.delete(f"/admin/v1/groups/{group}").status_code == 200
        assert admin.patch(f"/admin/v1/tenants/{two_id}", json={"group": group}).status_code == 200
    late = make(group=group, share="group")[1]
    assert ask(server, late, text)[1] == 0
    assert is_found(prompt, ask(server, two, text)[1])


def domain_of(server, kind, text):
    """The name that the engine knows a domain by: only who has D/secrets can make it."""
    lines = (server.data_dir / "secrets").read_text().splitlines()
    secret = next(line for line in lines if line.startswith("domain ")).split()[1]
    return hmac.new(bytes.fromhex(secret), f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()[:32]


@pytest.mark.parametrize("http2", [False, True])
def test_forged_headers_open_nothing(server, make, http2):
    """The right name of another's domain, from a client: dropped, on both protocols."""
    victim_id, victim = make()
    thief = make()[1]
    text = new_text()
    prompt = ask(server, victim, text)[0]
    domain = domain_of(server, "domain", victim_id)
    status, answer = server.engine(
        "POST", "/v1/completions", body_of("/v1/completions", text),
        {"x-banyan-protocol": "1", "x-banyan-request-id": f"req_{uuid.uuid4().hex}",
         "x-banyan-domain": domain, "x-banyan-visible": f"o:{domain}"},
    )  # fmt: skip
    assert status == 200
    for event in ("start", "final"):
        told = json.loads(answer.split(f"event: banyan.{event}\ndata: ".encode())[1].split(b"\n")[0])
        assert is_found(prompt, told["cached_tokens"]), "the name is the right one"
    for forged in (
        {"x-banyan-domain": domain},
        {"x-banyan-visible": f"o:{domain}"},
        {"x-banyan-domain": domain, "x-banyan-visible": f"p:{domain},g:{domain},o:{domain}",
         "x-banyan-cache-share": "1000", "x-banyan-protocol": "1"},
    ):  # fmt: skip
        other = make()[1]
        assert ask(server, other, text, headers=forged, http2=http2)[1] == 0
    # Nor does what a thief computes go where its victim would find it.
    planted = new_text()
    ask(server, thief, planted, headers={"x-banyan-domain": domain}, http2=http2)
    assert ask(server, victim, planted)[1] < PAGE, "as much as all texts here have in common"
    with server.http(thief, http2=http2) as http:
        for field in ({"cache_salt": "x"}, {"priority": 1}):
            answer = http.post("/v1/completions", json=body_of("/v1/completions", text, **field))
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == next(iter(field))


def test_the_caches_metrics_are_shown(server, make):
    key, text = make()[1], new_text()
    for _ in range(2):
        ask(server, key, text)
    with server.admin() as admin:
        shown = admin.get("/metrics").text
    for name in (
        'banyan_kv_pages{state="free"}', 'banyan_kv_pages{state="active"}', 'banyan_kv_pages{state="cached"}',
        'banyan_kv_pages{state="pinned"}', 'banyan_kv_pages{state="host"}', "banyan_kv_token_bytes",
        "banyan_prefix_cache_queries_tokens_total", "banyan_prefix_cache_hits_tokens_total",
        'banyan_prefix_cache_evicted_pages_total{to="host"}',
        'banyan_prefix_cache_evicted_pages_total{to="dropped"}',
    ):  # fmt: skip
        assert name in shown, name
