"""The versions that a project's own files name: floors, limits and exact pins."""

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
# Pins of other files hold for one platform or one use.
_GENERAL = frozenset({*_MANIFESTS, "package.json", "requirements.txt", "constraints.txt"})
# `torch==2.4.0` or `sglang[all] === 0.4.1.post2`; neither `torch==2.*` nor a part of an address.
_PIN = lazy_re(
    r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,. -]+\])?\s*===?\s*"
    r"(?P<version>\d[\w.!+]*)(?![\w.*])"
)
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
        """Return the lowest version of a tool ("python", "node", "go", "rust") by file."""
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
        for path in self._files.by_name.get("Cargo.toml", ()):
            table = load_data(path, self._files)
            asked = inner_table(table, "package").get("rust-version")
            workspace = inner_table(table, "workspace", "package")
            yield "rust", path, str(asked or workspace.get("rust-version") or "")
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
        for path, text in self._texts("go.mod"):
            if found := re.search(r"^go\s+([\d.]+)", text, re.MULTILINE):
                yield "go", path, found[1]

    @cached_property
    def pins(self) -> dict[str, dict[str, str]]:
        """The packages that are pinned exactly: each version with the file that pins it."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for path, row in self._rows():
            for pin in _PIN.finditer(row):
                found[normal_name(pin["name"])].setdefault(pin["version"], path)
        for path in self._files.by_name.get("package.json", ()):
            table = load_data(path, self._files)
            for group in ("dependencies", "devDependencies"):
                for name, version in inner_table(table, group).items():
                    # `^1.2.3` and `~1.2.3` are ranges.
                    if re.fullmatch(r"\d+\.\d+\.\d+[\w.-]*", str(version)):
                        found[normal_name(name)].setdefault(str(version), path)
        return found

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

    def is_general(self, path: str, document: str) -> bool:
        """Return whether the pins of a file hold for everything in a document's folders."""
        folder, _, name = path.rpartition("/")
        return name in _GENERAL and (not folder or document.startswith(f"{folder}/"))

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
