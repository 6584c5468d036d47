"""Makes two tenants through the config API, publishes a system prompt to both and streams a chat answer
to each. Then it shows that a cached prefix is visible only to its owner, and that a realtime request
preempts batch work, which resumes and ends with the same text. It needs the standard library alone.
deploy/quickstart runs it, and it works against any running server:

    python3 deploy/demonstrate.py --url https://… --admin https://… --ca ca.crt --admin-key-file F
"""

import argparse
import http.client
import json
import pathlib
import re
import socket
import ssl
import threading
import time
import urllib.parse

# Some 400 tokens each: long enough that the time to compute them is seen.
TOPICS = ("invoices", "refunds", "passwords", "shipping", "warranties", "meetings", "travel", "taxes")
HANDBOOK = "You answer briefly and kindly. " + " ".join(
    f"When somebody asks about {topic}, first say what our handbook says of {topic}, then give one "
    f"example that a newcomer understands, and never promise anything about {topic} in writing."
    for topic in TOPICS
)
NOTES = " ".join(
    f"Note {i}: the meeting about {topic} moved to room {i + 7}, and its minutes are with the office "
    f"that keeps everything about {topic}; ask there before you change a word."
    for i, topic in enumerate(TOPICS)
)
PAGE_TOKENS = 16
BATCH_PROMPT, BATCH_TOKENS = 640, 300  # of one stream; its prompt may be a little longer
BATCH_MAX = 60  # streams: a server that needs more to be full shows no preemption
PUBLISH_S, PAUSE_S = 120, 300  # longest waits
PAUSE_TRIES = 3


class Api:
    """One HTTPS endpoint with a bearer key."""

    def __init__(self, url, ca, key):
        self.url = urllib.parse.urlsplit(url)
        self.context = ssl.create_default_context(cafile=ca)
        self.key = key

    def request(self, method, path, body=None):
        """An open response; raises with the server's own message when it refuses."""
        return self.send(self.connect(), method, path, body)

    def connect(self):
        connection = http.client.HTTPSConnection(
            self.url.hostname, self.url.port, context=self.context, timeout=120
        )
        connection.connect()
        return connection

    def send(self, connection, method, path, body):
        connection.request(
            method,
            path,
            body=None if body is None else json.dumps(body),
            headers={
                "authorization": f"Bearer {self.key}",
                "content-type": "application/json",
                "x-banyan-explain": "1",
            },
        )
        response = connection.getresponse()
        if response.status >= 300:
            raise SystemExit(f"{method} {path}: {response.status} {response.read().decode()}")
        return response

    def json(self, method, path, body=None):
        return json.loads(self.request(method, path, body).read())


def events(response):
    for line in response:
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield json.loads(line[6:])


def chat(model, messages, tokens, **more):
    return {
        "model": model,
        "messages": messages,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }


def ask(api, model, messages, tokens, say=lambda text: None, **more):
    """Streams one answer; its usage, and the seconds to its first token and to its end."""
    start = time.monotonic()
    first = None
    usage = {}
    body = chat(model, messages, tokens, **more)
    for event in events(api.request("POST", "/v1/chat/completions", body)):
        if "error" in event:
            raise SystemExit(f"the stream failed: {event['error']['message']}")
        for choice in event["choices"]:
            text = choice["delta"].get("content") or ""
            if text and first is None:
                first = time.monotonic()
            say(text)
        usage = event.get("usage") or usage
    end = time.monotonic()
    return usage, (first or end) - start, end - start


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


def stream_answer(api, model, question):
    """Streams one answer to standard output, then a line of its tokens and timing."""
    print(f"    > {question}\n    ", end="")
    messages = [{"role": "system", "content": HANDBOOK}, {"role": "user", "content": question}]
    usage, first, whole = ask(
        api, model, messages, 64, lambda text: print(text.replace("\n", "\n    "), end="", flush=True)
    )
    tokens = usage["completion_tokens"]
    rate = (tokens - 1) / (whole - first) if whole > first and tokens > 1 else 0
    print(
        f"\n    [{usage['prompt_tokens']} prompt tokens, {cached(usage)} of them cached; first "
        f"token after {1000 * first:.0f} ms, then {tokens} tokens at {rate:.0f}/s]"
    )


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "likes": {"enum": ["mathematics", "music", "machines"]},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


