"""Renders the chat templates of real models by jinja2 and by Banyan, and compares every byte.

    python3 tests/parity/jinja/templates.py FOLDER build/release/parity_templates

FOLDER holds *.jinja files; those of llama.cpp are in the source package `llama-cpp-python` (0.3.36:
70 of them, under vendor/llama.cpp/models/templates), which `pip download --no-deps --no-binary :all:`
fetches. They are other people's and are not in this tree. Needs jinja2 (made with 3.1.6). With
--cases FILE the cases are kept, without Banyan.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1_760_000_000  # seconds since 1970


class Generation(jinja2.ext.Extension):
    """transformers' block around what a model wrote, without its bookkeeping."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def environment():
    """As transformers makes it (utils/chat_template_utils.py, described there)."""

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.filters["from_json"] = json.loads  # not transformers'; other libraries have it
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)
    return made


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Finds the weather of a place.\nTwo lines, \"quotes\" & <tags>.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "The town's name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["place"],
        },
    },
}
NESTED = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "Bücht eine Reise – 予約",
        "parameters": {
            "type": "object",
            "properties": {
                "people": {
                    "type": "array",
                    "description": "Who travels",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "age": {"type": ["integer", "null"]},
                            "tags": {"type": "array", "items": {"type": "string"}},
                        },
                        "required": ["name"],
                    },
                },
                "budget": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 99.5},
                "express": {"type": "boolean", "default": False, "nullable": True},
                "mode": {"oneOf": [{"type": "string", "enum": ["rail", "air"]}, {"type": "integer"}]},
                "any": {},
            },
            "required": ["people", "mode"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
BARE = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def user(text="What is the weather in Ulm?"):
    return {"role": "user", "content": text}


def answer(text="It is sunny.", **more):
    return {"role": "assistant", "content": text, **more}


def system(text="You are terse."):
    return {"role": "system", "content": text}


def call(name, arguments, number=0):
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, number=0, name="get_weather"):
    return {"role": "tool", "tool_call_id": f"call{number:05}", "name": name, "content": text}


ULM = {"place": "Ulm", "unit": "celsius"}
ODD = {"a": 1.5, "b": [1, 2.0, 1e20, None, True], "c": {"d": "é\n\"'<>&", "e": {}}, "n": 123456789012345678}


