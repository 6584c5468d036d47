"""Structured output and tools of real client libraries. test_clients.py runs it with a Python that
has them, and gives the server's address, key, model and CA, and maybe the one library whose modes
run. It prints a line for each mode."""

import json
import os
import ssl
import sys
from typing import Literal, Optional

import httpx
from pydantic import BaseModel

URL, KEY, MODEL, CA = sys.argv[1:5]
CONTEXT = ssl.create_default_context(cafile=CA)
os.environ.update(SSL_CERT_FILE=CA, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=URL)
ASKED = "Bob is 3 years old."


class Person(BaseModel):
    age: int
    name: Literal["Bob", "Eve"]
    kind: Optional[Literal["a", "b"]] = None


def client():
    return httpx.Client(verify=CONTEXT, timeout=120)


def openai_client():
    import openai

    return openai.OpenAI(base_url=URL, api_key=KEY, http_client=client(), max_retries=0)


MESSAGES = [{"role": "user", "content": ASKED}]
TOOL = {"type": "function", "function": {"name": "Person", "parameters": Person.model_json_schema()}}


def openai_parse():
    answer = openai_client().chat.completions.parse(
        model=MODEL, messages=MESSAGES, response_format=Person, max_tokens=200
    )
    assert isinstance(answer.choices[0].message.parsed, Person)


def openai_stream():
    with openai_client().chat.completions.stream(
        model=MODEL, messages=MESSAGES, response_format=Person, max_tokens=200
    ) as stream:
        answer = stream.get_final_completion()
    assert isinstance(answer.choices[0].message.parsed, Person)


def openai_tools():
    import openai

    choice = {"type": "function", "function": {"name": "Person"}}
    tool = openai.pydantic_function_tool(Person)
    answer = openai_client().chat.completions.parse(
        model=MODEL, messages=MESSAGES, tools=[tool], tool_choice=choice, max_tokens=200
    )
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person)


def openai_tools_stream():
    arguments = ""
    for chunk in openai_client().chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=[TOOL], tool_choice="required", max_tokens=200,
        parallel_tool_calls=False, stream=True,
    ):  # fmt: skip
        for choice in chunk.choices:
            for piece in choice.delta.tool_calls or []:
                arguments += piece.function.arguments or ""
    Person.model_validate_json(arguments)


def langchain(method):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, http_client=client(), max_tokens=200, max_retries=0)
    found = model.with_structured_output(Person, method=method).invoke(ASKED)
    assert isinstance(found, Person), found


def langchain_tools():
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, http_client=client(), max_tokens=200, max_retries=0)
    answer = model.bind_tools([TOOL], tool_choice="any", parallel_tool_calls=False).invoke(ASKED)
    Person.model_validate(answer.tool_calls[0]["args"])


def instructor_mode(name):
    import instructor

    made = instructor.from_openai(openai_client(), mode=instructor.Mode[name])
    found = made.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_model=Person, max_tokens=200, max_retries=0
    )
    assert isinstance(found, Person)


def pydantic_ai(kind):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    made = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0,
                       http_client=httpx.AsyncClient(verify=CONTEXT, timeout=120))  # fmt: skip
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=made))
    output = {"tool": ToolOutput, "native": NativeOutput}[kind](Person)
    settings = {"max_tokens": 200, "parallel_tool_calls": False}
    found = Agent(model, output_type=output, model_settings=settings if kind == "tool" else {"max_tokens": 200}).run_sync(ASKED)
    assert isinstance(found.output, Person)


def llama_index():
    from llama_index.core.prompts import PromptTemplate
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(model=MODEL, api_base=URL, api_key=KEY, is_chat_model=True, is_function_calling_model=True,
                     max_tokens=200, http_client=client(), max_retries=0)  # fmt: skip
    found = llm.structured_predict(Person, PromptTemplate(ASKED))
    assert isinstance(found, Person)


def litellm_schema():
    import litellm

    litellm.client_session = client()
    answer = litellm.completion(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=MESSAGES,
                                response_format=Person, max_tokens=200)  # fmt: skip
    Person.model_validate(json.loads(answer.choices[0].message.content))


def litellm_tools():
    import litellm

    litellm.client_session = client()
    answer = litellm.completion(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=MESSAGES, tools=[TOOL],
                                tool_choice={"type": "function", "function": {"name": "Person"}}, max_tokens=200)  # fmt: skip
    Person.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)


MODES = [
    ("openai", "parse", openai_parse), ("openai", "stream", openai_stream),
    ("openai", "tools", openai_tools), ("openai", "tools streamed", openai_tools_stream),
    *[("langchain", method, lambda m=method: langchain(m)) for method in ("json_schema", "function_calling")],
    ("langchain", "tools", langchain_tools),
    *[("instructor", mode, lambda m=mode: instructor_mode(m)) for mode in ("TOOLS", "JSON_SCHEMA")],
    *[("pydantic-ai", kind, lambda k=kind: pydantic_ai(k)) for kind in ("tool", "native")],
    ("llama-index", "structured", llama_index),
    ("litellm", "schema", litellm_schema), ("litellm", "tools", litellm_tools),
]  # fmt: skip

wanted = sys.argv[5:]
MODES = [mode for mode in MODES if not wanted or mode[0] in wanted]
passed = 0
for library, mode, run in MODES:
    try:
        run()
        print(f"pass {library} {mode}")
        passed += 1
    except Exception as error:
        print(f"FAIL {library} {mode}: {type(error).__name__}: {str(error)[:300]}")
print(f"{passed} of {len(MODES)} modes of live clients pass")
sys.exit(passed != len(MODES))
