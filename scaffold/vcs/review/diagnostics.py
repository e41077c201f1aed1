"""What pyright and ruff report of the new state and not of the old one.

Both run on copies of the two states, outside of the repository, so that nothing that a change
commits is run. They are those on PATH, such as those of an activated environment of the target,
else those beside this tool.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.process import end_all, end_like_ctrl_c, run_text
from scaffold.findings import Finding
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.name_uses import Guards

TIMEOUT_S = 300.0
MOST_FILES = 60
"""Files that are checked beside the changed ones: those that name what changed."""

CERTAIN = (
    "reportUndefinedVariable", "reportAttributeAccessIssue", "reportCallIssue",
    "reportAbstractUsage", "reportUnboundVariable", "reportNoOverloadImplementation",
    "reportTypedDictNotRequiredAccess", "reportFunctionMemberAccess",
)  # fmt: skip
"""Rules of pyright that count where a repository does not configure it: what fails when it runs."""

CERTAIN_WHEN_NEW = (
    "reportUndefinedVariable", "reportCallIssue", "reportAbstractUsage", "reportUnboundVariable",
    "syntax",
)  # fmt: skip
"""Those that count of lines that are new: code that was never typed reads as wrong elsewhere."""

# `"statt" is not a known attribute of module "os"`: another module may be one of the same name that
# is not installed here.
_OF_MODULE = re.compile(
    r'is not a known attribute of module "(?P<module>\w+)|is unknown import symbol'
)

# Of ruff's rules, those that are errors of Python in any repository.
_RUFF_SELECT = "E9,F63,F7,F82,F50,PLE"
# Those that ruff turns on unasked in every release; newer ones turn on more.
_RUFF_DEFAULT = ("E4", "E7", "E9", "F")
_PYRIGHT_FILES = ("pyrightconfig.json",)
_RUFF_FILES = ("ruff.toml", ".ruff.toml")


class Diagnostic(NamedTuple):
    """One report of a checker.

    Args:
        line: Its line, from 1.
        text: The line, stripped; equal ones are the same report at another place.
    """

    path: str
    line: int
    rule: str
    message: str
    text: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """What stays equal where the line is edited."""
        return self.path, self.rule, self.message


def new_diagnostics(
    old: Files,
    new: Files,
    changed: Sequence[ChangedFile],
    beside: Sequence[str],
    guards_of: Callable[[str], Guards | None],
) -> tuple[list[Finding], list[str]]:
    """Return what the checkers report of the new state alone, and what was not checked, and why.

    Args:
        beside: Other Python files that may break: those that use what changed.
        guards_of: Gives where a source of the new state expects to fail.
    """
    own = [each for each in changed if each.path.endswith(".py")]
    if not own:
        return [], []
    # A renamed file is compared under its new path.
    renamed = {each.path_on("old"): each.path_on("new") for each in own if each.change.new_path}
    paths = [each.path for each in own if each.change.new_path]
    extra = [each for each in beside if each.endswith(".py") and each not in paths]
    added = {
        each.path: {
            block.start + at for block in each.blocks("new") for at in range(len(block.lines))
        }
        for each in own
    }
    notes: list[str] = []
    if len(extra) > MOST_FILES:
        notes.append(f"pyright: {len(extra) - MOST_FILES} files that name what changed")
    asked = [*paths, *extra[:MOST_FILES]]
    findings: list[Finding] = []
    end_like_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="scaffold-review-") as scratch:
        # A rule that the change itself turns on holds as much of the lines that were there before.
        sides = [_write(Path(scratch) / name, each, new) for name, each in (("a", old), ("b", new))]
        back = {new_path: old_path for old_path, new_path in renamed.items()}
        before = [back.get(each, each) for each in asked]
        for name, check in (("pyright", _pyright), ("ruff", _ruff)):
            program = _program(name)
            if program is None:
                notes.append(f"{name} is not installed, so its findings are missing")
                continue
            with ThreadPoolExecutor(2) as pool:
                work = [
                    pool.submit(check, program, *side)
                    for side in zip(sides, (before, asked), strict=True)
                ]
                try:
                    reports = [each.result() for each in work]
                except KeyboardInterrupt:
                    end_all()
                    raise
                except (OSError, subprocess.TimeoutExpired, ValueError) as error:
                    notes.append(f"{name} failed: {error}")
                    continue
            was = [row._replace(path=renamed.get(row.path, row.path)) for row in reports[0]]
            fresh = _fresh(was, reports[1])
            if name == "pyright" and not _own_pyright(sides[1]):
                fresh = (each for each in fresh if _is_certain(each, added.get(each.path, set())))
            for each in fresh:
                if _is_expected(each, guards_of(each.path)):
                    continue
                evidence = f"{name} reports {each.rule} of this line, and not of the old state"
                message = each.message
                findings.append(Finding(each.path, each.line, 1, name, message, message, evidence))
    return findings, notes


def _fresh(old: Sequence[Diagnostic], new: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the new ones: those on lines as they were go first, then those of one kind."""
    lines: dict[tuple[str, str, str], list[Diagnostic]] = {}
    for each in old:
        lines.setdefault((each.path, each.rule, each.text), []).append(each)
    left: list[Diagnostic] = []
    for each in new:
        # A line as it was may be reported in other words, as of a type that changed elsewhere.
        rows = lines.get((each.path, each.rule, each.text))
        if rows:
            rows.pop()
        else:
            left.append(each)
    kinds = Counter(each.kind for rows in lines.values() for each in rows)
    for each in left:
        if kinds[each.kind]:
            kinds[each.kind] -= 1
        else:
            yield each


