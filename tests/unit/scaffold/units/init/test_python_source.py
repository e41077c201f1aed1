"""The offsets of a source: of bytes in a line, whatever is in the file, and without reading it."""

from __future__ import annotations

import ast
import time

from scaffold.units.init.python_source import Source
from scaffold.units.init.spellings import Name


def test_offsets_are_of_characters_where_columns_are_of_bytes():
    source = Source("x = 'é'; yé = 1\nz = 'ü'\n", Name("one"))
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name | ast.Constant)]
    found = {source.text[slice(*source.span(node))] for node in names}
    assert found == {"x", "'é'", "yé", "1", "z", "'ü'"}


def test_an_offset_takes_as_long_in_a_large_file_as_in_a_small_one():
    def seconds(rows: int) -> float:
        source = Source("x = 'é'\n" * rows, Name("one"))
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            for _ in range(200):
                source.offset(3, 4)
            best = min(best, time.process_time() - started)
        return best

    # Reading what follows would take hundreds of times as long.
    assert seconds(20_000) < 20 * seconds(20)
