"""Files of data as values: what cannot be read is None, and never the end of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.data_files import load_data
from scaffold.analysis.files.files import Files


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("a.yaml", "a:\n  b: [1, 2]\n", {"a": {"b": [1, 2]}}),
        ("a.yaml", "a: {", None),
        ("a.yaml", "[" * 60_000, None),
        ("a.yaml", "- " * 60_000, None),
        ("a.json", "[" * 60_000, None),
        ("a.toml", "a = " + "[" * 60_000, None),
    ],
    ids=["sound", "broken", "deep flow", "deep block", "deep JSON", "deep TOML"],
)
def test_a_file_is_a_value_or_none(tmp_path: Path, name: str, text: str, value: object) -> None:
    (tmp_path / name).write_text(text)
    assert load_data(name, Files(tmp_path, [name], has_git=False)) == value
