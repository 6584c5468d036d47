"""Each kind of limit at its work: what it counts, what it refuses and ends, which metric says so, and
that what is refused costs nothing. Buckets are only ever compared with what time may have added."""

import openai
import pytest

from conftest import MODEL_NAME, wait_until
from test_quotas import ON_AND_ON, ask, denials, limit, me

pytestmark = pytest.mark.usefixtures("one_day")

LONG = "A river and a road go side by side. " * 40


def left(server, key, name):
    return me(server, key)[name]["remaining"]


def stops(server, name, mode="enforce"):
    return server.metric(f'banyan_quota_stops_total{{limit="{name}",mode="{mode}"}}')


def refused(server, client, name, **fields):
    """The refusal of a request, which its metric counts."""
    before = denials(server, name)
    with pytest.raises(openai.RateLimitError) as info:
        ask(client, **fields)
    assert info.value.param == name and denials(server, name) == before + 1
    return info.value


def test_cached_input_costs_what_is_said(server):
    tenant_id, key, _ = server.tenant("discount")
    client = server.openai(key, max_retries=0)
    for percent in (None, 0, 50, 100):
        more = {} if percent is None else {"cached_input_percent": percent}
        told = limit(server, tenant_id, tokens_per_day=1000000, tokens_per_month=9000000, **more)
        assert told["effective"]["cached_input_percent"] == (percent or 0)
        ask(client, prompt=LONG)  # there it is found from now on; and the sums are known
        before = {name: left(server, key, name) for name in ("tokens_per_day", "tokens_per_month")}
        usage = ask(client, prompt=LONG).usage
        cached = usage.prompt_tokens_details.cached_tokens
        assert cached > usage.prompt_tokens // 2
        cost = usage.total_tokens - cached + (cached * (percent or 0) + 99) // 100
        for name, had in before.items():
            assert left(server, key, name) == had - cost, (percent, name)


@pytest.fixture
def running(server):
    """(begin(name, limits): tenant, key, client) with an answer under way that takes long; it is left
    at the end."""
    streams = []

    def begin(name, **limits):
        tenant_id, key, _ = server.tenant(name)
        limit(server, tenant_id, **limits)
        client = server.openai(key, max_retries=0)
        stream = ask(client, max_tokens=7000, stream=True, logit_bias=ON_AND_ON)
        next(iter(stream))
        streams.append(stream)
        return tenant_id, key, client

    yield begin, lambda: streams.pop().close()
    for stream in streams:
        stream.close()


def test_requests_at_once(server, running):
    """And whatever else has room is not charged by what this one refuses."""
    begin, leave = running
    others = {"requests_per_minute": 50, "kv_tokens": 100000, "tokens_per_day": 1000000}
    _, key, client = begin("at-once", concurrent_requests=1, **others)
    before = me(server, key)
    for _ in range(5):
        error = refused(server, client, "concurrent_requests", max_tokens=4)
        assert error.type == "requests" and error.code == "rate_limit_exceeded"
        assert int(error.response.headers["retry-after"]) >= 1
    after = me(server, key)
    assert after["concurrent_requests"]["remaining"] == 0
    assert after["requests_per_minute"]["remaining"] >= before["requests_per_minute"]["remaining"]
    for name in ("kv_tokens", "tokens_per_day"):  # the one that runs holds more as it goes on
        assert before[name]["remaining"] - after[name]["remaining"] <= 7000
    leave()
    wait_until(lambda: left(server, key, "concurrent_requests") == 1, what="the lease")
    ask(client)


def test_kv_tokens_in_use(server, running):
    begin, leave = running
    _, key, client = begin("kv", kv_tokens=7500, requests_per_minute=1000)
    assert left(server, key, "kv_tokens") < 7500 - 256
    large = "word " * 5800  # 29,000 bytes are taken for 7,250 tokens
    error = refused(server, client, "kv_tokens", prompt=large, max_tokens=300)
    assert error.type == "tokens" and "Wait until other requests have ended" in error.body["message"]
    leave()
    wait_until(lambda: left(server, key, "kv_tokens") == 7500, what="the lease")
    ask(client)
    assert left(server, key, "kv_tokens") == 7500


