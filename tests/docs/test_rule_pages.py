"""Has every rule a page, and do the pages say what the rules and their fixtures say?"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rule_pages() -> ModuleType:
    """Loads the script that writes the pages."""
    spec = importlib.util.spec_from_file_location("rule_pages", ROOT / "docs" / "rule_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(rule_pages: ModuleType) -> None:
    behind = [path.name for path in rule_pages.write(check=True)]
    assert behind == [], "run `make docs`"


def test_a_page_without_a_rule_is_seen(
    rule_pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_pages, "FOLDER", tmp_path)
    rule_pages.write(check=False)
    assert rule_pages.write(check=True) == []
    (tmp_path / "old-rule.md").write_text("gone\n")
    assert rule_pages.write(check=True) == [tmp_path / "old-rule.md"]
