"""Puts calls, places and ends of processes into words."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Sequence

from scaffold.debug.records import SET_UP, Call, Group, Place, Process

MAX_MESSAGE = 200


def place_text(place: Place) -> str:
    """Return a line of the program as people read it, relative to their working directory."""
    file = place.file
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    # Outside of the working folder the absolute path is the shorter to read.
    shown = file if relative.startswith("..") else relative
    return f"{shown}:{place.line} {place.function}"


def where_text(places: Sequence[Place]) -> str:
    """Return where a call comes from: the program's own line, and that of a package it uses."""
    if not places:
        return "C++ (no line of Python)"
    own = place_text(places[-1])
    return own if len(places) == 1 else f"{own}, through {place_text(places[0])}"


def call_text(call: Call) -> str:
    """Return what a call does, such as "all_reduce SUM float32[4]"."""
    words = [f"{call.op} of C++" if call.is_native else call.op]
    # The public function that made the call, such as all_gather_object.
    if call.via and call.via != call.op and not call.via.startswith("_"):
        words.append(f"(in {call.via})")
    words += [str(call.options[key]) for key in ("red",) if key in call.options]
    if "root" in call.options:
        words.append(f"root {call.options['root']}")
    if call.peer is not None:
        words.append(f"{'to' if call.op == 'send' else 'from'} rank {call.peer}")
    words += [f"tag {call.tag}"] if call.tag else []
    words += [tensor_text(dtype, shape) for dtype, shape in call.tensors]
    if call.group == SET_UP:
        words += [f"{key}={value}" for key, value in call.options.items() if value is not None]
    return " ".join(words)


def tensor_text(dtype: str, shape: Sequence[int]) -> str:
    """Return a tensor's dtype and shape, such as "float32[4, 2]"."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def group_text(group: Group) -> str:
    if group.name == SET_UP:
        return "the set-up of the job"
    if group.description == "default_pg" or group.name == "0":
        return f"the default group ({ranks_text(group.ranks)})"
    known = group.description not in ("undefined", "")
    name = group.description if known else group.name
    return f"group {name} ({ranks_text(group.ranks)})"


def ranks_text(ranks: Iterable[int]) -> str:
    """Return ranks with runs shortened: "rank 1", "ranks 0, 2-5"."""
    numbers = sorted(set(ranks))
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(texts) or 'unknown'}"


def end_text(process: Process) -> str:
    if process.failure is not None:
        text = re.sub(r"^\[[^\]]*:\d+\] *", "", process.failure.message.strip())  # a line of C++
        first = text.splitlines() or [""]
        return cut(f"{process.failure.type}: {first[0]}".rstrip(": "), MAX_MESSAGE)
    return status_text(process.status, process.ended_s is not None)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def status_text(status: int | None, orderly: bool) -> str:
    """Return an exit status in words; negative ones are signals."""
    # A launcher's SIGTERM may reach a process that is on its way out already.
    if orderly and status in (None, -signal.SIGTERM):
        return "came to its end"
    if status is None:
        return "ended without a message, killed or by os._exit"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return "exited with status 0" if status == 0 else f"exited with status {status}"
