"""How a specifier moves to a release, in the style that it is written in."""

from __future__ import annotations

import pytest
from packaging.version import Version

from scaffold.deps.pin import admits, moved

MOVES = [
    ("==7.1.2", "8.1.8", "==8.1.8"),
    ("===7.1.2", "8.1.8", "===8.1.8"),
    ("== 7.1.2", "8.1.8", "== 8.1.8"),
    ("==7.*", "8.1.8", "==8.*"),
    ("==7.1.*", "8.1.8", "==8.1.*"),
    ("~=7.1", "8.1.8", "~=8.1"),
    ("~=7.1.2", "8.1.8", "~=8.1.8"),
    (">=7", "8.1.8", ">=7"),
    (">=7,<8", "8.1.8", ">=8,<9"),
    (">=7.1.2, <8.0.0", "8.1.8", ">=8.1.8, <9.0.0"),
    ("<7.2", "8.1.8", "<8.2"),
    ("<=7.1", "8.1.8", "<=8.1.8"),
    ("!=7.0,>=6,<8", "8.1.8", "!=7.0,>=8,<9"),
    (">=9", "8.1.8", ">=8"),
    ("^7.1", "8.1.8", "^8.1"),
    ("^0.3", "0.5.1", "^0.5"),
    ("~7.1", "8.1.8", "~8.1"),
    ("7.1.2", "8.1.8", "8.1.8"),
    ("7.*", "8.1.8", "8.*"),
    ("*", "8.1.8", "*"),
    ("==1!7.0", "1!8.1", "==1!8.1"),
    ("", "8.1.8", ""),
    (">=2,<3", "3.0.0rc2", ">=3.0.0rc2,<4"),
]


@pytest.mark.parametrize(("spec", "version", "expected"), MOVES)
def test_a_specifier_moves_and_admits_the_release(spec: str, version: str, expected: str) -> None:
    found = moved(spec, Version(version))
    assert found == expected
    assert admits(found, Version(version))
    assert moved(found, Version(version)) == found


@pytest.mark.parametrize("spec", ["!=8.1.8", "a||b", "==", "=7", ">=7 <8", "@ file:///x"])
def test_what_cannot_be_moved_is_left_to_a_person(spec: str) -> None:
    assert moved(spec, Version("8.1.8")) is None
