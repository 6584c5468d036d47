"""Limits of tenants: what is refused and how, what a request costs, what the official client makes
of it. Times are never measured, but to know how much a bucket may have filled meanwhile."""

import concurrent.futures
import os
import random
import re
import signal
import time

import openai
import pytest

from conftest import MODEL_NAME, Server, limit_rows, wait_until

pytestmark = pytest.mark.usefixtures("one_day")

PROMPT = "One two three four five six seven eight nine ten"
ON_AND_ON = {"2": -100, "0": -100}  # the tokens that would end the answer


def limit(server, tenant_id, **limits):
    with server.admin() as admin:
        answer = admin.put(f"/admin/v1/tenants/{tenant_id}/limits", json=limits)
        assert answer.status_code == 200, answer.text
        return answer.json()


def ask(client, **fields):
    body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 4, "temperature": 0, **fields}
    return client.completions.create(**body)


def charged(server, tenant_id):
    """Tokens of the ledger, cached ones discounted."""
    rows = server.ledger(
        "select coalesce(sum(prompt_tokens - cached_tokens + completion_tokens), 0) from requests "
        "where tenant_id = ?", tenant_id,
    )  # fmt: skip
    return rows[0][0]


def denials(server, name, mode="enforce"):
    with server.admin() as admin:
        text = admin.get("/metrics").text
    found = re.search(
        rf'^banyan_quota_denials_total{{limit="{name}",mode="{mode}"}} (\S+)$', text, re.M
    )
    return int(float(found.group(1)))


def me(server, key):
    with server.http(key) as http:
        return http.get("/v1/me").json()["limits"]


