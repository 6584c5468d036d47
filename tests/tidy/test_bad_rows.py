"""A row that contradicts itself or stands twice does not compile, and the compiler says its name.

Each test puts bad rows behind those of a table, in a folder of its own that the compiler looks into
first, and compiles the one file that judges the table. Nothing is built in the tree.
"""

import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS, OPTIONS = "auth/limits/quota_limits.def", "config/options.def"
EDGE, ADMIN, ENGINE = (f"gateway/{face}/routes.def" for face in ("edge", "admin", "engine_http"))
JUDGES = {
    LIMITS: "auth/limits/quota_limits.c",
    OPTIONS: "config/config_option.c",
    EDGE: "gateway/edge/edge_forward.c",
    ADMIN: "gateway/admin/admin.c",
    ENGINE: "gateway/engine_http/face_routes.c",
}


def compile_with(folder, table, rows):
    """What the compiler says of the table with these rows behind its own."""
    overlay = folder / table
    overlay.parent.mkdir(parents=True, exist_ok=True)
    overlay.write_text((ROOT / table).read_text() + "".join(f"{row}\n" for row in rows))
    libraries = subprocess.run(
        ["pkg-config", "--cflags", "jansson", "libh2o-evloop", "openssl"], capture_output=True, text=True, check=True
    ).stdout
    return subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-c", "-o", folder / "judge.o", f"-I{folder}", f"-I{ROOT}",
         *shlex.split(libraries), ROOT / JUDGES[table]],
        capture_output=True, text=True,
    )  # fmt: skip


def limit(name="new_limit", counts="TOKENS", window="DAY", most="LIMIT_QUOTA_BUDGET", refusal="QUOTA",
          header="UNSHOWN", reset="MIDNIGHT"):  # fmt: skip
    return f"QUOTA_LIMIT({name.upper()}, {name}, {counts}, {window}, {most}, {refusal}, {header}, {reset})"


def route(path, method="POST", flags="COUNTED | LIMITED | READS_BODY", scope="AUTH_SCOPE_INFERENCE"):
    return f'ROUTE("{method}", "{path}", handle_text, {scope}, {flags})'


def option(name, kind="NUMBER", value="5", bounds="1, 9, ", reload="false", roles="CONFIG_SERVE"):
    return f'OPTION_{kind}({name}, {value}, {bounds}{reload}, {roles}, "new")'


def admin_route(path, method="GET", where="HERE", scope="AUTH_SCOPE_ADMIN_READ"):
    return f'ROUTE("{method}", "{path}", admin_state_health, {where}, {scope})'


