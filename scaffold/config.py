"""Typed, strict reading of parsed TOML: a key that nobody asks for is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from scaffold.errors import ScaffoldError, nearest

_MISSING: Any = object()


class FieldError(ValueError):
    """A TOML table lacks a key, has one too many, or holds a value of the wrong type."""


class Fields:
    """One TOML table, read key by key.

    Args:
        table: The parsed table.
        where: What to call the table in messages ("templates/reward/kind.toml [style]").
    """

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._table = table
        self.where = where
        self._known: list[str] = []

    def names(self) -> tuple[str, ...]:
        """Return the keys of the table, for tables whose keys are names that people chose."""
        return tuple(self._table)

    def value(self, key: str, default: Any = _MISSING) -> Any:
        """Return the raw value of a key; raise FieldError for a missing one without default."""
        self._known.append(key)
        if key in self._table:
            return self._table[key]
        if default is _MISSING:
            raise FieldError(f"{self.where}: key {key!r} is missing")
        return default

    def _typed(self, key: str, kind: type, default: Any) -> Any:
        found = self.value(key, default)
        wrong = not isinstance(found, kind) or (kind is int and isinstance(found, bool))
        if wrong and found is not default:
            got = type(found).__name__
            raise FieldError(f"{self.where}: key {key!r} must be {kind.__name__}, not {got}")
        return found

    def text(self, key: str, default: str = _MISSING) -> str:
        return cast(str, self._typed(key, str, default))

    def integer(self, key: str, default: int = _MISSING, *, minimum: int | None = None) -> int:
        """Return an integer that is at least ``minimum``; a boolean is none."""
        found = cast(int, self._typed(key, int, default))
        if minimum is not None and found < minimum:
            raise FieldError(f"{self.where}: key {key!r} must be at least {minimum}, not {found}")
        return found

    def check_schema(self, newest: int, kind: type[ScaffoldError] | None = None) -> None:
        """Read the schema before any other key: a newer one may have changed these.

        Raises:
            FieldError: A newer version wrote the table; an error of ``kind`` where that is given.
        """
        schema = self.integer("schema")
        if schema > newest:
            message = f"{self.where} has schema {schema}; this version reads up to {newest}"
            if kind is None:
                raise FieldError(message)
            raise kind(message, code="target_newer")

    def boolean(self, key: str, default: bool = _MISSING) -> bool:
        return cast(bool, self._typed(key, bool, default))

    def texts(self, key: str, default: tuple[str, ...] = _MISSING) -> tuple[str, ...]:
        """Return an array of strings as a tuple."""
        found = self._typed(key, list, default)
        items = list(found)
        if any(not isinstance(item, str) for item in items):
            raise FieldError(f"{self.where}: key {key!r} must hold strings only")
        return tuple(cast("list[str]", items))

    def table(self, key: str) -> dict[str, Any]:
        """Return a sub-table, empty where the key is missing."""
        return cast("dict[str, Any]", self._typed(key, dict, {}))

    def tables(self, key: str) -> tuple[Fields, ...]:
        """Return an array of tables, each ready for reading."""
        found = cast("list[Any]", self._typed(key, list, []))
        if any(not isinstance(item, dict) for item in found):
            raise FieldError(f"{self.where}: key {key!r} must be an array of tables")
        rows = cast("list[dict[str, Any]]", found)
        return tuple(Fields(row, f"{self.where} [[{key}]] {i}") for i, row in enumerate(rows, 1))

    def fields(self, key: str) -> Fields:
        """Return a sub-table ready for reading."""
        return Fields(self.table(key), f"{self.where} [{key}]")

    def text_map(self, key: str) -> dict[str, str]:
        """Return a sub-table whose values are strings."""
        found = self.table(key)
        for name, value in found.items():
            if not isinstance(value, str):
                raise FieldError(f"{self.where} [{key}]: {name!r} must be a string")
        return cast("dict[str, str]", dict(found))

    def done(self) -> None:
        """Raise FieldError for a key that was never asked for, with the nearest known one."""
        for key in self._table:
            if key not in self._known:
                raise FieldError(f"{self.where}: unknown key {key!r}{nearest(key, self._known)}")
