"""idle_streams: live heap of the gateway for each open, silent stream, and that all of it is freed.

    tests/bench/idle_streams.py [--streams 9500] [--prompt-bytes 1024] [--binary build/release/banyan]

An engine that computes nothing (bench_upstream) holds every stream open after its first frame, so that
all that the edge needs is counted: TLS, request, job, connection to the engine. A stream takes two
descriptors at the edge and one here.
"""

import argparse
import json
import pathlib
import re
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def ask(url, context, key, body=None):
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {key}")
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        return answer.read().decode()


class Gateway:
    """An edge in front of bench_upstream, with one tenant's key."""

    def __init__(self, binary, folder, *options):
        socket_path = folder / "engine.sock"
        upstream = binary.parent / "bench_upstream"
        self.upstream = subprocess.Popen([upstream, socket_path], stdout=subprocess.PIPE, text=True)
        assert self.upstream.stdout.readline() == "ready\n"
        self.log = open(folder / "edge.log", "w")
        self.edge = subprocess.Popen(
            [str(part) for part in (
                binary, "edge", "--socket", socket_path, "--data-dir", folder / "data",
                "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *options,
            )], stdout=self.log, stderr=self.log,
        )  # fmt: skip
        text = ""
        while "edge_ready" not in text:
            assert self.edge.poll() is None, text
            time.sleep(0.05)
            text = (folder / "edge.log").read_text()
        line = next(line for line in text.splitlines() if "edge_ready" in line)
        self.url = "https://" + re.search(r'"listen":"([^"]+)"', line).group(1)
        self.admin_url = "https://" + re.search(r'"admin_listen":"([^"]+)"', line).group(1)
        self.context = ssl.create_default_context(cafile=folder / "data/tls/ca.crt")
        self.admin_key = (folder / "data/admin.key").read_text().strip()
        tenant = json.loads(self.admin("/admin/v1/tenants", {"name": "bench"}))
        made = self.admin(f"/admin/v1/tenants/{tenant['id']}/keys", {"name": "bench"})
        self.key = json.loads(made)["key"]

    def admin(self, path, body=None):
        return ask(self.admin_url + path, self.context, self.admin_key, body)

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.admin("/metrics"), re.M).group(1))

    def rss(self):
        status = pathlib.Path(f"/proc/{self.edge.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def stop(self):
        self.edge.terminate()
        code = self.edge.wait(60)
        self.upstream.terminate()
        self.upstream.wait(10)
        self.log.close()
        return code


def settled(gateway):
    """Returns the least heap in two seconds, when buffers of data under way are freed."""
    return min(gateway.metric("banyan_heap_bytes") for _ in range(20) if not time.sleep(0.1))


def open_streams(gateway, count, prompt_bytes):
    host, port = gateway.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=None, cadata=None)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    body = json.dumps({
        "model": "bench", "stream": True, "seed": 1, "max_tokens": 2,
        "messages": [{"role": "user", "content": "a" * prompt_bytes}],
    }).encode()  # fmt: skip
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    streams = []
    for _ in range(count):
        plain = socket.create_connection((host, int(port)))
        tls = context.wrap_socket(plain)
        tls.sendall(head + body)
        streams.append(tls)
    for tls in streams:
        assert tls.recv(4096).startswith(b"HTTP/1.1 200"), "a stream was not opened"
    return streams


# All clients come from one address, as fast as they can.
LIFTED = ["--connections-per-address", 0, "--connects-per-address-s", 0, "--handshakes-s", 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=9500)
    parser.add_argument("--prompt-bytes", type=int, default=1024)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/banyan")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(
            options.binary, pathlib.Path(folder), "--max-connections", options.streams + 200,
            *LIFTED,
        )  # fmt: skip
        open_streams(gateway, 50, options.prompt_bytes).clear()  # allocates what is allocated once
        time.sleep(1)
        before, rss_before = settled(gateway), gateway.rss()
        streams = open_streams(gateway, options.streams, options.prompt_bytes)
        during, rss_during = settled(gateway), gateway.rss()
        for tls in streams:
            tls.close()
        streams.clear()
        limit = time.monotonic() + 30
        while gateway.metric("banyan_requests_running") > 0 and time.monotonic() < limit:
            time.sleep(0.2)
        after = settled(gateway)
        code = gateway.stop()
    figures = {
        "streams": options.streams,
        "prompt_bytes": options.prompt_bytes,
        "live_heap_bytes_a_stream": round((during - before) / options.streams),
        "resident_bytes_a_stream": round((rss_during - rss_before) / options.streams),
        "live_heap_bytes_left": round(after - before),
        "exit": code,
    }
    print(json.dumps(figures, indent=1))
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
