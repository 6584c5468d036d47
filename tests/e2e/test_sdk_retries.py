"""What the official client makes of refusals: which it sends again and when, which exception each one
is. Requests are counted; nobody sleeps: the client's own pause is noted and filled with what a test
wants to happen meanwhile."""

import re

import openai
import pytest

from conftest import MODEL_NAME

PROMPT = "One two three four five six seven eight nine ten"


class Watched(openai.OpenAI):
    """Notes each answer and each pause before a retry; `meanwhile` runs in place of the pause."""

    def __init__(self, server, key, base=None, **options):
        self.answers, self.pauses, self.meanwhile = [], [], None
        http = server.http()
        http.event_hooks = {"response": [self.answers.append]}
        base = base or server.url + "/v1"
        super().__init__(base_url=base, api_key=key, http_client=http, **options)

    def _sleep_for_retry(self, *, retries_taken, max_retries, options, response):
        left = max_retries - retries_taken
        headers = response.headers if response is not None else None
        self.pauses.append(self._calculate_retry_timeout(left, options, headers))
        if self.meanwhile is not None:
            self.meanwhile()

    def ask(self, **fields):
        body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 1, **fields}
        return self.completions.create(**body)


def limit(server, tenant_id, **limits):
    with server.admin() as admin:
        answer = admin.put(f"/admin/v1/tenants/{tenant_id}/limits", json=limits)
        assert answer.status_code == 200, answer.text


def test_a_rate_limit_is_waited_for_as_long_as_it_says(server):
    tenant_id, key, _ = server.tenant("sdk-rate")
    limit(server, tenant_id, requests_per_minute=1)
    client = Watched(server, key, max_retries=3)
    client.meanwhile = lambda: limit(server, tenant_id)
    client.ask()
    client.ask()
    codes = [answer.status_code for answer in client.answers]
    if codes == [200, 200]:
        pytest.skip("a minute has passed between the two")
    assert codes == [200, 429, 200]
    refused = client.answers[1]
    assert client.pauses == [int(refused.headers["retry-after-ms"]) / 1000]
    assert 0 < client.pauses[0] <= 60
    assert int(refused.headers["retry-after"]) >= client.pauses[0]
    assert client.answers[2].request.headers["x-stainless-retry-count"] == "1"


def test_a_client_that_gives_up_has_sent_what_it_said(server):
    tenant_id, key, _ = server.tenant("sdk-gives-up")
    limit(server, tenant_id, requests_per_minute=1, concurrent_requests=1)
    client = Watched(server, key, max_retries=0)
    client.ask()
    client = Watched(server, key, max_retries=2)
    try:
        client.ask()
        pytest.skip("a minute has passed between the two")
    except openai.RateLimitError as error:
        assert (error.status_code, error.code, error.type) == (
            429, "rate_limit_exceeded", "requests",
        )  # fmt: skip
        assert error.param == "requests_per_minute"
        assert error.request_id.startswith("req_")
    assert len(client.answers) == 3 and len(client.pauses) == 2


def test_a_spent_budget_is_asked_for_once(server):
    tenant_id, key, _ = server.tenant("sdk-budget")
    limit(server, tenant_id, tokens_per_month=1)
    client = Watched(server, key, max_retries=5)
    with pytest.raises(openai.RateLimitError) as info:
        client.ask()
    assert len(client.answers) == 1 and client.pauses == []
    assert (info.value.code, info.value.type) == ("insufficient_quota", "insufficient_quota")
    assert client.answers[0].headers["x-should-retry"] == "false"
    assert "retry-after" not in client.answers[0].headers


def test_a_request_too_late_is_a_503_and_sent_again(server):
    _, key, _ = server.tenant("sdk-late")
    client = Watched(server, key, max_retries=2)
    with pytest.raises(openai.InternalServerError) as info:
        client.ask(max_tokens=4000, extra_headers={"x-request-timeout-ms": "1"})
    assert info.value.status_code == 503
    assert len(client.answers) == 3 and len(client.pauses) == 2
    for answer, pause in zip(client.answers, client.pauses):
        if "retry-after-ms" in answer.headers:
            assert pause == int(answer.headers["retry-after-ms"]) / 1000


def test_headers_are_numbers_and_durations(server):
    tenant_id, key, _ = server.tenant("sdk-headers")
    limit(server, tenant_id, requests_per_minute=60, tokens_per_minute=600)
    client = Watched(server, key)
    client.ask()
    headers = client.answers[0].headers
    for kind, most in (("requests", 60), ("tokens", 600)):
        assert int(headers[f"x-ratelimit-limit-{kind}"]) == most
        assert 0 <= int(headers[f"x-ratelimit-remaining-{kind}"]) < most
        assert re.fullmatch(
            r"(\d+h)?(\d+m)?(\d+(\.\d+)?s)?|\d+ms", headers[f"x-ratelimit-reset-{kind}"]
        )
    assert headers["x-request-id"].startswith("req_")
    assert int(headers["openai-processing-ms"]) >= 0


def raised(call, kind):
    with pytest.raises(kind) as info:
        call()
    assert type(info.value) is kind
    return info.value


def test_each_refusal_is_its_exception(server):
    tenant_id, key, _ = server.tenant("sdk-errors")
    with server.admin() as admin:
        path = f"/admin/v1/tenants/{tenant_id}/keys"
        reader = admin.post(path, json={"name": "reader", "scopes": ["usage:read"]}).json()["key"]
    client = Watched(server, key, max_retries=2)
    error = raised(lambda: Watched(server, "sk-by-wrong").ask(), openai.AuthenticationError)
    assert (error.code, error.type) == ("invalid_api_key", "invalid_request_error")
    error = raised(lambda: Watched(server, reader).ask(), openai.PermissionDeniedError)
    assert (error.code, error.type) == ("insufficient_scope", "permission_error")
    error = raised(lambda: client.ask(model="other"), openai.NotFoundError)
    assert (error.code, error.param) == ("model_not_found", "model")
    error = raised(lambda: client.ask(temperature=9), openai.BadRequestError)
    assert (error.param, error.type) == ("temperature", "invalid_request_error")
    error = raised(lambda: client.ask(prompt="word " * 20000), openai.BadRequestError)
    assert error.code == "context_length_exceeded"
    assert client.pauses == [], "what is wrong for good was sent again"


def test_the_config_api_speaks_the_same_errors(server):
    client = Watched(server, server.admin_key, server.admin_url + "/admin/v1", max_retries=0)

    def create(name, kept):
        headers = {"idempotency-key": f"sdk-{kept}"}
        return client.post("/tenants", cast_to=object, body={"name": name}, options={"headers": headers})

    create("sdk-conflict", 1)
    error = raised(lambda: create("sdk-other", 1), openai.UnprocessableEntityError)
    assert error.code == "idempotency_key_reused"
    error = raised(lambda: create("sdk-conflict", 2), openai.ConflictError)
    assert error.param == "name"
    error = raised(lambda: client.get("/tenants/tnt_none", cast_to=object), openai.NotFoundError)
    assert error.type == "invalid_request_error"
