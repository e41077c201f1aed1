"""The module that tests are wanted for: where it stands, what it is, where its tests go."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scaffold.errors import RequestError
from scaffold.target.target import Target, unit_names
from scaffold.templating.spec import AnswerValue, Kind
from scaffold.units.context import Options
from scaffold.units.prepare import Prepared, prepare
from scaffold.units.subject_kinds import NETWORK, find_subject, imported_modules


@dataclass(frozen=True)
class TestsRequest:
    """What a unit of tests is made from.

    Args:
        key: The name of the unit: the module's path below its package.
        style: The kind of thing that is tested.
        answers: What the template has to know.
    """

    __test__ = False  # pytest collects classes of this name

    key: str
    style: str
    answers: dict[str, AnswerValue]


def read_subject(target: Target, typed: str, folder: Path, style: str, to: str) -> TestsRequest:
    """Read a module of the target as text and say what tests it gets.

    Args:
        target: The repository.
        typed: A path or a dotted name of the module.
        folder: The working folder, for a relative path.
        style: Which kind of thing is meant; empty for the only one.
        to: Where the test goes; empty for where the target keeps such tests.

    Raises:
        RequestError: There is no such module in the target, or nothing to test in it.
    """
    file = _module_file(target.root, typed, folder)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unsuited(f"{typed} cannot be read: {error}") from error
    path = file.relative_to(target.root)
    subject = find_subject(text, path.as_posix(), style)
    if subject.style == "reward":
        _check_offline(file, text)
    parts = _dotted_parts(target.root, file)
    # The name of the unit leaves out the package, which all modules share.
    inner = parts[1:] if len(parts) > 1 and parts[0] == target.package else parts
    # An agent is a workflow to users: one folder holds both.
    room = "workflow" if subject.style == "agent" else subject.style
    # `reward.math` is clear by its folder; `scoring.math` becomes `scoring_math_reward`.
    key = "_".join(inner if room in inner else [*inner, subject.style])
    place = to or _test_path(target, subject.style, path, inner)
    answers = {**subject.answers, "module": ".".join(parts), "to": place}
    return TestsRequest(key, subject.style, answers)


def _module_file(root: Path, typed: str, folder: Path) -> Path:
    """Return the file of a module that was named by path or dotted."""
    inside = typed.replace(".", "/") + ".py"
    # A path from the working folder or the root, or a dotted name.
    candidates = [folder / typed, root / typed, root / inside, root / "src" / inside]
    for candidate in candidates:
        file = candidate.resolve()
        if file.suffix == ".py" and file.is_file() and file.is_relative_to(root.resolve()):
            return root / file.relative_to(root.resolve())
    raise _unsuited(f"there is no module {typed} in {root}")


def _check_offline(file: Path, text: str) -> None:
    """Refuse a reward that asks a server, itself or by a module beside it."""
    names = imported_modules(text)
    # The request may be in a helper in the same folder; further away it is not looked for.
    beside = [file.with_name(name.rpartition(".")[2] + ".py") for name in names]
    for other in {each for each in beside if each.is_file()}:
        with contextlib.suppress(SyntaxError, ValueError):  # that file is not ours to judge
            names += imported_modules(other.read_text(encoding="utf-8-sig", errors="replace"))
    asking = next((name for name in names if name.startswith(NETWORK)), None)
    if asking:
        raise RequestError(
            f"{file.name} asks a server, with {asking}, which general tests cannot replace",
            code="module_unsuited",
            hint="`scaffold add-reward --style judge` shows a test with a server of its own",
        )


def _dotted_parts(root: Path, file: Path) -> list[str]:
    """Return the name that a module is imported by: its folders up to the last package."""
    relative = file.relative_to(root)
    parts = [relative.stem]
    for parent in relative.parents:
        is_package = parent.name and (root / parent / "__init__.py").is_file()
        if not is_package:
            break
        parts.insert(0, parent.name)
    if parts[-1] == "__init__" or not all(part.isidentifier() for part in parts):
        raise _unsuited(f"{relative.as_posix()} is no module of its own")
    return parts


def _test_path(target: Target, style: str, path: Path, inner: list[str]) -> str:
    """Return where the target keeps the tests of such a thing, else the mirrored path."""
    style = "workflow" if style == "agent" else style
    place = target.kinds.get(style)
    # The module lies where units of its kind do: its test goes where theirs go.
    if place is not None and PurePosixPath(place.registry.file).parent.parts == path.parent.parts:
        return unit_names(target, target.catalogue.kind(style), path.stem)["test"]
    name = f"test_{inner[-1]}.py" if style in inner else f"test_{inner[-1]}_{style}.py"
    return str(PurePosixPath(target.tests, *inner[:-1], name))


def _unsuited(message: str) -> RequestError:
    return RequestError(
        message,
        code="module_unsuited",
        hint="name a Python module of the target by its path or dotted",
    )


def prepare_tests(
    kind: Kind, module: str, style: str | None, to: str | None, options: Options
) -> Prepared:
    """Settle the request for tests of a module that stands in the target."""
    found = read_subject(options.find(), module, options.folder, style or "", to or "")
    return prepare(kind, found.key, (found.style,), found.answers, options)
