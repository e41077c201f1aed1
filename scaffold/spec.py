"""The errors of the toolkit, and what template manifests say: kinds, styles, answers, files."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from scaffold.fields import FieldError, Fields

MANIFEST_SCHEMA = 1
"""The newest manifest format that this version reads."""

CODES: dict[str, str] = {
    "aborted": "The person at the keyboard stopped the command.",
    "answer_invalid": "An answer has the wrong type, or is none of the choices.",
    "answer_missing": "A style asks for an answer that has no default, and nobody can be asked.",
    "answers_differ": "The unit exists already, made with other answers.",
    "changed_meanwhile": "A file changed between planning and writing; nothing was written.",
    "fault": "The tool itself is at fault; please report it.",
    "file_exists": "A file that the tool did not make stands where one has to go.",
    "journal_unfinished": "An earlier run was interrupted and its journal cannot be settled alone.",
    "ledger_invalid": "A file under .scaffold/made cannot be read.",
    "locked": "Another scaffold command is writing to the same place.",
    "name_builtin": "The name is that of a Python builtin.",
    "name_characters": "The name holds characters that no identifier can hold.",
    "name_digit": "The name begins with a digit.",
    "name_empty": "The name holds no letter or digit.",
    "name_keyword": "The name is a Python keyword or soft keyword.",
    "name_kind": "The name is only the word for its kind.",
    "name_length": "The name is too long.",
    "name_non_ascii": "The name holds characters outside ASCII.",
    "name_path": "The name holds a path separator or '..'.",
    "name_reserved": "The name is that of a device or of a folder that has another use.",
    "name_stdlib": "A module of this name would shadow one that Python or the project imports.",
    "name_taken": "The name is registered already, in this or another spelling.",
    "outside_target": "A path leads out of the target, perhaps through a link.",
    "registry_computed": "The registry is no literal that can be edited without risk.",
    "registry_differs": "The registry holds the key already, with another value.",
    "registry_generated": "The registry's file is generated and must not be edited.",
    "registry_missing": "The registry's file, or the table in it, does not exist.",
    "registry_syntax": "The registry's file cannot be parsed.",
    "skill_invalid": "A skill's SKILL.md cannot be read.",
    "target_invalid": "The target's [tool.scaffold] table is wrong or incomplete.",
    "target_missing": "No folder that the tool knows how to extend was found.",
    "target_newer": "A newer version of the tool wrote this; upgrade areal-scaffold.",
    "template_invalid": "A template's manifest or one of its files is wrong.",
    "unit_ambiguous": "Units of several kinds share the name.",
    "unit_unknown": "No unit of this id was made here.",
    "unknown_kind": "There is no template of this kind.",
    "unknown_style": "The kind has no style of this name.",
    "usage": "The command line is wrong.",
    "write_failed": "A file could not be written; everything was put back.",
}
"""Every error code with its meaning; codes are stable, agents and scripts may branch on them."""


class ScaffoldError(Exception):
    """Is the root of every error that the toolkit raises on purpose.

    Args:
        message: What was found, and where.
        code: One of CODES.
        hint: What to do about it.
    """

    exit_status = 1

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        assert code in CODES, f"error code {code!r} is not in CODES"
        self.message = message
        self.code = code
        self.hint = hint


class RequestError(ScaffoldError):
    """The request itself is wrong: a name, a kind, a style or an answer."""

    exit_status = 2


class TargetError(ScaffoldError):
    """The target cannot be found, or is not one that the tool can extend."""


class ConflictError(ScaffoldError):
    """The request is sound, but what stands in the target forbids it."""


class RegistryError(ConflictError):
    """A registry cannot be edited without risk; the hint holds the exact text to add by hand."""


class LedgerError(ScaffoldError):
    """The record of what was made cannot be read, or holds no such unit."""


class TemplateError(ScaffoldError):
    """A template is wrong."""


class ApplyError(ScaffoldError):
    """Writing failed, and was undone."""


AnswerValue = str | int | float | bool
AnswerType = Literal["str", "int", "float", "bool"]
ANSWER_TYPES: tuple[AnswerType, ...] = ("str", "int", "float", "bool")
CHECKS = ("", "regex", "identifier", "dotted")
DEFAULT_SOURCES = ("", "training_package")


@dataclass(frozen=True)
class Answer:
    """Says what a question of a style accepts; ``default`` None means that it must be answered."""

    name: str
    type: AnswerType
    help: str
    default: AnswerValue | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    check: str = ""
    minimum: float | None = None
    maximum: float | None = None
    option: str = ""
    default_from: str = ""

    @property
    def is_free_text(self) -> bool:
        """Is true where any text may come in, so that templates must quote it."""
        return self.type == "str" and not (self.choices or self.pattern)


@dataclass(frozen=True)
class FileRule:
    """Says which template file goes where; ``source`` is relative to the kind's folder."""

    source: str
    to: str
    role: str


@dataclass(frozen=True)
class NextStep:
    """Says what is left to do after the unit was made."""

    file: str
    why: str
    symbol: str


@dataclass(frozen=True)
class RegistryRule:
    """Says how a unit of the kind is registered; the file and table come from the target."""

    shape: str
    key: str
    value: str


@dataclass(frozen=True)
class Manifest:
    """Holds what a kind.toml and a template.toml have in common."""

    name: str
    folder: Path
    version: int
    title: str
    help: str
    answers: Mapping[str, Answer]
    files: tuple[FileRule, ...]
    next: tuple[NextStep, ...]


@dataclass(frozen=True)
class Style(Manifest):
    """Is one template of a kind: a folder ``templates/<kind>/<style>``."""


@dataclass(frozen=True)
class Kind(Manifest):
    """Is everything that units of one kind share: where they go and how they are named."""

    command: str = ""
    new_folder: bool = False
    suffixes: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    option: str = "style"
    multiple: bool = False
    default: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    place: Mapping[str, str] = field(default_factory=dict[str, str])
    registry: tuple[RegistryRule, ...] = ()
    verify: Mapping[str, Any] = field(default_factory=dict[str, Any])


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


def all_answers(kind: Kind, styles: Iterable[Style]) -> dict[str, Answer]:
    """Returns every question that the kind and the given styles ask, by name; a style's wins."""
    answers = dict(kind.answers)
    for style in styles:
        answers.update(style.answers)
    return answers


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'? known: a, b"``, without the guess where none is near."""
    import difflib  # costs 3 ms, and only errors need it

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    return f"{guess} known: {', '.join(names) or 'none'}"


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """Replaces every ``{name}`` in a manifest's string.

    Raises:
        TemplateError: The string names a variable that does not exist.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in variables:
            raise TemplateError(
                f"{text!r} names an unknown variable{nearest(found[1], variables)}",
                code="template_invalid",
            )
        return str(variables[found[1]])

    return re.sub(r"\{(\w+)\}", value, text)


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
