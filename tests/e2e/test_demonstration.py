"""deploy/demonstrate.py: what quickstart shows is true of a server that has other tenants too."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def demonstrate(server):
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/demonstrate.py", "--url", server.url, "--admin",
         server.admin_url, "--ca", server.data_dir / "tls/ca.crt",
         "--admin-key-file", server.data_dir / "admin.key"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + server.log_text()[-2000:]
    return done.stdout


def test_the_demonstration_runs_twice(server):
    pinned = server.engine_stats()["pages_pinned"]
    for _ in range(2):
        text = demonstrate(server)
        published = int(re.search(r"two tenants: (\d+) tokens, computed once", text)[1])
        answers = re.findall(r"\[(\d+) prompt tokens, (\d+) of them computed before", text)
        assert len(answers) == 2
        assert all(int(whole) > int(cached) >= published - 16 for whole, cached in answers), text
        own = re.findall(r"(acme|globex) +(first|again): +(\d+) of (\d+) prompt tokens", text)
        assert [line[:2] for line in own] == [("acme", "first"), ("acme", "again"), ("globex", "first")]
        first, again, other = (int(cached) for _, _, cached, _ in own)
        assert first < 16 and other < 16, text
        assert again > published - 16, text
    assert server.engine_stats()["pages_pinned"] == pinned
