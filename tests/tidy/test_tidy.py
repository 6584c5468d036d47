"""Rules of the house that a machine can check. Each test lists every offence it finds.

Rules and their reasons: CONTRIBUTING.md. An exception stands in a table here, with its reason.
"""

import os
import pathlib
import re
import subprocess
import collections

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("config", "radix", "kernels", "auth", "engine", "gateway")
CODE = {*ROOMS, "config/base"}  # config/base is a room of its own
TOP_LEVEL = set(ROOMS) | {
    "tests", "deploy", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE",
    "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ".clang-format",
    ".clang-tidy", ".ci", ".gitignore",
}  # fmt: skip

# What other rooms may include of a room; the order of rooms and folders is test_layers.py's.
FRONT_DOORS = {
    "config/config.h", "config/config_effect.h", "config/options.def", "config/store.h", "config/store_backup.h", "radix/radix_tree.h",
    "kernels/kernels.h", "kernels/kernels_experts.h", "kernels/kernels_draw.h", "kernels/kernels_step.h",
    "kernels/kernels_draw.h", "kernels/kernels_measure.h", "kernels/tensor.h", "auth/auth.h", "auth/limits/quota.h", "auth/limits/quota_limits.h",
    "auth/limits/quota_limits.def", "auth/limits/quota_limits_key.h", "auth/ledger/ledger.h",
    "auth/ledger/ledger_usage.h", "auth/ledger/ledger_requests.h", "auth/tenants/price.h",
    "auth/ledger/redis_url.h", "auth/ledger/usage_redis.h",
    "auth/identity/auth_refusals.h", "auth/tenants/certificate.h", "auth/tenants/issuer.h", "auth/tenants/issuer_fetch.h",
    "auth/tenants/tenant.h", "auth/tenants/tenant_answer.h", "auth/tenants/tenant_group.h", "auth/tenants/tenant_prompt.h", "engine/engine.h",
    "engine/engine_show.h", "engine/answer/answer_format.h", "engine/answer/answer_split.h",
    "engine/answer/answer_grammar.h",
    "engine/fleet.h",
    "engine/ranks/rank_follow.h", "kernels/ranks.h", "kernels/kernels_prepare.h",
    "kernels/cuda/cuda_device.h",  # what `banyan version` prints
    "engine/bench/bench.h",  # a subcommand that main.c calls; it needs no running engine
}  # fmt: skip

# Which of our files may include which library's headers.
LIBRARIES = {
    r"h2o(\.h|/)": r"gateway/http/h2o_compat(_http2)?\.h",
    r"khash\.h|htslib/": r"gateway/http/h2o_compat\.h",
    r"openssl/": r"auth/credential/auth_crypto\.[ch]|auth/(credential|identity)/auth[a-z_]*\.c|gateway/http/(tls[a-z_]*|h2o_compat|listener)\.[ch]|gateway/upstream/https_client\.c",
    r"jansson\.h": r"config/config[a-z_]*\.[ch]|auth/[a-z]+/[a-z_]+\.c|gateway/(edge|admin|adapter|cli|dialect|engine_http)/([a-z]+/)?[a-z_]+\.[ch]",
    r"sqlite3\.h": r"config/store[a-z_]*\.[ch]|auth/[a-z]+/(certificate|issuer|ledger|tenant|quota|price)[a-z_]*\.[ch]",
    r"pcre2\.h": r"engine/text/[a-z_]+\.[ch]",
    r"utf8proc\.h": r"engine/text/tokenizer_(nfc|wordpiece)\.c",
    r"jwt\.h": r"auth/identity/auth_jwt\.c",
    r"hiredis": r"auth/ledger/redis_link\.c",
    r"cu[a-z_]+\.h": r"kernels/cuda/.*",
    r"immintrin\.h|x86intrin\.h": r"kernels/cpu/(avx2|avxvnni|avx512|amx)/.*|kernels/threads\.c|kernels/cpu/ops/cpu_ceilings\.c",
}

# Of these, the libraries that one file has, or two; the others are in the files whose job they are.
FEW_FILES = ("h2o(\\.h|/)", "khash\\.h|htslib/", "pcre2\\.h", "utf8proc\\.h", "jwt\\.h", "hiredis")

FILE_LINES_MAX = 1200
HEADER_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

BANNED = re.compile(
    r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|strncpy|strncat|atoi|atol|atoll|atof|"
    r"gmtime|localtime|asctime|ctime|alloca|rand|srand|system|popen|tmpnam|mktemp|setjmp|longjmp)\s*\("
)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|#\s*if\s+0\b")

