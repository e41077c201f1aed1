"""Record what a process of a distributed job communicates; brought in by the environment.

It imports nothing of scaffold, and torch only once the program has. What it patches is as it was
for the program: same arguments, same results, same errors.
"""

import os
import sys

from rank_recorder import ends, loading, record

FOLDER = "SCAFFOLD_DEBUG_RECORD"


def start():
    """Start recording, in a process that a watched job started."""
    folder = os.environ.get(FOLDER)
    if not folder or not os.path.isdir(folder):
        return
    record.start(folder)
    ends.watch_own_end()
    loading.watch_imports()
    argv = getattr(sys, "orig_argv", [])  # sys.argv is not set yet
    program = os.path.basename(argv[1]) if len(argv) > 1 else ""
    # A launcher passes on a rank that is not its own.
    if os.environ.get("RANK", "").isdigit() and "torchrun" not in program:
        record.current()
