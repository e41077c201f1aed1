"""What a process waits in, read off the frames of its stack."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.debug.records import Place
from scaffold.debug.stacks import own_frames


@dataclass(frozen=True)
class Waiting:
    """What a stack is in.

    Args:
        kind: One of the kinds of `_LIBRARY`, "handle", or "" for the program's own code.
        words: What it does, such as "all_reduce".
    """

    kind: str
    words: str
    place: Place


COMMUNICATING = frozenset({"collective", "sharding", "backward", "handle", "device"})
"""The kinds in which a rank waits for others. On an accelerator a collective returns at once, and
the line that waits for the device stands in its place."""

_GROUPS = r"torch/distributed/(distributed_c10d|_functional_collectives)\.py"
_SHARDING = r"torch/distributed/(fsdp|tensor|_composable|pipelining|utils).*"
_FILES = r"torch/serialization\.py|torch/distributed/checkpoint/.*"
# Kind, end of the file's name, function, and what is said of it; "" for the function's own name.
_LIBRARY = (
    ("file", _FILES, "", "in a checkpoint that is read or written"),
    ("collective", _GROUPS, "[a-z]", ""),
    ("sharding", _SHARDING, "", ""),
    ("sharding", r"torch/nn/parallel/distributed\.py", "_(sync|verify|ddp_init)", ""),
    ("backward", r"torch/autograd/(graph|__init__)\.py", "", "backward, where DDP and FSDP reduce"),
    ("device", r"torch/(cuda|accelerator|npu)/.*", "synchronize|wait", "a wait for the device"),
    ("data", r"torch/utils/data/.*", "", "waiting for rows of a DataLoader"),
    ("compile", r"torch/(_dynamo|_inductor)/.*", "", "in torch.compile"),
)
# The program's own line, where C++ waits without a frame of Python.
_LINES = (
    ("handle", re.compile(r"\.wait\("), "wait for an asynchronous collective"),
    ("device", re.compile(r"\.(item|cpu|tolist|synchronize|numpy)\("), "a wait for the device"),
)


def waiting_in(frames: Sequence[Place]) -> Waiting:
    """Return what a stack is in."""
    own = own_frames(frames)
    place = own[0] if own else next(iter(frames), Place("", 0, ""))
    # What stands above the program's own line called it, as launchers and spawners do.
    inner = frames[: frames.index(own[0])] if own else list(frames)
    for kind, file, function, words in _LIBRARY:
        for each in inner:
            if re.search(f"{file}$", each.file) and re.match(function, each.function):
                return Waiting(kind, words or each.function, place)
    if not inner and own:
        line = linecache.getline(place.file, place.line)
        for kind, pattern, words in _LINES:
            if pattern.search(line):
                return Waiting(kind, words, place)
    return Waiting("", f"in {inner[0].function}" if inner else "in its own code", place)
