"""Keys of issuers from a URL: a real HTTPS server with a certificate authority of its own, the edge
in its sandbox (--sandbox required): rotation without a failed request, sources that fail in every
way, a start without them.
"""

import datetime
import http.server
import ipaddress
import json
import os
import pathlib
import shutil
import ssl
import tempfile
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conftest import USERS, Server, wait_until
from test_tokens import Issuer, ask, jwk_of, key_of



def certificate(folder, name, signer=None):
    """A pair for localhost and 127.0.0.1, by itself or by `signer` (certificate, key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
        .issuer_name(signer[0].subject if signer else subject)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(signer is None, None), critical=True)
    )  # fmt: skip
    if signer:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(signer[1] if signer else key, hashes.SHA256())
    (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                          serialization.NoEncryption())
    )  # fmt: skip
    (folder / f"{name}.crt").chmod(0o644)
    return made, key


class Source:
    """Where keys are: answers with `keys`, or as `answer` says."""

    def __init__(self, folder, name):
        self.keys = []
        self.answer = None  # (code, headers, body), or "drop"
        self.asked = 0
        source = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                source.asked += 1
                if source.answer == "drop":
                    return
                code, headers, body = source.answer or (200, {}, json.dumps({"keys": source.keys}))
                self.send_response(code)
                for header, value in headers.items():
                    self.send_header(header, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that do not trust the certificate leave

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self.server.server_address[1]
        self.url = f"https://localhost:{self.port}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Keyed(Issuer):
    """An issuer whose keys are at a URL."""

    def __init__(self, server, name, source, **fields):
        super().__init__(server, name)
        body = {"jwks_url": source.url, "algorithms": ["EdDSA", "RS256"], "jwks_refresh_s": 1}
        self.change(**(body | fields))

    def state(self):
        with self.server.admin() as admin:
            return admin.get(f"/admin/v1/issuers/{self.id}").json()


@pytest.fixture(scope="module")
def place():
    """A directory that the edge's user can reach, whoever runs the tests."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-keys-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sources(place):
    ours = certificate(place, "ca")
    other = certificate(place, "other-ca")
    certificate(place, "keys", ours)
    certificate(place, "stranger", other)
    return {name: Source(place, name) for name in ("keys", "stranger")}


def start(place, sources):
    hosts = ",".join(f"localhost:{source.port}" for source in sources.values())
    return Server(place / "d", "--sandbox", "required", *USERS, "--jwks-hosts", hosts,
                  "--jwks-ca", place / "ca.crt", log_dir=place)  # fmt: skip


@pytest.fixture(scope="module")
def keyed(place, sources):
    """[server]: a test may put another one in its place."""
    held = [start(place, sources)]
    yield held
    assert held[0].stop() == 0, held[0].log_text()[-4000:]


def test_rotation_without_a_failed_request(keyed, sources):
    """Clients ask all the time, each with the newest token or with the oldest that must still be
    taken, while the issuer takes a new key from one moment to the next, three times."""
    source = sources["keys"]
    first = key_of("EdDSA")
    source.keys = [jwk_of("EdDSA", first, "k0")]
    issuer = Keyed(keyed[0], "rotating", source, jwks_refresh_s=86400)
    tokens = [issuer.token("EdDSA", key=first, kid="k0")]
    assert ask(keyed[0], tokens[0]).status_code == 200  # it waited for the keys
    stop, answers = threading.Event(), [[], [], []]

    def run(number):
        with keyed[0].http() as client:
            while not stop.is_set():
                # The second client keeps to the old one: the overlap is for it.
                token = tokens[0] if number == 1 else tokens[-1]
                answer = client.get("/v1/me", headers={"authorization": f"Bearer {token}"})
                answers[number].append((answer.status_code, answer.text))

    def wait_for_all():
        seen = [len(mine) for mine in answers]
        wait_until(lambda: all(len(a) > s + 5 for a, s in zip(answers, seen)), 120)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_for_all()
    for number in range(1, 4):
        key = key_of("EdDSA")
        source.keys = [jwk_of("EdDSA", key, f"k{number}")]  # the old one is gone at once
        if number > 1:  # a token's unknown key has them asked once a minute: now the clock does
            issuer.change(jwks_refresh_s=1)
            wait_until(lambda: f"k{number}" in [k["kid"] for k in issuer.state()["keys"]])
        tokens.append(issuer.token("EdDSA", key=key, kid=f"k{number}"))
        wait_for_all()
    stop.set()
    for thread in threads:
        thread.join()
    wrong = [one for mine in answers for one in mine if one[0] != 200]
    assert not wrong, wrong[:3]
    state = issuer.state()
    assert [k["kid"] for k in state["keys"] if "until" not in k] == ["k3"], state
    assert {k["kid"] for k in state["keys"] if "until" in k} == {"k0", "k1", "k2"}, state
    # Without an overlap they are gone with the next set.
    issuer.change(jwks_overlap_s=0)
    source.keys = [jwk_of("EdDSA", key_of("EdDSA"), "k4")]
    wait_until(lambda: "k4" in [k["kid"] for k in issuer.state()["keys"]])
    wait_until(lambda: ask(keyed[0], tokens[-1]).status_code == 401)


