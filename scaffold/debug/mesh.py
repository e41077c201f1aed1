"""Reads how ranks are laid out: mesh sizes, AReaL's allocation strings, arguments of torchrun."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.errors import RequestError

AXES = {"d": "dp_shard", "t": "tp", "p": "pp", "c": "cp", "e": "ep"}
"""Letters of an allocation string -> the axes of a mesh."""

ALIASES = {"dp": "dp_shard", "fsdp": "dp_shard", "tensor": "tp", "pipeline": "pp", "context": "cp"}
INSIDE = frozenset({"ep", "etp"})
"""Axes that share the ranks of the others, so they add none."""

KNOWN = frozenset({"dp_replicate", "dp_shard", "cp", "tp", "pp"}) | INSIDE

# `d2`; a whole allocation such as `archon:d2t2p1`, an engine and its letters.
_DIM = re.compile(r"([a-z])(\d+)")
_ALLOCATION = re.compile(r"^(?:(\w+):)?((?:[dtpce]\d+)+)$")


class Mesh(NamedTuple):
    """A layout of ranks.

    Args:
        sizes: The size of each axis; -1 takes what is left.
        origin: Where it was read.
    """

    sizes: Mapping[str, int]
    origin: str

    @property
    def _own(self) -> dict[str, int]:
        return {axis: size for axis, size in self.sizes.items() if axis not in INSIDE}

    @property
    def ranks(self) -> int | None:
        """How many ranks fill it; None where an axis takes what is left."""
        return None if -1 in self._own.values() else math.prod(self._own.values())

    def text(self) -> str:
        return " * ".join(f"{axis}={size}" for axis, size in self._own.items())

    def faults(self, world: int | None) -> list[str]:
        """Return what keeps so many ranks from filling it."""
        found: list[str] = []
        # Without the axis of size -1, which takes what the others leave.
        fixed = math.prod(size for size in self._own.values() if size > 0)
        if world is not None and self.ranks is not None and self.ranks != world:
            found.append(f"{self.text()} = {self.ranks} ranks, and {world} are started")
        elif world is not None and self.ranks is None and world % fixed:
            found.append(f"{world} ranks cannot be divided by {self.text()}")
        tensor, expert, both = (self.sizes.get(axis, 1) for axis in ("tp", "ep", "etp"))
        # Experts are spread within a pipeline stage, over all of its other axes.
        room = fixed // self.sizes.get("pp", 1)
        if expert > 1 and self.ranks is not None and room % expert:
            found.append(f"ep={expert} does not divide the {room} ranks of a pipeline stage")
        if both not in (1, tensor):
            found.append(f"etp={both} is neither 1 nor tp={tensor}")
        return found


def read_mesh(text: str, origin: str = "--mesh") -> Mesh:
    """Return the layout that a text means, such as "dp_shard=2,tp=2" or "archon:d2t2".

    Raises:
        RequestError: It means none.
    """
    allocation = _ALLOCATION.match(text.strip())
    if allocation:
        pairs = [(AXES[letter], size) for letter, size in _DIM.findall(allocation[2])]
    else:
        # Only in front of a letter or digit, so that "tp= -1" stays one pair.
        parted = (each.partition("=") for each in re.split(r"[,*\s]+(?=\w)", text.strip()))
        pairs = [(name.strip(), size.strip()) for name, _, size in parted]
    sizes: dict[str, int] = {}
    for name, size in pairs:
        axis = ALIASES.get(name, name)
        if axis not in KNOWN or axis in sizes or not re.fullmatch(r"-1|[1-9]\d*", size):
            raise RequestError(
                f"{origin}: {text!r} is not a layout of ranks, because of {name + '=' + size!r}",
                code="mesh_invalid",
                hint=f"write sizes of {', '.join(sorted(KNOWN))}, such as dp_shard=2,tp=2; or d2t2",
            )
        sizes[axis] = int(size)
    return Mesh(sizes, origin)


def meshes_of_config(path: Path) -> list[Mesh]:
    """Return the layouts that a YAML file names under `backend` or `allocation_mode`.

    Raises:
        RequestError: The file cannot be read.
    """
    import yaml

    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise RequestError(f"{path} cannot be read: {reason}", code="source_unreadable") from error
    return [
        read_mesh(part, f"{path.name}: {where}")
        for where, value in _strings(content)
        if where.rpartition(".")[2] in ("backend", "allocation_mode")
        # An allocation may join the layouts of several engines.
        for part in re.split(r"[+|]", value)
        if _ALLOCATION.match(part.strip())
    ]


def _strings(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in cast("dict[Any, Any]", value).items():
            yield from _strings(each, f"{where}.{key}" if where else str(key))
    elif isinstance(value, str):
        yield where, value


@dataclass(frozen=True)
class Launch:
    """The arguments of torchrun, parsed.

    Args:
        nodes: How many machines; None where it may vary.
        per_node: How many ranks on each; None where torchrun counts devices itself.
        address: Where ranks meet, or "".
        port: There; None where it was not given, 0 where torchrun chooses.
    """

    nodes: int | None = 1
    per_node: int | None = 1
    address: str = ""
    port: int | None = None

    @property
    def world(self) -> int | None:
        """How many ranks are started, or None."""
        return None if self.nodes is None or self.per_node is None else self.nodes * self.per_node


def read_launch(argv: Sequence[str]) -> Launch:
    """Parse the arguments of torchrun, without those of the program."""
    options = _options(argv)
    host, _, port = options.get("rdzv-endpoint", "").rpartition(":")
    port = _count(options.get("master-port", port))
    return Launch(
        nodes=_count(options.get("nnodes", "1")),
        per_node=_count(options.get("nproc-per-node", "1")),
        address=options.get("master-addr", host),
        port=0 if "standalone" in options else port,
    )


# Options of torchrun without a value; `-m` only means that the program is a module.
_FLAGS = frozenset({"standalone", "no-python", "run-path", "m", "module"})


def _options(argv: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    words = list(argv)
    if words and not words[0].startswith("-"):
        words.pop(0)  # torchrun itself
    # The first other word is the program; what follows are its own options.
    while words and words[0].startswith("-"):
        name, has_value, value = words.pop(0).lstrip("-").replace("_", "-").partition("=")
        if name in _FLAGS:
            found[name] = ""
        elif has_value:
            found[name] = value
        elif words:
            found[name] = words.pop(0)
    return found


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None
