"""What scaffold made here: one readable file per unit, and beside it the text as rendered."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from scaffold.config import FieldError, Fields
from scaffold.edit.entry import Entry
from scaffold.edit.setting import Setting
from scaffold.errors import LedgerError, ScaffoldError, is_private, nearest
from scaffold.templating.spec import AnswerValue
from scaffold.transaction.change import FOLDER

LEDGER_SCHEMA = 1
"""The newest ledger format that this version reads."""

ATTRIBUTES = f"{FOLDER}/.gitattributes"
ATTRIBUTES_TEXT = b"# The rendered bases: kept byte for byte, folded in diffs.\n\
made/*/*.base/** -text linguist-generated=true\n"


class TemplateUse(NamedTuple):
    """A template that a unit was made from, such as "reward/exact", and its version then."""

    id: str
    version: int
    origin: str = "builtin"


class LedgerFile(NamedTuple):
    """A file that was rendered; the hash is that of the rendered bytes."""

    path: str
    role: str
    sha256: str


class Todo(NamedTuple):
    """What the template leaves to the author: a function, class or assignment."""

    file: str
    symbol: str
    why: str


class Unit(NamedTuple):
    """Everything that is remembered about one made thing.

    ``symbol`` is how it is imported ("pkg.reward.sums:sums_reward_fn"), where it can be.
    ``proof`` is "proven" or "unproven" for a kind that is proven when it is added, else "".
    ``settings`` are the keys of configurations that make runs use it. ``reformatted`` are
    registries that a formatter laid out again because of the unit's lines; what they were before is
    kept beside the bases.
    """

    kind: str
    name: str
    styles: tuple[str, ...]
    answers: Mapping[str, AnswerValue]
    templates: tuple[TemplateUse, ...] = ()
    files: tuple[LedgerFile, ...] = ()
    entries: tuple[Entry, ...] = ()
    todos: tuple[Todo, ...] = ()
    symbol: str = ""
    proof: str = ""
    reformatted: tuple[LedgerFile, ...] = ()
    settings: tuple[Setting, ...] = ()

    @property
    def id(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"


def record_path(kind: str, name: str) -> str:
    """Return where the ledger file of a unit is, relative to the root."""
    return f"{FOLDER}/made/{kind}/{name}.toml"


def base_path(kind: str, name: str, path: str) -> str:
    """Return where the rendered text of a unit's file is kept, relative to the root."""
    return f"{FOLDER}/made/{kind}/{name}.base/{path}.txt"


def dump_unit(unit: Unit) -> bytes:
    """Return a unit as the TOML text of its ledger file."""
    import tomli_w  # not needed by the commands that only read

    data: dict[str, Any] = {
        "schema": LEDGER_SCHEMA,
        "kind": unit.kind,
        "name": unit.name,
        "styles": list(unit.styles),
        "symbol": unit.symbol,
        "proof": unit.proof,
        "answers": dict(sorted(unit.answers.items())),
        "templates": [row._asdict() for row in unit.templates],
        "files": [row._asdict() for row in unit.files],
        "entries": [_dump_entry(row) for row in unit.entries],
        "settings": [
            {name: value for name, value in row._asdict().items() if value is not None}
            for row in unit.settings
        ],
        "places": [row._asdict() for row in unit.todos],
        "reformatted": [row._asdict() for row in unit.reformatted],
    }
    # TOML has no null, and a reader takes what is missing for empty.
    data = {key: value for key, value in data.items() if value not in ([], "")}
    head = "# Made by scaffold. Commit it with the code; it is what updates and removal go by.\n"
    return (head + tomli_w.dumps(data)).encode()