@pytest.mark.long
def test_sources_that_fail(keyed, sources):
    """Whatever comes instead of keys: the last good ones stay, and the state says why."""
    source = sources["keys"]
    key = key_of("RS256")
    source.keys = [jwk_of("RS256", key, "a")]
    issuer = Keyed(keyed[0], "failing", source)
    assert ask(keyed[0], issuer.token("RS256", key=key, kid="a")).status_code == 200
    good = json.dumps({"keys": [jwk_of("RS256", key_of("RS256"), "evil")]})
    weak = {"kty": "RSA", "kid": "w", "alg": "RS256", "n": "AQAB" * 43, "e": "AQAB"}
    cases = [
        ((500, {}, good), "answered with HTTP 500"), ((404, {}, ""), "answered with HTTP 404"),
        ((302, {"location": source.url + "?2"}, good), "answered with HTTP 302"),
        ((200, {}, "<html>"), "no JSON object"), ((200, {}, '{"keys":[]}'), "No key in jwks"),
        ((200, {}, json.dumps({"keys": [weak]})), "jwks.keys[0]"),
        ((200, {}, good + " " * 70000), "length cannot be right"), ("drop", "ended before"),
    ]  # fmt: skip
    for answer, words in cases:
        source.answer = answer
        wait_until(lambda: words in (issuer.state()["jwks_error"] or ""), what=words)
        assert [k["kid"] for k in issuer.state()["keys"]] == ["a"]
        assert ask(keyed[0], issuer.token("RS256", key=key, kid="a")).status_code == 200
    assert keyed[0].metric("banyan_issuers_failing") >= 1
    assert keyed[0].metric('banyan_issuer_key_fetches_total{result="failed"}') >= len(cases)
    assert "issuer_keys_unread" in keyed[0].log_text()
    source.answer = None
    wait_until(lambda: issuer.state()["jwks_error"] is None)
    assert issuer.state()["jwks_fetched_at"] >= time.time() - 60


def test_whose_certificate_is_not_trusted(keyed, sources):
    issuer = Keyed(keyed[0], "stranger", sources["stranger"])
    sources["stranger"].keys = [jwk_of("EdDSA", issuer.keys["EdDSA"], "EdDSA")]
    wait_until(lambda: "is not trusted" in (issuer.state()["jwks_error"] or ""))
    answer = ask(keyed[0], issuer.token("EdDSA"))
    assert answer.status_code == 503 and "could not be read yet" in answer.text
    assert sources["stranger"].asked == 0  # not a byte of a request


def test_hosts_that_are_not_named(keyed, sources):
    issuer = Issuer(keyed[0], "elsewhere")
    source = sources["keys"]
    wrong = [
        (f"https://127.0.0.1:{source.port}/", 403), ("https://localhost/keys", 403),
        (f"http://localhost:{source.port}/", 403), ("https://169.254.169.254/latest", 403),
        (f"https://localhost:{source.port}@evil.example/", 400), ("file:///etc/passwd", 400),
        (keyed[0].admin_url + "/admin/v1/tenants", 403), (source.url + "#f", 400),
    ]  # fmt: skip
    with keyed[0].admin() as admin:
        for url, code in wrong:
            body = {"jwks_url": url, "algorithms": ["EdDSA"]}
            answer = admin.patch(f"/admin/v1/issuers/{issuer.id}", json=body)
            assert answer.status_code == code, (url, answer.text)
            assert answer.json()["error"]["param"] == "jwks_url", answer.text
        body = {"jwks_url": source.url, "algorithms": ["HS256"]}
        answer = admin.patch(f"/admin/v1/issuers/{issuer.id}", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "algorithms"


def test_a_start_without_the_source(place, keyed, sources):
    """The last good keys are used until it is back; an issuer that never had any has none."""
    source = sources["keys"]
    key = key_of("EdDSA")
    source.keys = [jwk_of("EdDSA", key, "kept")]
    issuer = Keyed(keyed[0], "restarted", source)
    assert ask(keyed[0], issuer.token("EdDSA", key=key, kid="kept")).status_code == 200
    source.answer = "drop"
    assert keyed[0].stop() == 0
    keyed[0] = issuer.server = start(place, sources)
    assert ask(keyed[0], issuer.token("EdDSA", key=key, kid="kept")).status_code == 200
    late = Keyed(keyed[0], "late", source)
    answer = ask(keyed[0], late.token("EdDSA", key=key, kid="kept"))
    assert answer.status_code == 503, answer.text
    source.answer = None
    wait_until(lambda: ask(keyed[0], late.token("EdDSA", key=key, kid="kept")).status_code == 200)
