"""JSON Schemas as grammars, over single bytes: what they accept, and that what they write is valid.

The sample of schemas and the JSON-Schema-Test-Suite are read from BANYAN_SCHEMAS, by default
../shared/schemas; a small corpus in the tree always runs.
"""

import json

import jsonschema_rs
import pytest
from schema_kit import ROOT, SCHEMAS, Grammars, ways
from schema_random import Random

# Of the 713 schemas of the sample: with members as they are written there, and in the schema's order.
PASSED = 648
PASSED_IN_ORDER = 684
CORPUS = ROOT / "tests" / "parity" / "schemas" / "corpus.jsonl"
# The suite tests these too, but the standard calls them annotations, and they are notes here.
ANNOTATIONS = (
    "content", "optional/content", "optional/format/ecmascript-regex", "optional/format/idn-",
    "optional/format/iri", "optional/format/json-pointer", "optional/format/regex",
    "optional/format/relative-json-pointer", "optional/format/uri-template",
)  # fmt: skip


def lines(path):
    if not path.exists():
        pytest.skip(f"{path} is not there (BANYAN_SCHEMAS says where the sample is)")
    return [json.loads(line) for line in path.read_text().split("\n") if line.strip()]


def judge(grammars, tests):
    """What is wrong: instances that are valid and not accepted, and the reverse."""
    rejected, accepted = [], []
    for test in tests:
        verdicts = grammars.accepts(ways(test["data"]))
        if test["valid"] and not all(verdicts):
            rejected.append(test["data"])
        if not test["valid"] and any(verdicts):
            accepted.append(test["data"])
    return rejected, accepted


def test_corpus():
    with Grammars() as grammars:
        for case in lines(CORPUS):
            assert grammars.compile(case["schema"]) is None, case["schema"]
            assert judge(grammars, case["tests"]) == ([], []), case["schema"]


def test_long_texts():
    """The lexer has a state for each character that is counted, and its table is not full with these."""
    texts = ["a" * 4999, "é" * 5000, "a\n" * 2500, "日本" * 2500, "😀" * 5000, 'q"\\/' * 1250]
    tests = [{"valid": True, "data": text} for text in texts] + [{"valid": False, "data": "x" * 5001}]
    with Grammars() as grammars:
        assert grammars.compile({"type": "string", "maxLength": 5000}) is None
        assert judge(grammars, tests) == ([], [])


def test_what_a_grammar_writes_is_valid():
    """Texts that random allowed bytes lead to are valid. Numbers that a double does not hold exactly
    are left to the unit tests of multiples."""
    ended = 0
    with Grammars() as grammars:
        for case in lines(CORPUS):
            validator = jsonschema_rs.validator_for(case["schema"], validate_formats=True)
            for strict in (False, True):
                assert grammars.compile(case["schema"], strict) is None
                for seed in range(12):
                    text = grammars.walk(seed)
                    if text is None:
                        continue
                    ended += 1
                    assert validator.is_valid(json.loads(text)), (case["schema"], text)
    print(f"{ended} texts ended, all valid")
    assert ended > 300


def is_exact(value):
    """Whether a double holds every number of the value."""
    if isinstance(value, (list, dict)):
        return all(is_exact(one) for one in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, (int, float)) or len(repr(value).strip("-")) < 14


def test_random_schemas():
    """No text is accepted that jsonschema refuses, and random allowed bytes lead to an end."""
    random, counts = Random(5), dict.fromkeys(("compiled", "refused", "valid", "accepted", "ended"), 0)
    with Grammars() as grammars:
        for _ in range(600):
            schema = random.schema()
            validator = jsonschema_rs.validator_for(schema)
            values = [random.value(3) for _ in range(15)]
            valid = [validator.is_valid(value) for value in values]
            refusal = grammars.compile(schema)
            counts["refused" if refusal else "compiled"] += 1
            if refusal is not None:
                assert refusal[0] != "INVALID" or not any(valid), (schema, refusal)
                continue
            accepted = grammars.accepts(json.dumps(value, ensure_ascii=False) for value in values)
            for value, is_valid, is_accepted in zip(values, valid, accepted, strict=True):
                assert is_valid or not is_accepted, (schema, value)
            counts["valid"] += sum(valid)
            counts["accepted"] += sum(accepted)
            for text in filter(None, map(grammars.walk, range(3))):
                counts["ended"] += 1
                value = json.loads(text)
                assert validator.is_valid(value) or not is_exact(value), (schema, text)
    print(counts)
    assert counts["accepted"] > 0.95 * counts["valid"] and counts["ended"] > 1000