def show_row(admin, tenant_id, answer):
    """The ledger's row of an answer, which is committed before the answer's end is sent."""
    rows = admin.json("GET", f"/admin/v1/usage/requests?tenant_id={tenant_id}&limit=20")["data"]
    suffix = answer["id"].partition("-")[2]
    row = next(row for row in rows if row["request_id"].endswith(suffix))
    print(
        f"    [its row: {row['request_id']}, {row['input_tokens']} input tokens, "
        f"{row['output_tokens']} output tokens, HTTP {row['http_code']}]"
    )


def show_schema(admin, api, model, tenant_id):
    """An answer that a schema describes, and its row."""
    print("\nan answer that follows a JSON Schema, token by token")
    question = {"role": "user", "content": "Describe Ada Lovelace."}
    body = chat(model, [{"role": "system", "content": HANDBOOK}, question], 80)
    del body["stream"], body["stream_options"]
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    answer = api.json("POST", "/v1/chat/completions", body)
    text = answer["choices"][0]["message"]["content"]
    person = json.loads(text)
    if set(person) != set(PERSON["properties"]):
        raise SystemExit(f"the answer does not follow its schema: {text}")
    print(f"    {text}")
    show_row(admin, tenant_id, answer)


LAMP = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "description": "Sets the colour of the lamp",
        "parameters": {
            "type": "object",
            "properties": {"color": {"enum": ["red", "green", "blue"]}},
            "required": ["color"],
        },
    },
}


def show_call(admin, api, model, tenant_id):
    """A call of a tool, whose arguments arrive in pieces, and its row."""
    print("\na call of a tool, streamed; its arguments follow the schema of the tool")
    question = {"role": "user", "content": "Make the lamp blue, please."}
    body = chat(model, [question], 80, tools=[LAMP], tool_choice="required", parallel_tool_calls=False)
    name, pieces, finish = "", [], None
    for event in events(api.request("POST", "/v1/chat/completions", body)):
        if "error" in event:
            raise SystemExit(f"the stream failed: {event['error']['message']}")
        for choice in event["choices"]:
            finish = choice["finish_reason"] or finish
            for call in choice["delta"].get("tool_calls", ()):
                name += call["function"].get("name") or ""
                pieces.append(call["function"].get("arguments") or "")
    arguments = "".join(pieces)
    if finish != "tool_calls" or set(json.loads(arguments)) != {"color"}:
        raise SystemExit(f"the model called nothing: {name} {arguments} ({finish})")
    print(f"    {name}({arguments}), in {len(pieces)} pieces")
    show_row(admin, tenant_id, event)


def show_own_text(apis, model, stamp):
    """The same text twice from its owner, then from another tenant."""
    print("\na cached prefix is visible only to its owner")
    print("    (the first words excepted: every prompt begins as the published one does)")
    text = f"Notes of {stamp}. {NOTES}"  # of this run: nobody has sent it before
    for who, when in (("acme", "first"), ("acme", "again"), ("globex", "first")):
        messages = [{"role": "user", "content": f"{text} Which room?"}]
        usage, first, _ = ask(apis[who], model, messages, 4)
        print(
            f"    {who:6} {when}: {cached(usage):3} of {usage['prompt_tokens']} prompt tokens cached, "
            f"first token after {1000 * first:.0f} ms"
        )


