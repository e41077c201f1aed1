"""The module that tests are wanted for: where it is, what it is, where its tests go."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.errors import RequestError
from scaffold.syntax import parse
from scaffold.target.target import Target, unit_names
from scaffold.templating.names import MAX_LENGTH, snake
from scaffold.templating.spec import AnswerValue, Kind
from scaffold.units.context import Options
from scaffold.units.prepare import Prepared, prepare
from scaffold.units.subject_kinds import ANY_CODE, NETWORK, find_subject, imported_modules


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
        typed: A path or a dotted name of the module, and ":NAME" for one thing in it.
        folder: The working folder, for a relative path.
        style: Which kind of thing is meant; empty for the only one.
        to: Where the test goes; empty for where the target keeps such tests.

    Raises:
        RequestError: There is no such module in the target, or nothing to test in it.
    """
    to = _inside(target.root, to) if to else ""
    typed, only = _with_name(typed)
    file = _module_file(target.root, typed, folder)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unsuited(f"{typed} cannot be read: {error}") from error
    path = file.relative_to(target.root)
    subject = find_subject(text, path.as_posix(), style, only)
    if subject.style == "reward":
        _check_offline(file, text)
    parts = _dotted_parts(target.root, file)
    is_any = subject.style in ANY_CODE
    is_named = parts[-1] != "__init__" and all(each.isidentifier() for each in parts)
    is_file = is_any and not (is_named and _is_importable(target.root, file))
    if not is_named:
        if not is_file or parts[-1] == "__init__":
            raise _unsuited(f"{path.as_posix()} is not a module of its own")
        # No import can name it, and so it is loaded by its place.
        parts = [re.sub(r"\W", "_", f"_{parts[-1]}" if parts[-1][:1].isdigit() else parts[-1])]
    # The name of the unit leaves out the package, which all modules share.
    inner = parts[1:] if len(parts) > 1 and parts[0] == target.package else parts
    # An agent is a workflow to users: one folder holds both.
    room = "workflow" if subject.style == "agent" else subject.style
    # `reward.math` is clear by its folder; `scoring.math` becomes `scoring_math_reward`.
    # Beside a module of that name in the package there may be a script of it.
    # Scripts of one name in several folders are told apart by those.
    folders = [re.sub(r"\W+", "_", each) for each in path.parts[:-1]]
    inner = ["file", *folders, *inner] if is_file else inner
    named = [*inner, *([snake(only)] if only and is_any else [])]
    key = _short_key(named if room in named else [*named, subject.style])
    place = to or _test_path(target, subject.style, path, named, ".".join(parts))
    answers = {**subject.answers, "module": ".".join(parts), "to": place}
    if is_any:
        answers |= _how_run(target.root, text, subject.style)
        answers["source"] = path.as_posix() if is_file else ""
    return TestsRequest(key, subject.style, answers)


_SETTINGS = ("pyproject.toml", "pytest.toml", "pytest.ini", "tox.ini", "setup.cfg")


def _short_key(parts: list[str]) -> str:
    """Return the name of a unit; of a deep module the last parts, and `_core` is not `core`."""
    words = ["private" + each if each.startswith("_") else each for each in parts]
    while len(words) > 1 and len("_".join(words)) > MAX_LENGTH:
        del words[0]
    return "_".join(words).lower()


def _text(file: Path) -> str:
    """Return a file's text, "" where there is none."""
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _inside(root: Path, to: str) -> str:
    """Return a path that a person named for the test, without detours.

    Raises:
        RequestError: It leads out of the target.
    """
    path = PurePosixPath(os.path.normpath(to).replace(os.sep, "/"))
    if path.is_absolute() or ".." in path.parts:
        raise RequestError(
            f"--to {to} leads out of {root}",
            code="outside_target",
            hint="give a path relative to the root of the target, such as tests/test_x.py",
        )
    return str(path)


def _with_name(typed: str) -> tuple[str, str]:
    """Split ``module:Name``; the colon of a drive is no such."""
    module, _, name = typed.rpartition(":")
    return (module, name) if len(module) > 1 and name.isidentifier() else (typed, "")


def _how_run(root: Path, text: str, style: str) -> dict[str, AnswerValue]:
    """Return when the target runs such tests: on which machines, under which of its markers."""
    if style == "distributed":
        return {"marker": _marker(root, "distributed", "multi")}
    tree = parse(text)
    needs_gpu = _needs_gpu(tree)
    marker = _marker(root, "gpu", "cuda") if needs_gpu else ""
    optional = " ".join(_optional_packages(root, text))
    return {
        "needs_gpu": needs_gpu,
        "marker": marker,
        "optional": optional,
        "platform": _platform(tree),
    }


def _platform(tree: ast.Module) -> str:
    """Return the one platform that a module can be imported on; empty where it names none.

    The forms are those by which type checkers know it: an assert, or an error beside an `if`.
    """
    for node in tree.body:
        if not isinstance(node, ast.Assert | ast.If):
            continue
        match = re.fullmatch(r"sys\.platform (==|!=) '(\w+)'", ast.unparse(node.test))
        if match is None:
            continue
        elsewhere = node.body if isinstance(node, ast.If) and match[1] == "!=" else []
        if isinstance(node, ast.If) and match[1] == "==":
            elsewhere = node.orelse
        is_assert = isinstance(node, ast.Assert) and match[1] == "=="
        if is_assert or any(isinstance(each, ast.Raise) for each in elsewhere):
            return match[2]
    return ""


