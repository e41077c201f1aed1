"""Reads the templates' manifests: every kind.toml, and the template.toml of every style."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from scaffold.fields import FieldError, Fields
from scaffold.spec import (
    Answer,
    AnswerType,
    FileRule,
    Kind,
    NextStep,
    RegistryRule,
    RequestError,
    Style,
    TemplateError,
    nearest,
)

MANIFEST_SCHEMA = 1
"""The newest manifest format that this version reads."""

ANSWER_TYPES: tuple[AnswerType, ...] = ("str", "int", "float", "bool")
CHECKS = ("", "regex", "identifier", "dotted")
DEFAULT_SOURCES = ("", "training_package")


def templates_folder() -> Path:
    """Returns the built-in templates: inside an installed package, else beside it in the checkout.

    Raises:
        TemplateError: Neither folder exists.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_data" / "templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise TemplateError(
        f"no templates in {package}",
        code="template_invalid",
        hint="the installation is broken; reinstall areal-scaffold",
    )


def kind_names() -> tuple[str, ...]:
    """Returns every kind that has a manifest, sorted."""
    return tuple(sorted(path.parent.name for path in templates_folder().glob("*/kind.toml")))


def style_names(kind: str) -> tuple[str, ...]:
    """Returns every style of a kind, sorted."""
    found = (templates_folder() / kind).glob("*/template.toml")
    return tuple(sorted(path.parent.name for path in found))


@functools.cache
def load_kind(name: str) -> Kind:
    """Reads ``templates/<name>/kind.toml``.

    Raises:
        RequestError: There is no such kind.
        TemplateError: The manifest is wrong.
    """
    if name not in kind_names():
        raise RequestError(
            f"unknown kind {name!r}{nearest(name, kind_names())}", code="unknown_kind"
        )
    path = templates_folder() / name / "kind.toml"
    try:
        return _read_kind(name, path)
    except (FieldError, tomllib.TOMLDecodeError) as error:
        raise _broken(path, error) from error


@functools.cache
def load_style(kind: str, name: str) -> Style:
    """Reads ``templates/<kind>/<name>/template.toml``.

    Raises:
        RequestError: The kind has no such style.
        TemplateError: The manifest is wrong.
    """
    if name not in style_names(kind):
        raise RequestError(
            f"unknown {kind} {load_kind(kind).option} {name!r}{nearest(name, style_names(kind))}",
            code="unknown_style",
        )
    path = templates_folder() / kind / name / "template.toml"
    try:
        fields = _open_manifest(path)
        style = Style(**_common(name, path, fields, prefix=f"{name}/"))
        fields.done()
    except (FieldError, tomllib.TOMLDecodeError) as error:
        raise _broken(path, error) from error
    return style


def load_styles(kind: Kind, chosen: Iterable[str]) -> tuple[Style, ...]:
    """Reads the chosen styles of a kind, each once, in the order of their names.

    Raises:
        RequestError: A style is unknown, none is chosen, or too many are.
    """
    names = sorted(set(chosen)) or ([kind.default] if kind.default else [])
    known = ", ".join(style_names(kind.name))
    if not names:
        raise RequestError(
            f"a {kind.name} needs --{kind.option}: {known}",
            code="answer_missing",
            hint=f"give --{kind.option}" + (" once or more" if kind.multiple else ""),
        )
    if len(names) > 1 and not kind.multiple:
        raise RequestError(f"a {kind.name} has one --{kind.option} of: {known}", code="usage")
    return tuple(load_style(kind.name, name) for name in names)


def _broken(path: Path, error: Exception) -> TemplateError:
    text = str(error)
    message = text if text.startswith(str(path)) else f"{path}: {text}"
    return TemplateError(message, code="template_invalid")


def _open_manifest(path: Path) -> Fields:
    fields = Fields(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    schema = fields.integer("schema")
    if schema > MANIFEST_SCHEMA:
        raise TemplateError(
            f"{path} has manifest schema {schema}; this version reads up to {MANIFEST_SCHEMA}",
            code="target_newer",
            hint="pip install --upgrade areal-scaffold",
        )
    return fields


def _common(name: str, path: Path, fields: Fields, prefix: str) -> dict[str, Any]:
    table = fields.table("answers")
    return {
        "name": name,
        "folder": path.parent,
        "version": fields.integer("version"),
        "title": fields.text("title"),
        "help": fields.text("help"),
        "answers": {key: _read_answer(key, fields, table) for key in table},
        "files": tuple(_read_file(row, prefix) for row in fields.tables("files")),
        "next": tuple(_read_next(row) for row in fields.tables("next")),
    }


def _read_kind(name: str, path: Path) -> Kind:
    fields = _open_manifest(path)
    style = fields.fields("style")
    kind = Kind(
        **_common(name, path, fields, prefix=""),
        command=fields.text("command"),
        new_folder=fields.boolean("new_folder", False),
        suffixes=fields.texts("suffixes", ()),
        reserved=fields.texts("reserved", ()),
        option=style.text("option", "style"),
        multiple=style.boolean("multiple", False),
        default=style.text("default", ""),
        names=fields.text_map("names"),
        place=fields.text_map("place"),
        registry=tuple(_read_registry(row) for row in fields.tables("registry")),
        verify=fields.table("verify"),
    )
    style.done()
    fields.done()
    return kind


def _read_registry(row: Fields) -> RegistryRule:
    rule = RegistryRule(row.text("shape"), row.text("key"), row.text("value"))
    row.done()
    return rule


def _read_file(row: Fields, prefix: str) -> FileRule:
    rule = FileRule(prefix + row.text("from"), row.text("to"), row.text("role", "source"))
    row.done()
    return rule


def _read_next(row: Fields) -> NextStep:
    step = NextStep(row.text("file"), row.text("why"), row.text("symbol", ""))
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
    )
    row.done()
    if answer.check not in CHECKS:
        raise FieldError(f"{where}: check {answer.check!r}{nearest(answer.check, CHECKS)}")
    if answer.default_from not in DEFAULT_SOURCES:
        raise FieldError(
            f"{where}: default_from {answer.default_from!r}"
            f"{nearest(answer.default_from, DEFAULT_SOURCES)}"
        )
    return answer
