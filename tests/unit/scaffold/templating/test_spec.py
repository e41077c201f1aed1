"""Errors and manifest strings."""

from __future__ import annotations

import pytest

from scaffold.templating.spec import CODES, ScaffoldError, TemplateError, fill


def test_fill_replaces_names_and_refuses_unknown_ones():
    assert fill("{a}/{b}.py", {"a": "x", "b": 1}) == "x/1.py"
    with pytest.raises(TemplateError, match="unknown variable"):
        fill("{c}", {"a": "x"})


def test_error_codes_are_a_closed_list():
    with pytest.raises(AssertionError):
        ScaffoldError("message", code="no_such_code")
    assert all(meaning.endswith(".") for meaning in CODES.values())
