"""A table of pyproject.toml: found, absent, in the wrong place, or in a file that is broken."""

from __future__ import annotations

import pytest

from scaffold.analysis.project.tool_table import inner_table, read_tool_table, settings_errors
from scaffold.errors import RequestError, ScaffoldError, TargetError


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
    table = read_tool_table(text, "deps")
    assert {key: table.value(key) for key in table.names()} == expected


@pytest.mark.parametrize("error", [RequestError, TargetError])
def test_a_broken_file_that_speaks_to_this_tool_is_an_error(error: type[ScaffoldError]):
    with pytest.raises(error, match="cannot be read") as caught:
        read_tool_table("[tool.scaffold.deps\n", "deps", error)
    assert caught.value.code == "target_invalid"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("color = 1", "unknown key 'color'; did you mean 'colour'? known: colour, size"),
        ("colour = 1", "key 'colour' must be str, not int"),
        ("size = 2", "key 'size' must be at least 3, not 2"),
        ("size = true", "key 'size' must be int, not bool"),
    ],
)
def test_a_wrong_setting_is_named_with_its_table_and_page(text: str, message: str):
    table = read_tool_table(f"[tool.scaffold.demo]\n{text}\n", "demo")

    def read():
        with settings_errors("docs/en/demo.md"):
            table.text("colour", "")
            table.integer("size", 3, minimum=3)
            table.done()

    with pytest.raises(RequestError) as caught:
        read()
    assert caught.value.message == f"pyproject.toml [tool.scaffold.demo]: {message}"
    assert (caught.value.code, caught.value.hint) == ("target_invalid", "docs/en/demo.md")


def test_names_lead_inwards():
    assert inner_table({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    assert inner_table({"a": {"b": 2}}, "a", "b", "c") == {}