def parse_unit(data: bytes, where: str) -> Unit:
    """Read the TOML text of a ledger file.

    Raises:
        LedgerError: The text is no ledger file, or a newer version wrote it.
    """
    try:
        return _read_unit(Fields(tomllib.loads(data.decode()), where))
    except (FieldError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        text = str(error)
        message = text if text.startswith(where) else f"{where}: {text}"
        raise _invalid(message) from error


def read_units(root: Path) -> tuple[Unit, ...]:
    """Return every unit made in a target, sorted by kind and name.

    Raises:
        LedgerError: A ledger file cannot be read.
    """
    return tuple(read_unit(root, path) for path in _records(root))


def sound_units(root: Path) -> tuple[tuple[Unit, ...], list[ScaffoldError]]:
    """Return every unit whose record can be read, and what is wrong with the other records.

    A record under a merge conflict is no reason to say nothing about all the others.
    """
    units: list[Unit] = []
    problems: list[ScaffoldError] = []
    for path in _records(root):
        try:
            units.append(read_unit(root, path))
        except LedgerError as error:
            problems.append(error)
    return tuple(units), problems


def unit_ids(root: Path) -> list[str]:
    """Return the ids of all units made in a target, sorted; reads none of them."""
    return [f"{path.parent.name}/{path.stem}" for path in _records(root)]


def _records(root: Path) -> list[Path]:
    return sorted((root / FOLDER / "made").glob("*/*.toml"))


def read_unit(root: Path, path: Path) -> Unit:
    """Read a ledger file of a target, which is named after its unit.

    Raises:
        LedgerError: It cannot be read, or is another unit's.
    """
    where = str(path.relative_to(root))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _invalid(f"{where}: {error.strerror}") from error
    unit = parse_unit(data, where)
    # A copied or renamed record would make removal delete the files of another unit.
    if (unit.kind, unit.name) != (path.parent.name, path.stem):
        raise _invalid(f"{where} has the id {unit.id!r}")
    return unit


def find_unit(root: Path, unit_id: str) -> Unit:
    """Return the unit of an id: ``kind/name``, or a bare name where it is unique.

    A kind may be named by its first word ("archon/qwen3"), and a name be spelled with dashes.

    Raises:
        LedgerError: There is no such unit, several kinds have one of that name, or its ledger file
            cannot be read.
    """
    ids = unit_ids(root)
    # By the names of the records: none but the one that is meant has to be readable.
    found = [each for each in ids if _means(unit_id, each)]
    if len(found) > 1:
        raise LedgerError(
            f"{unit_id!r} is ambiguous: {', '.join(found)}", code="unit_ambiguous", hint="name one"
        )
    if not found:
        raise LedgerError(
            f"there is no unit {unit_id!r} here{nearest(unit_id, ids)}",
            code="unit_unknown",
            hint="`scaffold status` lists the units",
        )
    return read_unit(root, root / record_path(*found[0].split("/")))


def _means(typed: str, unit_id: str) -> bool:
    kind, _, name = unit_id.partition("/")
    asked, _, rest = typed.rpartition("/")
    is_kind = asked in ("", kind) or kind.startswith(asked + "-")
    # `archon/qwen3` means `archon-model/qwen3`.
    return is_kind and rest.replace("-", "_") == name


def _invalid(message: str) -> LedgerError:
    return LedgerError(
        message, code="ledger_invalid", hint="repair it, or restore it from version control"
    )


def _read_unit(fields: Fields) -> Unit:
    # Before the other keys, which a newer format may have changed.
    fields.check_schema(LEDGER_SCHEMA, LedgerError)
    unit = Unit(
        kind=fields.text("kind"),
        name=fields.text("name"),
        styles=fields.texts("styles"),
        answers=cast("dict[str, AnswerValue]", fields.table("answers")),
        symbol=fields.text("symbol", ""),
        proof=fields.text("proof", ""),
        templates=tuple(
            TemplateUse(row.text("id"), row.integer("version"), row.text("origin"))
            for row in fields.tables("templates")
        ),
        files=_read_files(fields, "files"),
        entries=tuple(
            Entry(
                _inside(row, "file"),
                *(row.text(name) for name in ("table", "shape", "key", "value")),
                code=row.texts("code", ()),
            )
            for row in fields.tables("entries")
        ),
        todos=tuple(
            Todo(_inside(row, "file"), row.text("symbol"), row.text("why"))
            for row in fields.tables("places")
        ),
        reformatted=_read_files(fields, "reformatted"),
        settings=tuple(
            Setting(
                _inside(row, "file"), row.text("key"), row.text("value"), row.value("was", None)
            )
            for row in fields.tables("settings")
        ),
    )
    fields.done()
    return unit


def _read_files(fields: Fields, key: str) -> tuple[LedgerFile, ...]:
    return tuple(
        LedgerFile(_inside(row, "path"), row.text("role"), row.text("sha256"))
        for row in fields.tables(key)
    )


def _dump_entry(entry: Entry) -> dict[str, Any]:
    row = {**vars(entry), "code": list(entry.code)}
    # Where it was to go is of no use once it is there.
    del row["near"]
    return {name: value for name, value in row.items() if value != []}


def _inside(row: Fields, key: str) -> str:
    path = row.text(key)
    parts = PurePosixPath(path).parts
    # A record comes with the repository, and removal deletes what it names.
    if not parts or path.startswith("/") or ".." in parts or "\\" in path:
        raise FieldError(f"{row.where}: {key} = {path!r} leads out of the target")
    if is_private(path):
        raise FieldError(f"{row.where}: {key} = {path!r} is not the code's but git's or the tool's")
    return path
