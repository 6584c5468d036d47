"""The order of folders and files: who may include whom, and that nothing looks back.

A folder may include files of itself and of the folders in its row below. Rows stand in order: a
folder includes only what stands above it. A header and the source of the same name are one unit.
"""

import collections
import os

from test_tidy import FRONT_DOORS, ROOT, code_files, includes, report, room_of

# From the ground up. A row that is not needed any more is an offence too.
MAY_INCLUDE = {
    "config/base": [],
    "config": ["config/base"],
    "radix": ["config/base"],
    "kernels/types": [],
    "kernels": ["config/base", "kernels/types"],
    "kernels/cpu": ["kernels/types", "kernels"],
    "kernels/cpu/ops": ["config/base", "kernels", "kernels/cpu"],
    "kernels/cpu/packed": ["kernels/types", "kernels/cpu"],
    "kernels/cpu/ref": ["config/base", "kernels/types", "kernels/cpu"],
    "kernels/cpu/ref_int8": ["config/base", "kernels/types", "kernels/cpu", "kernels/cpu/ref"],
    "kernels/cpu/avx2": [
        "config/base", "kernels/types", "kernels/cpu", "kernels/cpu/packed", "kernels/cpu/ref",
        "kernels/cpu/ref_int8",
    ],
    "kernels/cpu/avx512": [
        "config/base", "kernels/types", "kernels/cpu", "kernels/cpu/packed",
        "kernels/cpu/ref_int8",
    ],
    "kernels/cpu/amx": [
        "kernels/types", "kernels/cpu", "kernels/cpu/ref_int8", "kernels/cpu/avx512",
    ],
    "kernels/cpu/avxvnni": [
        "kernels/cpu", "kernels/cpu/ref", "kernels/cpu/ref_int8", "kernels/cpu/avx2",
    ],
    "kernels/cuda": ["config/base", "kernels/types", "kernels", "kernels/cpu", "kernels/cpu/ops"],
    "kernels/dispatch": [
        "config/base", "kernels/types", "kernels", "kernels/cpu", "kernels/cpu/ops",
    ],
    "engine/grammar": ["config/base"],
    "engine/schema": ["config/base", "engine/grammar"],
    "engine/models": ["config/base", "kernels"],
    "engine/ranks": ["config/base", "kernels", "engine/models"],
    "engine/request": ["config/base", "engine/grammar", "engine/schema"],
    "engine/kv": ["config/base", "radix", "kernels", "engine/request"],
    "engine/sampling": ["config/base", "kernels", "engine/request"],
    "engine/scheduler": ["config/base", "engine/request"],
    "engine/sequence": [
        "config/base", "engine/models", "engine/request", "engine/kv", "engine/sampling",
    ],
    "engine/draft": ["config/base", "engine/models", "engine/sampling", "engine/sequence"],
    "engine/step": [
        "config/base", "engine/models", "engine/request", "engine/kv", "engine/sampling",
        "engine/scheduler", "engine/sequence", "engine/draft", "engine/grammar",
    ],
    "engine/text": ["config/base", "engine/models", "engine/request"],
    "engine/answer": ["config/base", "engine/models", "engine/grammar", "engine/schema"],
    "engine": [
        "config/base", "kernels", "engine/models", "engine/ranks", "engine/request",
        "engine/draft", "engine/step", "engine/text", "engine/answer", "engine/grammar",
    ],
    "engine/bench": ["config/base", "kernels", "engine/models", "engine/kv", "engine"],
    "auth/credential": ["config/base"],
    "auth/ledger": ["config/base", "config"],
    "auth/tenants": ["config/base", "config", "auth/credential", "auth/ledger"],
    "auth/identity": ["config/base", "auth/credential", "auth/tenants"],
    "auth/limits": ["config/base", "auth/credential", "auth/ledger", "auth/tenants"],
    "auth": ["config/base", "auth/credential", "auth/tenants", "auth/identity", "auth/limits"],
    "gateway/http": ["config/base"],
    "gateway/dialect": ["config/base", "engine/answer", "engine"],
    "gateway/upstream": ["config/base", "gateway/http"],
    "gateway/source": ["config/base", "engine"],
    "gateway/adapter": ["config/base", "engine", "gateway/http", "gateway/upstream", "gateway/source"],
    "gateway/pool": ["config/base", "engine", "gateway/http", "gateway/adapter"],
    "gateway/engine_http": [
        "config/base", "config", "kernels", "engine/answer", "engine", "gateway/http",
        "gateway/dialect", "gateway/source", "gateway/pool",
    ],
    "gateway/cli": ["config/base", "auth/limits", "gateway/upstream"],
    "gateway/edge/state": [
        "config/base", "config", "auth/ledger", "auth/identity", "auth/limits", "auth",
        "gateway/http", "gateway/upstream",
    ],
    "gateway/edge/engines": [
        "config/base", "auth/ledger", "auth/tenants", "gateway/http", "gateway/upstream",
        "gateway/edge/state",
    ],
    "gateway/edge/request": [
        "config/base", "auth/tenants", "auth/limits", "auth", "gateway/http", "gateway/upstream",
        "gateway/edge/state", "gateway/edge/engines",
    ],
    "gateway/edge/pages": [
        "config/base", "auth/ledger", "auth/tenants", "auth", "gateway/http", "gateway/edge/state",
        "gateway/edge/engines", "gateway/edge/request",
    ],
    "gateway/admin": [
        "config/base", "config", "auth/ledger", "auth/tenants", "auth/limits", "auth",
        "gateway/http", "gateway/upstream", "gateway/edge/state", "gateway/edge/engines",
        "gateway/edge/request", "gateway/edge/pages",
    ],
    "gateway/edge": [
        "config/base", "config", "auth/tenants", "gateway/http", "gateway/edge/state",
        "gateway/edge/engines", "gateway/edge/request", "gateway/edge/pages", "gateway/admin",
    ],
    "gateway/serve": [
        "config/base", "config", "kernels", "engine/ranks", "auth/ledger", "auth", "gateway/http",
        "gateway/adapter", "gateway/pool", "gateway/engine_http", "gateway/upstream", "gateway/edge/state",
        "gateway/edge",
    ],
    "gateway": [
        "config/base", "config", "kernels", "kernels/cuda", "engine/bench", "gateway/cli",
        "gateway/serve",
    ],
}  # fmt: skip