# Table → {row: what an error says of it}
BAD = {
    LIMITS: {
        limit("pages_a_day", counts="KV_TOKENS"): "limit pages_a_day: the window DAY does not fit KV_TOKENS",
        limit("bytes_a_day", counts="TEXT_BYTES"): "limit bytes_a_day: the window DAY does not fit TEXT_BYTES",
        limit("cost_a_minute", "COST", "MINUTE", "1", "RATE_REQUESTS", "UNSHOWN", "REFILL"):
            "limit cost_a_minute: the window MINUTE does not fit COST",
        limit("refilled", reset="REFILL"): "limit refilled: the reset rule REFILL contradicts the window DAY",
        limit("rated", refusal="RATE_TOKENS"): "limit rated: the refusal RATE_TOKENS contradicts TOKENS in DAY",
        limit("shown", header="AS_TOKENS"): "limit shown: the header AS_TOKENS does not show TOKENS in DAY",
        limit("endless", most="LIMIT_QUOTA_BUDGET + 1"): "limit endless: its greatest value is out of range",
        limit("tokens_per_day"): "tokens_per_day",
    },
    OPTIONS: {
        option("of_nobody", roles="0"): "option of_nobody: it belongs to no subcommand",
        option("of_bench", reload="true", roles="CONFIG_BENCH"): "option of_bench: none of its subcommands reloads",
        option("one_value", bounds="5, 5, "): "option one_value: its bounds allow one value, or none",
        option("too_large", value="10"): "option too_large: its default is out of its bounds",
        option("below_none", "BYTES", bounds="-1, 9, "): "option below_none: bytes are not negative",
        option("perhaps", "BOOL", value="2", bounds=""): "option perhaps: its default is no bool",
        option("kv_memory", "BYTES"): "duplicate member ‘kv_memory’",
    },
    EDGE: {
        route("/v1/a", flags="OPEN | COUNTED | LIMITED", scope="0"): "route POST /v1/a: OPEN has no key",
        route("/v1/b", flags="OPEN"): "route POST /v1/b: OPEN has no key",
        route("/v1/c", flags="LIMITED | READS_BODY"): "route POST /v1/c: LIMITED must be COUNTED",
        route("/v1/d", flags="STREAMED | COUNTED | LIMITED"): "route POST /v1/d: STREAMED must be COUNTED",
        route("/v1/e", method="GET"): "route GET /v1/e: a GET does not READS_BODY",
        route("/v1/f", flags="COUNTED | QUIET"): "route POST /v1/f: what is COUNTED is not QUIET",
    },
    ADMIN: {
        admin_route("/a", scope="AUTH_SCOPE_ADMIN_READ | AUTH_SCOPE_ADMIN_WRITE"): "route GET /a: it needs one scope",
        admin_route("/b", method="POST", scope="0"): "route POST /b: what needs no key must be a GET",
        admin_route("/c", where="WORKER", scope="0"): "route GET /c: what needs no key must be a GET",
    },
}  # fmt: skip
# A second row of a method and path passes the compiler and stops the assembler.
TWICE = {
    EDGE: (route("/v1/tokenize"), "POST /v1/tokenize"),
    ADMIN: (admin_route("/admin/v1/tenants/{id}"), "GET /admin/v1/tenants/{id}"),
    ENGINE: ('ROUTE("GET", "/health", on_health)', "GET /health"),
}


@pytest.mark.parametrize("table", BAD)
def test_a_bad_row_does_not_compile(tmp_path, table):
    said = compile_with(tmp_path, table, BAD[table])
    errors = [line for line in said.stderr.splitlines() if "error:" in line]
    assert said.returncode != 0
    for row, wanted in BAD[table].items():
        assert any(wanted in line for line in errors), f"{row}: {wanted} is not in\n{said.stderr}"
    # Each row is at fault for what is expected of it, and for nothing else of the table.
    asserts = {line.split("assertion failed: ")[1] for line in errors if "assertion failed" in line}
    told = sum("assertion failed" in line for line in errors)
    assert told == len(asserts) == sum(": " in wanted for wanted in BAD[table].values()), asserts


@pytest.mark.parametrize("table", TWICE)
def test_a_route_stands_once(tmp_path, table):
    row, name = TWICE[table]
    said = compile_with(tmp_path, table, [row])
    assert said.returncode != 0 and f"route {name}' is already defined" in said.stderr, said.stderr


@pytest.mark.parametrize("table", JUDGES)
def test_the_tables_compile_as_they_are(tmp_path, table):
    said = compile_with(tmp_path, table, [])
    assert said.returncode == 0, said.stderr


def patterns_meet(a, b):
    """Whether one path can match both: {id} is one part of a path, {rest} all that is left."""
    left, right = a.strip("/").split("/"), b.strip("/").split("/")
    for one, other in zip(left, right):
        if "{rest}" in (one, other):
            return True
        if one != other and "{id}" not in (one, other):
            return False
    return len(left) == len(right)


@pytest.mark.parametrize("table", TWICE)
def test_the_order_of_routes_means_nothing(table):
    """No path has two rows of one method to choose from."""
    rows = re.findall(r'^ROUTE\("(\w+)", "([^"]+)"', (ROOT / table).read_text(), re.M)
    assert rows
    for at, (method, path) in enumerate(rows):
        for other_method, other in rows[at + 1 :]:
            assert method != other_method or not patterns_meet(path, other), f"{method} {path} and {other}"