def test_parallel_requests_of_a_small_bucket(server):
    tenant_id, key, _ = server.tenant("small-bucket")
    limit(server, tenant_id, tokens_per_minute=100)
    client = server.openai(key, max_retries=0)
    began = time.monotonic()

    def one(number):
        try:
            return ask(client, prompt=f"{number} {PROMPT}", max_tokens=48, logit_bias=ON_AND_ON)
        except openai.RateLimitError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(one, range(50)))
    minutes = (time.monotonic() - began) / 60
    refused = [a for a in answers if isinstance(a, openai.RateLimitError)]
    passed = len(answers) - len(refused)
    assert passed >= 1
    # The limit, what it gave meanwhile, and one lease, which is never more than the limit.
    assert charged(server, tenant_id) <= 100 + 100 * minutes + 100
    assert len(refused) >= 50 - (charged(server, tenant_id) // 48 + 1)
    for error in refused:
        assert error.code == "rate_limit_exceeded" and error.type == "tokens"
        assert error.param == "tokens_per_minute"
        assert re.search(
            rf"tenant {tenant_id} on tokens_per_minute: limit 100, used \d+, requested \d+\. "
            r"Please try again in \S+\.$", error.body["message"],
        )  # fmt: skip
        headers = error.response.headers
        assert headers["x-ratelimit-limit-tokens"] == "100"
        assert 0 <= int(headers["x-ratelimit-remaining-tokens"]) < 100
        assert re.fullmatch(r"(\d+m)?[\d.]+m?s", headers["x-ratelimit-reset-tokens"])
        assert 1 <= int(headers["retry-after"]) <= 120
        assert 0 < int(headers["retry-after-ms"]) <= 120000
        assert "x-should-retry" not in headers


def test_headers_of_what_is_let_in(server):
    tenant_id, key, _ = server.tenant("headers")
    limit(server, tenant_id, requests_per_minute=60, output_tokens_per_minute=6000)
    client = server.openai(key, max_retries=0)
    for stream in (False, True):
        answer = client.completions.with_raw_response.create(
            model=MODEL_NAME, prompt=PROMPT, max_tokens=4, stream=stream
        )
        assert answer.headers["x-ratelimit-limit-requests"] == "60"
        assert 50 <= int(answer.headers["x-ratelimit-remaining-requests"]) <= 59
        assert answer.headers["x-ratelimit-limit-tokens"] == "6000"
        assert 5000 <= int(answer.headers["x-ratelimit-remaining-tokens"]) <= 5996
        assert re.fullmatch(r"\d+(\.\d+)?m?s", answer.headers["x-ratelimit-reset-requests"])
        answer.parse() if not stream else list(answer.parse())
    _, other, _ = server.tenant("no-limits")
    answer = server.openai(other).completions.with_raw_response.create(
        model=MODEL_NAME, prompt=PROMPT, max_tokens=1
    )
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


@pytest.mark.long
def test_the_clients_own_retries_get_through(server):
    tenant_id, key, _ = server.tenant("retries")
    limit(server, tenant_id, requests_per_minute=12)
    client = server.openai(key, max_retries=10)
    before = denials(server, "requests_per_minute")
    began = time.monotonic()
    for _ in range(12):
        ask(client, max_tokens=1)
    is_sure = time.monotonic() - began < 4  # then the bucket has not given another one yet
    ask(client, max_tokens=1)
    if is_sure:
        assert denials(server, "requests_per_minute") > before


def test_a_spent_budget_is_not_tried_again(server):
    tenant_id, key, _ = server.tenant("budget")
    limit(server, tenant_id, tokens_per_day=60)
    client = server.openai(key, max_retries=5)
    used = ask(client, max_tokens=40, logit_bias=ON_AND_ON).usage
    assert used.total_tokens == charged(server, tenant_id)
    left = 60 - used.total_tokens
    assert me(server, key)["tokens_per_day"]["remaining"] == left
    before = denials(server, "tokens_per_day")
    with pytest.raises(openai.RateLimitError) as info:
        ask(client, prompt=PROMPT * 8)
    assert denials(server, "tokens_per_day") == before + 1, "x-should-retry: false was not heeded"
    assert info.value.code == "insufficient_quota" and info.value.type == "insufficient_quota"
    assert info.value.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in info.value.response.headers
    assert "reset in" in info.value.body["message"]
    assert charged(server, tenant_id) == used.total_tokens, "a refused request cost something"


def test_what_the_engine_refuses_counts(server):
    """The engine has parsed and tokenised a request before it can refuse it, or before its client
    leaves: so it counts against the limits of a minute. Nothing of it is billed."""
    tenant_id, key, _ = server.tenant("worked")
    limit(server, tenant_id, requests_per_minute=7, input_tokens_per_minute=1000000, concurrent_requests=1)
    refused = [
        {"prompt": "One two three. " * 20000},  # longer than the context
        {"prompt": [1, 2, 49152]},  # no such token
        {"stop": ["x"] * 5},
        {"temperature": "hot"},
    ]
    began = time.monotonic()

    def refilled():
        return int((time.monotonic() - began) * 7 / 60) + 1

    with server.http(key) as http:
        for number, fields in enumerate(refused, 1):
            body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 1, **fields}
            answer = http.post("/v1/completions", json=body)
            assert answer.status_code == 400, answer.text
            left = me(server, key)
            assert left["requests_per_minute"]["remaining"] <= 7 - number + refilled(), fields
            assert left["concurrent_requests"]["remaining"] == 1, fields
        left = me(server, key)["input_tokens_per_minute"]["remaining"]
        assert left <= 1000000 - 70000 + (time.monotonic() - began) * 1000000 / 60
        # A deadline that passes while the text is worked on is the tenant's own.
        body = {"model": MODEL_NAME, "prompt": "One two three. " * 60000, "max_tokens": 1}
        answer = http.post("/v1/completions", json=body, headers={"x-request-timeout-ms": "1"})
        assert answer.status_code in (400, 503), answer.text
        codes = [
            http.post("/v1/completions", json={"model": MODEL_NAME, "prompt": PROMPT, "n": 0}).status_code
            for _ in range(8)
        ]
    assert len(refused) + codes.count(400) <= 7 + refilled() and codes[-1] == 429, codes
    assert charged(server, tenant_id) == 0


def test_too_large_is_said_once(server):
    tenant_id, key, _ = server.tenant("too-large")
    limit(server, tenant_id, input_tokens_per_minute=10)
    before = denials(server, "input_tokens_per_minute")
    with pytest.raises(openai.RateLimitError) as info:
        ask(server.openai(key, max_retries=5), prompt=PROMPT * 20)
    assert info.value.response.headers["x-should-retry"] == "false"
    assert denials(server, "input_tokens_per_minute") == before + 1