def names_of(schema, names):
    """The names of members, in the order in which the schema has them."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            for name in schema["properties"]:
                names.setdefault(name, len(names))
        for value in schema.values():
            names_of(value, names)
    elif isinstance(schema, list):
        for value in schema:
            names_of(value, names)
    return names


def in_order(data, names):
    """The same value with its members in the order of `names`: a grammar writes no other order."""
    if isinstance(data, dict):
        ordered = sorted(data, key=lambda name: names.get(name, len(names)))
        return {name: in_order(data[name], names) for name in ordered}
    return [in_order(value, names) for value in data] if isinstance(data, list) else data


def test_sample():
    """Prints how many schemas pass: all valid instances are accepted, and no invalid one is."""
    counts = dict.fromkeys(("passed", "passed in order", "refused", "invalid", "accepted"), 0)
    wrong, narrowed, refused = [], [], {}
    with Grammars() as grammars:
        for case in lines(SCHEMAS / "maskbench_sample.jsonl"):
            refusal = grammars.compile(case["schema"])
            counts["invalid"] += sum(not test["valid"] for test in case["tests"])
            if refusal is not None:
                counts["refused"] += 1
                refused.setdefault(refusal[2], []).append(case["id"])
                assert refusal[0] in ("UNSUPPORTED", "LIMIT"), (case["id"], refusal)
                continue
            rejected, accepted = judge(grammars, case["tests"])
            names = names_of(case["schema"], {})
            tests = [{"valid": True, "data": in_order(data, names)} for data in rejected]
            counts["accepted"] += len(accepted)
            if accepted:
                wrong.append((case["id"], accepted))
            elif not rejected:
                counts["passed"] += 1
            elif not judge(grammars, tests)[0]:
                counts["passed in order"] += 1
            else:
                narrowed.append(case["id"])
    print(
        f"713 schemas: {counts['passed']} pass, {counts['passed in order']} more with members in "
        f"the schema's order, {len(narrowed)} reject a valid instance, {counts['refused']} are "
        f"refused; {counts['accepted']} of {counts['invalid']} invalid instances accepted"
    )
    print(f"refused: {refused}\nnarrowed: {narrowed}")
    assert not wrong, wrong
    assert counts["passed"] >= PASSED
    assert counts["passed"] + counts["passed in order"] >= PASSED_IN_ORDER


def test_suite():
    groups = {"passed": 0, "refused": 0, "narrowed": 0}
    wrong = []
    with Grammars() as grammars:
        for case in lines(SCHEMAS / "json_schema_test_suite.jsonl"):
            if grammars.compile(case["schema"]) is not None:
                groups["refused"] += 1
                continue
            rejected, accepted = judge(grammars, case["tests"])
            groups["narrowed" if rejected else "passed"] += 1
            keyword = case["file"].split("/", 1)[1]
            if accepted and not keyword.startswith(ANNOTATIONS):
                wrong.append((case["file"], case["description"], accepted))
    print(f"782 groups of the suite: {groups}")
    assert not wrong, wrong


def hostile():
    """Schemas that are made to cost much, with a name each."""
    choice = [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]
    yield "2^20 alternatives", {"type": "object", "allOf": choice}
    deep = '{"items":' * 10000 + "{}" + "}" * 10000
    yield "depth 10,000", deep
    yield "10,000 optional keys", {"properties": {f"key_{i}": {} for i in range(10000)}}
    yield "nested counts", {"type": "string", "pattern": "^(a{1,999}){1,999}$"}
    yield "nested patterns", {"type": "string", "pattern": "^((a{1,99}b{1,99}){1,99}c){1,99}$"}
    doubled = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
    yield "2^60 references", {"$ref": "#/$defs/d0", "$defs": {**doubled, "d60": {"type": "null"}}}
    one = [{"required": [f"k{i}"], "properties": {f"p{i}": {"type": "null"}}} for i in range(200)]
    yield "200 overlapping branches", {"type": "object", "oneOf": one}
    patterns = {f"(a|b){{{i}}}c": {"type": "null"} for i in range(1, 60)}
    yield "60 patterns of names", {"type": "object", "patternProperties": patterns}
    wide = [{"const": [i, {"x": i}]} for i in range(1500)]
    yield "1,500 composite values", {"not": {"anyOf": wide}}


def test_hostile_schemas_are_bounded():
    """Each is compiled or refused within the fuel: it stands for less than 0.5 s of CPU."""
    with Grammars() as grammars:
        for name, schema in hostile():
            refusal = grammars.compile(schema)
            print(f"{name}: {refusal and refusal[0]}, {grammars.steps} steps, {grammars.cpu_us} us")
            assert refusal is None or refusal[0] in ("LIMIT", "UNSUPPORTED", "INVALID"), name
            assert grammars.steps <= 20_000_000, name
