"""Client certificates (mutual TLS): whose they are, who is refused and why, revocation on open
connections, a certificate beside a key, admins. Certificates are real and made here."""

import contextlib
import datetime
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from conftest import BINARY, USERS, Server, limits_hold, wait_until

NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
HOUR = datetime.timedelta(hours=1)
URI, DNS = x509.UniformResourceIdentifier, x509.DNSName


class Made:
    """A certificate with its key, and a file of both and of those above it."""

    def __init__(self, folder, name, above=None, names=(), is_authority=False, start=-HOUR,
                 end=24 * HOUR, usage=ExtendedKeyUsageOID.CLIENT_AUTH, rsa_bits=0):  # fmt: skip
        self.key = (
            rsa.generate_private_key(65537, rsa_bits) if rsa_bits
            else ec.generate_private_key(ec.SECP256R1())
        )  # fmt: skip
        self.above = above
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder().subject_name(subject)
            .issuer_name(above.cert.subject if above else subject)
            .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(NOW + start).not_valid_after(NOW + end)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )  # fmt: skip
        if not is_authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self.cert = builder.sign(above.key if above else self.key, hashes.SHA256())
        self.pem = self.cert.public_bytes(serialization.Encoding.PEM)
        self.fingerprint = self.cert.fingerprint(hashes.SHA256()).hex()
        self.path = folder / f"{name}.pem"
        chain, at = self.pem, above
        while at is not None and at.above is not None:  # but for the root
            chain, at = chain + at.pem, at.above
        self.path.write_bytes(chain + self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ))  # fmt: skip


def revocation_list(authority, *revoked):
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.cert.subject)
    builder = builder.last_update(NOW - HOUR).next_update(NOW + 24 * HOUR)
    for made in revoked:
        row = x509.RevokedCertificateBuilder().serial_number(made.cert.serial_number)
        builder = builder.add_revoked_certificate(row.revocation_date(NOW - HOUR).build())
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client(server, made=None, key=None, base=None, http2=False):
    """A client that shows a certificate (one without sees no reason to)."""
    context = ssl.create_default_context(cafile=server.ca)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # the server must be the one that refuses
    if made is not None:
        context.load_cert_chain(made.path)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=base or server.url, verify=context, headers=headers, timeout=120,
                        http2=http2, trust_env=False)  # fmt: skip


def ask(server, made=None, key=None, path="/v1/me", **more):
    with client(server, made, key, **more) as http:
        return http.get(path)


class World:
    """Two authorities, one of tenants and one of admins, and a server that knows them."""

    def __init__(self, folder):
        self.folder = folder
        self.root = Made(folder, "root", is_authority=True)
        self.admins = Made(folder, "admins", is_authority=True)
        self.ca, self.admin_ca, self.crl = folder / "ca", folder / "admin-ca", folder / "crl"
        self.ca.write_bytes(self.root.pem)
        self.admin_ca.write_bytes(self.admins.pem)
        self.write_lists()
        self.server = None

    def write_lists(self, *revoked):
        text = revocation_list(self.root, *revoked) + revocation_list(self.admins)
        beside = self.folder / "crl.new"
        beside.write_bytes(text)
        beside.rename(self.crl)

    def start(self, mode, *more):
        self.server = Server(
            self.folder / "data", "--client-cert", mode, "--client-ca", self.ca,
            "--admin-client-cert", mode, "--admin-client-ca", self.admin_ca, *USERS, *more,
        )  # fmt: skip

    def made(self, name, **fields):
        return Made(self.folder, name, fields.pop("above", self.root), **fields)

    def row(self, tenant_id=None, code=201, **fields):
        base = f"/admin/v1/tenants/{tenant_id}" if tenant_id else "/admin/v1"
        with self.server.admin() as admin:
            answer = admin.post(f"{base}/certificates", json=fields)
        assert answer.status_code == code, answer.text
        return answer.json()

    def refusals(self, why):
        return self.server.metric(
            f'banyan_client_certificates_refused_total{{listener="public",why="{why}"}}'
        )


