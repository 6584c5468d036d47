"""others: how much of the machine other processes used during a measurement.

A process that takes 30 % of one core makes an engine with one thread on each core 1.4 times slower.
So each figure says what others used, and a round that others disturbed is repeated.
"""

import glob
import os
import time

OTHERS_MAX = 0.05  # processors; with more, a round is repeated
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL = 0, 1, 2, 5, 6, 7


def machine_s():
    with open("/proc/stat") as stat:
        ticks = [int(x) for x in stat.readline().split()[1:]]
    return TICK_S * sum(ticks[i] for i in (USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL))


def own_s():
    """Returns the processor time of this process and all its descendants, ended ones too."""
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
    """Waits until no process computes, this program's children included: some spin for a while."""
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