@pytest.mark.long
def test_an_agent_that_asks_for_much_and_takes_little(server):
    tenant_id, key, _ = server.tenant("agent")
    limit(server, tenant_id, tokens_per_minute=100000, requests_per_minute=1000)
    client = server.openai(key, max_retries=0)
    for turn in range(20):  # the first too: a guess is never the whole of max_tokens
        ask(client, prompt=f"{PROMPT} {turn} " * 10, max_tokens=7000, stop=[" ", "e", "\n", ","])


@pytest.mark.parametrize("stream", [True, False])
def test_a_limit_met_in_the_middle(server, stream):
    tenant_id, key, _ = server.tenant(f"middle-{stream}")
    limit(server, tenant_id, output_tokens_per_minute=30)
    with server.http(key) as http:
        body = {
            "model": MODEL_NAME, "max_tokens": 1500, "temperature": 0, "logit_bias": ON_AND_ON,
            "messages": [{"role": "user", "content": "Count."}], "stream": stream,
        }  # fmt: skip
        if stream:
            body["stream_options"] = {"include_usage": True}
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        assert answer.text.endswith("data: [DONE]\n\n")
        reasons = re.findall(r'"finish_reason":"(\w+)"', answer.text)
        completion = int(re.findall(r'"completion_tokens":(\d+)', answer.text)[-1])
    else:
        reasons = [c["finish_reason"] for c in answer.json()["choices"]]
        completion = answer.json()["usage"]["completion_tokens"]
    assert reasons == ["length"]
    finish, counted = server.ledger(
        "select finish, completion_tokens from requests where tenant_id = ?", tenant_id
    )[0]
    assert (finish, counted) == ("quota", completion)
    # The limit, what it gave meanwhile, and what the engine computed before it heard.
    assert 30 <= completion < 1500 and completion <= 30 + 200


def key_limit(server, tenant_id, key_id, **limits):
    with server.admin() as admin:
        path = f"/admin/v1/tenants/{tenant_id}/keys/{key_id}/limits"
        answer = admin.put(path, json=limits)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_a_key_beside_its_tenant(server):
    """Both pass or none is charged; the refusal names which of the two it was."""
    tenant_id, key, key_id = server.tenant("two-scopes")
    limit(server, tenant_id, requests_per_minute=100)
    told = key_limit(server, tenant_id, key_id, requests_per_minute=2, output_tokens_per_minute=500)
    assert (told["object"], told["revision"]) == ("key.limits", 1)
    client = server.openai(key, max_retries=0)
    began = time.monotonic()
    answer = client.completions.with_raw_response.create(
        model=MODEL_NAME, prompt=PROMPT, max_tokens=1
    )
    assert answer.headers["x-ratelimit-limit-requests"] == "2"  # the tighter one
    assert answer.headers["x-ratelimit-limit-tokens"] == "500"
    ask(client, max_tokens=1)
    if time.monotonic() - began < 25:
        with pytest.raises(openai.RateLimitError) as info:
            ask(client, max_tokens=1)
        assert f"for key {key_id} on requests_per_minute: limit 2" in info.value.body["message"]
        used = 100 - me(server, key)["requests_per_minute"]["remaining"]
        assert used <= 2, "a request that its key refused was charged to the tenant"
    limit(server, tenant_id, kv_tokens=1)
    with pytest.raises(openai.RateLimitError) as info:
        ask(client, max_tokens=1)
    assert f"for tenant {tenant_id} on kv_tokens" in info.value.body["message"]
    with server.http(key) as http:
        told = http.get("/v1/me").json()
    assert told["key"]["limits"]["requests_per_minute"]["limit"] == 2
    assert "requests_per_minute" not in told["limits"]


