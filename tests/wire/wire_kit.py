"""Raw HTTP/1.1 and HTTP/2 over TLS: bytes as an attacker would send them, answers as they come."""

import dataclasses
import json
import socket
import ssl
import struct
import time

import hpack
import httpx

MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 0x20
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
CANCEL = 8


@dataclasses.dataclass
class Answer:
    code: int
    headers: dict
    body: bytes

    def error(self):
        return json.loads(self.body)["error"]


class Closed(Exception):
    """The server has closed the connection."""


class Wire:
    """One TLS connection and what has been read from it."""

    def __init__(self, door, protocol, timeout=120, source=None):
        """`source` is the address to come from: loopback has sixteen million."""
        plain = socket.create_connection(
            door.address, timeout=120, source_address=(source, 0) if source else None
        )
        context = ssl.create_default_context(cafile=door.ca)
        context.set_alpn_protocols([protocol])
        self.tls = context.wrap_socket(plain, server_hostname="localhost")
        assert self.tls.selected_alpn_protocol() == protocol
        self.tls.settimeout(timeout)
        self.buffer = b""

    def send(self, data):
        try:
            self.tls.sendall(data)
        except (ConnectionError, ssl.SSLError, BrokenPipeError) as error:
            raise Closed() from error

    def more(self):
        try:
            data = self.tls.recv(65536)
        except (ConnectionError, ssl.SSLError) as error:
            if isinstance(error, TimeoutError):
                raise
            data = b""
        if data == b"":
            raise Closed()
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def take_until(self, mark):
        while mark not in self.buffer:
            self.more()
        return self.take(self.buffer.index(mark) + len(mark))

    def is_closed(self, seconds=120):
        """True when the server ends the connection within that time; what it says is dropped."""
        limit = time.monotonic() + seconds
        try:
            while time.monotonic() < limit:
                self.tls.settimeout(max(0.01, limit - time.monotonic()))
                self.buffer = b""
                self.more()
        except Closed:
            return True
        except TimeoutError:
            pass
        return False

    def close(self):
        self.tls.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class H1(Wire):
    """HTTP/1.1 by hand."""

    def __init__(self, door, timeout=120, source=None):
        super().__init__(door, "http/1.1", timeout, source)
        self.door = door

    def head(self, method="GET", path="/v1/models", headers=(), host="localhost"):
        lines = [f"{method} {path} HTTP/1.1"]
        if host is not None:
            lines.append(f"Host: {host}")
        lines.append(f"Authorization: Bearer {self.door.key}")
        lines += headers
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def answer(self):
        """The next answer; raises Closed when the connection ends before it is whole."""
        head = self.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        code = int(head[0].split()[1])
        headers = {}
        for line in head[1:]:
            if line:
                name, value = line.split(":", 1)
                headers[name.lower()] = value.strip()
        if code == 100:
            return self.answer()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                size = int(self.take_until(b"\r\n"), 16)
                body += self.take(size)
                self.take(2)
                if size == 0:
                    return Answer(code, headers, body)
        if "content-length" in headers:
            return Answer(code, headers, self.take(int(headers["content-length"])))
        body = b""
        try:
            while True:
                self.more()
        except Closed:
            body, self.buffer = self.buffer, b""
        return Answer(code, headers, body)

    def ask(self, data):
        self.send(data)
        return self.answer()


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class H2(Wire):
    """HTTP/2 by hand: frames as given, whether they are right or not."""

    def __init__(self, door, settings=b"", timeout=120, window=None, source=None):
        super().__init__(door, "h2", timeout, source)
        self.door = door
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.next_stream = 1
        self.goaway = None
        data = PREFACE + frame(SETTINGS, payload=settings)
        if window is not None:
            data += frame(WINDOW_UPDATE, payload=struct.pack(">I", window))
        self.send(data)

    def stream(self):
        stream = self.next_stream
        self.next_stream += 2
        return stream

    def fields(self, method="GET", path="/v1/models", extra=(), key=True):
        fields = [
            (":method", method), (":scheme", "https"), (":authority", "localhost"),
            (":path", path),
        ]  # fmt: skip
        if key:
            fields.append(("authorization", f"Bearer {self.door.key}"))
        return fields + list(extra)

    def block(self, fields):
        return self.encoder.encode(fields, huffman=False)

    def headers(self, stream, fields=None, end_stream=True):
        flags = END_HEADERS | (END_STREAM if end_stream else 0)
        return frame(HEADERS, flags, stream, self.block(fields or self.fields()))

    def frame(self):
        """The next frame: (kind, flags, stream, payload). SETTINGS and PINGs are answered."""
        head = self.take(9)
        payload = self.take(int.from_bytes(head[:3], "big"))
        kind, flags = head[3], head[4]
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK))
        if kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        return kind, flags, stream, payload

    def answer(self, stream):
        """The answer on a stream; a number when the stream was reset with it; raises Closed."""
        headers, body = {}, b""
        while True:
            kind, flags, at, payload = self.frame()
            if kind == HEADERS:
                decoded = {str(k): str(v) for k, v in self.decoder.decode(payload)}
                if at == stream:
                    headers = decoded
            elif at != stream:
                continue
            elif kind == DATA:
                body += payload
                if payload:
                    self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
                    if not flags & END_STREAM:
                        more = struct.pack(">I", len(payload))
                        self.send(frame(WINDOW_UPDATE, 0, stream, more))
            elif kind == RST_STREAM:
                return int.from_bytes(payload, "big")
            if at == stream and kind in (HEADERS, DATA) and flags & END_STREAM:
                return Answer(int(headers[":status"]), headers, body)

    def ask(self, fields=None, body=None):
        stream = self.stream()
        data = self.headers(stream, fields, end_stream=body is None)
        if body is not None:
            data += frame(DATA, END_STREAM, stream, body)
        self.send(data)
        return self.answer(stream)

    def end(self, seconds=120):
        """The error code of the GOAWAY that ends the connection; None when it ends without one,
        and an assertion when it does not end."""
        limit = time.monotonic() + seconds
        try:
            while time.monotonic() < limit:
                self.tls.settimeout(max(0.01, limit - time.monotonic()))
                self.frame()
        except Closed:
            return self.goaway
        except TimeoutError:
            pass
        raise AssertionError("the connection goes on")

    def is_alive(self):
        """A well-formed request on the same connection is answered."""
        answer = self.ask()
        return isinstance(answer, Answer) and answer.code == 200


class Door:
    """Where to knock, and what must hold after each attack."""

    def __init__(self, server, key):
        host, port = server.url.removeprefix("https://").split(":")
        self.server = server
        self.address = (host, int(port))
        self.ca = server.ca
        self.key = key

    def h1(self, **kwargs):
        return H1(self, **kwargs)

    def h2(self, **kwargs):
        return H2(self, **kwargs)

    def chat(self, **fields):
        return {
            "model": MODEL_NAME, "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 4, "temperature": 0, **fields,
        }  # fmt: skip

    def assert_serves(self):
        for http2 in (False, True):
            with self.server.http(self.key, http2=http2) as http:
                assert http.get("/v1/models").status_code == 200

    def steps(self):
        return self.server.engine_stats()["steps"]

    def heap(self):
        return self.server.metric("banyan_heap_bytes")


__all__ = [name for name in dir() if not name.startswith("_")] + ["httpx"]
