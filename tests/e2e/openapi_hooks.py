"""What schemathesis must know of the server beyond config/openapi.json. Each change has its reason;
nothing here turns a wrong value into a right one, but for the spelling of whole numbers."""

import itertools
import os
import re
import time

import schemathesis

GENERATION = ("/v1/chat/completions", "/v1/completions", "/v1/generate")
CONTEXT = 1048576  # the largest max_tokens that the file allows
TOKENS = 2
TIMEOUT_MS = 20000
VOCAB = 49152  # of the model that tests serve


def is_count(value, most):
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def spell_whole(node):
    """1.0 is an integer to JSON Schema; the server wants whole numbers without a fraction."""
    if isinstance(node, dict):
        return {key: spell_whole(value) for key, value in node.items()}
    if isinstance(node, list):
        return [spell_whole(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node


def keep_short(body):
    """Answers of two tokens: their length is not what is tested here."""
    newer = body.get("max_completion_tokens")
    if is_count(newer, CONTEXT):
        body["max_completion_tokens"] = min(newer, TOKENS)
    elif newer is None and (body.get("max_tokens") is None or is_count(body["max_tokens"], CONTEXT)):
        body["max_tokens"] = min(body.get("max_tokens") or TOKENS, TOKENS)


def keep_relations(body):
    """What JSON Schema cannot say: best_of = n, prompts × n ≤ 8, min_tokens ≤ max_tokens, which ids
    the model has, and that it does not reason."""
    if is_count(body.get("min_tokens"), CONTEXT):
        body["min_tokens"] = min(body["min_tokens"], 1)
    penalty = body.get("repetition_penalty")
    if isinstance(penalty, float) and 0 < penalty < 1e-30:  # 0 in the server's single precision
        body["repetition_penalty"] = 1e-30
    if body.get("thinking_token_budget") == 0 or is_count(body.get("thinking_token_budget"), CONTEXT):
        del body["thinking_token_budget"]
    choices = body["n"] if is_count(body.get("n"), 8) else 1
    prompts = body.get("prompt")
    if isinstance(prompts, list) and 8 >= len(prompts) > 8 // choices and is_count(body.get("n"), 8):
        body["n"] = choices = 1
    if is_count(body.get("best_of"), 8):
        body["best_of"] = choices
    ids = body.get("stop_token_ids")
    if isinstance(ids, list) and all(isinstance(i, int) and i >= 0 for i in ids):
        body["stop_token_ids"] = [i % VOCAB for i in ids]
    bias = body.get("logit_bias")
    if isinstance(bias, dict) and all(re.fullmatch("0|[1-9][0-9]{0,8}", key) for key in bias):
        body["logit_bias"] = {str(int(key) % VOCAB): value for key, value in bias.items()}


# What each constraint is replaced by if its type is right: few drawn schemas and regexes mean anything.
RIGHT = {
    "json": ((dict, bool, str), {"type": "boolean"}), "json_object": (bool, True), "regex": (str, "a|b"),
    "choice": (list, ["a", "b"]), "grammar": (str, 'start: "a"'),
}  # fmt: skip
CONSTRAINTS = (
    "response_format", "structured_outputs", "regex", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",
)  # fmt: skip


def right_constraint(kind, value):
    """The value, or a meaningful one in its place if JSON Schema has nothing against it."""
    types, meant = RIGHT[kind]
    is_list = kind == "choice" and isinstance(value, list)
    if not isinstance(value, types) or value == "" or isinstance(value, bool) and kind not in ("json", "json_object"):
        return value
    if is_list and not (0 < len(value) <= 1024 and all(isinstance(text, str) for text in value)):
        return value
    return meant


def right_format(value):
    named = value.get("json_schema") if isinstance(value, dict) else None
    if isinstance(named, dict) and isinstance(named.get("schema"), RIGHT["json"][0]):
        named["schema"] = RIGHT["json"][1]
    return value


def right_outputs(value):
    """Exactly one of its members counts."""
    flags = {"disable_any_whitespace", "disable_additional_properties"}
    if not isinstance(value, dict) or not set(value) <= {*RIGHT, *flags}:
        return value
    given = [kind for kind in RIGHT if value.get(kind) is not None]
    for kind in given[1:]:
        del value[kind]
    for kind in given[:1]:
        value[kind] = right_constraint(kind, value[kind])
    return value if given else None


def keep_constraint(body):
    """What JSON Schema cannot say of constraints: there is one at most, and none beside an echo."""
    given = [name for name in CONSTRAINTS if body.get(name) is not None]
    if body.get("echo") is True or body.get("ignore_eos") is True:
        keep = []
    else:
        keep = given[:1]
    for name in set(given) - set(keep):
        del body[name]
    for name in keep:
        if name == "response_format":
            body[name] = right_format(body[name])
        elif name == "structured_outputs":
            body[name] = right_outputs(body[name])
        else:
            body[name] = right_constraint(name.removeprefix("guided_"), body[name])


def keep_tools(body):
    """What JSON Schema cannot say of tools: their names differ, a choice names them, and a result
    names an earlier call."""
    tools = body.get("tools")
    named = [t.get("function") for t in tools if isinstance(t, dict)] if isinstance(tools, list) else []
    named = [f for f in named if isinstance(f, dict) and isinstance(f.get("name"), str)]
    if all(re.fullmatch("[A-Za-z0-9_-]{1,64}", f["name"]) for f in named):
        for number, function in enumerate(named):
            function["name"] = f"{function['name'][:58]}-{number}"
    choice = body.get("tool_choice")
    if not named and (choice == "required" or isinstance(choice, dict)):
        body["tool_choice"] = "auto"
    elif isinstance(choice, dict) and isinstance(choice.get("function"), dict) and named:
        choice["function"]["name"] = named[0]["name"]
    if choice == "required" or isinstance(choice, dict):
        for name in CONSTRAINTS:  # one constraint at a time
            body.pop(name, None)
    if isinstance(body.get("tool_choice"), dict):
        wanted = body["tool_choice"].get("allowed_tools")
        if isinstance(wanted, dict) and isinstance(wanted.get("tools"), list):
            wanted["tools"] = [{"function": {"name": f["name"]}} for f in named][: len(wanted["tools"])]
    messages = body.get("messages")
    results = [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    ids = [m["tool_call_id"] for m in results if m.get("role") == "tool" and isinstance(m.get("tool_call_id"), str)]
    if ids and len(messages) < 1024:
        calls = [{"id": one, "function": {"name": "f"}} for one in ids]
        messages.insert(0, {"role": "assistant", "tool_calls": calls})


def keep_few(body):
    """Hundreds of texts may take longer than the deadline on a busy machine."""
    if isinstance(body.get("input"), list) and 16 < len(body["input"]) <= 2048:
        body["input"] = body["input"][:16]


COUNTER = itertools.count()


def keep_apart(headers):
    """Calls drawn apart are calls of their own: an Idempotency-Key used twice is a rightful 422."""
    for name, value in list(headers.items()):
        if name.lower() == "idempotency-key" and re.fullmatch("[!-~]{1,255}", str(value)):
            headers[name] = f"{value[:200]}-{os.getpid()}-{next(COUNTER)}"
        # The filler of a phase that does not look at the pattern; an ETag stands in quotes.
        if name.lower() == "if-match" and value == "0":
            headers[name] = '"1"'


def within(text, most):
    """maxLength counts characters, the server bytes: a text that only the latter refuses is cut."""
    is_over = isinstance(text, str) and len(text) <= most < len(text.encode())
    return text[: most // 4] if is_over else text


def keep_bytes(body):
    for name in ("name", "model", "group", "label"):
        if name in body:
            body[name] = within(body[name], 127)
    if isinstance(body.get("metadata"), dict):
        body["metadata"] = {within(k, 64): within(v, 512) for k, v in body["metadata"].items()}
    if isinstance(body.get("stop"), list):
        body["stop"] = [within(text, 256) for text in body["stop"]]
    elif "stop" in body:
        body["stop"] = within(body["stop"], 256)


def keep_true(case):
    """What a schema cannot know: which ids are in a list, and what the time is."""
    if case.query and re.fullmatch("[0-9A-Za-z_]{0,39}", str(case.query.get("after", "-"))):
        del case.query["after"]
    for name in ("expires_at", "pin_until"):
        if isinstance(case.body, dict) and is_count(case.body.get(name), int(time.time()) + 3600):
            case.body[name] += int(time.time()) + 3600


def keep_prompt(body):
    """Bytes of which the model has no token are left out; a text of nothing else has no tokens."""
    if isinstance(body.get("text"), str) and body["text"]:
        body["text"] = "a" + body["text"]
    if isinstance(body.get("groups"), list):
        body["groups"] = [within(name, 127) for name in body["groups"]]


def keep_classes(body):
    """The default class is not above the best, whatever stands there already."""
    order = ["realtime", "standard", "batch"]
    given = [body[name] for name in ("best_class", "default_class") if body.get(name) is not None]
    if not given or any(word not in order for word in given):
        return
    best, default = body.get("best_class") or "realtime", body.get("default_class") or "batch"
    body["best_class"], body["default_class"] = best, max(best, default, key=order.index)


# One key of each kind, so that whatever algorithms are drawn one is among them.
KEYS = [
    {"kid": "o", "alg": "HS256", "kty": "oct", "k": "A" * 43},
    {"kid": "d", "alg": "EdDSA", "kty": "OKP", "crv": "Ed25519",
     "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    {"kid": "e", "alg": "ES256", "kty": "EC", "crv": "P-256",
     "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
     "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
] + [
    {"kid": alg, "alg": alg, "kty": "RSA", "e": "AQAB",
     "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECP"
          "ebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY36"
          "8QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lF"
          "d2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}
    for alg in ("RS256", "PS256")
]  # fmt: skip


SCOPE = "(admin:read|admin:write|admin:keys|usage:read|metrics:read)"


def keep_admins(body):
    """A claim and its words are given together; what the schema refuses stays for the server to."""
    claim, admins = body.get("admin_claim", ""), body.get("admins", {})
    is_claim = isinstance(claim, str) and re.fullmatch(r"[^\x00-\x1f\x7f]{0,127}", claim)
    is_rule = isinstance(admins, dict) and len(admins) <= 16 and all(
        1 <= len(word) <= 64 and re.fullmatch(f"{SCOPE}( {SCOPE})*", str(scopes))
        for word, scopes in admins.items()
    )  # fmt: skip
    if is_claim and is_rule:
        for name in ("admin_claim", "admins"):
            body.pop(name, None)
        if claim and admins:
            body["admin_claim"] = within(claim, 127)
            body["admins"] = {within(word, 64): "admin:read" for word in admins}


def keep_issuer(method, body):
    """Keys that an issuer may have in place of any object, and one way to give them."""
    if isinstance(body.get("jwks"), dict) or (method == "POST" and "jwks" not in body):
        body["jwks"] = {"keys": KEYS}
    if re.fullmatch("([0-9A-Za-z_-][0-9A-Za-z._-]{0,126})?", str(body.get("jwks_file", "/"))):
        del body["jwks_file"]
    for name, most in (("issuer", 255), ("tenant_claim", 127), ("scope_claim", 127)):
        if name in body:
            body[name] = within(body[name], most)
    if isinstance(body.get("jwks_url"), str) and len(body["jwks_url"]) <= 255:
        del body["jwks_url"]  # its host is not among --jwks-hosts
    for name, least, most in (("jwks_refresh_s", 1, 86400), ("jwks_overlap_s", 0, 604800)):
        if type(body.get(name)) in (int, float) and least <= body[name] <= most:
            del body[name]  # without a URL there is nothing to fetch
    keep_admins(body)
    if isinstance(body.get("audiences"), list):
        body["audiences"] = [within(text, 127) for text in body["audiences"]]
    if isinstance(body.get("tenants"), dict):
        body["tenants"] = {within(k, 64): v for k, v in body["tenants"].items()}


def keep_import(body):
    """Rows that are right in their form keep their names alone, each once; what refers to others, or
    would be long to fill, is left out."""
    for kind in ("groups", "plans", "tenants", "issuers", "shared_prompts"):
        rows = body.get(kind)
        names = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else None
        if names is None or len(names) < len(rows) or not all(isinstance(n, str) and 0 < len(n) < 128 for n in names):
            continue
        if any(re.search("[\x00-\x1f\x7f]", name) for name in names):
            continue
        body[kind] = [{"name": name} for name in dict.fromkeys(within(name, 127) for name in names)]
        if kind in ("issuers", "shared_prompts"):
            del body[kind]
    for kind in ("prices", "certificates"):
        if isinstance(body.get(kind), list) and all(isinstance(row, dict) for row in body[kind]):
            del body[kind]
    if body.get("prune") is True:
        body["prune"] = False


def is_time(text):
    return re.fullmatch("[0-9]{1,12}", str(text)) and int(text) <= 253402300799


def keep_usage(query):
    """Questions about usage: a page is one that an answer named, the end is after the start, and how many buckets
    a page may have depends on their width."""
    if re.fullmatch("page_[0-9]{1,12}", str(query.get("page", ""))):
        del query["page"]
    if is_time(query.get("start_time")) and is_time(query.get("end_time", 0)):
        start = min(int(query["start_time"]), int(time.time()) - 1)
        query["start_time"] = start
        if "end_time" in query:
            query["end_time"] = max(int(query["end_time"]), start + 1)
    if re.fullmatch("[0-9]{1,4}", str(query.get("limit", ""))) and 31 < int(query["limit"]) <= 1440:
        query["limit"] = 31
    for name in ("model", "models"):
        if isinstance(query.get(name), list):
            query[name] = [within(word, 127) for word in query[name]]


@schemathesis.hook
def before_call(context, case, kwargs):
    # A deadline of a few milliseconds ends in a rightful 503.
    for name, value in list((case.headers or {}).items()):
        if name.lower() == "x-request-timeout-ms" and str(value).isdecimal():
            if 0 < int(value) < TIMEOUT_MS:
                case.headers[name] = str(TIMEOUT_MS)
    if isinstance(case.body, (dict, list)):
        case.body = spell_whole(case.body)
    if isinstance(case.body, dict):
        keep_bytes(case.body)
    if case.path in GENERATION and isinstance(case.body, dict):
        keep_short(case.body)
        keep_relations(case.body)
        keep_constraint(case.body)
        keep_tools(case.body)
    if case.path.endswith("/embeddings") and isinstance(case.body, dict):
        keep_few(case.body)
    if "/shared-prompts" in case.path and isinstance(case.body, dict):
        keep_prompt(case.body)
    if case.path not in GENERATION and isinstance(case.body, dict):
        keep_classes(case.body)
    if "/issuers" in case.path and isinstance(case.body, dict):
        keep_issuer(case.method, case.body)
    if case.path.endswith("/config/import") and isinstance(case.body, dict):
        keep_import(case.body)
    keep_apart(case.headers or {})
    keep_true(case)
    if ("usage" in case.path or "costs" in case.path) and case.query:
        keep_usage(case.query)