def test_limits_go_with_the_key_that_follows(server):
    tenant_id, _, key_id = server.tenant("rotated-limits")
    key_limit(server, tenant_id, key_id, input_tokens_per_minute=1)
    with server.admin() as admin:
        path = f"/admin/v1/tenants/{tenant_id}/keys/{key_id}"
        rotated = admin.post(f"{path}/rotate", json={}).json()
    with pytest.raises(openai.RateLimitError) as info:
        ask(server.openai(rotated["key"], max_retries=0))
    assert f"for key {rotated['id']} on input_tokens_per_minute" in info.value.body["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_going_on_in_the_lowest_class(server, stream):
    """on_limit: lower_class. The answer is whole, says its tier, and is of class batch in the ledger."""
    tenant_id, key, _ = server.tenant(f"lower-{stream}")
    limit(server, tenant_id, output_tokens_per_minute=30, on_limit="lower_class")
    counter = 'banyan_quota_lowered_total{limit="output_tokens_per_minute"}'
    before = server.metric(counter)
    client = server.openai(key, max_retries=0)
    asked = {"max_tokens": 80, "logit_bias": ON_AND_ON, "stream": stream}
    began = time.monotonic()
    if stream:
        frames = list(ask(client, **asked, stream_options={"include_usage": True}))
        assert frames[0].model_extra["service_tier"] == "default"
        assert frames[-1].model_extra["service_tier"] == "flex"
        reasons = [c.finish_reason for f in frames for c in f.choices if c.finish_reason]
        used = frames[-1].usage.completion_tokens
    else:
        answer = ask(client, **asked)
        assert answer.model_extra["service_tier"] == "flex"
        reasons, used = [answer.choices[0].finish_reason], answer.usage.completion_tokens
    # The limit gives a token each 2 s: it would take 100 s for the rest.
    assert (reasons, used) == (["length"], 80), time.monotonic() - began
    assert server.metric(counter) == before + 1
    rows = "select service_class, completion_tokens, finish from requests where tenant_id = ?"
    assert server.ledger(rows, tenant_id) == [("batch", 80, "length")]
    answer = ask(client, max_tokens=40, extra_body={"service_tier": "default"})
    assert answer.model_extra["service_tier"] == "flex"  # there from its beginning
    assert server.ledger(rows, tenant_id)[-1][:2] == ("batch", answer.usage.completion_tokens)


@pytest.mark.long
def test_leases_come_back_from_streams_that_are_cut(server):
    tenant_id, key, _ = server.tenant("cut")
    limit(server, tenant_id, concurrent_requests=4, kv_tokens=5000)
    client = server.openai(key, max_retries=0)
    draw = random.Random(7)

    def one(cut_at):
        while True:
            try:
                stream = ask(client, max_tokens=64, stream=True, logit_bias=ON_AND_ON)
                break
            except openai.RateLimitError as error:
                assert error.param in ("concurrent_requests", "kv_tokens")
                time.sleep(0.05)
        for number, _ in enumerate(stream):
            if number == cut_at:
                break
        stream.close()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, [draw.randrange(70) for _ in range(48)]))

    def is_free():
        limits = me(server, key)
        return [limits[n]["remaining"] for n in ("concurrent_requests", "kv_tokens")] == [4, 5000]

    wait_until(is_free, what="all leases back")


def test_shadow_refuses_nobody(server):
    tenant_id, key, _ = server.tenant("shadow")
    limit(server, tenant_id, requests_per_minute={"limit": 1, "mode": "shadow"})
    client = server.openai(key, max_retries=0)
    before = denials(server, "requests_per_minute", "shadow")
    began = time.monotonic()
    for _ in range(3):
        ask(client, max_tokens=1)
    if time.monotonic() - began < 50:
        assert denials(server, "requests_per_minute", "shadow") == before + 2
    assert me(server, key)["requests_per_minute"]["mode"] == "shadow"


