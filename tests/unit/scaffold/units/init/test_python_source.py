"""The offsets of a source: of bytes in a line, whatever is in the file, and without reading it."""

from __future__ import annotations

import ast
from typing import Any, ClassVar

from scaffold.units.init.python_source import Source
from scaffold.units.init.spellings import Name


def test_offsets_are_of_characters_where_columns_are_of_bytes():
    source = Source("x = 'é'; yé = 1\nz = 'ü'\n", Name("one"))
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name | ast.Constant)]
    found = {source.text[slice(*source.span(node))] for node in names}
    assert found == {"x", "'é'", "yé", "1", "z", "'ü'"}


class Watched(str):
    """A text that notes how long the parts are that are taken of it."""

    taken: ClassVar[list[int]] = []

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        self.taken.append(len(part))
        return part


def test_an_offset_reads_nothing_of_what_follows():
    source = Source("x = 'é'\n" * 2000, Name("one"))
    source.text = Watched(source.text)
    assert source.offset(3, 7) == 8 * 2 + 6  # a column counts bytes
    assert max(Watched.taken) <= 7