@pytest.fixture(scope="module")
def world():
    """In a folder that the edge's own user can reach."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-certificates-", dir="/tmp"))
    folder.chmod(0o755)
    world = World(folder)
    world.start("optional")
    yield world
    assert world.server.stop() == 0, world.server.log_text()[-4000:]
    shutil.rmtree(folder)


def test_a_certificate_is_the_credential(world):
    server = world.server
    tenant_id, key, _ = server.tenant("cert-one")
    other_id, other_key, _ = server.tenant("cert-two")
    made = world.made("one")
    answer = ask(server, made)
    assert answer.status_code == 401 and "nobody's here" in answer.json()["error"]["message"]
    row = world.row(tenant_id, label="laptop", fingerprint=made.fingerprint.upper())
    assert row["id"].startswith("crt_") and row["fingerprint"] == made.fingerprint
    for http2 in (False, True):
        answer = ask(server, made, http2=http2)
        assert answer.status_code == 200, answer.text
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.json()["tenant"]["id"] == tenant_id
        assert answer.json()["key"]["id"] == row["id"]
        assert answer.json()["key"]["name"] == "laptop"
    # A header decides, whatever the certificate; a wrong one is not mended by it.
    assert ask(server, made, other_key).json()["tenant"]["id"] == other_id
    assert ask(server, made, key).json()["key"]["id"].startswith("key_")
    assert ask(server, made, "sk-by-wrong").status_code == 401
    assert ask(server, None, key).status_code == 200
    assert ask(server).status_code == 401
    # No header carries a certificate.
    with client(server) as http:
        for name in ("x-forwarded-client-cert", "x-ssl-client-cert", "ssl-client-cert"):
            assert http.get("/v1/me", headers={name: made.pem.hex()}).status_code == 401
    # What it uses is counted under its row.
    with client(server, made) as http:
        answer = http.post("/v1/generate", json={"prompt": "Once", "max_tokens": 3, "temperature": 0})
        assert answer.status_code == 200, answer.text
        now = int(NOW.timestamp())
        usage = http.get(f"/v1/usage?start_time={now - 86400}&bucket_width=1d&group_by=key").json()
    rows = [row for bucket in usage["data"] for row in bucket["results"]]
    assert sum(r["output_tokens"] for r in rows if r["key_id"] == row["id"]) >= 3, rows
    # Scopes are the row's.
    with server.admin() as admin:
        path = f"/admin/v1/tenants/{tenant_id}/certificates/{row['id']}"
        assert admin.patch(path, json={"scopes": ["usage:read"]}).status_code == 200
    with client(server, made) as http:
        answer = http.post("/v1/generate", json={"prompt": "Once", "max_tokens": 1})
        assert answer.status_code == 403, answer.text


def test_limits_of_whoever_it_is(world):
    """Whoever a certificate stands for is held to its plan, and to the certificate's own limits beside it."""
    server = world.server
    tenant_id, _, _ = server.tenant("cert-limited")
    made = world.made("limited")
    key_id = world.row(tenant_id, fingerprint=made.fingerprint)["id"]

    def generate():
        with client(server, made) as http:
            return http.post("/v1/generate", json={"prompt": "Once upon a time", "max_tokens": 1})

    limits_hold(server, tenant_id, key_id, generate)