def test_plans(server):
    tenant_id, key, _ = server.tenant("planned")
    client = server.openai(key, max_retries=0)
    with server.admin() as admin:
        plan = admin.post("/admin/v1/plans", json={"name": "tiny", "input_tokens_per_minute": 1})
        assert plan.status_code == 201, plan.text
        path = f"/admin/v1/plans/{plan.json()['id']}"
        told = limit(server, tenant_id, plan=plan.json()["id"], tokens_per_day=1000000)
        assert told["effective"] == {
            "object": "limits.effective", "input_tokens_per_minute": 1, "tokens_per_day": 1000000,
            "cached_input_percent": 0,
        }  # fmt: skip
        with pytest.raises(openai.RateLimitError):
            ask(client)
        # Two who change it at once: the second is told.
        etag = admin.get(path).headers["etag"]
        change = {"input_tokens_per_minute": 10000}
        assert admin.patch(path, json=change, headers={"if-match": etag}).status_code == 200
        assert admin.patch(path, json=change, headers={"if-match": etag}).status_code == 412
        ask(client)
        assert admin.delete(path).status_code == 409
        assert admin.get(path).json()["tenants"] == 1
        limit(server, tenant_id, input_tokens_per_minute=1)  # its own again, and no plan
        with pytest.raises(openai.RateLimitError):
            ask(client)
        assert admin.delete(path).status_code == 200
        assert admin.get(path).status_code == 404
        types = [row["type"] for row in admin.get("/admin/v1/audit?order=desc").json()["data"]]
        assert types[:4] == ["plan.deleted", "limits.updated", "plan.updated", "limits.updated"]


def test_class_and_weight_of_a_plan(server):
    """A tenant's limits stand over its plan, that over the tenant."""
    tenant_id, key, _ = server.tenant("classed")
    client = server.openai(key, max_retries=0)

    def tier():
        return ask(client, max_tokens=1, extra_body={"service_tier": "auto"}).model_extra["service_tier"]

    assert tier() == "default"
    with server.admin() as admin:
        plan = admin.post("/admin/v1/plans", json={"name": "batch", "default_class": "batch"}).json()
        limit(server, tenant_id, plan=plan["id"])
        assert tier() == "flex"
        told = limit(server, tenant_id, plan=plan["id"], default_class="standard", weight=7)
        assert (told["effective"]["default_class"], told["effective"]["weight"]) == ("standard", 7)
        assert tier() == "default"
        limit(server, tenant_id, plan=plan["id"], best_class="batch")
        answer = ask(client, max_tokens=1, extra_body={"service_tier": "default"})
        assert answer.model_extra["service_tier"] == "flex"
        with server.http(key) as http:
            told = http.get("/v1/me").json()["tenant"]
        assert (told["default_class"], told["best_class"]) == ("batch", "batch")
        limit(server, tenant_id)
        assert tier() == "default"
        assert admin.delete(f"/admin/v1/plans/{plan['id']}").status_code == 200


RATES = list(limit_rows())