def _is_expected(row: Diagnostic, guards: Guards | None) -> bool:
    """Return whether the source asks for the error that a report of pyright foretells."""
    if guards is None:
        return False
    if row.rule in ("reportCallIssue", "reportAbstractUsage"):
        return guards.expects_misfit(row.line, "")
    return row.rule == "reportAttributeAccessIssue" and guards.expects_lack(row.line, "")


def _is_certain(row: Diagnostic, added: set[int]) -> bool:
    """Return whether a report of pyright holds in code that was not written for it."""
    if row.line not in added:
        return row.rule in (*CERTAIN, "syntax")
    if row.message.startswith("No overloads for "):
        return False  # none is chosen by types, and types that nobody wrote are guessed
    match = _OF_MODULE.search(row.message)
    is_missing = match is not None and (match["module"] or "os") in sys.stdlib_module_names
    return row.rule in CERTAIN_WHEN_NEW or is_missing


def _program(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return shutil.which(name) or (str(beside) if beside.is_file() else None)


def _write(folder: Path, files: Files, configured: Files) -> Path:
    """Write the Python of a state, and what configures the checkers in another one."""
    wanted = [*files.python, *(each for each in files.paths if each.endswith((".pyi", "py.typed")))]
    names = ("pyproject.toml", *_PYRIGHT_FILES, *_RUFF_FILES)
    sources = dict.fromkeys(wanted, files)
    sources |= {each: configured for each in configured.paths if each.rpartition("/")[2] in names}
    for path, source in sources.items():
        data = source.data(path)
        place = folder / path
        # A name that leads elsewhere was never one of git's.
        if data is None or ".." in place.parts:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder


def _pyright(program: str, root: Path, paths: Sequence[str]) -> list[Diagnostic]:
    # Stricter rules report what is unknown, as the packages are that the repository needs; so its
    # configuration may take rules of the basic mode away, and adds none.
    own = {
        key: value
        for key, value in _own_pyright(root).items()
        if not key.startswith("report") or value in (False, "none")
    }
    config = {
        "venvPath": ".",
        **own,
        "typeCheckingMode": "basic",
        "include": [each for each in paths if (root / each).is_file()],
        "exclude": ["**/node_modules"],
        "ignore": [],
        "strict": [],
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
    }
    place = root / ".scaffold-pyright.json"
    place.write_text(json.dumps(config), encoding="utf-8")
    done = _run([program, "--outputjson", "--project", str(place)], root)
    rows = cast("list[dict[str, Any]]", json.loads(done or "{}").get("generalDiagnostics", []))
    found: list[Diagnostic] = []
    for row in rows:
        rule = str(row.get("rule", "syntax"))
        if row.get("severity") != "error":
            continue
        file = Path(str(row["file"]))
        if not file.is_relative_to(root):
            continue
        line = int(row["range"]["start"]["line"]) + 1
        message = " ".join(str(row["message"]).split())
        found.append(_diagnostic(root, file, line, rule, message))
    return found


def _own_pyright(root: Path) -> dict[str, Any]:
    """Return the repository's own configuration of pyright; nothing without one."""
    place = root / "pyrightconfig.json"
    try:
        if place.is_file():
            return cast("dict[str, Any]", json.loads(place.read_text(encoding="utf-8")))
        tool = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
        return dict(cast("Mapping[str, Any]", tool["pyright"]))
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _ruff(program: str, root: Path, paths: Sequence[str]) -> list[Diagnostic]:
    there = [each for each in paths if (root / each).is_file()]
    if not there:
        return []
    argv = [program, "check", "--no-cache", "--output-format", "json", "--no-fix"]
    chosen = _chosen(root)
    if chosen is None:
        argv += ["--isolated", "--select", _RUFF_SELECT]
    done = _run([*argv, "--", *there], root)
    rows = cast("list[dict[str, Any]]", json.loads(done or "[]"))
    found: list[Diagnostic] = []
    for row in rows:
        place, line = Path(str(row["filename"])), int(row["location"]["row"])
        code = row.get("code")
        if code is None or chosen is None or any(_selects(each, code) for each in chosen):
            found.append(_diagnostic(root, place, line, code or "syntax", str(row["message"])))
    return found


def _selects(prefix: str, code: str) -> bool:
    rest = code.removeprefix(prefix)
    # F is not FA, which is of another plugin; PL means PLC, PLE, PLR and PLW.
    return prefix in ("", "ALL") or (rest != code and (prefix == "PL" or not rest[:1].isalpha()))


def _chosen(root: Path) -> tuple[str, ...] | None:
    """Return the rules of ruff that a repository chose, as prefixes; None where it has no table."""
    for name in (*_RUFF_FILES, "pyproject.toml"):
        try:
            table: Any = tomllib.loads((root / name).read_text(encoding="utf-8"))
            table = table["tool"]["ruff"] if name == "pyproject.toml" else table
            both = [table, table.get("lint", {})]
        except (OSError, ValueError, KeyError, AttributeError):
            continue
        if any("select" in each or "extend" in each for each in both):
            return ("",)
        return (*_RUFF_DEFAULT, *(row for each in both for row in each.get("extend-select", [])))
    return None


def _diagnostic(root: Path, file: Path, line: int, rule: str, message: str) -> Diagnostic:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return Diagnostic(file.relative_to(root).as_posix(), line, rule, message, text)


def _run(argv: list[str], folder: Path) -> str:
    # Its launcher would look for a newer release.
    settings = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "NO_COLOR": "1"}
    done = run_text(argv, folder, TIMEOUT_S, **settings)
    # Both end with 1 for findings; anything else is a failure of their own.
    if done.returncode not in (0, 1):
        said = done.stderr.strip() or f"status {done.returncode}"
        raise ValueError(said.splitlines()[-1])
    return done.stdout
