"""Where pages and their translations are: found in every usual form, or configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.errors import ScaffoldError
from scaffold.translation.documents import Documents
from scaffold.translation.glossary import read_glossary


def documents(root: Path, *paths: str, config: str = "", **texts: str) -> Documents:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts.get(path, "# A\n"), encoding="utf-8")
    if config:
        (root / "pyproject.toml").write_text(config, encoding="utf-8")
    return Documents(list_files(root))


@pytest.mark.parametrize(
    ("paths", "pages"),
    [
        (["docs/en/a.md", "docs/zh/a.md"], {"docs/en/a.md": "docs/zh/a.md"}),
        (["docs/en/a.md"], {"docs/en/a.md": "docs/zh/a.md"}),
        (["docs/en/b/a.md", "docs/zh_CN/x.md"], {"docs/en/b/a.md": "docs/zh_CN/b/a.md"}),
        (["docs/a.md", "docs_zh/a.md"], {"docs/a.md": "docs_zh/a.md"}),
        (["docs/a.md", "docs/zh-CN/a.md"], {"docs/a.md": "docs/zh-CN/a.md"}),
        (["docs/a.md", "docs/ja/a.md", "docs/cn/a.md"],
         {"docs/a.md": "docs/cn/a.md"}),
        (["i18n/en/a.md", "i18n/zh/a.md"], {"i18n/en/a.md": "i18n/zh/a.md"}),
        (["docs/a.md", "i18n/zh/a.md"], {"docs/a.md": "i18n/zh/a.md"}),
        (["docs/a.md", "i18n/zh-CN/docusaurus-plugin-content-docs/current/a.md"],
         {"docs/a.md": "i18n/zh-CN/docusaurus-plugin-content-docs/current/a.md"}),
        (["docs/a.md", "zh/docs/a.md"], {"docs/a.md": "zh/docs/a.md"}),
        (["README.md", "README_zh.md"], {"README.md": "README_zh.md"}),
        (["README.md", "README.zh-CN.md"], {"README.md": "README.zh-CN.md"}),
        (["README.md", "README-CN.md"], {"README.md": "README-CN.md"}),
        (["docs/a.md", "docs/a.zh.md", "docs/b.md"], {"docs/a.md": "docs/a.zh.md"}),
        (["README.md", "README.zh.md", "docs/en/a.md", "docs/zh/a.md"],
         {"README.md": "README.zh.md", "docs/en/a.md": "docs/zh/a.md"}),
    ],
)  # fmt: skip
def test_usual_places_are_found(tmp_path: Path, paths: list[str], pages: dict[str, str]) -> None:
    assert documents(tmp_path, *paths).layout.pages == pages


def test_no_translation_anywhere_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError) as refusal:
        documents(tmp_path, "docs/a.md", "README.md")
    assert refusal.value.code == "docs_missing"
    assert "[tool.scaffold.docs]" in refusal.value.hint


CONFIG = """\
[tool.scaffold.docs]
source = "handbook"
translation = "handbook-cn"
generated = ["handbook/api/*"]

[tool.scaffold.docs.pages]
"GUIDE.md" = "LEITFADEN.md"

[tool.scaffold.docs.exclude]
"handbook/old.md" = "nobody reads it"
"handbook/a.md#b" = "it changes every day"
"""


def test_what_is_configured_counts(tmp_path: Path) -> None:
    paths = ["handbook/a.md", "handbook/old.md", "handbook/api/x.md", "docs/en/a.md", "GUIDE.md"]
    found = documents(tmp_path, *paths, config=CONFIG)
    assert found.wanted_pages() == ["GUIDE.md", "handbook/a.md"]
    assert found.why_excluded("handbook/old.md") == "nobody reads it"
    assert found.why_excluded("handbook/api/x.md") == "generated"
    assert found.settings.excluded_sections("handbook/a.md") == {"b"}
    assert found.layout.pages["GUIDE.md"] == "LEITFADEN.md"
    assert found.layout.glossary == "handbook-cn/glossary.toml"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('source = "docs"', "given together"),
        ('sauce = "docs"', "did you mean 'source'?"),
        ("generated = [1]", "strings only"),
        ('generated = "a"', "must be list, not str"),
        ('exclude = {"a.md" = ""}', "a reason in words"),
        ("pages = {a = 1}", "'a' must be a string"),
        ('pages = {"b.md" = "c.md"}', "'b.md' of [tool.scaffold.docs.pages] does not exist"),
        ("source = [", "pyproject.toml cannot be read"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, config: str, message: str) -> None:
    with pytest.raises(ScaffoldError) as refusal:
        documents(tmp_path, "docs/en/a.md", config=f"[tool.scaffold.docs]\n{config}\n")
    assert refusal.value.code == "target_invalid"
    assert message in refusal.value.message


def test_a_configured_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError) as refusal:
        documents(tmp_path, "docs/en/a.md", config=CONFIG)
    assert refusal.value.code == "docs_missing"
    assert "'handbook'" in refusal.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keep = 1", "not a list of words"),
        ('keep = [""]', "not a list of words"),
        ("terms = 1", "not a table"),
        ("[terms]\na = []", "translates 'a' by no word"),
        ("[words]", "has the key 'words'"),
        ("keep = [", "is not valid TOML"),
    ],
)
def test_a_wrong_glossary_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "glossary.toml").write_text(text)
    with pytest.raises(ScaffoldError) as refusal:
        read_glossary(list_files(tmp_path), "glossary.toml")
    assert refusal.value.code == "target_invalid"
    assert message in refusal.value.message


def test_terms_are_found_in_the_plural_and_beside_chinese(tmp_path: Path) -> None:
    text = 'keep = ["reward"]\n[terms]\n"training package" = "训练包"\n"package" = ["包", "库"]\n'
    (tmp_path / "glossary.toml").write_text(text, encoding="utf-8")
    glossary = read_glossary(list_files(tmp_path), "glossary.toml")
    used = {term.name: term for term in glossary.used_in("Rewards of a training\npackage")}
    assert sorted(used) == ["reward", "training package"]
    assert used["reward"].is_in("每个reward函数")
    assert not used["reward"].is_in("奖励")
    assert used["training package"].is_translated_in("这个训练 包")
    assert [term.name for term in glossary.used_in("a package, rewarded")] == ["package"]
