"""The checkers, each at a pinned version in a place of its own, and what each one reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import ProcessError

ROOT = Path(__file__).resolve().parents[2]
INSTALL_LIMIT_S = 300.0
# npm's own node may be too old for what it installs.
NODE = "node@22.12.0"


class Reported(NamedTuple):
    """One thing that a checker reports.

    Args:
        path: The file, relative to the repository, or empty.
        line: The line, or None.
        rule: The checker's own name for it; a message without its names where there is none.
        is_error: Whether it counts as more than a hint.
    """

    path: str
    line: int | None
    rule: str
    is_error: bool


@dataclass(frozen=True)
class Checker:
    """One checker.

    Args:
        package: Its pinned release; empty for the one of this repository.
        command: What checks a repository: the folder it was installed into, the repository.
        read: Turns its output (standard output, then standard error) into what it reports.
    """

    package: str
    command: Callable[[Path, Path], list[list[str]]]
    read: Callable[[str, Path], list[Reported]]


def ours(_: Path, root: Path) -> list[list[str]]:
    argv = ["skills", "check", str(root), "--format", "json", "--no-cache"]
    has_past = (root / ".git" / "refs" / "heads").is_dir() and any(
        (root / ".git" / "refs" / "heads").iterdir()
    )
    # A repository with a commit is one of which something changed since.
    return [[sys.executable, "-m", "scaffold", *argv, *(["--since", "HEAD"] if has_past else [])]]


def _read_ours(text: str, root: Path) -> list[Reported]:
    rows: list[dict[str, Any]] = json.loads(text.splitlines()[0])["findings"]
    return [
        Reported(row["path"], row["line"], row["rule"], row["severity"] == "error") for row in rows
    ]


def _skills(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.rglob("SKILL.md") if ".git" not in path.parts)


def _skills_ref(place: Path, root: Path) -> list[list[str]]:
    program = str(place / "bin" / "agentskills")
    return [[program, "validate", str(skill)] for skill in _skills(root)]


def _read_skills_ref(text: str, root: Path) -> list[Reported]:
    rows = [line.strip(" -") for line in text.splitlines() if line.strip()]
    wrong = [row for row in rows if not row.startswith(("Valid skill", "Validation failed"))]
    return [Reported("", None, _nameless(row), True) for row in wrong]


def _agnix(place: Path, root: Path) -> list[list[str]]:
    return [[str(place / "bin" / "agnix"), str(root), "--format", "json"]]


def _read_agnix(text: str, root: Path) -> list[Reported]:
    loaded = _first_json(text)
    return [
        Reported(_inside(row["file"], root), row["line"], row["rule"], row["level"] != "info")
        for row in loaded.get("diagnostics", [])
    ]


def _skillsaw(place: Path, root: Path) -> list[list[str]]:
    program = str(place / "bin" / "skillsaw")
    return [[program, "lint", "--format", "json", "--no-progress", str(root)]]


def _read_skillsaw(text: str, root: Path) -> list[Reported]:
    rows = _first_json(text).get("violations", [])
    return [
        Reported(
            _inside(row.get("file_path") or "", root),
            row.get("line"),
            row["rule_id"],
            row["severity"] != "info",
        )
        for row in rows
    ]


def _skilllint(place: Path, root: Path) -> list[list[str]]:
    return [[str(place / "bin" / "skilllint"), "check", "--check", "--json", str(root)]]


def _read_skilllint(text: str, root: Path) -> list[Reported]:
    found: list[Reported] = []
    for file in _first_json(text).get("files", []):
        for validator in file.get("validators", []):
            for issue in validator.get("issues", []):
                rule = issue.get("code") or _nameless(issue["message"])
                is_error = issue["severity"] != "info"
                path = _inside(file["path"], root)
                found.append(Reported(path, issue.get("line"), rule, is_error))
    return found


def _rulesync(place: Path, root: Path) -> list[list[str]]:
    program = str(place / "node_modules" / ".bin" / "rulesync")
    return [[program, "import", "--targets", "claudecode", "--features", "skills"]]


def _read_rulesync(text: str, root: Path) -> list[Reported]:
    rows = [row for row in text.splitlines() if re.search(r"invalid|error|fail", row, re.I)]
    return [Reported("", None, _nameless(row), True) for row in rows]


CHECKERS: dict[str, Checker] = {
    "scaffold": Checker("", ours, _read_ours),
    "skills-ref": Checker("skills-ref==0.1.1", _skills_ref, _read_skills_ref),
    "agnix": Checker("agnix==0.59.3", _agnix, _read_agnix),
    "skillsaw": Checker("skillsaw==0.22.0", _skillsaw, _read_skillsaw),
    "skilllint": Checker("skilllint==1.21.4", _skilllint, _read_skilllint),
    "rulesync": Checker("rulesync@17.0.0", _rulesync, _read_rulesync),
}


def install(checker: Checker, place: Path) -> None:
    """Install a checker into an empty folder.

    Raises:
        ProcessError: It cannot be installed.
    """
    if not checker.package:
        return
    if "==" in checker.package:
        _quietly([sys.executable, "-m", "venv", str(place)])
        _quietly([str(place / "bin" / "python"), "-m", "pip", "install", "-q", checker.package])
        return
    place.mkdir()
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(place)]
    _quietly(["npm", "install", *options, NODE, checker.package])


def environment(place: Path) -> dict[str, str]:
    """Return the environment of a checker: its own programs first, no colours, its own home.

    Bytecode is kept, as that of an installed package is, whatever the environment says of it.
    """
    home = place.parent / f"{place.name}-home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join([str(place / "node_modules" / ".bin"), os.environ.get("PATH", "")])
    known = {"PATH": path, "HOME": str(home), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    known["PYTHONPYCACHEPREFIX"] = str(home / "bytecode")
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**given, **known}


def _quietly(command: list[str]) -> None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ProcessError(f"not installed: {error}") from error
    if ran.returncode:
        last = (ran.stderr.strip() or ran.stdout.strip() or "no message").splitlines()[-1]
        raise ProcessError(f"not installed: {last}")


def _first_json(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        return {}
    loaded: dict[str, Any] = json.JSONDecoder().raw_decode(text[start:])[0]
    return loaded


def _inside(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}/").removeprefix("./")


def _nameless(message: str) -> str:
    """Return a message without what it quotes and counts, to compare it with others."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|\d+", "_", message)[:120]