def test_each_is_refused_for_its_own_reason(world):
    server, make = world.server, world.made
    tenant_id, key, _ = server.tenant("cert-reasons")
    stranger = Made(world.folder, "stranger", is_authority=True)
    deep = world.root
    for level in range(4):
        deep = Made(world.folder, f"deep-{level}", deep, is_authority=True)
    cases = [
        ("expired", make("expired", start=-48 * HOUR, end=-HOUR), "has expired"),
        ("not_yet_valid", make("early", start=HOUR), "not valid yet"),
        ("self_signed", Made(world.folder, "self"), "self-signed"),
        ("unknown_authority", make("foreign", above=stranger), "not signed by an authority"),
        ("purpose", make("server", usage=ExtendedKeyUsageOID.SERVER_AUTH), "not for client authent"),
        ("is_authority", make("authority", is_authority=True), "a certificate authority"),
        ("chain_too_long", make("deep", above=deep), "chain is too long"),
        ("weak", make("weak", rsa_bits=1024), "too weak"),
        ("bad_name", make("nul", names=[URI("urn:a\0b")]), "characters that a name"),
        ("bad_name", make("nul-dns", names=[DNS("a.example\0.b")]), "characters that a name"),
        ("many_names", make("many", names=[DNS(f"n{i}.example") for i in range(17)]), "too many"),
    ]  # fmt: skip
    for why, made, words in cases:
        world.row(tenant_id, fingerprint=made.fingerprint)  # a row does not help
        before = world.refusals(why)
        with client(server, made) as http:
            for headers in ({}, {"authorization": f"Bearer {key}"}):  # nor does a key
                answer = http.get("/v1/me", headers=headers)
                assert answer.status_code == 401, (why, answer.text)
                error = answer.json()["error"]
                assert error["code"] == "invalid_client_certificate", (why, error)
                assert words in error["message"], (why, error)
        assert world.refusals(why) >= before + 1
    assert ask(server, make("fifteen", names=[DNS(f"m{i}.example") for i in range(16)])).json()[
        "error"]["code"] == "invalid_api_key"  # fmt: skip
    for why, _, _ in cases:  # a thread writes the log
        wait_until(lambda why=why: f'"reason":"{why}"' in server.log_text(), 30, why)
    log = server.log_text()
    assert "urn:a" not in log and "m3.example" not in log


def test_names(world):
    server = world.server
    one, _, _ = server.tenant("names-one")
    two, _, _ = server.tenant("names-two")
    world.row(one, uri="spiffe://example.org/agent")
    row = world.row(two, dns="Agent.Example.ORG")
    assert row["dns"] == "agent.example.org"
    for number, (names, tenant_id) in enumerate([
        ([URI("spiffe://example.org/agent")], one),
        ([DNS("x.example.org"), URI("spiffe://example.org/agent")], one),
        ([DNS("AGENT.example.org")], two),
        ([DNS("*.example.org")], None), ([DNS("*")], None), ([DNS("example.org")], None),
        ([URI("spiffe://example.org/Agent")], None), ([URI("spiffe://example.org/agent/")], None),
        ([DNS("spiffe")], None), ([], None),
    ]):  # fmt: skip
        made = world.made(f"names-{number}", names=names)
        answer = ask(server, made)
        assert answer.status_code == (200 if tenant_id else 401), (names, answer.text)
        assert not tenant_id or answer.json()["tenant"]["id"] == tenant_id
    both = world.made("both", names=[URI("spiffe://example.org/agent"), DNS("agent.example.org")])
    answer = ask(server, both)
    assert answer.status_code == 401 and "more than one row" in answer.json()["error"]["message"]
    world.row(two, fingerprint=both.fingerprint)  # its own row decides
    assert ask(server, both).json()["tenant"]["id"] == two
    # The name as the subject's common name alone is none.
    assert ask(server, world.made("agent.example.org")).status_code == 401
    for fields in ({"dns": "*.example.org"}, {"uri": "no uri"}, {"fingerprint": "ab"}, {},
                   {"uri": "urn:a", "dns": "a"}, {"dns": "a", "scopes": ["admin:read"]},
                   {"dns": "a", "expires_at": 1}, {"subject": "CN=a"}):  # fmt: skip
        world.row(one, code=400, **fields)
    world.row(one, code=409, dns="agent.example.org")
    world.row("tnt_nobody", code=404, dns="a.example")


