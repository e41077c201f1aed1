"""Is the reference what the command line, the manifests and the errors say?"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """Loads the script that writes the pages."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(reference: ModuleType) -> None:
    behind = [path.name for path in reference.write(check=True)]
    assert behind == [], "run `make docs`"


def test_every_command_stands_in_the_page(reference: ModuleType) -> None:
    rows = reference.commands_table().splitlines()[2:]
    named = [row.split("`")[1].split()[1] for row in rows]
    assert set(named) == {*reference.main.list_commands(reference.click.Context(reference.main))}


def test_a_page_that_is_behind_is_seen(
    reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "PAGE", tmp_path / "scaffold.md")
    assert reference.write(check=True) == [tmp_path / "scaffold.md"]
    assert not (tmp_path / "scaffold.md").exists()
    reference.write(check=False)
    assert (tmp_path / "scaffold.md").read_text().startswith("<!-- Generated")


def test_every_field_is_in_the_page_of_the_configuration(reference: ModuleType) -> None:
    text = reference.configuration_page()
    for name, fields in reference.FIELD_TABLE.items():
        section = text.partition(f"\n## {name.strip('_')}\n")[2].partition("\n## ")[0]
        keys = [row.split("`")[1] for row in section.splitlines() if row.startswith("| `")]
        assert keys == [*fields]


def test_defaults_that_are_not_areals_show_both(reference: ModuleType) -> None:
    (row,) = (
        row for row in reference.configuration_page().splitlines() if row.startswith("| `n_nodes`")
    )
    assert row.startswith("| `n_nodes` | `1` (AReaL: `32`): one machine | **refused**: ")


def test_the_page_of_the_configuration_links_to_its_own_tables(reference: ModuleType) -> None:
    text = reference.configuration_page()
    wanted = set(re.findall(r"\]\(#([a-z0-9]+)\)", text))
    assert wanted <= {head.lower() for head in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
