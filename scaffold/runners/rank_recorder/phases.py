"""Measure memory at the ends of the phases of a step, and set no counter of the program back."""

import os
import resource
import sys


class Phases:
    """A meter of what forward passes, backward passes and optimizer steps hold.

    It reads torch's counters of the accelerator, else the resident set of the process. Peaks only
    grow, so of each phase it keeps by how much it raised the peak.
    """

    def __init__(self):
        self._name = ""
        self._begin = (0, 0)
        self._meter = ""
        self.rows = {}

    def enter(self, name):
        """End the phase that is open, and begin another one."""
        meter, held, peak = read()
        if self._name and meter == self._meter:
            self._add(held, peak)
        self._name, self._begin, self._meter = name, (held, peak), meter

    def close(self):
        """End the phase that is open, as where memory ran out in it."""
        self.enter("")

    def to_json(self):
        """Return the rows by phase, and what was measured."""
        return {"meter": self._meter, "rows": self.rows}

    def _add(self, held, peak):
        row = self.rows.setdefault(
            self._name, {"times": 0, "begin": 0, "end": 0, "raised": 0, "peak": 0}
        )
        begin, before = self._begin
        row["times"] += 1
        row["begin"], row["end"] = max(row["begin"], begin), max(row["end"], held)
        if peak > before:
            row["raised"] += peak - before
            row["peak"] = peak


def read():
    """Return what is measured, and the bytes that are held now and were at the most."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        held, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        return torch.cuda.get_device_name(), held, peak
    return "process", *_resident()


def _resident():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak, peak  # in bytes; what is held now is not told without other packages
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    # The kernel counts the peak in KiB, and rounds both.
    return held, max(held, peak * 1024)
