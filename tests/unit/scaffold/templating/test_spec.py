"""Errors and manifest strings."""

from __future__ import annotations

import pytest

from scaffold.errors import TemplateError
from scaffold.templating.spec import fill


def test_fill_replaces_names_and_refuses_unknown_ones():
    assert fill("{a}/{b}.py", {"a": "x", "b": 1}) == "x/1.py"
    with pytest.raises(TemplateError, match="unknown variable"):
        fill("{c}", {"a": "x"})
