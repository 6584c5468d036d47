"""The commands of README.md, deploy/OPERATIONS.md and deploy/ADMIN.md: every code block marked `sh` runs
in order, in one shell for each document, against one real server. A `text` block right behind it shows
what it prints. The two are compared in form: words must be equal, numbers and ids may differ, and "…"
stands for anything. A command that cannot run here is marked `console`, and says why on the line above."""

import os
import re
import subprocess
import sys

import pytest

from conftest import BINARY, MODEL, ROOT, Server

# The unit tests and the other tests of the server take the same ways under ASan.
pytestmark = pytest.mark.slow

DOCUMENTS = ("README.md", "deploy/OPERATIONS.md", "deploy/ADMIN.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.M | re.S)
END_OF_BLOCK = "\x1e"
ID = r"(?:sk-by-(?:admin-)?[\w-]+|(?:tnt|key|grp|pln|prc|iss|spr|crt|req|chatcmpl)[_-]\w+)"


def blocks_of(text):
    """(line, language, text, text in front of it) of each code block."""
    end = 0
    for found in FENCE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[1], found[2], text[end : found.start()]
        end = found.end()


def commands_of(document):
    """(line, commands, what they print or None) of each block to be run."""
    blocks = list(blocks_of((ROOT / document).read_text()))
    for index, (line, language, commands, _) in enumerate(blocks):
        if language != "sh":
            continue
        following = blocks[index + 1 : index + 2]
        prints = [text for _, kind, text, front in following if kind == "text" and not front.strip()]
        yield line, commands, prints[0] if prints else None


def form_of(prints):
    """A regular expression of everything that looks like `prints`."""
    parts = []
    for part in re.split(rf"(\s*…\s*|\b{ID}|\d+|\s+)", prints.strip()):
        if "…" in part:
            parts.append(r"[\s\S]*?")
        elif re.fullmatch(ID, part):
            parts.append(ID)
        elif part.isdigit():
            parts.append(r"\d+")
        elif part.isspace():
            parts.append(r"\s+")
        else:
            parts.append(re.escape(part))
    return "".join(parts)


@pytest.mark.parametrize("printed, is_like", [
    ("NAME  tnt_Zz9\nWEIGHT 7\n", True),
    ("NAME  tnt_Zz9\n", False),
    ("NAME  Zz9\nWEIGHT 7\n", False),
    ("NAME  tnt_Zz9\nWIDTH 7\n", False),
    ("NAME  tnt_Zz9\nand more\nWEIGHT 7\n", False),
])  # fmt: skip
def test_what_is_printed_is_compared(printed, is_like):
    assert bool(re.fullmatch(form_of("NAME tnt_Aa1\nWEIGHT 100\n"), printed.strip())) == is_like
    assert re.fullmatch(form_of("NAME …\nWEIGHT 100\n"), "NAME  a\nb\nWEIGHT 7")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_block_that_does_not_run_says_why(document):
    for line, language, _, front in blocks_of((ROOT / document).read_text()):
        assert language in ("sh", "text", "console", "json", "yaml"), f"{document}:{line}"
        if language == "console":
            why = front.rstrip("\n").rsplit("\n", 1)[-1]
            assert re.fullmatch(r"<!-- not run by the test: .{15,} -->", why), f"{document}:{line}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    server = Server(folder / "data", "--kv-memory", "128M", "--context", "2048")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]


def on_this_machine(server, folder, commands):
    """The commands with this server's addresses and folders in place of a product's."""
    for name, here in (
        ("https://127.0.0.1:8443", server.url),
        ("https://127.0.0.1:9443", server.admin_url),
        ("$PWD/build/release", BINARY.parent),
        ("/var/lib/banyan/model.gguf", MODEL),
        ("/var/lib/banyan", server.data_dir),
        ("/etc/banyan", folder / "etc"),
        ("/var/backups", folder / "backups"),
    ):
        commands = commands.replace(name, str(here))
    return commands


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document(document, server, tmp_path):
    blocks = list(commands_of(document))
    assert blocks, f"{document} has no commands"
    for name in ("etc", "backups", "home"):
        (tmp_path / name).mkdir()
    script = "set -eo pipefail\n" + "".join(
        f"{on_this_machine(server, tmp_path, commands)}\nprintf '{END_OF_BLOCK}'\n"
        for _, commands, _ in blocks
    )
    tools = (str(BINARY.parent), os.path.dirname(sys.executable), os.environ["PATH"])
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=600,
        env={"PATH": ":".join(tools), "HOME": str(tmp_path / "home"),
             "BANYAN_ADMIN_LISTEN": server.admin_url.removeprefix("https://")},
    )  # fmt: skip
    printed = done.stdout.split(END_OF_BLOCK)
    if done.returncode != 0:
        line = blocks[len(printed) - 1][0]
        raise AssertionError(f"{document}:{line}: exit code {done.returncode}\n{printed[-1]}")
    for (line, _, prints), text in zip(blocks, printed):
        if prints is not None:
            assert re.fullmatch(form_of(prints), text.strip()), (
                f"{document}:{line}: it says\n{prints}\nand prints\n{text}"
            )
