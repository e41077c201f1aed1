"""The versions that a project's own files name: floors and limits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from scaffold.analysis.files.data_files import load_data
from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.tool_table import inner_table

Version = tuple[int, ...]

# `>=3.11`, `^18.0`, `~=3.10`, `==3.12`, or a bare `20` or `20.x`, as package.json has them.
_FLOOR = lazy_re(r"(?:>=|\^|~=?|==)\s*v?(\d+(?:\.\d+)*)|^\s*v?(\d+(?:\.\d+)*)(?:\.x)?\s*$")
# `requirements-dev.txt`, `gpu.constraints.txt`; `requirements/test.in`.
_REQUIREMENTS = lazy_re(r"(?:^|/)[^/]*(?:requirements|constraints)[^/]*\.(?:txt|in|pip)$", re.I)
_IN_FOLDER = lazy_re(r"(?:^|/)(?:requirements|constraints)/[^/]+\.(?:txt|in)$", re.IGNORECASE)
_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py", "environment.yml", "environment.yaml")
_LIMIT = lazy_re(r"([<>]=?|==|~=)\s*v?(\d+(?:\.\d+)*)")
_LIMITED = lazy_re(
    r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,. -]+\])?\s*"
    r"(?P<limits>(?:(?:[<>!]=?|===?|~=)\s*v?\d[\w.*!+]*\s*,?\s*)+)"
)


class Project:
    """The versions that the files of a project name.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def floors(self, tool: str) -> dict[str, Version]:
        """Return the lowest version of a tool ("python", "node") by file."""
        return self._floors.get(tool, {})

    @cached_property
    def _floors(self) -> dict[str, dict[str, Version]]:
        found: dict[str, dict[str, Version]] = defaultdict(dict)
        for tool, path, text in self._asked():
            if floor := _FLOOR.search(text):
                found[tool][path] = as_version(floor[1] or floor[2])
        return found

    def _asked(self) -> Iterator[tuple[str, str, str]]:
        """Yield a tool, the file that asks for it, and how."""
        for path in self._files.by_name.get("pyproject.toml", ()):
            table = load_data(path, self._files)
            asked = inner_table(table, "project").get("requires-python")
            poetry = inner_table(table, "tool", "poetry", "dependencies")
            yield "python", path, str(asked or poetry.get("python") or "")
        for path in self._files.by_name.get("package.json", ()):
            engines = inner_table(load_data(path, self._files), "engines")
            yield "node", path, str(engines.get("node") or "")
        for name, pattern in (
            ("setup.cfg", r"^python_requires\s*=\s*(.+)$"),
            ("setup.py", r"python_requires\s*=\s*[\"']([^\"']+)"),
        ):
            for path, text in self._texts(name):
                if found := re.search(pattern, text, re.MULTILINE):
                    yield "python", path, found[1]

    @cached_property
    def bounds(self) -> dict[str, dict[tuple[str, str], str]]:
        """The limits of packages: each sign and version with the file that has it."""
        found: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
        for path, row in self._rows():
            for asked in _LIMITED.finditer(row):
                own = found[normal_name(asked["name"])]
                for sign, version in _LIMIT.findall(asked["limits"]):
                    own.setdefault((sign, version), path)
        return found

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of the files that name what the project needs, without comments."""
        paths = [path for path in self._files.paths if is_requirements(path)]
        for name in _MANIFESTS:
            paths += self._files.by_name.get(name, [])
        for path in sorted(paths):
            for row in (self._files.text(path) or "").splitlines():
                # Only `#` behind a space begins a comment: `git+https://host/x#egg=y` holds one
                # too.
                yield path, re.sub(r"(?:^|\s)#.*", "", row)

    def _texts(self, name: str) -> Iterator[tuple[str, str]]:
        for path in self._files.by_name.get(name, ()):
            yield path, self._files.text(path) or ""


def as_version(text: str) -> Version:
    """Return the numbers of a version, without zeros at its end."""
    numbers = [int(each) for each in re.findall(r"\d+", text.partition("+")[0])]
    # 3.11 and 3.11.0 are one version.
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_requirements(path: str) -> bool:
    """Return whether a path is that of requirements or constraints."""
    return bool(_REQUIREMENTS.search(path) or _IN_FOLDER.search(path))


def normal_name(name: str) -> str:
    """Return a distribution's or extra's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# A row that ends in a backslash, unless it is a comment.
_GOES_ON = re.compile(r"^(?![ \t]*#)(.*)(\\\r?\n)", re.MULTILINE)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their offsets; one that goes on is joined by blanks.

    Source:
        pip's requirements file format: a comment does not go on.
    """
    joined = _GOES_ON.sub(lambda found: found[1] + " " * len(found[2]), text)
    for each in re.finditer(r"[^\r\n]+", joined):
        yield each.start(), each[0]
