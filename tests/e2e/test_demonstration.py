"""deploy/demonstrate.py: what quickstart shows is true of a server that has other tenants too."""

import pathlib
import re
import subprocess
import sys

import pytest

from conftest import Server

# Its requests are those of test_shared_prompts, test_prefix_cache and test_priority: not two minutes
# more under ASan.
pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]


def demonstrate(server):
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/demonstrate.py", "--url", server.url, "--admin",
         server.admin_url, "--ca", server.data_dir / "tls/ca.crt",
         "--admin-key-file", server.data_dir / "admin.key"],
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + server.log_text()[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """As quickstart starts it, with less to fill."""
    server = Server(
        tmp_path_factory.mktemp("demonstration") / "data",
        "--kv-memory", "56M", "--context", "2048",
    )  # fmt: skip
    server.tenant("somebody else")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


def test_the_demonstration_runs_twice(server):
    pinned = server.engine_stats()["pages_pinned"]
    for _ in range(2):
        text = demonstrate(server)
        published = int(re.search(r"two tenants: (\d+) tokens, computed once", text)[1])
        answers = re.findall(r"\[(\d+) prompt tokens, (\d+) of them cached;", text)
        assert len(answers) == 2
        assert all(int(whole) > int(cached) >= published - 16 for whole, cached in answers), text
        assert re.search(r"set_lamp\(\{.*\}\), in \d+ pieces\n    \[its row: req_\w+, \d+ input", text), text
        assert len(re.findall(r"\[its row: ", text)) == 2, text
        own = re.findall(r"(acme|globex) +(first|again): +(\d+) of (\d+) prompt tokens", text)
        assert [line[:2] for line in own] == [("acme", "first"), ("acme", "again"), ("globex", "first")]
        first, again, other = (int(cached) for _, _, cached, _ in own)
        assert first < 16 and other < 16, text
        assert again > published - 16, text
        paused = re.search(r"preempted for (\d+) ms \((.*)\); its (\d+) tokens are those of", text)
        assert paused and int(paused[3]) == 300, text
    assert server.engine_stats()["pages_pinned"] == pinned
