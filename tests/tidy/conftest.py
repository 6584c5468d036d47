def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes many seconds; not in tests/run --quick")
    config.addinivalue_line("markers", "all: only tests/run --all has the time for it")
