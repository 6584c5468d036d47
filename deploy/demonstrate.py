"""Makes two tenants through the config API and streams a chat answer to each, with the standard
library alone. Run by deploy/quickstart; works against any running server:

    python3 deploy/demonstrate.py --url https://… --admin https://… --ca ca.crt --admin-key-file F
"""

import argparse
import http.client
import json
import pathlib
import ssl
import time
import urllib.parse


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


def stream_answer(api, model, question):
    """Streams one answer to standard output, then a line of its tokens and timing."""
    print(f"    > {question}\n    ", end="")
    start = time.monotonic()
    first = None
    usage = {}
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 64,
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
            print(text.replace("\n", "\n    "), end="", flush=True)
        usage = event.get("usage") or usage
    end = time.monotonic()
    tokens = usage["completion_tokens"]
    rate = (tokens - 1) / (end - first) if first is not None and end > first and tokens > 1 else 0
    print(
        f"\n    [{usage['prompt_tokens']} prompt + {tokens} answer tokens; first token after "
        f"{1000 * ((first or end) - start):.0f} ms, then {rate:.0f} tokens/s]"
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
    key = model = None
    for name, question in questions.items():
        tenant = admin.json("POST", "/admin/v1/tenants", {"name": f"{name}-{stamp}"})
        made = admin.json("POST", f"/admin/v1/tenants/{tenant['id']}/keys", {"name": "quickstart"})
        key = made["key"]
        api = Api(args.url, args.ca, key)
        model = api.json("GET", "/v1/models")["data"][0]["id"]
        print(f"\ntenant {tenant['name']} ({tenant['id']}), model {model}")
        stream_answer(api, model, question)
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