class Batch(threading.Thread):
    """A stream of class batch, read by a thread of its own."""

    def __init__(self, api, model, text, seed):
        super().__init__(daemon=True)
        self.text, self.usage, self.is_paused, self.is_whole = "", {}, False, False
        messages = [{"role": "user", "content": text}]
        how = {"service_tier": "flex", "temperature": 0.8, "seed": seed, "ignore_eos": True}
        self.api, self.body = api, chat(model, messages, BATCH_TOKENS, **how)
        self.connection = api.connect()
        self.socket = self.connection.sock  # which the connection gives to its response
        self.start()

    def run(self):
        try:
            for line in self.api.send(self.connection, "POST", "/v1/chat/completions", self.body):
                self.is_paused = self.is_paused or line.startswith(b": paused")
                self.is_whole = self.is_whole or line.startswith(b"data: [DONE]")
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    self.usage = event.get("usage") or self.usage
                    for choice in event.get("choices", ()):
                        self.text += choice["delta"].get("content") or ""
        except (OSError, ValueError, http.client.HTTPException):
            pass  # leave()

    def leave(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended by itself
        self.join()


def wait_until(condition, seconds):
    """Whether it came true in time."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def pages_of(tokens):
    return -(-tokens // PAGE_TOKENS)


def held(admin, pinned):
    """KV pages of running requests, and those of the published prompt, which they share."""
    rows = admin.json("GET", "/admin/v1/requests?limit=100")["data"]
    running = [row for row in rows if row["state"] in ("prefill", "decode")]
    return pinned + sum(pages_of(row["computed_tokens"] - row["cached_tokens"]) for row in running)


def urge(api, model, stamp, number):
    """A realtime request with a text that nobody has sent: (its usage, seconds to the first token)."""
    messages = [{"role": "user", "content": f"Call {number} of {stamp}. {NOTES} {NOTES} In short?"}]
    return ask(api, model, messages, 8, service_tier="priority")[:2]


def pause(apis, model, stamp, count, is_full):
    """Fills the server and sends realtime requests: (the stream that was preempted longest or None,
    seconds to the first token of the request that preempted it)."""
    streams = [
        Batch(apis["globex"], model, f"Report {i} of {stamp}. {NOTES} {NOTES}", i) for i in range(count)
    ]

    def is_going():
        return any(stream.is_alive() for stream in streams)

    wait_until(lambda: is_full() or not is_going(), PAUSE_S)
    before = [stream for stream in streams if stream.is_paused]  # for each other's growth
    limit = time.monotonic() + PAUSE_S

    def paused():
        return [stream for stream in streams if stream.is_paused and stream not in before]

    urgent, number = 0, 0
    while not paused() and is_going() and time.monotonic() < limit:
        number += 1
        urgent = urge(apis["acme"], model, stamp, number)[1]
        wait_until(paused, 0.2)
    chosen = paused()
    for stream in streams:
        if stream not in chosen:
            stream.leave()
    for stream in chosen:
        stream.join(PAUSE_S)
    # A stream that only waited for more urgent rows hears ": paused" too, and does not count.
    whole = [s for s in chosen if s.is_whole and s.usage["banyan"]["preemptions"] > 0]
    return max(whole, key=lambda s: s.usage["banyan"]["paused_ms"], default=None), urgent


def show_pause(admin, apis, model, stamp, pinned):
    """Batch work holds all pages. A realtime request takes what it needs, and gives it back."""
    print("\na realtime request preempts batch work, which resumes and ends with the same text")
    pages = kv_pages(admin)
    # Their prompts alone are more than fits: a waiting one takes every page that becomes free.
    count = pages * PAGE_TOKENS // BATCH_PROMPT + 2
    if count > BATCH_MAX:
        print(f"    (not shown: {pages} KV pages are too many to fill; try --kv-memory 160M)")
        return
    usage, idle = urge(apis["acme"], model, stamp, 0)
    wanted = pages_of(usage["prompt_tokens"])

    def is_full():
        return held(admin, pinned) + wanted > pages

    for attempt in range(PAUSE_TRIES):
        chosen, urgent = pause(apis, model, f"{stamp}.{attempt}", count, is_full)
        if chosen is not None:
            break
    else:
        raise SystemExit("no batch stream was preempted")
    again = Batch(chosen.api, model, chosen.body["messages"][0]["content"], chosen.body["seed"])
    again.join(PAUSE_S)
    told, tokens = chosen.usage["banyan"], chosen.usage["completion_tokens"]
    if not again.is_whole or chosen.text != again.text:
        raise SystemExit("the preempted stream has another text than the same request alone")
    way = f"{told['swapped_pages']} pages kept in host memory" if told["swapped_pages"] else "recomputed"
    print(
        f"    {count} batch streams for {pages} KV pages; the realtime request's first token after "
        f"{1000 * urgent:.0f} ms, on the idle machine after {1000 * idle:.0f} ms\n"
        f"    one stream was preempted for {told['paused_ms']:.0f} ms ({way}); its {tokens} tokens are "
        f"those of the same request alone"
    )


def kv_pages(admin):
    """Pages of the server's pool, without those in host memory."""
    text = admin.request("GET", "/metrics").read().decode()
    return sum(int(n) for n in re.findall(r'^banyan_kv_pages\{state="(?!host)\w+"\} (\d+)', text, re.M))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--url", "--admin", "--ca", "--admin-key-file"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    admin = Api(args.admin, args.ca, pathlib.Path(args.admin_key_file).read_text().strip())
    stamp = time.strftime("%Y%m%d-%H%M%S") + f"-{time.time_ns() % 1000000:06d}"
    questions = {
        "acme": "What is gravity?",
        "globex": "Why is the sky blue?",
    }
    apis, ids, key = {}, [], None
    for name in questions:
        tenant = admin.json("POST", "/admin/v1/tenants", {"name": f"{name}-{stamp}"})
        made = admin.json("POST", f"/admin/v1/tenants/{tenant['id']}/keys", {"name": "quickstart"})
        key = made["key"]
        apis[name] = Api(args.url, args.ca, key)
        ids.append(tenant["id"])
    model = apis["acme"].json("GET", "/v1/models")["data"][0]["id"]
    published = {
        "name": f"handbook-{stamp}",
        "messages": [{"role": "system", "content": HANDBOOK}],
        "tenants": ids,
    }
    start = time.monotonic()
    prompt = admin.json("POST", "/admin/v1/shared-prompts", published)

    def is_over():  # an engine that has just started needs a moment
        prompt.update(admin.json("GET", f"/admin/v1/shared-prompts/{prompt['id']}"))
        return prompt["state"] != "publishing"

    if not wait_until(is_over, PUBLISH_S) or prompt["state"] != "published":
        raise SystemExit(f"the prompt was not published: {prompt.get('error')}")
    print(
        f"\npublished a system prompt to two tenants: {prompt['tokens']} tokens, computed once in "
        f"{1000 * (time.monotonic() - start):.0f} ms, kept in {prompt['pages']} pages"
    )
    for (name, question), tenant_id in zip(questions.items(), ids):
        print(f"\ntenant {name}-{stamp} ({tenant_id}), model {model}")
        stream_answer(apis[name], model, question)
    show_schema(admin, apis["acme"], model, ids[0])
    show_call(admin, apis["acme"], model, ids[0])
    show_own_text(apis, model, stamp)
    show_pause(admin, apis, model, stamp, prompt["pages"])
    # Its pages are pinned until it is unpublished, and the next run publishes its own.
    admin.request("DELETE", f"/admin/v1/shared-prompts/{prompt['id']}").read()
    print(
        f"""
Call it yourself, with curl:

curl --cacert {args.ca} {args.url}/v1/chat/completions \\
  -H 'authorization: Bearer {key}' -H 'content-type: application/json' \\
  -d '{{"model":"{model}","messages":[{{"role":"user","content":"Hi"}}],"stream":true}}'

or with the official client (pip install openai):

SSL_CERT_FILE={args.ca} python3 -c '
from openai import OpenAI
client = OpenAI(base_url="{args.url}/v1", api_key="{key}")
print(client.chat.completions.create(model="{model}",
      messages=[{{"role": "user", "content": "Hi"}}]).choices[0].message.content)'
"""
    )


if __name__ == "__main__":
    main()
