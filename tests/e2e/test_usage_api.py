"""What admins are told was used, by the config API, by OpenAI's shapes of it, as CSV and by `banyan
admin`, is what clients saw and what the ledger's rows sum up to; what it cost stays what it was."""

import csv
import io
import json
import subprocess
import time

import pytest

from conftest import BINARY, MODEL_NAME, Server

pytestmark = pytest.mark.usefixtures("one_day")

PRICE = {"currency": "usd", "input_nano": 150, "cached_input_nano": 15, "output_nano": 600}


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """A server of its own: prices hold for all of one. Two tenants have asked, before and after the
    first price was set."""
    server = Server(tmp_path_factory.mktemp("usage") / "data")
    server.ids = {}
    server.keys = keys = {}
    for name in ("acme", "globex"):
        server.ids[name], keys[name], _ = server.tenant(name)
    ask(server, keys["acme"], 2)
    with server.admin() as admin:
        assert admin.post("/admin/v1/prices", json=PRICE).status_code == 201
        plan = admin.post("/admin/v1/plans", json={"name": "half"}).json()["id"]
        half = {**PRICE, "plan": plan, "input_nano": 75, "output_nano": 300}
        assert admin.post("/admin/v1/prices", json=half).status_code == 201
        limits = f"/admin/v1/tenants/{server.ids['globex']}/limits"
        assert admin.put(limits, json={"plan": plan}).status_code == 200
    ask(server, keys["acme"], 3)
    ask(server, keys["globex"], 2)
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def ask(server, key, count):
    client = server.openai(key, max_retries=0)
    for index in range(count):
        client.completions.create(
            model=MODEL_NAME, prompt=f"Count to {index}.", max_tokens=3 + index, extra_body={"ignore_eos": True}
        )


def start():
    """Of a day that has all that a test asks for, even when one is run at midnight."""
    return int(time.time()) // 86400 * 86400 - 86400


def get(server, path, **query):
    with server.admin() as admin:
        answer = admin.get(path, params={"start_time": start(), **query})
    assert answer.status_code == 200, answer.text
    return answer


def results(page):
    return [result for bucket in page["data"] for result in bucket["results"]]


def cost_of(rows, price):
    return sum(
        (prompt - cached) * price["input_nano"] + cached * price["cached_input_nano"]
        + completion * price["output_nano"] for prompt, cached, completion in rows
    )  # fmt: skip


def test_sums_are_those_of_the_rows(priced):
    for group, column in (("tenant", "tenant_id"), ("key", "key_id"), ("model", "model"), ("class", "service_class")):
        wanted = priced.ledger(
            f"select {column}, count(*), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
            f" sum(cost_nano) from requests group by 1 order by 1"
        )
        name = {"tenant": "tenant_id", "key": "key_id"}.get(group, group)
        for width, limit in (("1d", 31), ("1h", 168)):
            sums = {}
            for result in results(get(priced, "/admin/v1/usage", group_by=group, bucket_width=width, limit=limit).json()):
                line = sums.setdefault(result[name], [0] * 5)
                for index, member in enumerate(
                    ("num_model_requests", "input_tokens", "input_cached_tokens", "output_tokens", "cost_nano")
                ):
                    line[index] += result[member]
                assert result["currency"] == "usd"
            assert [(key, *line) for key, line in sorted(sums.items())] == wanted


def test_what_it_cost(priced):
    """Before there was a price: nothing. Then the price of the tenant's plan, else the default one."""
    tokens = "select prompt_tokens, cached_tokens, completion_tokens from requests where tenant_id = ? order by id"
    acme = priced.ledger(tokens, priced.ids["acme"])
    globex = priced.ledger(tokens, priced.ids["globex"])
    assert (len(acme), len(globex)) == (5, 2)
    wanted = {
        priced.ids["acme"]: cost_of(acme[2:], PRICE),
        priced.ids["globex"]: cost_of(globex, {**PRICE, "input_nano": 75, "output_nano": 300}),
    }

    def told():
        page = get(priced, "/admin/v1/usage", group_by="tenant").json()
        return {result["tenant_id"]: result["cost_nano"] for result in results(page)}

    assert told() == wanted and all(wanted.values())
    with priced.admin() as admin:
        dearer = {name: 1000 * value if name != "currency" else value for name, value in PRICE.items()}
        later = admin.post("/admin/v1/prices", json={**dearer, "effective_at": int(time.time()) - 5})
        assert later.status_code == 201, later.text
        other = admin.post("/admin/v1/prices", json={**PRICE, "currency": "eur", "model": "m"})
        assert (other.status_code, other.json()["error"]["param"]) == (409, "currency")
    assert told() == wanted, "what was used keeps its cost"
    costs = results(get(priced, "/v1/organization/costs", **{"group_by[]": "project_id"}).json())
    assert {r["project_id"]: round(r["amount"]["value"] * 1e9) for r in costs} == wanted
    assert {r["amount"]["currency"] for r in costs} == {"usd"}


