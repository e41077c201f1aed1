"""Where a repository keeps its pages and their translations, and what it sets of them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.globs import matches
from scaffold.analysis.project.tool_table import project_text, read_tool_table, settings_errors
from scaffold.config import FieldError, Fields
from scaffold.errors import TargetError

SOURCE_FOLDERS = ("docs", "doc", "documentation", "content")
# The beginning of a path: `ja/`, `zh-cn/`, `pt_br/`.
_OTHER_LANGUAGE = re.compile(
    r"(?:ar|cn|de|es|fa|fr|hi|id|it|ja|jp|ko|kr|pl|pt|ru|tr|uk|vi|zh)(?:[-_][a-z]{2,4})?/",
    re.IGNORECASE,
)
_PAGE = re.compile(r".+\.(?:md|markdown)\Z", re.IGNORECASE)
_SKIPPED = re.compile(r"(?:^|/)(?:\.[^/]+|node_modules|vendor|third_party|site-packages)/")
# Where Docusaurus keeps the pages of a language, below `i18n/zh`.
_DOCUSAURUS = "docusaurus-plugin-content-docs/current"


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


class Language(NamedTuple):
    """How folders and files are named for a language, in letters of either case.

    Attributes:
        file: The name of a file: `guide.zh.md`, `README_zh-CN.md`, `setup-cn.markdown`.
        text: The pattern of both.
    """

    code: str
    folder: re.Pattern[str]
    file: re.Pattern[str]
    text: str

    @classmethod
    def of(cls, code: str) -> Language:
        """Return the names for a code."""
        # Of Chinese, the simplified one.
        text = rf"{code}(?:[-_][a-z]{{2,4}})?"
        text = r"(?:zh|cn)(?:[-_](?:cn|hans|hans[-_]cn))?" if code == "zh" else text
        file = rf"(?P<stem>.+?)[._-]{text}\.(?P<end>md|markdown)\Z"
        return cls(code, re.compile(rf"{text}\Z", re.I), re.compile(file, re.I), text)


@dataclass
class Layout:
    """The places of pages.

    Args:
        source: The folder of the pages; empty where each is beside its translation.
        translation: The folder of the translations, or empty.
        how: How both were found, for people.
        pages: Each page with its translation, whether that exists or not.
        orphans: Translations whose page is gone.
        glossary: The file with the terms, whether it exists or not.
    """

    source: str
    translation: str
    how: str
    pages: dict[str, str] = field(default_factory=dict[str, str])
    orphans: tuple[str, ...] = ()
    glossary: str = ""


def find_layout(files: Files, settings: Settings) -> Layout:
    """Return where pages and translations are, as configured or as found.

    Raises:
        TargetError: There are no pages, or nothing shows where their translations go.
    """
    language = Language.of(settings.language)
    paths = sorted(path for path in files.paths if _PAGE.match(path) and not _SKIPPED.search(path))
    if settings.source:
        layout = Layout(settings.source, settings.translation, "as configured")
        if not any(_below(path, settings.source) for path in paths):
            raise TargetError(
                f"the folder {settings.source!r} of [tool.scaffold.docs] holds no Markdown file",
                code="docs_missing",
                hint="name the folder of the pages as `source` in pyproject.toml",
            )
    else:
        layout = _found(paths, language)
    _fill(layout, paths, language)
    layout.pages = dict(_beside(paths, language)) | layout.pages
    for page, other in settings.pages.items():
        if page not in files.paths:
            raise TargetError(
                f"{page!r} of [tool.scaffold.docs.pages] does not exist",
                code="target_invalid",
                hint="name a page by its path from the folder of pyproject.toml",
            )
        layout.pages[page] = other
    if not layout.pages:
        raise TargetError(
            f"{files.root} has no pages with a translation ({language.code}) beside them",
            code="docs_missing",
            hint="name both folders as `source` and `translation` under [tool.scaffold.docs] in "
            "pyproject.toml",
        )
    layout.pages = dict(sorted(layout.pages.items()))
    layout.glossary = settings.glossary or posixpath.join(layout.translation, "glossary.toml")
    return layout


def _found(paths: list[str], language: Language) -> Layout:
    folders = {str(each) for path in paths for each in PurePosixPath(path).parents} - {"."}
    # The first pair is the surest.
    for english, other in _folder_pairs(folders, language):
        return Layout(english, other, "found")
    for folder in sorted(folders):
        is_documentation = folder.partition("/")[0] in (*SOURCE_FOLDERS, "i18n", "en")
        if folder.rpartition("/")[2].lower() == "en" and is_documentation:
            return Layout(folder, f"{folder[:-2]}{language.code}", "found; no translation yet")
    return Layout("", "", "pages with their translation beside them")


def _folder_pairs(folders: set[str], language: Language) -> Iterator[tuple[str, str]]:
    """Yield folders of pages with the folders of their translations, the surest first."""
    # Folders near the top are documentation more often than deep ones.
    ordered = sorted(folders, key=lambda folder: (folder.count("/"), folder))
    translated = [each for each in ordered if language.folder.match(each.rpartition("/")[2])]
    for folder in translated:  # docs/en and docs/zh
        parent = folder.rpartition("/")[0]
        for name in ("en", "en-us", "en_us", "en-US", "en_US"):
            english = posixpath.join(parent, name)
            if english in folders:
                yield english, folder
    for name in SOURCE_FOLDERS:
        if name not in folders:
            continue
        for folder in ordered:  # docs and docs_zh
            if re.fullmatch(rf"{name}[-_.]{language.text}", folder, re.IGNORECASE):
                yield name, folder
        for folder in translated:  # docs with docs/zh, i18n/zh, zh/docs
            parent, _, last = folder.rpartition("/")
            inner = posixpath.join("i18n", last)
            if parent == name:
                yield name, folder
            elif folder == inner:
                current = f"{folder}/{_DOCUSAURUS}"
                yield name, current if current in folders else folder
            elif posixpath.join(folder, name) in folders:
                yield name, posixpath.join(folder, name)


def _fill(layout: Layout, paths: Iterable[str], language: Language) -> None:
    """Take in the pages of the two folders."""
    if not layout.source:
        return
    others = {path for path in paths if _below(path, layout.translation)}
    for path in paths:
        if _below(path, layout.source) and path not in others and not language.file.match(path):
            inner = path[len(layout.source) + 1 :]
            # docs/ja below docs is a translation too, and no page to translate.
            if not _OTHER_LANGUAGE.match(inner):
                layout.pages[path] = f"{layout.translation}/{inner}"
    layout.orphans = tuple(sorted(others - set(layout.pages.values())))


def _beside(paths: list[str], language: Language) -> Iterator[tuple[str, str]]:
    """Yield pages whose translation is beside them under a name with the language."""
    # Case is folded, for `readme.zh.md` beside `README.md`.
    there = {path.lower(): path for path in paths}
    for path in paths:
        if found := language.file.match(path):
            page = there.get(f"{found['stem']}.{found['end']}".lower())
            # README.zh.md may go with README.en.md.
            page = page or there.get(f"{found['stem']}.en.{found['end']}".lower())
            if page:
                yield page, path


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
