"""The wall clock is stepped while streams run: deadlines, keys and the ledger keep their sense.

The step is made by libfaketime (Debian's), which leaves the monotonic clock alone, as a real step
does.
"""

import collections
import datetime
import os
import pathlib
import re
import ssl
import subprocess
import time

import httpx
import pytest

from conftest import BINARY, IS_SANITIZED, MODEL, MODEL_NAME, Server, wait_until

FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
DAY = 86400
STREAM = 240  # tokens; a step is seen at once, while they are made

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        IS_SANITIZED, reason="the sanitizer's runtime has to be the first library; so does libfaketime"
    ),
]


class Edge(Server):
    """An edge whose wall clock follows a file, before an engine that has the real one: the library
    makes each look at a clock dear, and the engine looks often."""

    def __init__(self, folder, offset):
        self.data_dir = folder / "data"
        socket_path = folder / "engine.sock"
        self.log_path = folder / "edge.log"
        self.log = open(self.log_path, "a")
        options = ["--data-dir", folder / "engine", "--socket", socket_path, "--sandbox", "off"]
        engine = [BINARY, "engine", "--model", MODEL, "--kv-memory", "512M", *options]
        self.engine_process = subprocess.Popen([str(c) for c in engine], stderr=self.log)
        wait_until(socket_path.exists, 300, "the engine's socket")
        edge = [
            BINARY, "edge", "--data-dir", self.data_dir, "--socket", socket_path,
            "--sandbox", "off", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [str(c) for c in edge], stderr=self.log, stdout=subprocess.PIPE,
            env=dict(
                os.environ, TZ="America/New_York", LD_PRELOAD=str(FAKETIME), FAKETIME_TIMESTAMP_FILE=str(offset),
                FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1",
            ),
        )  # fmt: skip
        wait_until(lambda: "edge_ready" in self.log_text(), 300, "the edge")
        ready = re.search(r'"listen":"([^"]+)","admin_listen":"([^"]+)"', self.log_text())
        self.url, self.admin_url = (f"https://{address}" for address in ready.groups())
        self.ca = self.data_dir / "tls/ca.crt"
        self.context = ssl.create_default_context(cafile=self.ca)
        self.admin_key = (self.data_dir / "admin.key").read_text().strip()

    def stop(self):
        code = super().stop()
        self.engine_process.terminate()
        return code or self.engine_process.wait(300)


@pytest.fixture
def stepped(tmp_path):
    """(server, step(seconds))"""
    offset = tmp_path / "offset"
    offset.write_text("+0")
    server = Edge(tmp_path, offset)
    yield server, lambda seconds: offset.write_text(f"{seconds:+d}")
    offset.write_text("+0")
    assert server.stop() == 0, server.log_text()[-3000:]


def chat(stream=False, tokens=8):
    return {
        "model": MODEL_NAME, "messages": [{"role": "user", "content": "Tell me a story."}],
        "max_tokens": tokens, "temperature": 0, "stream": stream, "ignore_eos": True,
    }  # fmt: skip


@pytest.mark.parametrize("step_s", [DAY, -DAY, 20 * 365 * DAY])
def test_a_step_in_the_middle_of_a_stream(stepped, step_s):
    server, step = stepped
    _, key, _ = server.tenant("clock")
    begun = time.time()
    with server.http(key) as http:
        with http.stream("POST", "/v1/chat/completions", json=chat(True, STREAM)) as response:
            lines = []
            for line in response.iter_lines():
                lines.append(line)
                if len(lines) == 4:
                    step(step_s)
        assert [line for line in lines if line][-1] == "data: [DONE]", "no deadline has fired"
        again = http.post("/v1/chat/completions", json=chat())
        assert again.status_code == 200, again.text
        assert http.get("/ready").status_code == 200
    rows = server.ledger("select id, at_us, total_us, completion_tokens from requests order by id")
    assert [row[3] for row in rows] == [STREAM, 8], "both are counted, and kept"
    for _, at_us, total_us, _ in rows:
        assert 0 < total_us < 3600 * 1_000_000, "durations are of the monotonic clock"
        assert abs(at_us / 1e6 - (begun + step_s)) < 3000, "the row's time is the wall clock's"
    step(0)
    with server.http(key) as http:
        assert http.post("/v1/chat/completions", json=chat()).status_code == 200
    wait_until(lambda: server.ledger("select count(*) from requests")[0][0] == 3, what="three rows")
    sums = server.ledger("select sum(completion_tokens) from usage_minutes")
    assert sums[0][0] == STREAM + 16


def told(server, width, since, until):
    """Requests and output tokens by bucket, page after page, as an admin is told."""
    buckets, page = {}, {}
    with server.admin() as admin:
        while page is not None:
            answer = admin.get(
                "/admin/v1/usage",
                params={"start_time": since, "end_time": until, "bucket_width": width, **page},
            )
            assert answer.status_code == 200, answer.text
            for bucket in answer.json()["data"]:
                for result in bucket["results"]:
                    assert bucket["start_time"] not in buckets
                    buckets[bucket["start_time"]] = (result["num_model_requests"], result["output_tokens"])
            page = {"page": answer.json()["next_page"]} if answer.json()["has_more"] else None
    return buckets


def test_usage_over_ends_of_days_and_summer_time(stepped):
    """The wall clock is set to both sides of a month's end, of a year's end, and of the hours that
    clocks in New York, where this edge believes to be, skip or have twice; at last it is set back.
    The usage API is the sum of the rows, in buckets of UTC."""
    server, step = stepped
    _, key, _ = server.tenant("calendar")
    utc = lambda *date: int(datetime.datetime(*date, tzinfo=datetime.timezone.utc).timestamp())
    moments = [utc(2027, 3, 14, 7), utc(2027, 11, 7, 6), utc(2028, 1, 1), utc(2027, 11, 1)]
    asked = 0
    for moment in moments:
        for side in (-40, 40):
            step(moment + side - int(time.time()))

            def is_there():
                nonlocal asked
                # A step ends idle connections, whose age is by that clock: each request has its own,
                # and one that has just been made may be ended before its request is read.
                try:
                    with server.http(key) as http:
                        answer = http.post("/v1/chat/completions", json=chat(tokens=asked % 3 + 1))
                except httpx.RemoteProtocolError:
                    return False
                assert answer.status_code == 200
                asked += 1
                last = server.ledger("select at_us from requests order by id desc limit 1")
                return abs(last[0][0] / 1e6 - moment - side) < 20 * 60

            wait_until(is_there, what="a row at that time")
    rows = server.ledger("select at_us, completion_tokens from requests")
    assert len(rows) == asked
    for width, seconds in (("1d", 86400), ("1h", 3600), ("1m", 60)):
        sums = collections.defaultdict(lambda: (0, 0))
        for at_us, tokens in rows:
            bucket = at_us // 1_000_000 // seconds * seconds
            sums[bucket] = (sums[bucket][0] + 1, sums[bucket][1] + tokens)
        seen = {}
        if seconds == 86400:
            seen = told(server, width, utc(2026, 1, 1), utc(2028, 6, 1))
        else:  # around each of them: a year of minutes has 365 pages
            days = {at_us // 1_000_000 // 86400 * 86400 for at_us, _ in rows}
            for day in days:
                seen |= told(server, width, day, day + 86400)
        assert seen == dict(sums), width
