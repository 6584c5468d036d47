"""Makes two tenants through the config API, publishes a system prompt to both, streams a chat answer to
each, and shows that a tenant's own text is found again by that tenant alone. With the standard
library alone; run by deploy/quickstart, works against any running server:

    python3 deploy/demonstrate.py --url https://… --admin https://… --ca ca.crt --admin-key-file F
"""

import argparse
import http.client
import json
import pathlib
import ssl
import time
import urllib.parse

# Some 400 tokens each: long enough that computing them is seen beside everything else.
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


class Api:
    """One HTTPS endpoint with a bearer key."""

    def __init__(self, url, ca, key):
        self.url = urllib.parse.urlsplit(url)
        self.context = ssl.create_default_context(cafile=ca)
        self.key = key

    def request(self, method, path, body=None):
        """An open response; raises with the server's own message when it refuses."""
        connection = http.client.HTTPSConnection(
            self.url.hostname, self.url.port, context=self.context, timeout=120
        )
        connection.request(
            method,
            path,
            body=None if body is None else json.dumps(body),
            headers={"authorization": f"Bearer {self.key}", "content-type": "application/json"},
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


def ask(api, model, messages, tokens, say=lambda text: None):
    """Streams one answer; its usage, and the seconds to its first token and to its end."""
    start = time.monotonic()
    first = None
    usage = {}
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
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
        f"\n    [{usage['prompt_tokens']} prompt tokens, {cached(usage)} of them computed before; first "
        f"token after {1000 * first:.0f} ms, then {tokens} tokens at {rate:.0f}/s]"
    )


def show_own_text(apis, model, stamp):
    """The same text twice by its owner, then by somebody else."""
    print("\na text that one tenant sends is found again by that tenant alone")
    print("    (but for its first words: every prompt begins as the published one does)")
    text = f"Notes of {stamp}. {NOTES}"  # of this run: nobody has sent it before
    for who, when in (("acme", "first"), ("acme", "again"), ("globex", "first")):
        messages = [{"role": "user", "content": f"{text} Which room?"}]
        usage, first, _ = ask(apis[who], model, messages, 4)
        print(
            f"    {who:6} {when}: {cached(usage):3} of {usage['prompt_tokens']} prompt tokens computed "
            f"before, first token after {1000 * first:.0f} ms"
        )


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
    while prompt["state"] == "publishing":  # the engine of a server that has just started
        time.sleep(0.05)
        prompt = admin.json("GET", f"/admin/v1/shared-prompts/{prompt['id']}")
    if prompt["state"] != "published":
        raise SystemExit(f"the prompt was not published: {prompt['error']}")
    print(
        f"\npublished a system prompt to two tenants: {prompt['tokens']} tokens, computed once in "
        f"{1000 * (time.monotonic() - start):.0f} ms, kept in {prompt['pages']} pages"
    )
    for (name, question), tenant_id in zip(questions.items(), ids):
        print(f"\ntenant {name}-{stamp} ({tenant_id}), model {model}")
        stream_answer(apis[name], model, question)
    show_own_text(apis, model, stamp)
    # Its pages are pinned until it is taken back: the next run publishes its own.
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
