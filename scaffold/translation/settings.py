"""The settings of documents: ``[tool.scaffold.docs]`` in pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.globs import matches
from scaffold.analysis.project.tool_table import project_text, read_tool_table, settings_errors
from scaffold.config import FieldError, Fields
from scaffold.errors import TargetError


@dataclass(frozen=True)
class Settings:
    """What a repository wants of its documents.

    Args:
        language: Of the translations, as folders and files are named for it: "zh", "ja", "pt".
        source: The folder with the pages to translate; empty to look for one.
        translation: The folder with the translated pages; empty to look for one.
        glossary: The file with the terms; empty for ``glossary.toml`` beside the translation.
        pages: Further pages with their translations.
        exclude: Pages (patterns) and sections (``page#key``) that stay untranslated, and why.
        generated: Pages that something writes (patterns).
    """

    language: str = "zh"
    source: str = ""
    translation: str = ""
    glossary: str = ""
    pages: Mapping[str, str] = field(default_factory=dict[str, str])
    exclude: Mapping[str, str] = field(default_factory=dict[str, str])
    generated: tuple[str, ...] = ()

    def why_excluded(self, path: str) -> str:
        """Return why a page stays untranslated, or nothing."""
        if matches(path, self.generated):
            return "generated"
        for pattern, reason in self.exclude.items():
            # `guide.md#key` leaves out one section, and not the page.
            if "#" not in pattern and matches(path, [pattern]):
                return reason
        return ""

    def excluded_sections(self, path: str) -> frozenset[str]:
        """Return the keys of the sections of a page that stay untranslated."""
        split = (pattern.partition("#") for pattern in self.exclude)
        return frozenset(key for page, _, key in split if key and matches(path, [page]))


def read_settings(files: Files) -> Settings:
    """Return the settings of a repository; without any, the default ones.

    Raises:
        RequestError: They are wrong.
        TargetError: The file is no TOML.
    """
    table = read_tool_table(project_text(files), "docs", TargetError)
    with settings_errors("docs/en/translation.md of areal-scaffold shows every key"):
        language = table.text("language", "zh")
        if not re.fullmatch("[a-z]{2,3}", language):
            raise FieldError(f"{table.where} language: {language!r} is not a code such as 'ja'")
        settings = Settings(
            language,
            *(_path(table, key) for key in ("source", "translation", "glossary")),
            pages=_text_map(table, "pages", "a translation"),
            exclude=_text_map(table, "exclude", "a reason in words"),
            generated=table.texts("generated", ()),
        )
        table.done()
        # With one alone, the other would have to be guessed.
        if bool(settings.source) != bool(settings.translation):
            raise FieldError(
                f"{table.where}: `source` and `translation` are given together, or neither is"
            )
    return settings


def _path(table: Fields, key: str) -> str:
    return table.text(key, "").strip("/").removeprefix("./")


def _text_map(table: Fields, key: str, what: str) -> dict[str, str]:
    found = table.text_map(key)
    if not all(text.strip() for text in found.values()):
        raise FieldError(f"{table.where} [{key}]: each of its keys needs {what}")
    return found
