"""children: starts programs for a measurement, which end with it, with their own children.

vLLM's workers outlive the process that started them and continue to compute: one such process halves
the next measurement's speed. Each program gets a process group, which is killed at the
end, also when a run is cut off by SIGTERM or loses its terminal.
"""

import atexit
import os
import signal
import subprocess
import sys
import time

for end in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(end) != signal.SIG_IGN:  # nohup ignores it
        signal.signal(end, lambda number, _: sys.exit(128 + number))


def start(command, **options):
    process = subprocess.Popen([str(c) for c in command], start_new_session=True, **options)
    atexit.register(kill, process)
    return process


def kill(process, patience_s=20):
    """Ends the whole group, whether or not its first process has ended; may be called twice. SIGTERM
    comes first, since processes that cannot clean up leave their shared memory behind."""
    asked = time.monotonic()
    try:
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < asked + patience_s:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
