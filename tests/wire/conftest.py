"""One real server for the whole suite; the ways to speak to it below HTTP libraries are in wire_kit."""

import importlib.util
import os
import sys

import pytest

from wire_kit import Door

E2E = os.path.join(os.path.dirname(__file__), "..", "e2e", "conftest.py")
spec = importlib.util.spec_from_file_location("e2e_conftest", E2E)
e2e = importlib.util.module_from_spec(spec)
sys.modules["e2e_conftest"] = e2e
spec.loader.exec_module(e2e)
Server = e2e.Server


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs minutes, or the speed of a release build")
    config.addinivalue_line("markers", "long: takes many seconds; not in tests/run --quick")
    config.addinivalue_line("markers", "all: only tests/run --all has the time for it")


OPEN = ["--connections-per-address", "0", "--connects-per-address-s", "0", "--handshakes-s", "0"]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    # The suite comes from one address and opens connections by the hundred: test_addresses has
    # servers of its own with the limits as they are.
    server = Server(
        tmp_path_factory.mktemp("wire") / "data",
        *OPEN,
    )  # fmt: skip
    yield server
    assert server.stop() == 0, server.log_text()[-4000:]
    assert "AddressSanitizer" not in server.log_text(), server.log_text()[-8000:]
    assert "runtime error:" not in server.log_text(), server.log_text()[-8000:]


@pytest.fixture(scope="session")
def key(server):
    return server.tenant("wire")[1]


@pytest.fixture(scope="session")
def door(server, key):
    """The public listener, for raw bytes."""
    return Door(server, key)


@pytest.fixture(autouse=True)
def still_serves(request):
    """After each attack a well-behaved client is served, on both protocols, and nothing runs."""
    yield
    if "door" in request.fixturenames:
        door = request.getfixturevalue("door")
        door.assert_serves()
