"""TLS at the door: versions, renegotiation, sessions that belong to one listener, plain text, and
what testssl.sh has to say.
"""

import json
import socket
import ssl
import struct
import subprocess
import urllib.parse

import pytest

from wire_kit import Closed


def context_of(door, version=None, alpn=("http/1.1",)):
    context = ssl.create_default_context(cafile=door.ca)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(list(alpn))
    return context


def connect(context, address, session=None):
    plain = socket.create_connection(address, timeout=120)
    return context.wrap_socket(plain, server_hostname="localhost", session=session)


def request(tls, key):
    tls.sendall(
        f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    )
    return tls.recv(65536)


def test_plain_text_on_the_tls_port(door):
    with socket.create_connection(door.address, timeout=120) as sock:
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = sock.recv(4096)
        except ConnectionError:
            answer = b""
        assert not answer.startswith(b"HTTP/"), "nothing is said in plain text"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_does_not_cross_listeners(door, version):
    """A session (or ticket) of the public listener opens no resumed session at the admins'."""
    url = urllib.parse.urlsplit(door.server.admin_url)
    context = context_of(door, version)
    with connect(context, door.address) as tls:
        assert request(tls, door.key).startswith(b"HTTP/1.1 200")
        session = tls.session
    with connect(context, (url.hostname, url.port), session) as tls:
        assert not tls.session_reused
        tls.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert tls.recv(65536).startswith(b"HTTP/1.1 200")


def test_unknown_alpn(door):
    """A client that speaks neither protocol gets no other one."""
    context = context_of(door, alpn=("spdy/3", "http/1.0"))
    try:
        with connect(context, door.address) as tls:
            assert tls.selected_alpn_protocol() is None
            assert request(tls, door.key).startswith(b"HTTP/1.1 200")
    except ssl.SSLError as error:
        assert "ALPN" in str(error).upper() or "NO_APPLICATION_PROTOCOL" in str(error).upper()


def client(door, *options, words=b"", seconds=120):
    host, port = door.address
    return subprocess.run(
        ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", str(door.ca), *options],
        input=words, capture_output=True, timeout=seconds,
    )  # fmt: skip


def test_renegotiation_is_refused(door):
    """A client's renegotiation costs the server a handshake each: refused, the connection ends."""
    host, port = door.address
    run = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", str(door.ca)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = b""
    while b"Extended master secret" not in said:
        line = run.stdout.readline()
        assert line, said
        said += line
    run.stdin.write(b"R\n")
    run.stdin.flush()
    rest = run.communicate(timeout=120)[0]
    assert b"RENEGOTIATING" in rest and b"error" in rest and run.returncode != 0, rest


def test_early_data_is_not_offered(door):
    run = client(door, "-tls1_3", "-alpn", "http/1.1", words=b"")
    said = (run.stdout + run.stderr).decode(errors="replace")
    assert "Max Early Data: 0" in said or "Max Early Data" not in said


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\xff\xff" + b"\x00" * 100, b"\x80\x2e\x01\x00\x02" + b"\x00" * 60,
     b"\x15\x03\x03\x00\x02\x02\x28", b"\x17\x03\x03\x00\x05hello", b"\x16\x03\x01\x00\x00" * 100,
     b"\x14\x03\x03\x00\x01\x01", bytes(range(256)) * 4],
    ids=repr,
)  # fmt: skip
def test_records_that_are_none(door, data):
    with socket.create_connection(door.address, timeout=120) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        except ConnectionError:
            pass


def test_cut_in_the_middle_of_an_answer(door):
    """The client's socket dies without a close_notify: the server sees it and forgets it."""
    before = door.server.descriptors("banyan-edge") if door.server.child("banyan-edge") else None
    for _ in range(50):
        wire = door.h1()
        body = json.dumps(door.chat(stream=True, max_tokens=200)).encode()
        wire.send(wire.head("POST", "/v1/chat/completions", [f"Content-Length: {len(body)}"]) + body)
        linger = struct.pack("ii", 1, 0)
        wire.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        wire.tls.close()
    assert before is None or before > 0


# testssl.sh: what it may say above INFO, and why that is as it should be.
ACCEPTED = {
    "cert_trust": "the certificate is made by the server's own authority",
    "cert_chain_of_trust": "the same",
    "cert_commonName": "names stand in the alternative names",
    "cert_certificatePolicies_EV": "no extended validation",
    "cert_crlDistributionPoints": "an authority of one machine publishes no revocations",
    "cert_revocation": "the same",
    "cert_ocspURL": "the same",
    "OCSP_stapling": "the same",
    "cert_mustStapleExtension": "the same",
    "DNS_CAArecord": "no domain",
    "certificate_transparency": "no public authority",
    "cert_notAfter": "made for long, since nobody renews it",
    "cert_expirationStatus": "the same",
    "cert_extlifeSpan": "the same",
    "BREACH": "answers are not compressed",
    "HSTS": "an API, not a site that browsers visit",
    "security_headers": "the same",
    "banner_server": "none",
    "engine_problem": "the tool misses an engine of its openssl",
    "RC4": "the tool's openssl cannot ask for it; TLS 1.2 suites are named one by one",
    "sessionresumption": "the tool's question fails now and then; resumption is tested above",
}


@pytest.mark.slow
def test_testssl(door, tmp_path):
    """No finding of LOW or above but those named, each with its reason."""
    host, port = door.address
    out = tmp_path / "testssl.json"
    subprocess.run(
        ["testssl", "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--fast",
         "-p", "-s", "-f", "-U", "-S", "--jsonfile", str(out), f"{host}:{port}"],
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    findings = json.loads(out.read_text())
    assert len(findings) > 40, "the tool has looked"
    bad = [
        (row["id"], row["severity"], row["finding"]) for row in findings
        if row["severity"] not in ("OK", "INFO", "DEBUG")
        and not any(row["id"].startswith(name) for name in ACCEPTED)
    ]  # fmt: skip
    assert not bad, bad
    protocols = {row["id"]: row["finding"] for row in findings}
    for old in ("SSLv2", "SSLv3", "TLS1", "TLS1_1"):
        assert "not offered" in protocols[old], (old, protocols[old])
    assert "offered" in protocols["TLS1_2"] and "offered" in protocols["TLS1_3"]


def test_closed_by_a_bad_record(door):
    """A broken record in the middle of a connection ends it."""
    with door.h1() as wire:
        assert wire.ask(wire.head()).code == 200
        raw = socket.socket(fileno=wire.tls.detach())
        raw.settimeout(120)
        raw.sendall(b"\x17\x03\x03\x00\x20" + b"\x00" * 32)
        try:
            while raw.recv(4096):
                pass
        except (ConnectionError, Closed):
            pass
        raw.close()
        wire.tls = raw
