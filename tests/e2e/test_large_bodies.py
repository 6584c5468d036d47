"""Large bodies: refused or forwarded, they leave no heap behind and hold nobody up."""

import json
import socket
import threading
import time
import urllib.parse

import pytest

from conftest import MODEL_NAME, Server, wait_until

CHAT = "/v1/chat/completions"
BODY_LIMIT = 4 * 1024 * 1024
SPARE_BYTES = 1024 * 1024  # less than one of the bodies: what a round may leave in caches
OTHERS_S = 15.0  # a liveness bound; the figure itself is the bench's to tell


def filled(start, piece, end, size=BODY_LIMIT - 64):
    count = (size - len(start) - len(end)) // len(piece)
    return (start + piece * count + end).encode()


HUGE = {
    "braces": (filled('{"messages":[', "{},", "{}]}"), 400, "values"),
    "numbers": (filled('{"messages":[', "1,", "1]}"), 400, "values"),
    "levels": (filled('{"messages":', "[", ""), 400, "nested"),
    "string": (filled('{"messages":"', "x", ""), 400, "not valid JSON"),
    "key": (filled('{"', "x", '":1}'), 400, "name is too long"),
    "fields": (filled("{", '"a":1,', '"b":1}'), 400, "twice"),
    "utf8": (filled('{"messages":"', "x", '"}')[:-2] + b'\xff"}', 400, "UTF-8"),
    "prompt": (
        filled(
            json.dumps({"model": MODEL_NAME, "max_tokens": 1})[:-1]
            + ',"messages":[{"role":"user","content":"', "word ", '"}]}',
        ), 400, "context",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("large") / "data", "--memory-limit", "64M")
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]


@pytest.fixture(scope="module")
def own_key(own):
    return own.tenant("large")[1]


@pytest.fixture(scope="module")
def other_key(own):
    return own.tenant("other")[1]


def heap(server):
    """The heap once it has settled: requests that were answered are freed a turn later."""
    time.sleep(0.1)
    return min(server.metric("banyan_heap_bytes") for _ in range(3))


def post(http, body):
    return http.post(CHAT, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
def test_refused_and_the_heap_is_flat(own, own_key, name, http2):
    body, status, sentence = HUGE[name]
    with own.http(own_key, http2=http2) as http:
        assert post(http, body).status_code == status  # caches and connections are made here
        before = heap(own)
        for _ in range(3):
            response = post(http, body)
            assert response.status_code == status, response.text
            assert sentence in response.json()["error"]["message"]
        wait_until(lambda: heap(own) - before < SPARE_BYTES, what=f"the heap's return to {before}")


def test_ten_mebibytes_are_refused_before_they_are_read(own, own_key):
    before = heap(own)
    with own.http(own_key) as http:
        for _ in range(3):
            try:
                assert post(http, b" " * 10 * 1024 * 1024).status_code == 413
            except Exception as error:  # refused while it was still writing
                assert "413" in str(error) or "reset" in str(error) or "broken" in str(error).lower()
    wait_until(lambda: heap(own) - before < SPARE_BYTES, what=f"the heap's return to {before}")


def test_others_go_on_meanwhile(own, own_key, other_key):
    """Four clients send huge bodies without a pause; small requests are answered all the while."""
    ends = threading.Event()
    sent = []

    def flood(name):
        with own.http(own_key) as http:
            while not ends.is_set():
                sent.append(post(http, HUGE[name][0]).status_code)

    threads = [threading.Thread(target=flood, args=(n,)) for n in ("braces", "string", "key", "utf8")]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(sent) >= 4, what="the flood's start")
        with own.http(other_key) as http:
            slowest = 0
            for _ in range(20):
                start = time.monotonic()
                assert http.get("/v1/models").status_code == 200
                slowest = max(slowest, time.monotonic() - start)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert set(sent) <= {400, 429, 503}  # its own share: at the door (503), or of the edge (429)
    assert slowest < OTHERS_S


def test_a_get_with_a_large_body_that_leaves(own, own_key):
    """Such a body has no meaning; who leaves behind it leaves nothing that is still to be sent."""
    body = b"x" * 1024 * 1024  # the engine's socket takes a part of it at once
    url = urllib.parse.urlsplit(own.url)
    head = (
        f"GET /v1/models HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {own_key}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()
    for _ in range(10):
        with socket.create_connection((url.hostname, url.port), timeout=60) as plain:
            with own.context.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(head + body)
    with own.http(own_key) as http:
        wait_until(lambda: http.request("GET", "/v1/models", content=body).status_code == 200)


@pytest.mark.slow  # and a sanitizer's allocator does not tell its heap
def test_large_ones_are_refused_over_the_share(own, own_key, other_key):
    """More bodies at once than a tenant may hold of 64 MiB: some are refused, on their way in or when they are
    whole (429, or 503 when there is no room at all); another tenant's requests are answered, small and large, then all is as before."""
    families = {
        429: ("banyan_memory_share_refused_total", 'banyan_uploads_refused_total{listener="public",why="own_share"}'),
        503: ("banyan_memory_refused_total", 'banyan_uploads_refused_total{listener="public",why="full"}'),
    }

    def counted(code):
        return sum(own.metric(name) for name in families[code])

    already = {code: counted(code) for code in families}
    before = heap(own)
    codes = []
    stream = json.dumps(
        {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    )

    def one():
        with own.http(own_key) as http:
            codes.append(post(http, HUGE["prompt"][0]).status_code)

    for _ in range(60):
        threads = [threading.Thread(target=one) for _ in range(16)]
        for thread in threads:
            thread.start()
        with own.http(other_key) as http:
            assert post(http, stream).status_code == 200
            assert post(http, HUGE["prompt"][0]).status_code == 400
        for thread in threads:
            thread.join()
        if {429, 503} & set(codes):
            break
    assert 400 in codes and {429, 503} & set(codes) and set(codes) <= {400, 429, 503}, codes
    for code in families:
        assert counted(code) - already[code] == codes.count(code), codes
    wait_until(lambda: heap(own) - before < SPARE_BYTES, what="the heap's return")