def test_revoked_at_once_on_open_connections(world):
    server = world.server
    tenant_id, _, _ = server.tenant("cert-revoked")
    other_id, _, _ = server.tenant("cert-given-again")
    made, sister = (world.made(f"rev-{i}", names=[URI("urn:rev")]) for i in range(2))
    row = world.row(tenant_id, uri="urn:rev")
    base = f"/admin/v1/tenants/{tenant_id}"
    with server.admin() as admin, client(server, made) as http, client(server, sister) as second:
        assert http.get("/v1/me").status_code == second.get("/v1/me").status_code == 200
        # One of the two by a row of its own; the other goes on.
        own = world.row(tenant_id, fingerprint=made.fingerprint)
        assert http.get("/v1/me").json()["key"]["id"] == own["id"]
        assert admin.delete(f"{base}/certificates/{own['id']}").status_code == 200
        answer = http.get("/v1/me")
        assert answer.status_code == 401 and "is revoked" in answer.json()["error"]["message"]
        assert second.get("/v1/me").status_code == 200
        world.row(tenant_id, code=409, fingerprint=made.fingerprint)  # for ever
        assert admin.patch(base, json={"state": "suspended"}).status_code == 200
        assert second.get("/v1/me").status_code == 403
        assert admin.patch(base, json={"state": "active"}).status_code == 200
        assert second.get("/v1/me").status_code == 200
        path = f"{base}/certificates/{row['id']}"
        etag = admin.get(path).headers["etag"]
        assert admin.delete(path, headers={"if-match": '"9"'}).status_code == 412
        assert admin.delete(path, headers={"if-match": etag}).json()["revoked_at"] is not None
        assert second.get("/v1/me").status_code == 401
        assert admin.patch(path, json={"label": "x"}).status_code == 409
        world.row(other_id, uri="urn:rev")  # a name may be given again
        assert second.get("/v1/me").json()["tenant"]["id"] == other_id
        listed = admin.get(f"{base}/certificates?order=desc&limit=1").json()
        assert listed["has_more"] and listed["data"][0]["id"] == own["id"]


def test_admins(world):
    server = world.server
    made = world.made("admin", above=world.admins)
    url = server.admin_url
    tenant_id, _, _ = server.tenant("cert-admins")
    tenants = world.made("not-an-admin")
    assert ask(server, made, path="/admin/v1/tenants", base=url).status_code == 401
    row = world.row(fingerprint=made.fingerprint, scopes=["admin:read", "admin:write"])
    with client(server, made, base=url) as http:
        assert http.get("/admin/v1/tenants").status_code == 200
        answer = http.post("/admin/v1/tenants", json={"name": "made-by-certificate"})
        assert answer.status_code == 201, answer.text
        answer = http.post("/admin/v1/admin-keys", json={"scopes": ["admin:read"]})
        assert answer.status_code == 403
        body = {"dns": "x.example", "scopes": ["admin:keys"]}
        assert http.post("/admin/v1/certificates", json=body).status_code == 403
        audit = http.get("/admin/v1/audit?order=desc&limit=1").json()["data"][0]
        assert audit["actor"]["id"] == row["id"], audit
        assert audit["actor"]["type"] == "certificate" and audit["actor"]["subject"] is None, audit
        used = http.get(f"/admin/v1/certificates/{row['id']}").json()["last_used_at"]
        assert used >= row["created_at"] and row["last_used_at"] is None
        with server.admin() as admin:
            assert admin.delete(f"/admin/v1/certificates/{row['id']}").status_code == 200
        assert http.get("/admin/v1/tenants").status_code == 401
        assert http.post("/admin/v1/tenants", json={"name": "never"}).status_code == 401
    # A tenant's does not open the config API: another authority's; nor an admin's the tenants'.
    assert ask(server, tenants, path="/admin/v1/tenants", base=url).status_code == 401
    shared = world.made("shared", above=world.admins)
    world.row(tenant_id, fingerprint=shared.fingerprint)
    answer = ask(server, shared, path="/admin/v1/tenants", base=url)
    assert "config API" in answer.json()["error"]["message"]
    assert ask(server, made).status_code == 401


@pytest.fixture
def started_again(world):
    """The world for a test that starts its server otherwise; the tests after it find it as it was."""
    yield world
    assert world.server.stop() == 0, world.server.log_text()[-4000:]
    world.start("optional")