def test_openais_shape(priced):
    page = get(
        priced, "/v1/organization/usage/completions",
        **{"project_ids[]": list(priced.ids.values()), "group_by[]": ["project_id", "model", "service_tier"]},
    ).json()  # fmt: skip
    assert (page["object"], page["has_more"], page["next_page"]) == ("page", False, None)
    by_project = {result["project_id"]: result for result in results(page)}
    assert set(by_project) == set(priced.ids.values())
    acme = by_project[priced.ids["acme"]]
    assert acme["object"] == "organization.usage.completions.result"
    assert (acme["num_model_requests"], acme["model"], acme["service_tier"]) == (5, MODEL_NAME, "default")
    assert (acme["user_id"], acme["api_key_id"], acme["batch"]) == (None, None, None)
    assert acme["input_tokens"] == acme["input_cached_tokens"] + acme["input_uncached_tokens"]
    assert acme["output_tokens"] == sum((3, 4, 3, 4, 5))
    assert results(get(priced, "/v1/organization/usage/completions", batch="true").json()) == []
    first = get(priced, "/v1/organization/usage/completions", limit=1).json()
    assert first["has_more"] and len(first["data"]) == 1
    second = get(priced, "/v1/organization/usage/completions", limit=1, page=first["next_page"]).json()
    assert second["data"][0]["start_time"] == first["data"][0]["end_time"]


def test_csv_and_single_requests(priced):
    answer = get(priced, "/admin/v1/usage", group_by="tenant,model", format="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["tenant_id"] for row in rows} == set(priced.ids.values())
    assert sum(int(row["num_model_requests"]) for row in rows) == 7
    seen, after = [], {}
    while True:
        with priced.admin() as admin:
            page = admin.get("/admin/v1/usage/requests", params={"limit": 2, **after}).json()
        seen += page["data"]
        after = {"after": page["last_id"]}
        if not page["has_more"]:
            break
    wanted = priced.ledger("select request_id, at_us, completion_tokens, cost_nano from requests order by id")
    assert [(r["request_id"], round(r["time"] * 1e6), r["output_tokens"], r["cost_nano"]) for r in seen] == wanted
    with priced.admin() as admin:
        globex = admin.get("/admin/v1/usage/requests", params={"tenant_id": priced.ids["globex"], "order": "desc"})
        assert [row["request_id"] for row in globex.json()["data"]] == [
            row["request_id"] for row in reversed(seen) if row["tenant_id"] == priced.ids["globex"]
        ]


def test_banyan_admin(priced):
    def run(*words):
        command = [
            BINARY, "admin", "--url", priced.admin_url, "--data-dir", priced.data_dir, "usage", *words,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    table = run("show", "--by", "tenant", "--tenants", "acme,globex")
    assert priced.ids["acme"] in table and " usd\n" in table
    page = json.loads(run("show", "--by", "tenant", "--json"))
    assert sum(result["num_model_requests"] for result in results(page)) == 7
    rows = list(csv.DictReader(io.StringIO(run("requests", "--csv"))))
    assert len(rows) == 7 and len({row["request_id"] for row in rows}) == 7
    assert run("requests", "--limit", "3").count("\n") == 4


def test_a_tenant_sees_what_it_cost(priced):
    """But neither others' usage nor what they pay."""
    with priced.http(priced.keys["globex"]) as client:
        page = client.get("/v1/usage", params={"start_time": start(), "group_by": "key"}).json()
    count, cost = priced.ledger(
        "select count(*), sum(cost_nano) from requests where tenant_id = ?", priced.ids["globex"]
    )[0]
    assert [(r["num_model_requests"], r["cost_nano"], r["currency"]) for r in results(page)] == [(count, cost, "usd")]
    assert cost > 0
