"""The command that proves every model that transformers has, and writes the page on them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.analysis.process import end_all, end_like_ctrl_c
from scaffold.archon.coverage_page import coverage_page, coverage_row
from scaffold.archon.pipeline import KIND, ModelOptions, ModelWork, model_request
from scaffold.archon.probe import probe
from scaffold.archon.source import ModelSource
from scaffold.errors import RequestError, ScaffoldError, nearest
from scaffold.report import Report
from scaffold.target.target import Target, describe
from scaffold.transaction.apply import apply_changes
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest
from scaffold.transaction.state import COVERAGE, state_folders
from scaffold.units.context import Options, reported_changes

PAGE = "docs/en/archon-coverage.md"
HERE = Path(__file__).resolve().parent
PROBES = HERE.parent / "runners" / "archon_probe"
SHARED = Path("areal/experimental/models/archon")


class SurveyOptions(NamedTuple):
    """What is proven, and how.

    Args:
        types: Only these model_types; empty for all.
        jobs: How many at once.
        resume: Whether what was proven of unchanged sources is taken from the last time.
        fast: Whether few variations do, and nothing is split over processes.
        split: Whether each model is also split over two processes; ``fast`` leaves it out.
        python: What ``--python`` named.
        timeout_s: The limit of the measuring and of the proof of one model, each.
    """

    types: tuple[str, ...]
    jobs: int
    resume: bool
    fast: bool
    split: bool
    python: str | None
    timeout_s: float


def survey_models(how: SurveyOptions, options: Options, log: Any) -> Report:
    """Prove models, each as `add-archon-model` would make it, and write the page of all of them.

    The page has every model whose result is known, so that a part of them can be run again.
    """
    target = options.find()
    limits = ModelOptions(python=how.python, timeout_s=how.timeout_s)
    is_split = how.split and not how.fast
    work = ModelWork(target, limits, lambda line: None, is_fast=how.fast, is_split=is_split)
    known = probe("types", {}, work.python, target.root, how.timeout_s)
    types = cast("dict[str, str]", known["types"])
    versions = cast("dict[str, str]", known["versions"])
    names = _chosen(how.types, types)
    shelf = _Shelf(target, types, versions, how)
    rows = _rows(names, shelf, work, how, log)
    report = Report("archon coverage", describe(target), dry_run=options.dry_run)
    # The page also has models that were proven at another time, from the same sources.
    every = {name: row for name in types if (row := rows.get(name) or shelf.get(name))}
    report.extra["coverage"] = [every[name] for name in names]
    text = coverage_page(list(every.values()), versions, is_fast=how.fast)
    _write(report, target, text, options)
    report.text = _summary([every[name] for name in names])
    return report


def _chosen(asked: Sequence[str], types: Mapping[str, str]) -> list[str]:
    unknown = next((name for name in asked if name not in types), None)
    if unknown is not None:
        raise RequestError(
            f"no decoder or encoder has the model_type {unknown!r}{nearest(unknown, types)}"[:400],
            code="model_unknown",
            hint="give model_types, separated by commas",
        )
    return sorted(set(asked)) or sorted(types)


class _Shelf:
    """Keeps results under what they depend on: the sources of all that was run."""

    def __init__(
        self,
        target: Target,
        types: Mapping[str, str],
        versions: Mapping[str, str],
        how: SurveyOptions,
    ) -> None:
        self.folder = state_folders(target.root)[0] / COVERAGE
        self.types = types
        options = [str(how.fast), str(how.split)]
        self.base = [shared_digest(target.root), json.dumps(versions), *options]

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the result of a model whose sources have not changed since, or None."""
        with suppress(OSError, ValueError):
            return json.loads(self._path(name).read_text(encoding="utf-8"))
        return None

    def put(self, name: str, row: Mapping[str, Any]) -> None:
        """Keep a result; where that is not possible it is run again another time."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            # Renamed once it is whole: a survey may be killed at any time.
            part = self._path(name).with_suffix(".part")
            part.write_text(json.dumps(row), encoding="utf-8")
            part.replace(self._path(name))

    def _path(self, name: str) -> Path:
        key = digest("\n".join([*self.base, name, self.types[name]]).encode())
        return self.folder / f"{name}-{key[:16]}.json"


def shared_digest(root: Path) -> str:
    """Return a hash over the probes, the writing and the parts that models of a target share.

    It depends on what the files hold alone: a file that moves invalidates no result.

    Args:
        root: The target's folder. Folders of models are left out: they are what is proven.
    """
    found = hashlib.sha256()
    for data in sorted(path.read_bytes() for path in _files(root)):
        found.update(hashlib.sha256(data).digest())
    return found.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(PROBES.rglob("*.py"))
    yield from sorted((HERE / "codegen").rglob("*.py"))
    yield HERE / "render.py"
    yield HERE / "coverage_page.py"  # whose rows are what is kept
    archon = root / SHARED
    for path in sorted(archon.rglob("*.py")):
        inside = path.relative_to(archon)
        # A folder with a spec is a model, any other a part that models share.
        is_model = len(inside.parts) > 1 and (archon / inside.parts[0] / "spec.py").is_file()
        if not is_model and path.name != "__init__.py":
            yield path


def _rows(
    names: Sequence[str], shelf: _Shelf, work: ModelWork, how: SurveyOptions, log: Any
) -> dict[str, dict[str, Any]]:
    # Drawn from by several threads: unlike `done += 1`, next() is one step.
    done = itertools.count(1)

    def one(name: str) -> dict[str, Any]:
        row = shelf.get(name) if how.resume else None
        origin = "known" if row else "run"
        if row is None:
            row = _prove(name, work)
            shelf.put(name, row)
        log(f"{next(done)}/{len(names)} {name}: {row['state']} ({origin})")
        return row

    end_like_ctrl_c()
    with ThreadPoolExecutor(max_workers=how.jobs) as pool:
        try:
            return dict(zip(names, pool.map(one, names), strict=True))
        except KeyboardInterrupt:
            # Threads that are still running wait for probes, which end_all() ends.
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


def _prove(name: str, work: ModelWork) -> dict[str, Any]:
    """Return the row of one model; whatever goes wrong with it is in the row."""
    source = ModelSource(name)
    design: dict[str, Any] = {}
    try:
        kind = work.target.catalogue.kind(KIND)
        request = model_request(work.target, kind, source, {}, None)
        design = work.derive(source, request.answers)
        drawn = work.draw(request, source, design, Options(Path(), with_format=False))
    except ScaffoldError as error:
        return coverage_row(name, design, {}, f"{error.message} [{error.code}]")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Of the writing: a design that it does not understand is a finding about the model.
        return coverage_row(name, design, {}, f"it cannot be written: {error!r}")
    return coverage_row(name, drawn.design, drawn.proof, "")


def _write(report: Report, target: Target, text: str, options: Options) -> None:
    place = target.root / PAGE
    before = place.read_bytes() if place.is_file() else None
    after = text.encode()
    if before == after:
        return
    changes = [Change(PAGE, "created" if before is None else "edited", before, after)]
    report.changes = reported_changes(changes)
    if not options.dry_run:
        apply_changes(target.root, changes, report.command)


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    counts = {state: sum(row["state"] == state for row in rows) for state in STATES}
    lines = [f"{row['model_type']:<24} {row['state']:<10} {row['finding']}" for row in rows]
    text = ", ".join(f"{count} {state}" for state, count in counts.items())
    return "\n".join([*lines, f"{text} of {len(rows)}"]) + "\n"


STATES = ("proven", "unproven", "unwritten")
