"""Which configurations of runs are to use a unit, and where its data is.

A file ``NAME.run.yaml`` belongs to the configuration ``NAME.yaml`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from scaffold.errors import LedgerError, RequestError
from scaffold.target.target import Target
from scaffold.templating.request import Request
from scaffold.units.context import Options
from scaffold.units.ledger import read_unit, record_path, unit_ids

RUN = ".run.yaml"
HELD_OUT = ("test", "held_out", "validation", "valid", "val", "dev", "eval")
"""Names of files with rows that are not trained on."""


class Use(NamedTuple):
    """Configurations that are to use a unit.

    Args:
        configs: Their paths, relative to the root.
        is_asked: Whether a person named them; else a key that is not there stays so, and what
            cannot be edited is left to the author.
        found: Where the data is that ``--from`` named: `found_data`.
    """

    configs: tuple[str, ...] = ()
    is_asked: bool = False
    found: Mapping[str, str] = {}

    def files(self) -> tuple[str, ...]:
        """Return every file that may be read."""
        return tuple(file for config in self.configs for file in files_of(config))


NOTHING = Use()


def find_use(target: Target, request: Request, options: Options) -> Use:
    """Return the configurations that are to use a unit: those named, else the project's own.

    Raises:
        RequestError: A named one does not exist, or lies outside of the target.
    """
    rules = request.kind.use
    if options.use == ():
        return Use()
    if not rules or any(style.framework for style in request.styles):
        if options.use:
            raise RequestError(
                f"--use: no configuration names this {request.kind.name}",
                code="usage",
                hint="leave --use out",
            )
        return Use()
    found = {} if options.sample is None else found_data(options.sample_path(), target.root)
    if options.use is None:
        return Use(_own_configs(target.root), found=found)
    # A configuration has two files, and either name means both.
    named = dict.fromkeys(_named(target.root, options.folder, each) for each in options.use)
    return Use(tuple(named), True, found)


def _own_configs(root: Path) -> tuple[str, ...]:
    """Return the configurations that `scaffold new` made, none in any other repository."""
    projects = [each.partition("/")[2] for each in unit_ids(root) if each.startswith("project/")]
    found: list[str] = []
    for name in projects:
        try:
            files = read_unit(root, root / record_path("project", name)).files
        except LedgerError:
            continue
        found += [f.path for f in files if f.path.endswith(".yaml") and not f.path.endswith(RUN)]
    return tuple(path for path in found if (root / path).is_file())


def _named(root: Path, folder: Path, name: str) -> str:
    place = (folder / name).resolve()
    if place.name.endswith(RUN) and (base := _base(place)).is_file():
        place = base
    if not place.is_file() or not place.is_relative_to(root.resolve()):
        raise RequestError(
            f"--use {name}: there is no such file in {root}",
            code="usage",
            hint="name the YAML that `areal train -c` takes",
        )
    return place.relative_to(root.resolve()).as_posix()


def _base(place: Path) -> Path:
    return place.with_name(place.name.removesuffix(RUN) + ".yaml")


def files_of(config: str) -> tuple[str, str]:
    """Return the files of a configuration; the second one may not exist."""
    return config, str(PurePosixPath(config).with_suffix(RUN))


def found_data(sample: Path, root: Path) -> dict[str, str]:
    """Return where a person's data is, and the rows beside it that are held out, if any.

    What lies outside of the root is nowhere: no path of this machine goes into a shared file.
    """
    real = sample.resolve()
    found = {"data": _relative(real, root)}
    folder = real if real.is_dir() else real.parent
    suffixes = {real.suffix} if real.is_file() else {".jsonl", ".json", ".csv", ".parquet"}
    beside = {each.stem.lower(): each for each in folder.iterdir() if each.suffix in suffixes}
    name = next((each for each in HELD_OUT if each in beside and beside[each] != real), "")
    return {**found, "held_out": _relative(beside[name], root) if name else ""}


def _relative(place: Path, root: Path) -> str:
    inside = root.resolve()
    return place.relative_to(inside).as_posix() if place.is_relative_to(inside) else ""
