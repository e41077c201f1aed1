"""A key of a configuration that was set, and what it was before."""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """A key that was set in a file; see `scaffold.edit.yaml_setting`.

    Args:
        file: The file, relative to the root.
        key: The way to it from the root, with dots.
        value: What it was set to, as YAML source.
        was: What it was before, as YAML source; None where the key was not there.
    """

    file: str
    key: str
    value: str
    was: str | None = None
