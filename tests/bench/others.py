"""others: how much of the machine others used while something was measured.

A neighbour that takes 30 % of one core costs an engine with a thread a core 1.4 times: a figure
says beside whom it was taken, and a round beside others is taken again.
"""

import glob
import os
import time

OTHERS_MAX = 0.05  # processors: more, and a round is taken again
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL = 0, 1, 2, 5, 6, 7


def machine_s():
    with open("/proc/stat") as stat:
        ticks = [int(x) for x in stat.readline().split()[1:]]
    return TICK_S * sum(ticks[i] for i in (USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL))


def own_s():
    """Processor time of this process, its children and theirs, those that have ended too."""
    parents, ticks = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.split("/")[2])
        parents[pid] = int(fields[1])
        ticks[pid] = sum(int(x) for x in fields[11:15])
    total = 0
    for pid in ticks:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        total += ticks[pid] if above == os.getpid() else 0
    return TICK_S * total


def settle(most_s=10, window_s=0.3):
    """Waits until nobody computes, this program's other children neither: some spin for a while."""
    limit = time.monotonic() + most_s
    while time.monotonic() < limit:
        before = machine_s()
        time.sleep(window_s)
        if machine_s() - before <= 0.1 * window_s:
            return


class Others:
    """`with Others() as others: …`; then others.share is in processors, 0.05 = 5 % of one."""

    def __enter__(self):
        self.begin = (time.monotonic(), machine_s(), own_s())
        return self

    def __exit__(self, *_):
        wall, machine, own = self.begin
        took = time.monotonic() - wall
        used = (machine_s() - machine) - (own_s() - own)
        self.share = round(max(0.0, used) / took, 3) if took > 0 else 0.0
