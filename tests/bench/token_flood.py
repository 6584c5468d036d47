#!/usr/bin/env python3
"""token_flood: what a flood of bad tokens costs good requests.

usage: tests/bench/token_flood.py [--build build/release] [--rounds N] [--requests N] [--rate N]

One connection with an API key and one with a known token send one request after the other, with
pauses (gateway_load latency), alone and beside gateway_flood: RATE tokens a second, all different,
each with a valid header and claims and a wrong signature, from one address and from 256. The rounds
alternate; a figure is the median of the rounds, a ratio is beside ÷ alone. The exit status says only
that all ran.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway_bench import Bench, cpu_seconds, first_line, machine, run, shown, ROOT

PAUSE_US = 500


def token_of(bench):
    key = rsa.generate_private_key(65537, 2048)
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    tenant = bench.ask_admin("/admin/v1/tenants", {"name": "tokens"})["id"]
    bench.ask_admin("/admin/v1/issuers", {
        "name": "idp", "issuer": "https://issuer.example", "audiences": ["bench"],
        "algorithms": ["RS256"], "jwks": {"keys": [jwk | {"kid": "a", "alg": "RS256"}]},
    })  # fmt: skip
    claims = {"iss": "https://issuer.example", "aud": "bench", "tenant": tenant,
              "exp": int(time.time()) + 3600}  # fmt: skip
    return jwt.encode(claims, key, "RS256", headers={"kid": "a"})


def good(bench, key, requests):
    command = [bench.load, "latency", "--to", bench.public, "--key", key, "--unix", bench.socket,
               "--requests", requests, "--pause-us", PAUSE_US]  # fmt: skip
    return json.loads(run(command)), command


def beside(bench, edge, key, token, args, sources):
    seconds = max(2, round(args.requests * 0.001))
    command = [
        bench.build / "gateway_flood", "--to", bench.public, "--token", token, "--rate", args.rate,
        "--seconds", seconds, "--connections", 256, "--sources", sources,
    ]  # fmt: skip
    flood = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert flood.stdout.readline() == "connected\n"
    before = cpu_seconds(edge.pid)
    flood.stdin.write("go\n")
    flood.stdin.flush()
    time.sleep(0.2)
    figures, _ = good(bench, key, args.requests)
    is_whole = flood.poll() is None  # bad tokens came until the good requests had ended
    out, _ = flood.communicate()
    return figures, json.loads(out) | {"edge_cpu_s": round(cpu_seconds(edge.pid) - before, 2),
                                       "seconds": seconds, "outlasted": is_whole}, command  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=10000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="banyan-bench-") as folder:
        bench = Bench(args, folder)
        bench.about = {"machine": machine(),
                       "versions": {"banyan": first_line([ROOT / args.build / "banyan", "version"])}}  # fmt: skip
        with bench.running() as edge:
            token = token_of(bench)
            for name, key in (("apikey", bench.key), ("token", token)):
                for sources in (1, 256):
                    alone, with_bad, floods = [], [], []
                    for _ in range(args.rounds):
                        alone.append(good(bench, key, args.requests)[0]["gateway_us"])
                        figures, flood, command = beside(bench, edge, key, token, args, sources)
                        with_bad.append(figures["gateway_us"])
                        floods.append(flood)
                    line = {"good": name, "sources": sources, "rounds": args.rounds,
                            "requests": args.requests}  # fmt: skip
                    for part in ("p50", "p99"):
                        a = statistics.median(f[part] for f in alone)
                        b = statistics.median(f[part] for f in with_bad)
                        line |= {f"alone_{part}_us": a, f"beside_{part}_us": b,
                                 f"ratio_{part}": round(b / a, 2)}  # fmt: skip
                    bench.report("token_flood", line | {"floods": floods}, shown(command, token))


if __name__ == "__main__":
    sys.exit(main())