def conversations():
    """(name, messages, the rest of what a request brings)"""
    one_call = [user(), answer("", tool_calls=[call("get_weather", ULM)]), result('{"t": 21}')]
    pair = [
        user("Ulm and Bonn?"),
        answer("I look.", tool_calls=[call("get_weather", ULM, 1), call("get_weather", {"place": "Bonn"}, 2)]),
        result('{"t": 21}', 1),
        result("rain", 2),
    ]
    odd = [user(), answer(None, tool_calls=[call("book", ODD, 3)]), result("done", 3, "book"), answer("Booked."), user("Thanks")]
    thought = [user(), answer("Sunny.", reasoning_content="I think\nso."), user("And now?")]
    tagged = [user(), answer("<think>\nhm\n</think>\n\nSunny."), user("And now?")]
    parts = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two\n"}]}]
    long = [m for i in range(6) for m in (user(f"question {i}"), answer(f" answer {i}\n"))]
    tools = [WEATHER, NESTED, BARE]
    documents = [{"title": "T", "text": "Some text", "doc_id": 1}, {"title": "U \"q\"", "text": "more\n"}]
    yield "user", [user()], {}
    yield "user-open", [user()], {"prompt": False}
    yield "system", [system(), user()], {}
    yield "turns", [system(), user(), answer(), user("Why?")], {}
    yield "turns-open", [user(), answer(), user("Why?"), answer("Because.")], {"prompt": False}
    yield "long", long + [user("last")], {}
    yield "unicode", [system("żółć ß ǆ"), user("日本語 🙂 é\u00a0x\u2003"), answer("ΑΒΓ"), user("İ")], {}
    yield "empty", [user(""), answer(""), user("x")], {}
    yield "blanks", [system("  a \n"), user("\n\n b\t"), answer(" c "), user(" d\n\n")], {}
    yield "tokens", [user("<|im_end|><|im_start|>system\n</s>[INST]"), answer("<|eot_id|>"), user("<start_of_turn>")], {}
    yield "nothing", [], {}
    yield "parts", parts, {}
    yield "parts-system", [{"role": "system", "content": [{"type": "text", "text": "S"}]}] + parts, {}
    yield "reasoning", thought, {}
    yield "reasoning-last", thought[:2], {"prompt": False}
    yield "think-tags", tagged, {}
    yield "thinking-off", thought, {"values": {"enable_thinking": False, "thinking": False}}
    yield "thinking-on", [system()] + thought, {"values": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}}
    yield "effort", thought, {"values": {"reasoning_effort": "low", "model_identity": "You are a tree.", "builtin_tools": ["python"]}}
    yield "tools", [user()], {"tools": tools}
    yield "tools-system", [system(), user()], {"tools": tools}
    yield "tools-none", [user()], {"tools": []}
    yield "call", one_call, {"tools": [WEATHER]}
    yield "call-answered", one_call + [answer("21 degrees."), user("Thanks!")], {"tools": [WEATHER]}
    yield "calls", [system()] + pair, {"tools": [WEATHER]}
    yield "calls-answered", pair + [answer("Sun and rain."), user("ok")], {"tools": tools}
    yield "call-odd", odd, {"tools": tools}
    yield "call-without-tools", one_call, {}
    yield "call-reasoning", [user(), answer("", reasoning_content="look it up", tool_calls=[call("get_weather", ULM)]), result("21"), answer("21."), user("So?")], {"tools": [WEATHER]}
    yield "call-text", [user(), answer("", tool_calls=[call("get_weather", '{"place": "Ulm", "x": 0.10}')]), result("21")], {"tools": [WEATHER]}
    yield "call-open", one_call[:2], {"tools": [WEATHER], "prompt": False}
    yield "documents", [user()], {"documents": documents}
    yield "documents-tools", [system(), user()], {"documents": documents, "tools": [WEATHER], "values": {"citation_mode": "fast", "controls": {"length": "long"}}}
    yield "developer", [{"role": "developer", "content": "Be kind."}, user()], {"tools": [BARE]}
    yield "odd-role", [user(), {"role": "critic", "content": "no"}, user()], {}
    yield "same-roles", [user("a"), user("b"), answer("c"), answer("d"), user("e")], {}
    yield "system-late", [user(), system("late"), user("x")], {}
    yield "names", [{"role": "user", "name": "Eva", "content": "hi"}, answer("yo"), {"role": "user", "name": "Bo", "content": "hm"}], {}
    yield "result-parts", [user(), answer("", tool_calls=[call("get_weather", ULM)]), {"role": "tool", "tool_call_id": "call00000", "content": [{"type": "text", "text": "21"}]}], {"tools": [WEATHER]}


def rendered(template, messages, more):
    """What the reference library makes of a case: text, or None when it fails."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for one in message.get("tool_calls", []):
            if isinstance(one["function"]["arguments"], str):
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    try:
        return template.render(
            messages=messages,
            tools=more.get("tools"),
            documents=more.get("documents"),
            add_generation_prompt=more.get("prompt", True),
            bos_token="<s>",
            eos_token="</s>",
            **more.get("values", {}),
        )
    except Exception as error:  # any failure of a template is a refusal
        more["error"] = f"{type(error).__name__}: {error}"
        return None


def cases(folder):
    made = environment()
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        template = made.from_string(source)
        chats = []
        for name, messages, more in conversations():
            text = rendered(template, messages, more)
            chats.append({
                "name": name,
                "messages": [json.dumps(m) for m in messages],
                **{k: json.dumps(more[k]) for k in ("tools", "documents", "values") if k in more},
                "prompt": more.get("prompt", True),
                "text": text,
                "error": more.get("error"),
            })  # fmt: skip
        yield {"name": path.stem, "source": source, "chats": chats}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("program", nargs="?")
    options.add_argument("--cases", type=pathlib.Path)
    given = options.parse_args()
    templates = list(cases(given.folder))
    file = given.cases or pathlib.Path(tempfile.mkstemp(suffix=".json")[1])
    file.write_text(json.dumps({"now_s": NOW, "templates": templates}), encoding="utf-8")
    code = 0
    if given.program:
        code = subprocess.run([given.program, file]).returncode
    if not given.cases:
        file.unlink()
    sys.exit(code)


if __name__ == "__main__":
    main()
