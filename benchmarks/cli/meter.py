"""Runs one command to its end and writes what it took: ``meter.py FILE PROGRAM [ARGUMENT ...]``.

It is a process of its own and imports next to nothing, because a child begins as a copy of its
parent, whose memory the system counts as the child's.
"""

import os
import sys


def main() -> None:
    """Write exit status, CPU seconds of the process and of all it waited for, and peak memory."""
    file, *command = sys.argv[1:]
    _, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
    peak_kb = usage.ru_maxrss / 1024 if sys.platform == "darwin" else usage.ru_maxrss
    cpu_s = usage.ru_utime + usage.ru_stime
    with open(file, "w") as out:
        out.write(f"{os.waitstatus_to_exitcode(status)} {cpu_s} {peak_kb / 1024}")


main()
