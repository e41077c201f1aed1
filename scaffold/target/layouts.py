"""Layouts: repositories known by their files, as data: what they are recognised by, where units go.

A layout is a file ``templates/layouts/<name>.toml``. Its ``[[detect]]`` rules all have to hold; of
several ``[[places]]`` for one kind, the first whose ``when`` holds is meant.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from scaffold.config import FieldError, Fields
from scaffold.errors import TemplateError
from scaffold.templating.manifests import read_registry
from scaffold.templating.spec import RegistryRule

DOCSTRING_FORMS = ("google", "numpy", "sphinx")
"""The forms of docstrings that can be written; templates have the first."""


LAYOUT_SCHEMA = 1
"""The newest layout format that this version reads."""


class Condition(NamedTuple):
    """Where one of the files exists and its text matches.

    Args:
        files: Paths relative to the root, any of which may do; ``*.py`` means all such files.
        matches: A regular expression, searched with ``^`` and ``$`` at lines; empty for existence.
        absent: The same, which must not be found.
    """

    files: tuple[str, ...]
    matches: str = ""
    absent: str = ""

    def holds(self, root: Path) -> bool:
        """Return whether the condition holds in a repository."""
        return any(self._fits(path) for path in self._paths(root))

    def _paths(self, root: Path) -> list[Path]:
        return [
            path
            for file in self.files
            for path in (sorted(root.glob(file)) if "*" in file else [root / file])
        ]

    def _fits(self, path: Path) -> bool:
        if not path.exists():
            return False
        # Of a folder only the existence can be asked; its text is empty.
        if not self.matches and not self.absent:
            return True
        text = _text(path)
        is_wanted = not self.matches or re.search(self.matches, text, re.MULTILINE) is not None
        return is_wanted and not (self.absent and re.search(self.absent, text, re.MULTILINE))


EVERY_FILE = "*.py"
"""The name of a registry's file where each unit registers itself, as plugins do."""


class Registry(NamedTuple):
    """A table in a file of the target; ``file`` is relative to the root."""

    file: str
    table: str

    @property
    def is_in_units(self) -> bool:
        """Whether every file of the folder registers what it defines."""
        return self.file.rpartition("/")[2] == EVERY_FILE


PLUGIN_NAMES = {
    "registers": "decorator",
    "registered_as": "{key}",
    "symbol": "{source}:{class_name}",
}
"""What is called otherwise where units register themselves; they are imported by their file."""


class KindPlace(NamedTuple):
    """Where units of one kind go in a target.

    Args:
        registry: The table that names them; its folder is where their modules go.
        rules: The lines that register a unit; none for those of the kind's manifest.
        names: What has another name than in the kind's manifest ("source", "test", ...).
        framework: What units here are written for, as styles say it; "" for the training package.
    """

    registry: Registry
    rules: tuple[RegistryRule, ...]
    names: Mapping[str, str]
    framework: str = ""


class LayoutPlace(NamedTuple):
    """Where units of a kind go, in the repositories of a layout where `when` holds."""

    kind: str
    when: tuple[Condition, ...]
    place: KindPlace


class Layout(NamedTuple):
    """A kind of repository that is known without configuration."""

    name: str
    title: str
    package: str
    tests: str
    detect: tuple[Condition, ...]
    places: tuple[LayoutPlace, ...]

    @property
    def lists_files(self) -> bool:
        """Whether it is recognised by files of any name."""
        return any("*" in file for each in self.detect for file in each.files)

    def recognises(self, root: Path) -> bool:
        """Return whether a folder is the root of such a repository."""
        return all(each.holds(root) for each in self.detect)

    def kinds(self, root: Path) -> dict[str, KindPlace]:
        """Return where units go in a repository, by kind."""
        found: dict[str, KindPlace] = {}
        for each in self.places:
            # The first place whose conditions hold wins.
            if each.kind not in found and all(rule.holds(root) for rule in each.when):
                found[each.kind] = each.place
        return found


@functools.cache
def load_layouts(folder: Path) -> tuple[Layout, ...]:
    """Read every layout file of a folder, sorted by name.

    Raises:
        TemplateError: One is wrong.
    """
    found: list[Layout] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            found.append(_read(Fields(tomllib.loads(path.read_text("utf-8")), str(path))))
        except (FieldError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TemplateError(f"{path}: {error}", code="template_invalid") from error
    return tuple(found)


def registry_address(where: str, kind: str, row: str) -> Registry:
    """Read ``folder/file.py:TABLE``, or ``docs/index.md:Heading`` for a file of another format.

    ``folder/*.py:TABLE.register`` names what registers units in their own files.

    Raises:
        FieldError: It does not read so.
    """
    file, _, table = row.partition(":")
    # A heading of a page or a path in YAML is any text.
    parts = re.sub(r"\(\w+\)$", "", table).split(".")
    is_python = file.endswith(".py")
    is_sound = all(map(str.isidentifier, parts)) if is_python else bool(file and table.strip())
    if not is_sound:
        raise FieldError(f'{where}: registry {kind} = "{row}" must read "folder/file.py:TABLE"')
    return Registry(file, table)


def _read(fields: Fields) -> Layout:
    fields.check_schema(LAYOUT_SCHEMA)
    layout = Layout(
        name=fields.text("name"),
        title=fields.text("title"),
        package=fields.text("package"),
        tests=fields.text("tests"),
        detect=tuple(_read_condition(row) for row in fields.tables("detect")),
        places=tuple(_read_places(fields)),
    )
    fields.done()
    if not layout.detect:
        raise FieldError("a layout without [[detect]] would match every folder")
    return layout


def _read_condition(row: Fields) -> Condition:
    files, matches = row.texts("files"), row.text("matches", "")
    absent = row.text("absent", "")
    row.done()
    return Condition(files, matches, absent)


def _read_places(fields: Fields) -> Iterator[LayoutPlace]:
    for row in fields.tables("places"):
        kind = row.text("kind")
        registry = registry_address(row.where, kind, row.text("registry"))
        own = PLUGIN_NAMES if registry.is_in_units else {}
        place = KindPlace(
            registry,
            tuple(read_registry(line) for line in row.tables("lines")),
            {**own, **row.text_map("names")},
            row.text("framework", ""),
        )
        when = tuple(_read_condition(each) for each in row.tables("when"))
        row.done()
        yield LayoutPlace(kind, when, place)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