def test_bad_input_of_each_field(server):
    tenant_id, _, key_id = server.tenant("bad-limits")
    limit(server, tenant_id, tokens_per_day=5)
    key_limit(server, tenant_id, key_id, tokens_per_day=6)
    wrong = [
        ("x", ""), (0, ""), (-1, ""), (1.5, ""), (True, ""), (10**16, ""), ([], ""),
        ({"limit": 0}, ""), ({"limit": 1, "mode": "soft"}, ".mode"), ({"mode": "shadow"}, ".limit"),
        ({"limit": 1, "mode": None}, ".mode"), ({"limit": 1, "hard": True}, ".hard"),
    ]  # fmt: skip
    bodies = [({name: value}, name + place) for name in RATES for value, place in wrong]
    bodies += [({"cached_input_percent": v}, "cached_input_percent") for v in (-1, 101, "1", 0.5)]
    bodies += [({"on_limit": v}, "on_limit") for v in ("", "STOP", 1, ["stop"], {}, True)]
    classes = [({name: v}, name) for name in ("default_class", "best_class") for v in ("", "flex", 1, [])]
    classes += [({"weight": v}, "weight") for v in (0, 1001, "1", 1.5, True)]
    classes += [({"default_class": "standard", "best_class": "batch"}, "default_class")]
    bodies += [({"tokens_per_hour": 1}, "tokens_per_hour")]
    with server.admin() as admin:
        plan = admin.post("/admin/v1/plans", json={"name": "bad"}).json()
        paths = [
            ("PUT", f"/admin/v1/tenants/{tenant_id}/keys/{key_id}/limits", [({"plan": None}, "plan"), ({"weight": 1}, "weight")]),
            ("PUT", f"/admin/v1/tenants/{tenant_id}/limits", classes + [({"plan": 7}, "plan"), ({"plan": "a\nb"}, "plan")]),
            ("POST", "/admin/v1/plans", classes + [({"name": ""}, "name"), ({"name": None}, "name")]),
            ("PATCH", f"/admin/v1/plans/{plan['id']}", classes + [({"name": ""}, "name")]),
        ]
        for method, path, more in paths:
            for body, param in bodies + more:
                if method == "POST":
                    body = {"name": "new", **body}
                answer = admin.request(method, path, json=body)
                assert answer.status_code == 400, (method, body, answer.text)
                assert answer.json()["error"]["param"] == param, (method, body, answer.text)
        for plan_id in ("pln_none", ""):
            answer = admin.put(f"/admin/v1/tenants/{tenant_id}/limits", json={"plan": plan_id})
            assert (answer.status_code, answer.json()["error"]["param"]) == (404, "plan")
        assert admin.put("/admin/v1/tenants/tnt_none/limits", json={}).status_code == 404
        assert admin.get("/admin/v1/tenants/tnt_none/limits").status_code == 404
        assert admin.post("/admin/v1/plans", json={"name": "bad"}).status_code == 409
        after = admin.get(f"/admin/v1/tenants/{tenant_id}/limits").json()
        assert (after["revision"], after["tokens_per_day"]) == (1, 5)
        path = f"/admin/v1/tenants/{tenant_id}/keys/{key_id}/limits"
        after = admin.get(path).json()
        assert (after["revision"], after["tokens_per_day"]) == (1, 6)
        stale = {"if-match": '"7"'}
        assert admin.put(path, json={}, headers=stale).status_code == 412
        for other in (path.replace(key_id, "key_none"), path.replace(tenant_id, "tnt_none")):
            assert admin.put(other, json={}).status_code == 404
            assert admin.get(other).status_code == 404
        assert admin.get(f"/admin/v1/plans/{plan['id']}").json() == plan
        assert admin.delete(f"/admin/v1/plans/{plan['id']}").status_code == 200


@pytest.fixture
def mortal(tmp_path):
    """A server of its own: its edge is killed."""
    server = Server(tmp_path / "data")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def test_killed_between_reserve_and_settle(mortal):
    """Leases die with the edge, budgets come back from the ledger."""
    server = mortal
    tenant_id, key, _ = server.tenant("killed")
    limit(server, tenant_id, concurrent_requests=1, tokens_per_day=400, requests_per_minute=6)
    client = server.openai(key, max_retries=0)
    began = time.monotonic()
    used = ask(client, max_tokens=100, logit_bias=ON_AND_ON).usage.total_tokens
    stream = ask(client, max_tokens=40, stream=True, logit_bias=ON_AND_ON)
    next(iter(stream))
    edge = server.child("edge")
    os.kill(edge, signal.SIGKILL)
    wait_until(lambda: server.child("edge") not in (None, edge), what="another edge")

    def is_ready():
        try:
            with server.http() as http:
                return http.get("/ready").status_code == 200
        except Exception:
            return False

    wait_until(is_ready, what="ready again")
    # The cut stream's record is replayed from the engine: two rows, and then the third.
    rows = "select count(*) from requests where tenant_id = ?"
    wait_until(lambda: server.ledger(rows, tenant_id)[0][0] == 2, what="the cut stream's row")
    ask(server.openai(key, max_retries=8), max_tokens=4)
    assert used < charged(server, tenant_id) < 400
    # Nor is the minute forgiven: three of six requests, and a new one each 10 s.
    left = me(server, key)["requests_per_minute"]["remaining"]
    assert left <= 3 + (time.monotonic() - began) / 10
    left = me(server, key)["tokens_per_day"]["remaining"]
    assert left == 400 - charged(server, tenant_id)
    assert me(server, key)["concurrent_requests"]["remaining"] == 1