# .c files without a unit test of their own, and what tests them instead.
TESTED_ELSEWHERE = {
    "auth/limits/quota_limits_hooks.c": "tests/unit/test_tenant.c and test_quota_limits_key.c, through the directory",
    "auth/tenants/certificate_edit.c": "tests/unit/test_certificate.c",
    "auth/tenants/certificate_rows.c": "tests/unit/test_certificate.c, over restarts",
    "auth/identity/auth_apikey.c": "tests/unit/test_auth.c",
    "auth/tenants/tenant_records.c": "tests/unit/test_tenant_view.c",
    "auth/tenants/issuer_edit.c": "tests/unit/test_issuer.c",
    "auth/tenants/issuer_rows.c": "tests/unit/test_issuer.c, over restarts",
    "gateway/admin/admin_certificates.c": "tests/e2e/test_certificates.py and test_openapi.py",
    "gateway/admin/admin_issuers.c": "tests/e2e/test_tokens.py and test_openapi.py",
    "engine/answer/answer_body_gemma.c": "tests/unit/test_answer_split.c, by whole answers",
    "engine/answer/answer_body_harmony.c": "tests/unit/test_answer_split.c, by whole answers",
    "engine/answer/answer_body_json.c": "tests/unit/test_answer_split.c, by whole answers",
    "engine/answer/answer_body_xml.c": "tests/unit/test_answer_split.c, by whole answers",
    "engine/answer/answer_emit.c": "tests/unit/test_answer_split.c, by whole answers",
    "gateway/dialect/ask_block.c": "tests/unit/test_ask.c, through whole bodies",
    "gateway/dialect/ask_messages.c": "tests/unit/test_ask.c, through whole bodies",
    "gateway/dialect/ask_generic.c": "tests/unit/test_ask_tools.c, through whole bodies",
    "gateway/dialect/ask_read.c": "tests/unit/test_ask.c, through whole bodies",
    "gateway/adapter/adapter_llama.c": "tests/unit/test_adapter_stream.c, by recorded streams; tests/e2e/test_upstream.py",
    "gateway/adapter/adapter_openai.c": "tests/unit/test_adapter_stream.c, by recorded streams; tests/e2e/test_upstream.py",
    "gateway/adapter/adapter_vllm.c": "tests/unit/test_adapter_stream.c, by recorded streams",
    "gateway/adapter/adapter_sglang.c": "tests/unit/test_adapter_stream.c and tests/e2e/test_upstream_kinds.py",
    "gateway/adapter/adapter_trtllm.c": "tests/unit/test_adapter_stream.c and tests/e2e/test_upstream_kinds.py",
    "gateway/adapter/adapter_tgi.c": "tests/unit/test_adapter_stream.c and tests/e2e/test_upstream_kinds.py",
    "gateway/adapter/adapter_ollama.c": "tests/unit/test_adapter_stream.c and tests/e2e/test_upstream_kinds.py",
    "gateway/adapter/adapter_ghosts.c": "tests/unit/test_adapter.c, with a server that has a gauge and one without",
    "gateway/adapter/adapter_probe.c": "tests/unit/test_adapter.c and tests/e2e/test_upstream.py",
    "gateway/pool/pool.c": "tests/e2e/test_pool.py, with servers that die, come back and are cut",
    "gateway/source/source_fleet.c": "tests/unit/test_face.c, and every end-to-end test",
    "gateway/serve/admin_key.c": "tests/e2e/test_admin_scopes.py",
    "gateway/admin/admin_export.c": "tests/e2e/test_config_import.py",
    "gateway/admin/admin_import.c": "tests/e2e/test_config_import.py",
    "gateway/cli/cli_resource.c": "tests/unit/test_cli_group.c",
    "engine/grammar/grammar_rows.c": "tests/unit/test_grammar_run.c and test_grammar_mask.c",
    "engine/grammar/grammar_place.c": "tests/unit/test_grammar_run.c and test_grammar_mask.c",
    "engine/schema/lark_read.c": "tests/unit/test_lark.c: constructs, refusals and bounds",
    "gateway/main.c": "tests/e2e drives every subcommand",
    "engine/text/chat_template_probe.c": "tests/unit/test_prepare.c",
    "engine/text/template_call.c": "tests/unit/test_chat_template.c and test_chat_template_eval.c: constructs and errors",
    "engine/text/template_compile.c": "tests/unit/test_chat_template_parser.c",
    "engine/text/template_expression.c": "tests/unit/test_chat_template_parser.c, and constructs of test_chat_template.c",
    "engine/text/template_filter.c": "tests/unit/test_chat_template.c: each filter against jinja2, and its origins",
    "engine/text/template_filter_list.c": "tests/unit/test_chat_template.c: each filter against jinja2, and its origins",
    "engine/text/template_function.c": "tests/unit/test_chat_template.c and test_chat_template_eval.c",
    "engine/text/template_input.c": "tests/unit/test_chat_template.c and test_prepare.c",
    "engine/text/template_method.c": "tests/unit/test_chat_template.c: each method against jinja2, and its origins",
    "engine/text/template_parts.c": "tests/unit/test_chat_template.c and test_chat_template_eval.c",
    "engine/text/template_run.c": "tests/unit/test_chat_template_eval.c: bounds, lines and failing memory",
    "engine/text/template_sort.c": "tests/unit/test_chat_template.c: sort, dictsort, unique, min and max",
    "engine/text/template_string.c": "tests/unit/test_chat_template.c: origins of each way of a string",
    "engine/text/template_test.c": "tests/unit/test_chat_template.c: each test against jinja2",
    "engine/text/template_text.c": "tests/unit/test_chat_template.c: values as Python and JSON print them",
    "engine/text/template_value.c": "tests/unit/test_chat_template.c and test_chat_template_eval.c",
    "engine/text/unicode_text.c": "tests/unit/test_chat_template.c: cases and printable characters against Python",
    "engine/ranks/rank_lead.c": "tests/unit/test_rank_follow.c",
    "gateway/http/cors_preflight.c": "tests/unit/test_cors.c",
    "gateway/edge/state/edge_heap.c": "tests/unit/test_edge_metrics.c",
    "kernels/dispatch/kernels_dispatch.c": "tests/unit/test_kernels.c",
    "kernels/cpu/ops/cpu_ops.c": "tests/unit/test_kernels.c: each operation through the table",
    "kernels/cuda/cuda_table.c": "tests/gpu/gpu_engine.c: whole engines through the table",
    "engine/draft/draft_read.c": "tests/unit/test_draft_guess.c and test_step_draft.c",
    "engine/models/model_arch.c": "tests/unit/test_model.c and test_decoder.c",
    "engine/scheduler/scheduler_take.c": "tests/unit/test_scheduler_classes.c, and each run of tests/sim",
    "engine/scheduler/scheduler_turn.c": "tests/unit/test_scheduler_classes.c, and each run of tests/sim",
    "engine/step/step_charge.c": "tests/sim: its own accounts against the engine's, at each step",
    "engine/step/step_view.c": "tests/unit/test_step_classes.c",
    "engine/step/step_end.c": "tests/unit/test_step.c and test_step_prefix.c",
    "engine/step/step_plan.c": "tests/unit/test_step.c and test_step_prefix.c",
    "engine/step/step_tell.c": "tests/unit/test_step.c and test_engine.c",
    "engine/step/step_token.c": "tests/unit/test_step.c and test_engine.c",
    "engine/step/step_unpublish.c": "tests/unit/test_step_prefix.c",
    "gateway/serve/serve.c": "tests/e2e/test_serve.py: forks, signals, kill -9 of the halves",
}

