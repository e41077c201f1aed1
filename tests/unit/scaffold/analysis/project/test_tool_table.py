"""A table of pyproject.toml: found, absent, in the wrong place, or in a file that is broken."""

from __future__ import annotations

import pytest

from scaffold.analysis.project.tool_table import inner_table, read_tool_table
from scaffold.errors import TargetError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("", {}),
        ('[tool.scaffold.deps]\nimports = "yaml"\n', {"imports": "yaml"}),
        ("[tool.other]\nx = 1\n", {}),
        ("tool = 3\n", {}),
        ("[tool]\nscaffold = []\n", {}),
        ("[tool.scaffold]\ndeps = 1\n", {}),
        ("[tool.black\n", {}),  # its own tools say so
    ],
)
def test_a_table_is_what_stands_there(text: str | None, expected: dict[str, object]):
    assert read_tool_table(text, "deps") == expected


def test_a_broken_file_that_speaks_to_this_tool_is_an_error():
    with pytest.raises(TargetError, match="cannot be read") as caught:
        read_tool_table("[tool.scaffold.deps\n", "deps")
    assert caught.value.code == "target_invalid"


def test_names_lead_inwards():
    assert inner_table({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    assert inner_table({"a": {"b": 2}}, "a", "b", "c") == {}
