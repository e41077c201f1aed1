"""What is learned from the files beside a new one, and what a target says itself."""

from __future__ import annotations

import pytest

from scaffold.target.style import FileStyle, apply_file_style, learn_file_style, learn_test

HEADER = "# Copyright 2026 The Authors\n# SPDX-License-Identifier: MIT\n"
NUMPY = 'def f(a):\n    """Adds.\n\n    Parameters\n    ----------\n    a : int\n    """\n'


def test_the_header_of_most_files_is_the_header() -> None:
    body = "\nX = 1\n"
    siblings = {
        "a.py": HEADER + body,
        "b.py": "#!/usr/bin/env python\n" + HEADER + body,
        "c.py": body,
    }
    assert learn_file_style(siblings).header == HEADER


@pytest.mark.parametrize(
    "siblings",
    [
        {},
        {"a.py": HEADER + "\nX = 1\n"},
        {"a.py": "# about a\nX = 1\n", "b.py": "# about a\nX = 1\n"},
        {"a.py": HEADER, "b.py": "X = 1\n", "c.py": "Y = 1\n", "d.py": HEADER},
    ],
)
def test_without_a_clear_majority_there_is_no_header(siblings: dict[str, str]) -> None:
    assert learn_file_style(siblings).header == ""


def test_the_form_of_docstrings_is_learned() -> None:
    assert learn_file_style({"a.py": NUMPY, "b.py": NUMPY}).docstrings == "numpy"
    assert learn_file_style({"a.py": NUMPY}).docstrings == "google"


@pytest.mark.parametrize(
    ("tests", "pattern"),
    [
        (["tests/losses/test_mse.py", "tests/losses/test_mae.py"], "tests/losses/test_{key}.py"),
        (["tests/mse/test_mse.py", "tests/mae/test_mae.py"], "tests/{key}/test_{key}.py"),
        (["tests/mse_test.py", "tests/mae_test.py", "tests/a/test_mse.py"], "tests/{key}_test.py"),
        (["tests/test_mse.py"], ""),
        (["tests/a/test_mse.py", "tests/b/test_mae.py"], ""),
        (["tests/{{name}}/test_mse.py", "tests/{{name}}/test_mae.py"], ""),
        ([], ""),
    ],
)
def test_where_tests_stand_is_learned(tests: list[str], pattern: str) -> None:
    assert learn_test(["mse", "mae", "huber"], tests) == pattern


def test_a_header_goes_behind_shebang_and_encoding() -> None:
    file_style = FileStyle(header=HEADER)
    text = b'#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""Doc."""\n'
    after = apply_file_style("x.py", text, file_style)
    first, second, rest = after.split(b"\n", 2)
    assert (first, second) == tuple(text.split(b"\n")[:2])
    assert rest == HEADER.encode() + b'\n"""Doc."""\n'
    assert apply_file_style("x.py", after, file_style) == after


def test_other_files_and_the_default_manner_change_nothing() -> None:
    assert apply_file_style("x.md", b"# Title\n", FileStyle(HEADER, "numpy")) == b"# Title\n"
    assert apply_file_style("x.py", NUMPY.encode(), FileStyle()) == NUMPY.encode()