# Symbols of a file start with its name; files whose object has another name say it here.
PREFIXES = {
    "thread_mark": ("__wrap_pthread_create",),  # the linker's name
    "template_filter_list": ("template_filter",),
    "kernels_dispatch": ("kernels",),
    "kernels_experts": ("kernels",),
    "regex_chars": ("regex_chars", "regex_run"),
    "slice": ("slice", "buffer"),
    "config_help": ("config",),
    "certificate": ("certificate",),
    "certificate_edit": ("certificate",),
    "issuer_edit": ("issuer",),
    "tenant": ("tenant", "tenants"),
    "tenant_answer": ("tenant_answer", "tenants_answer"),
    "tenant_edit": ("tenants",),
    "tenant_group": ("tenant_group", "tenants_has_group"),
    "tenant_key_edit": ("tenants_key",),
    "tenant_used": ("tenants_used",),
    "http1_client": ("http1_client", "http1_exchange"),
    "metrics": ("metric", "METRIC"),
    "tls_authority": ("tls_make_self_signed",),
    "request": ("http", "request"),
    "http_error": ("http_error", "http_respond"),
}


def tracked(*endings):
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    names = [n for n in out.split("\0") if n and (ROOT / n).is_file()]
    return [n for n in names if not endings or n.endswith(endings)]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def room_of(name):
    if name.startswith("config/base/"):
        return "config/base"
    return name.split("/", 1)[0]


