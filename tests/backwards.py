"""A plugin of pytest that runs the tests in the opposite order: tests/run --all loads it. The usual order
is held by tests/run. A test that leans on what another has made, or has left behind, falls in one of them.
"""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.reverse()
