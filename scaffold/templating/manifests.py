"""What can be made: every kind.toml, and the template.toml of every style, of every source."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.config import FieldError, Fields
from scaffold.errors import RequestError, TemplateError, nearest
from scaffold.templating.sources import builtin_folder, is_own, template_sources
from scaffold.templating.spec import (
    Answer,
    AnswerType,
    FileRule,
    Kind,
    NextStep,
    RegistryRule,
    Style,
    UseRule,
    support_source,
)

MANIFEST_SCHEMA = 1
"""The newest manifest format that this version reads."""

ANSWER_TYPES: tuple[AnswerType, ...] = ("str", "int", "float", "bool")
CHECKS = ("", "regex", "identifier", "dotted", "rows")
SAMPLED = ("question", "answer", "prompt", "chosen", "rejected", "rows", "tasks")
"""What a sample of the data can answer; see `scaffold.units.columns`."""

NAMED = ("pascal", "flat_upper")
"""The spellings of a name that an answer may be by default."""

DEFAULT_SOURCES = (
    "",
    *(f"sample:{name}" for name in SAMPLED),
    *(f"name:{name}" for name in NAMED),
)


class TemplateSource(NamedTuple):
    """A folder of kinds and styles, and whose it is: builtin, repository or "package NAME"."""

    origin: str
    folder: Path


class Catalogue:
    """Every kind and style that can be made, from one source of templates or several.

    Args:
        sources: Strongest first: a style or kind.toml of one hides its namesake in the next.
    """

    def __init__(self, *sources: TemplateSource) -> None:
        self.sources = sources
        self._kinds: dict[str, Kind] = {}
        self._styles: dict[tuple[str, str], Style] = {}
        self._style_names: dict[str, tuple[str, ...]] = {}

    def kind_names(self) -> tuple[str, ...]:
        """Return every kind that has a manifest, sorted."""
        found = (path for each in self.sources for path in each.folder.glob("*/kind.toml"))
        return tuple(sorted({path.parent.name for path in found if is_own(str(path))}))

    def style_names(self, kind: str) -> tuple[str, ...]:
        """Return every style of a kind, sorted."""
        if kind not in self._style_names:
            folders = (each.folder / kind for each in self.sources)
            found = (path for folder in folders for path in folder.glob("*/template.toml"))
            names = {path.parent.name for path in found if is_own(str(path))}
            self._style_names[kind] = tuple(sorted(names))
        return self._style_names[kind]

    def kind(self, name: str) -> Kind:
        """Read ``<kind>/kind.toml``.

        Raises:
            RequestError: There is no such kind.
            TemplateError: The manifest is wrong.
        """
        if name not in self._kinds:
            found = self._find(f"{name}/kind.toml")
            # A name such as `../x` or that of a linked folder leads to a file and is no kind.
            if found is None or name not in self.kind_names():
                raise RequestError(
                    f"unknown kind {name!r}{nearest(name, self.kind_names())}",
                    code="unknown_kind",
                )
            path, origin = found
            try:
                self._kinds[name] = _read_kind(name, path, origin)
            except (FieldError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise _broken(path, error) from error
        return self._kinds[name]

    def style(self, kind: str, name: str) -> Style:
        """Read ``<kind>/<style>/template.toml``.

        Raises:
            RequestError: The kind has no such style.
            TemplateError: The manifest is wrong.
        """
        if (kind, name) not in self._styles:
            found = self._find(f"{kind}/{name}/template.toml")
            if found is None or name not in self.style_names(kind):
                known = nearest(name, self.style_names(kind))
                raise RequestError(
                    f"unknown {kind} {self.kind(kind).option} {name!r}{known}",
                    code="unknown_style",
                )
            path, origin = found
            try:
                fields = _open_manifest(path)
                style = Style(
                    **_common(name, path, origin, fields, prefix=f"{name}/"),
                    framework=fields.text("framework", ""),
                    names=fields.text_map("names"),
                    verify=fields.table("verify"),
                )
                fields.done()
            except (FieldError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise _broken(path, error) from error
            self._styles[kind, name] = style
        return self._styles[kind, name]

    def styles(self, kind: Kind, chosen: Iterable[str]) -> tuple[Style, ...]:
        """Read the chosen styles of a kind, each once, in the order of their names.

        Raises:
            RequestError: A style is unknown, none is chosen, or too many are.
        """
        # Sorted, so that the order on the command line does not change what is written.
        names = sorted(set(chosen)) or ([kind.default] if kind.default else [])
        known = ", ".join(self.style_names(kind.name))
        if not names:
            raise RequestError(
                f"a {kind.name} needs --{kind.option}: {known}",
                code="answer_missing",
                hint=f"give --{kind.option}" + (" once or more" if kind.multiple else ""),
            )
        if len(names) > 1 and not kind.multiple:
            raise RequestError(f"a {kind.name} has one --{kind.option} of: {known}", code="usage")
        return tuple(self.style(kind.name, name) for name in names)

    def files(self, kind: str, support: Iterable[str] = ()) -> dict[str, bytes]:
        """Return every template file of a kind, by its path in the kind's folder.

        A stronger source lays its files over those of a weaker one; links are left out.

        Args:
            kind: The kind.
            support: Modules of areal-lite to return as well, by `support_source`.

        Raises:
            TemplateError: This tool has no such module.
        """
        found = {support_source(name): _read_support(name) for name in support}
        # The strongest source comes last, so that its files win.
        for source in reversed(self.sources):
            folder = source.folder / kind
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder)
                if path.is_file() and is_own(str(path)) and "__pycache__" not in inside.parts:
                    found[inside.as_posix()] = path.read_bytes()
        return found

    def _find(self, path: str) -> tuple[Path, str] | None:
        for source in self.sources:
            if is_own(str(source.folder / path)) and (source.folder / path).is_file():
                return source.folder / path, source.origin
        return None


def _read_support(module: str) -> bytes:
    # Beside the templates: the training package of a checkout, or what the wheel has of it.
    path = templates_folder().parent / support_source(module)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TemplateError(
            f"there is no module areal.{module} to write into a target", code="template_invalid"
        ) from error


def templates_folder() -> Path:
    """Return the folder of the built-in templates."""
    return Path(builtin_folder())


@functools.cache
def builtin_catalogue() -> Catalogue:
    """Return the templates that come with the tool."""
    return Catalogue(TemplateSource("builtin", templates_folder()))


def catalogue_for(root: Path | str | None) -> Catalogue:
    """Return what can be made in a repository.

    Args:
        root: Its folder, or None outside of one; templates under .scaffold/templates come first,
            then those of installed packages, then the built-in ones.
    """
    # The last one is the built-in folder, whose catalogue is read once for all.
    *foreign, _ = template_sources(None if root is None else str(root))
    sources = [TemplateSource(origin, Path(folder)) for origin, folder in foreign]
    own = builtin_catalogue()
    return Catalogue(*sources, *own.sources) if sources else own


def kind_names() -> tuple[str, ...]:
    """Return the built-in kinds."""
    return builtin_catalogue().kind_names()


def style_names(kind: str) -> tuple[str, ...]:
    """Return the built-in styles of a kind."""
    return builtin_catalogue().style_names(kind)


def load_kind(name: str) -> Kind:
    """Return a built-in kind; see `Catalogue.kind`."""
    return builtin_catalogue().kind(name)


def load_style(kind: str, name: str) -> Style:
    """Return a built-in style; see `Catalogue.style`."""
    return builtin_catalogue().style(kind, name)


def _broken(path: Path, error: Exception) -> TemplateError:
    text = str(error)
    # Errors of Fields name the file already.
    message = text if text.startswith(str(path)) else f"{path}: {text}"
    return TemplateError(message, code="template_invalid")


def _open_manifest(path: Path) -> Fields:
    fields = Fields(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    fields.check_schema(MANIFEST_SCHEMA, TemplateError)
    return fields


def _common(name: str, path: Path, origin: str, fields: Fields, prefix: str) -> dict[str, Any]:
    table = fields.table("answers")
    return {
        "name": name,
        "folder": path.parent,
        "origin": origin,
        "version": fields.integer("version"),
        "title": fields.text("title"),
        "help": fields.text("help"),
        "answers": {key: _read_answer(key, fields, table) for key in table},
        # Templates of a style lie in its folder, those that styles share directly in the kind's.
        "files": tuple(_read_file(row, prefix) for row in fields.tables("files")),
        "next": tuple(_read_next(row) for row in fields.tables("next")),
        "support": fields.texts("support", ()),
    }


def _read_kind(name: str, path: Path, origin: str) -> Kind:
    fields = _open_manifest(path)
    style = fields.fields("style")
    kind = Kind(
        **_common(name, path, origin, fields, prefix=""),
        command=fields.text("command", ""),
        new_folder=fields.boolean("new_folder", False),
        suffixes=fields.texts("suffixes", ()),
        reserved=fields.texts("reserved", ()),
        option=style.text("option", "style"),
        multiple=style.boolean("multiple", False),
        default=style.text("default", ""),
        symbol=fields.text("symbol", ""),
        subject=fields.text("subject", ""),
        writer=fields.text("writer", ""),
        names=fields.text_map("names"),
        place=fields.text_map("place"),
        registry=tuple(read_registry(row) for row in fields.tables("registry")),
        use=tuple(_read_use(row) for row in fields.tables("use")),
        verify=fields.table("verify"),
    )
    style.done()
    fields.done()
    return kind


def read_registry(row: Fields) -> RegistryRule:
    """Read a [[registry]] table, of a kind.toml, a layout or [tool.scaffold].

    Raises:
        FieldError: A key is missing, unknown or wrong.
    """
    rule = RegistryRule(
        shape=row.text("shape", "dict"),
        key=row.text("key"),
        value=row.text("value", ""),
        file=row.text("file", ""),
        table=row.text("table", ""),
        code=row.texts("code", ()),
        near=row.text("near", ""),
    )
    row.done()
    if not set(rule.code) <= {"key", "value"}:
        raise FieldError(f'{row.where}: code holds other words than "key" and "value"')
    return rule


def _read_use(row: Fields) -> UseRule:
    rule = UseRule(
        row.text("key"), row.text("value"), row.text("where"), row.boolean("is_code", False)
    )
    row.done()
    return rule


def _read_file(row: Fields, prefix: str) -> FileRule:
    rule = FileRule(prefix + row.text("from"), row.text("to"), row.text("role", "source"))
    row.done()
    return rule


def _read_next(row: Fields) -> NextStep:
    step = NextStep(
        row.text("file", ""),
        row.text("why"),
        row.text("symbol", ""),
        row.text("like", ""),
        row.boolean("unused", False),
    )
    row.done()
    return step


def _read_answer(name: str, parent: Fields, table: dict[str, Any]) -> Answer:
    where = f"{parent.where} [answers.{name}]"
    row = Fields(cast("dict[str, Any]", table[name]), where)
    kind = row.text("type")
    if kind not in ANSWER_TYPES:
        raise FieldError(f"{where}: type {kind!r}{nearest(kind, ANSWER_TYPES)}")
    answer = Answer(
        name=name,
        type=kind,
        help=row.text("help"),
        default=row.value("default", None),
        choices=row.texts("choices", ()),
        pattern=row.text("pattern", ""),
        check=row.text("check", ""),
        minimum=row.value("min", None),
        maximum=row.value("max", None),
        option=row.text("option", "--" + name.replace("_", "-")),
        default_from=row.text("default_from", ""),
        excludes=row.texts("excludes", ()),
        multiple=row.boolean("multiple", False),
    )
    row.done()
    if answer.multiple and kind != "str":
        raise FieldError(f"{where}: multiple is for the type str, not {kind}")
    if answer.check not in CHECKS:
        raise FieldError(f"{where}: check {answer.check!r}{nearest(answer.check, CHECKS)}")
    if answer.default_from not in DEFAULT_SOURCES:
        raise FieldError(
            f"{where}: default_from {answer.default_from!r}"
            f"{nearest(answer.default_from, DEFAULT_SOURCES)}"
        )
    return answer