def code_files():
    return [n for n in tracked(".c", ".h", ".cu", ".cuh", ".def") if room_of(n) in CODE]


def includes(name):
    for number, line in enumerate(text(name).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


def without_comments_and_strings(source):
    """The same lines with comments, string and character literals blanked."""
    pattern = re.compile(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S
    )
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), source)


def report(offences):
    assert not offences, "\n" + "\n".join(offences)


def test_top_level_is_what_the_architecture_names():
    names = {n.split("/", 1)[0] for n in tracked()}
    report([f"{n}: not a top-level name" for n in sorted(names - TOP_LEVEL)])


def test_libraries_are_touched_by_few_files():
    offences = []
    for name in code_files():
        for line, kind, target in includes(name):
            if kind != "<":
                continue
            for library, allowed in LIBRARIES.items():
                if re.match(library, target) and not re.fullmatch(allowed, name):
                    offences.append(f"{name}:{line}: may not include <{target}>")
    report(offences)


def test_most_libraries_have_few_files():
    """And every library of the list is included somewhere where it may be."""
    files = {library: set() for library in LIBRARIES}
    for name in tracked(".c", ".h", ".cu", ".cuh"):
        for target in re.findall(r"^#\s*include\s+<([^>]+)>", text(name), re.M):
            for library in LIBRARIES:
                if re.match(library, target) and not name.startswith("tests/"):
                    files[library].add(name)
    assert set(FEW_FILES) <= set(LIBRARIES)
    report([f"{library}: {sorted(files[library])}" for library in FEW_FILES if len(files[library]) > 2])
    unused = [library for library in LIBRARIES if not files[library]]
    report([f"{library} is included nowhere" for library in unused if "khash" not in library])  # libh2o takes it


def test_file_names_are_unique():
    shared = {"README.md", "CMakeLists.txt", "__init__.py", "conftest.py", "routes.def", "run"}
    names = collections.defaultdict(list)
    for name in tracked():
        if "/corpus/" not in name and "/parity/" not in name:
            names[os.path.basename(name)].append(name)
    report([f"{v}" for k, v in sorted(names.items()) if len(v) > 1 and k not in shared])


def test_sizes():
    offences = []
    for name in tracked(".c", ".h", ".cu", ".cuh", ".cc", ".def", ".py", ".sh") + [
        n for n in tracked() if n in ("tests/run", "deploy/quickstart", "deploy/prepare", ".ci/run")
    ]:
        lines = text(name).split("\n")
        limit = HEADER_LINES_MAX if name.endswith(".h") else FILE_LINES_MAX
        if len(lines) - 1 > limit:
            offences.append(f"{name}: {len(lines) - 1} lines, at most {limit}")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX and name.endswith((".c", ".h", ".cu", ".cuh", ".cc")):
                offences.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
            if "\t" in line or "\r" in line or line != line.rstrip():
                offences.append(f"{name}:{number}: tab, carriage return or space at the end")
    report(offences)


def test_functions_are_short():
    """A function body begins with '{' in the first column and ends with '}' in the first column."""
    offences = []
    for name in tracked(".c", ".cu", ".cuh", ".cc"):
        start = None
        for number, line in enumerate(text(name).splitlines(), 1):
            if line == "{":
                start = number
            elif line.startswith("}") and start is not None:
                if number - start - 1 > FUNCTION_LINES_MAX:
                    offences.append(f"{name}:{start}: {number - start - 1} lines in one function")
                start = None
    report(offences)


def test_banned_calls_and_unfinished_work():
    offences = []
    for name in tracked(".c", ".h", ".cu", ".cuh", ".cc"):
        source = text(name)
        for number, line in enumerate(without_comments_and_strings(source).splitlines(), 1):
            if BANNED.search(line):
                offences.append(f"{name}:{number}: banned call: {line.strip()}")
            if re.search(r"(?<![A-Z_a-z])assert\s*\(", line) and room_of(name) in CODE:
                offences.append(f"{name}:{number}: ASSERT stays on in release builds; use it")
        for number, line in enumerate(source.splitlines(), 1):
            if UNFINISHED.search(line):
                offences.append(f"{name}:{number}: unfinished: {line.strip()}")
    report(offences)


def test_headers_say_what_they_own():
    offences = []
    for name in tracked(".h"):
        if room_of(name) not in CODE:
            continue
        head = text(name).split("#pragma once")[0]
        stem = pathlib.Path(name).stem
        if not re.match(rf"/\* {re.escape(stem)}: ", head):
            offences.append(f'{name}: must start with "/* {stem}: …"')
        for word in ("Owns:", "Not here:"):
            if word not in head:
                offences.append(f'{name}: no "{word}" in its head')
    report(offences)


