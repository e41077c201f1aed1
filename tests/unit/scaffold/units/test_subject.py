"""Where the tests of a module can run is read from its text."""

from __future__ import annotations

import ast

import pytest

from scaffold.units.subject import _platform


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("import sys\nassert sys.platform == 'win32'", "win32"),
        ("if sys.platform != 'win32':\n    raise ImportError", "win32"),
        ("if sys.platform == 'win32':\n    a = 1\nelse:\n    raise ImportError('x')", "win32"),
        ("assert sys.platform != 'win32'", ""),
        ("if sys.platform == 'win32':\n    a = 1\nelse:\n    a = 2", ""),
        ("def f():\n    assert sys.platform == 'win32'", ""),
    ],
)
def test_a_module_for_one_platform_is_known(text: str, platform: str) -> None:
    assert _platform(ast.parse(text)) == platform
