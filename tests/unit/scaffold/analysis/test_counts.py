"""How many members a collection or an enum has, by its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.counts import count_collection
from scaffold.analysis.repository import Repository


@pytest.mark.parametrize(
    "source",
    [
        "class Colour(Enum):\n    RED = 1\n    BLUE = 2\n    CRIMSON = 1\n    _hidden = 3\n",
        "class Colour(StrEnum):\n    RED = 'r'\n    CRIMSON = RED\n    BLUE = 'b'\n",
        "class Colour(enum.Enum):\n    RED = enum.auto()\n    BLUE = enum.auto()\n",
        "class Colour(Enum):\n    RED = object()\n    BLUE = object()\n",
        "Colour = {'red', 'blue', 'red'}\n",
    ],
)
def test_what_has_two_names_counts_once(source: str, tmp_path: Path) -> None:
    (tmp_path / "colour.py").write_text(source)
    found = count_collection("Colour", None, Repository.at(tmp_path))
    assert found is not None
    assert found.numbers == (2,)