def plan_of_one_nano(server, name):
    """A plan under which every token costs a nano-unit."""
    price = {"currency": "usd", "input_nano": 1, "cached_input_nano": 1, "output_nano": 1}
    with server.admin() as admin:
        plan = admin.post("/admin/v1/plans", json={"name": name}).json()["id"]
        answer = admin.post("/admin/v1/prices", json={**price, "plan": plan})
        assert answer.status_code == 201, answer.text
    return plan


@pytest.mark.parametrize("name", ["tokens_per_month", "tokens_per_day", "cost_per_day"])
def test_a_budget_ends_an_answer_and_then_refuses(server, name):
    tenant_id, key, _ = server.tenant(f"spent-{name}")
    plan = {"plan": plan_of_one_nano(server, name)} if name.startswith("cost") else {}
    limit(server, tenant_id, **{name: 80}, **plan)
    client = server.openai(key, max_retries=0)
    before = stops(server, name)
    frames = list(
        ask(client, max_tokens=1500, stream=True, logit_bias=ON_AND_ON, stream_options={"include_usage": True})
    )
    assert [c.finish_reason for f in frames for c in f.choices if c.finish_reason] == ["length"]
    assert stops(server, name) == before + 1
    usage = frames[-1].usage
    rows = server.ledger("select finish, completion_tokens from requests where tenant_id = ?", tenant_id)
    assert rows == [("quota", usage.completion_tokens)]
    # What the engine computed before it heard is counted; how much that is, is a question of time.
    assert 80 <= usage.total_tokens and usage.completion_tokens < 1500
    error = refused(server, client, name)
    assert error.code == "insufficient_quota" and "retry-after" not in error.response.headers
    told = me(server, key)[name]
    assert told["remaining"] == 0 and 0 < told["reset_ms"] <= 31 * 86400 * 1000
    assert server.ledger("select count(*) from requests where tenant_id = ?", tenant_id) == [(1,)]


@pytest.mark.slow
def test_long_answers_are_extended(server):
    """The first guess of a tenant without history is 256 tokens: room is asked for as it goes on."""
    tenant_id, key, _ = server.tenant("extended")
    limit(server, tenant_id, output_tokens_per_minute=100000, kv_tokens=100000, tokens_per_month=5000)
    client = server.openai(key, max_retries=0)
    answer = ask(client, max_tokens=280, logit_bias=ON_AND_ON)
    assert answer.usage.completion_tokens == 280
    assert left(server, key, "tokens_per_month") == 5000 - answer.usage.total_tokens
    assert left(server, key, "kv_tokens") == 100000
    assert server.ledger("select finish from requests where tenant_id = ?", tenant_id) == [("length",)]


def test_shadow_ends_nothing(server):
    tenant_id, key, _ = server.tenant("shadow-middle")
    shadow = {"limit": 60, "mode": "shadow"}
    limit(server, tenant_id, tokens_per_day=shadow, kv_tokens={"limit": 1, "mode": "shadow"})
    client = server.openai(key, max_retries=0)
    stopped = stops(server, "tokens_per_day", "shadow")
    too_many = denials(server, "tokens_per_day", "shadow")
    held = denials(server, "kv_tokens", "shadow")
    assert ask(client, max_tokens=80, logit_bias=ON_AND_ON).usage.completion_tokens == 80
    assert stops(server, "tokens_per_day", "shadow") == stopped + 1
    ask(client)  # the budget is spent by now
    assert denials(server, "tokens_per_day", "shadow") == too_many + 1
    assert denials(server, "kv_tokens", "shadow") == held + 2
    told = me(server, key)["tokens_per_day"]
    assert (told["remaining"], told["mode"]) == (0, "shadow")


def test_a_budget_lowers_the_class(server):
    tenant_id, key, _ = server.tenant("lowered-budget")
    limit(server, tenant_id, tokens_per_day=60, on_limit="lower_class")
    client = server.openai(key, max_retries=0)
    lowered = 'banyan_quota_lowered_total{limit="tokens_per_day"}'
    before = server.metric(lowered)
    for turn in (1, 2):  # in the middle; from its beginning
        answer = ask(client, max_tokens=80, logit_bias=ON_AND_ON)
        assert answer.usage.completion_tokens == 80
        assert answer.model_extra["service_tier"] == "flex"
        assert server.metric(lowered) == before + turn
