"""What a repository says of its documents: ``[tool.scaffold.docs]`` in its pyproject.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.globs import matches
from scaffold.analysis.project.tool_table import read_tool_table
from scaffold.errors import RequestError, nearest


@dataclass(frozen=True)
class Settings:
    """Is what a repository says of its documents.

    Args:
        source: The folder with the pages to translate; empty to look for one.
        translation: The folder with the translated pages; empty to look for one.
        glossary: The file with the terms; empty for ``glossary.toml`` beside the translation.
        pages: Further pages with their translations.
        exclude: Pages (patterns) and sections (``page#key``) that stay untranslated, and why.
        generated: Pages that something writes (patterns).
    """

    source: str = ""
    translation: str = ""
    glossary: str = ""
    pages: Mapping[str, str] = field(default_factory=dict[str, str])
    exclude: Mapping[str, str] = field(default_factory=dict[str, str])
    generated: tuple[str, ...] = ()

    def why_excluded(self, path: str) -> str:
        """Returns why a page stays untranslated, or nothing."""
        if matches(path, self.generated):
            return "generated"
        for pattern, reason in self.exclude.items():
            if "#" not in pattern and matches(path, [pattern]):
                return reason
        return ""

    def excluded_sections(self, path: str) -> frozenset[str]:
        """Returns the keys of the sections of a page that stay untranslated."""
        split = (pattern.partition("#") for pattern in self.exclude)
        return frozenset(key for page, _, key in split if key and matches(path, [page]))


KEYS = {
    "source": str,
    "translation": str,
    "glossary": str,
    "pages": dict,
    "exclude": dict,
    "generated": list,
}


def read_settings(files: Files) -> Settings:
    """Returns the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong.
    """
    text = files.text("pyproject.toml") if "pyproject.toml" in files.paths else None
    table = read_tool_table(text, "docs")
    given = {key: _checked(key, value) for key, value in table.items()}
    if bool(given.get("source")) != bool(given.get("translation")):
        raise _wrong("", "`source` and `translation` are given together, or neither is")
    return Settings(**given)


def _checked(key: str, value: Any) -> Any:
    if key not in KEYS:
        raise _wrong(key, f"it is no key of this table{nearest(key, KEYS)}")
    if not isinstance(value, KEYS[key]):
        raise _wrong(key, f"{value!r} is no {_WORDS[KEYS[key]]}")
    if isinstance(value, str):
        return value.strip("/").removeprefix("./")
    if isinstance(value, dict):
        rows = cast("dict[str, Any]", value)
        if not all(isinstance(text, str) and text.strip() for text in rows.values()):
            what = "a translation" if key == "pages" else "a reason in words"
            raise _wrong(key, f"each of its keys needs {what}")
        return rows
    items = cast("list[Any]", value)
    if not all(isinstance(item, str) for item in items):
        raise _wrong(key, "it holds texts alone")
    return tuple(items)


_WORDS = {str: "text", dict: "table of texts", list: "list of texts"}


def _wrong(key: str, why: str) -> RequestError:
    name = f" {key}" if key else ""
    return RequestError(
        f"pyproject.toml, [tool.scaffold.docs]{name}: {why}",
        code="target_invalid",
        hint="docs/en/translation.md of areal-scaffold shows every key",
    )