README_LINES_MAX = 40


def unit(name):
    """kv_pool.c and kv_pool.h are one, and so are a .cu and a .cuh; a list (.def) stands alone."""
    stem, ending = name.rsplit(".", 1)
    return {"def": name, "cu": stem + ".cu", "cuh": stem + ".cu"}.get(ending, stem)


def arrows(files, target_of=unit, text=includes):
    """What each unit, or each folder, includes of the tree's own, without itself."""
    graph = collections.defaultdict(dict)
    for name in files:
        graph[target_of(name)]
        for line, kind, target in text(name):
            if kind == '"' and (ROOT / target).exists() and target_of(target) != target_of(name):
                graph[target_of(name)].setdefault(target_of(target), f"{name}:{line}: {target}")
    return graph


def circles(graph):
    """Strongly connected parts of more than one (Tarjan), each in order."""
    index, low, stack, found = {}, {}, [], []

    def visit(at):
        work = [(at, iter(graph.get(at, ())))]
        index[at] = low[at] = len(index)
        stack.append(at)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                    if len(part) > 1:
                        found.append(sorted(part))

    for at in sorted(graph):
        if at not in index:
            visit(at)
    return sorted(found)


def folders():
    return arrows(code_files(), os.path.dirname)


def upward(graph):
    """Arrows to a folder that stands below in MAY_INCLUDE."""
    order = {name: place for place, name in enumerate(MAY_INCLUDE)}
    return {
        (a, b): where
        for a, others in graph.items()
        for b, where in others.items()
        if order.get(b, 0) > order.get(a, 0)
    }


def test_folders_include_what_their_row_allows():
    offences = []
    graph = folders()
    for folder, others in sorted(graph.items()):
        if folder not in MAY_INCLUDE:
            offences.append(f"{folder}: no row in MAY_INCLUDE")
            continue
        for other, where in sorted(others.items()):
            if other not in MAY_INCLUDE[folder]:
                offences.append(f"{where}: {folder} may not include {other}")
    for folder, allowed in MAY_INCLUDE.items():
        for other in sorted(set(allowed) - set(graph.get(folder, ()))):
            offences.append(f"MAY_INCLUDE: {folder} does not include {other} any more")
    report(offences)


def test_rooms_include_front_doors_of_others():
    offences = []
    for name in code_files():
        for line, kind, target in includes(name):
            if kind != '"':
                continue
            if not (ROOT / target).exists():
                offences.append(f"{name}:{line}: {target} is not a path from the root")
            elif room_of(target) not in (room_of(name), "config/base") and target not in FRONT_DOORS:
                offences.append(f"{name}:{line}: {target} is no front door of {room_of(target)}")
    report(offences)


def test_no_arrow_goes_up():
    report([where for _, where in sorted(upward(folders()).items())])


def test_no_file_includes_one_that_includes_it():
    found = circles(arrows(code_files()))
    report(["units that include each other: " + " ".join(part) for part in found])


def test_each_folder_of_a_large_room_has_a_readme():
    """At most one screen; the README of the room itself may be longer."""
    offences = []
    for folder in MAY_INCLUDE:
        if "/" not in folder or not folder.startswith(("engine/", "auth/", "gateway/")):
            continue
        path = ROOT / folder / "README.md"
        if not path.exists():
            offences.append(f"{folder}/README.md is missing")
        elif folder.startswith(("engine/", "auth/", "gateway/edge/")):
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count > README_LINES_MAX:
                offences.append(f"{folder}/README.md: {count} lines, at most {README_LINES_MAX}")
    report(offences)


def test_figures_are_printed(capsys):
    files, graph = arrows(code_files()), folders()
    with capsys.disabled():
        print(
            f"\nlayers: {len(files)} units, {len(circles(files))} circles between them; "
            f"{len(graph)} folders, {sum(map(len, graph.values()))} arrows, "
            f"{len(upward(graph))} upward, {len(circles(graph))} circles"
        )
    assert not circles(graph)


def test_a_planted_circle_is_found():
    """The test itself can fail: a circle through a header and the source of the same name."""
    planted = {
        "engine/kv/a.h": [(1, '"', "engine/kv/kv_pool.h")],
        "engine/kv/kv_pool.c": [(1, '"', "engine/kv/kv_pool.h"), (2, '"', "engine/kv/kv_host.h")],
        "engine/kv/kv_host.c": [(1, '"', "engine/kv/kv_host.h")],
        "engine/kv/kv_host.h": [(1, '"', "engine/kv/kv_pool.h")],
    }
    graph = arrows(planted, text=planted.get)
    assert circles(graph) == [["engine/kv/kv_host", "engine/kv/kv_pool"]]
    planted["engine/kv/kv_host.h"] = []
    assert circles(arrows(planted, text=planted.get)) == []
    lower = {"engine/kv/kv_pool.h": [(7, '"', "engine/step/step.h")]}
    assert list(upward(arrows(lower, os.path.dirname, lower.get))) == [("engine/kv", "engine/step")]