def test_required_and_read_again(started_again):
    """After a restart: certificates are required and lists are read, inside the sandbox; SIGHUP reads
    all again, for connections that are open, too, and refuses what it cannot read."""
    world = started_again
    server = world.server
    one, key, _ = server.tenant("required-one")
    _, other_key, _ = server.tenant("required-two")
    made, bad, nobodys = (world.made(f"required-{i}") for i in range(3))
    admin_made = world.made("required-admin", above=world.admins)
    for cert in (made, bad):
        world.row(one, fingerprint=cert.fingerprint)
    world.row(fingerprint=admin_made.fingerprint, scopes=["admin:read", "metrics:read"])
    assert server.stop() == 0
    world.start("required", "--client-crl", world.crl, "--sandbox", "required")
    server = world.server
    server.context.load_cert_chain(admin_made.path)  # for what the tests ask as admins
    for path in ("/v1/me", "/health"):
        answer = ask(server, None, key, path=path)
        assert answer.status_code == 401, answer.text
        assert "a client certificate is required" in answer.json()["error"]["message"].lower()
    assert ask(server, made).json()["tenant"]["id"] == one
    assert ask(server, made, key).json()["key"]["id"].startswith("key_")
    for cert, used in ((made, other_key), (nobodys, key)):
        answer = ask(server, cert, used)
        assert answer.status_code == 403, answer.text
        assert "not the same tenant's" in answer.json()["error"]["message"]
    # The program of admins, with a certificate alone.
    done = subprocess.run(
        [BINARY, "admin", "certificate", "list", "--url", server.admin_url, "--ca", server.ca,
         "--cert", admin_made.path],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and admin_made.fingerprint in done.stdout, done.stderr
    with client(server, bad) as open_one, client(server, made) as other:
        assert open_one.get("/v1/me").status_code == other.get("/v1/me").status_code == 200
        world.write_lists(bad)
        os.kill(server.child("edge"), signal.SIGHUP)
        wait_until(lambda: open_one.get("/v1/me").status_code == 401, 60)
        assert "revoked by its authority" in open_one.get("/v1/me").json()["error"]["message"]
        assert other.get("/v1/me").status_code == 200
        assert ask(server, bad).status_code == 401
        # Nothing of a broken set is taken, though its first file is fine.
        refused = server.log_text().count('"reload_refused"')
        world.write_lists()
        world.admin_ca.write_bytes(b"no certificate")
        os.kill(server.child("edge"), signal.SIGHUP)
        wait_until(lambda: server.log_text().count('"reload_refused"') > refused, 60)
        assert open_one.get("/v1/me").status_code == 401
        assert other.get("/v1/me").status_code == 200
        world.admin_ca.write_bytes(world.admins.pem)
        os.kill(server.child("edge"), signal.SIGHUP)
        wait_until(lambda: ask(server, bad).status_code == 200, 60)


def test_options_that_say_nothing_are_refused(world):
    ca = world.ca
    for options, words in (
        (["--client-cert", "on", "--client-ca", ca], "off, optional or required"),
        (["--client-cert", "optional"], "given together"),
        (["--client-ca", ca], "given together"),
        (["--admin-client-cert", "required"], "given together"),
        (["--client-crl", world.crl], "of no use"),
        (["--client-cert", "optional", "--client-ca", world.folder / "none"], "cannot be used"),
        (["--client-cert", "optional", "--client-ca", ca, "--client-crl", ca], "cannot be used"),
    ):
        with contextlib.closing(open(world.folder / "refused.log", "w+")) as log:
            done = subprocess.run(
                [BINARY, "edge", "--data-dir", world.folder / "refused", "--listen", "127.0.0.1:0",
                 "--admin-listen", "127.0.0.1:0", *options],
                stdout=log, stderr=log, timeout=120,
            )  # fmt: skip
            log.seek(0)
            text = log.read()
        assert done.returncode != 0 and words in text, (options, text)
