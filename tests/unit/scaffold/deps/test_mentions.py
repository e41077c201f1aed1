"""Which lines name the release that a package leaves."""

from __future__ import annotations

import re

import pytest

from scaffold.deps.plan import _names

PATTERN = re.compile(r"(?<![\w.])v?1\.0(?![A-Za-z0-9]|\.\d)")


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("plugin==1.0", False),
        ('    "plugin[extra]>=0.5,<1.0",', False),
        ("toolbox==1.0", True),
        ("VERSION=1.0", True),
        ("see the notes of toolbox 1.0", True),
        ("plugin==1.0  # as toolbox 1.0 wants", True),
    ],
)
def test_a_pin_of_another_package_is_no_mention(row: str, is_named: bool) -> None:
    assert _names(PATTERN, row, re.compile("toolbox")) is is_named