def _optional_packages(root: Path, text: str) -> list[str]:
    """Return what a module imports at its top that the target has in its extras alone.

    CI without the extra skips the tests of it, where a failed import would end the whole run.
    """
    try:
        project = tomllib.loads(_text(root / "pyproject.toml")).get("project", {})
    except tomllib.TOMLDecodeError:
        return []
    extras = [each for rows in project.get("optional-dependencies", {}).values() for each in rows]
    only = _import_names(extras) - _import_names(project.get("dependencies", []))
    tree = parse(text)
    plain = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
    tops = {name.partition(".")[0] for name in imported_modules(ast.unparse(plain))}
    return sorted(tops & only)


def _import_names(requirements: list[str]) -> set[str]:
    """Return the names that distributions are imported by, where those follow from their own."""
    names = (re.match(r"[\w.-]+", each.strip()) for each in requirements)
    return {re.sub(r"[-.]+", "_", name[0].lower()) for name in names if name}


def _needs_gpu(tree: ast.Module) -> bool:
    """Return whether a module is of no use without a GPU; one that looks for it does without."""
    nodes = list(ast.walk(tree))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    devices = (node.value for node in nodes if isinstance(node, ast.Constant))
    imported = {
        name.partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None), *(alias.name for alias in node.names))
        if name
    }
    is_named = any(isinstance(each, str) and re.fullmatch(r"cuda(:\d+)?", each) for each in devices)
    names_gpu = is_named or "cuda" in attributes or "triton" in imported
    return names_gpu and "is_available" not in attributes


def _marker(root: Path, *words: str) -> str:
    """Return the first marker of the target's settings that has one of the words in its name."""
    settings = [name for name in _SETTINGS if (root / name).is_file()]
    found = PytestNames(Files(root, settings, has_git=False)).in_settings
    names = (name for name in found if name.isidentifier())
    return next((name for name in names if any(word in name.lower() for word in words)), "")


def _is_importable(root: Path, file: Path) -> bool:
    """Return whether a module is in a package, however far up."""
    folders = file.relative_to(root).parents
    return any((root / each / "__init__.py").is_file() for each in folders if each.name)


def _module_file(root: Path, typed: str, folder: Path) -> Path:
    """Return the file of a module that was named by path or dotted."""
    inside = typed.replace(".", "/") + ".py"
    # A path from the working folder or the root, or a dotted name.
    candidates = [folder / typed, root / typed, root / inside, root / "src" / inside]
    # A package is what its `__init__.py` defines.
    folders = [folder / typed, root / typed, *(each.with_suffix("") for each in candidates[2:])]
    packages = [each / "__init__.py" for each in folders]
    for candidate in (*candidates, *packages):
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
    folders = [parent for parent in relative.parents if parent.name]
    packages = [n for n, each in enumerate(folders) if (root / each / "__init__.py").is_file()]
    # A folder without `__init__.py` inside a package is a package as well, by its namespace.
    inside = folders[: packages[-1] + 1] if packages else []
    parts = [*(each.name for each in reversed(inside)), relative.stem]
    if len(parts) > 1 and parts[-1] == "__init__":
        del parts[-1]  # what a package defines itself
    return parts


def _test_path(target: Target, style: str, path: Path, inner: list[str], module: str) -> str:
    """Return where the target keeps the tests of such a thing, else the mirrored path."""
    style = "workflow" if style == "agent" else style
    place = target.kinds.get(style)
    # The module lies where units of its kind do: its test goes where theirs go.
    if place is not None and PurePosixPath(place.registry.file).parent.parts == path.parent.parts:
        return unit_names(target, target.catalogue.kind(style), path.stem)["test"]
    if style in ANY_CODE:
        ending = "" if style == ANY_CODE[0] else f"_{style}"
        words = [each.strip("_").lower() for each in inner]
        stems = [f"test_{'_'.join(part)}{ending}" for part in (words[-2:], words)]
        places = [
            PurePosixPath(target.tests, f"{stem}{last}.py")
            for last in ("", "_interface")
            for stem in stems
        ]
        # Somebody's own tests of the module are there often, or those of another module.
        marks = (f"Tests of ``{module}``", f'/ "{path.as_posix()}"' if "file" in inner[:1] else "")
        texts = ((each, _text(target.root / each)) for each in places)
        free = (each for each, text in texts if not text or all(mark in text for mark in marks))
        return str(next(free, places[-1]))
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
    """Settle the request for tests of a module that is in the target."""
    # Any project in Python will do, as tests need no registry.
    options = options._replace(any_project=True)
    found = read_subject(options.find(), module, options.folder, style or "", to or "")
    return prepare(kind, found.key, (found.style,), found.answers, options)