def test_every_c_file_has_its_unit_test():
    offences = []
    tests = {pathlib.Path(n).name for n in tracked(".c") if n.startswith("tests/unit/")}
    for name in tracked(".c"):
        if room_of(name) not in CODE or name in TESTED_ELSEWHERE:
            continue
        if f"test_{pathlib.Path(name).name}" not in tests:
            offences.append(f"{name}: no tests/unit/test_{pathlib.Path(name).name}")
    report(offences)


def test_exceptions_are_needed():
    report([f"{n}: listed, but gone" for n in TESTED_ELSEWHERE if not (ROOT / n).exists()])


def test_headers_compile_alone():
    offences = []
    for name in tracked(".h"):
        if room_of(name) not in CODE or name.startswith("kernels/cpu/avx"):
            continue
        done = subprocess.run(
            ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-I.", "-isystem", "/usr/include/htslib", "-fsyntax-only", "-Wall", "-Wextra",
             "-x", "c", "-include", name, "/dev/null"],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            offences.append(f"{name}: {done.stderr.strip().splitlines()[0]}")
    report(offences)


def test_symbols_carry_their_files_name():
    archives = sorted((ROOT / "build/release").glob("*/libbanyan_*.a"))
    assert archives, "build the release preset first"
    offences = []
    for archive in archives:
        out = subprocess.run(
            ["nm", "-A", "--defined-only", "--extern-only", archive], capture_output=True, text=True
        ).stdout
        for line in out.splitlines():
            match = re.match(r".*:([a-z0-9_]+)\.c\.o:\S* [TDBRC] (\S+)$", line)
            if not match:
                continue
            stem, symbol = match.groups()
            prefixes = PREFIXES.get(stem, (stem,))
            if symbol.startswith("k_"):  # kernels' own grammar: k_<op>_<types>_<isa>
                continue
            if not symbol.lower().startswith(tuple(p.lower() for p in prefixes)):
                offences.append(f"{archive.parent.name}/{stem}.c: {symbol}")
    report(offences)


def test_format():
    files = [n for n in tracked(".c", ".h", ".cu", ".cuh", ".cc") if "/corpus/" not in n]
    done = subprocess.run(
        ["clang-format-14", "--dry-run", "-Werror", *files], cwd=ROOT, capture_output=True, text=True
    )
    offences = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    report([f"{n}: clang-format-14 -i {n}" for n in offences])


def test_environment_is_read_in_main_alone():
    offences = []
    for name in code_files():
        if name == "gateway/main.c":
            continue
        for number, line in enumerate(without_comments_and_strings(text(name)).splitlines(), 1):
            if re.search(r"\b(secure_)?getenv\s*\(|\benviron\b", line):
                offences.append(f"{name}:{number}: {line.strip()}")
    report(offences)


def test_every_room_has_its_readme():
    report([
        f"{room}/README.md is missing"
        for room in ROOMS if (ROOT / room).is_dir() and not (ROOT / room / "README.md").exists()
    ])  # fmt: skip


def test_options_of_the_binary_are_listed():
    binary = ROOT / "build/release/banyan"
    assert binary.exists(), "build the release preset first"
    table = subprocess.run([binary, "schema", "--markdown"], capture_output=True, text=True).stdout
    assert table.strip() in text("config/OPTIONS.md"), "paste `banyan schema --markdown`"


@pytest.mark.parametrize("pattern", [r"/root/", r"/work/", r"\bpypi\.org", r"debian\.org"])
def test_no_path_of_a_machine_and_no_registry_host(pattern):
    offences = []
    for name in tracked():
        if name.startswith("tests/tidy/") or "/corpus/" in name or name == "LICENSE":
            continue
        try:
            lines = text(name).splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            if re.search(pattern, line):
                offences.append(f"{name}:{number}: {line.strip()[:80]}")
    report(offences)


# Subjects were longer before this commit, and history is not rewritten.
RULE_OF_SUBJECTS = "b1563aa11087a5ac063cca62db7fed90a5bcad23"


def test_subjects_of_commits_are_short():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    # A shallow clone may lack that commit; the last commit is always there.
    is_there = git("merge-base", "--is-ancestor", RULE_OF_SUBJECTS, "HEAD").returncode == 0
    span = [f"{RULE_OF_SUBJECTS}..HEAD"] if is_there else ["-1"]
    subjects = git("log", "--no-merges", "--format=%h %s", *span).stdout.splitlines()
    report([line for line in subjects if len(line.split(" ", 1)[1]) > 72])
