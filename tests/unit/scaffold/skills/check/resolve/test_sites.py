"""Links on pages of documentation: what the site's generator shows is there, the rest is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import check_repository

SITES = {
    "mkdocs": {"mkdocs.yml": "site_name: x\ndocs_dir: 'pages'\n"},
    "sphinx": {"pages/conf.py": "extensions = ['myst_parser']\n"},
    "docusaurus": {"pages/docusaurus.config.ts": "export default {}\n"},
    "mintlify": {"pages/docs.json": '{"navigation": []}\n'},
    "doc-builder": {"pages/_toctree.yml": "- title: x\n"},
}
PAGES = {
    "pages/guide/start.md": "# Start\n",
    "pages/guide/more/index.md": "# More\n",
    "pages/api.rst": "Api\n===\n",
    "pages/named.md": "## A heading {#own-name}\n\n(target)=\n## Other\n\n## `_init_a` of __x__\n",
    "pages/img/a.png": "x",
}
RIGHT = [
    "guide/start", "guide/start/", "guide/start.html", "./guide/start.md", "guide/more",
    "guide/more/",
    "api", "api.html", "/guide/start", "../guide/start/", "named.md#own-name", "named.md#target",
    "named.md#_init_a-of-x",
    "img/a.png", "generated/some.module.html", "package.structures.InstanceData", "package.io.load",
]  # fmt: skip
WRONG = ["guide/gone.md", "named.md#no-such-name", "img/gone.png", "gone.png"]


def findings(root: Path, links: list[str], files: dict[str, str]) -> list[str]:
    text = "# Page\n\n" + "\n".join(f"- [a page]({link})" for link in links) + "\n"
    for path, content in {**PAGES, **files, "pages/page.md": text}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    found = check_repository(Repository.at(root), ["pages/page.md"]).findings
    lines = text.splitlines()
    return [lines[each.line - 1].partition("](")[2].rstrip(")") for each in found]


@pytest.mark.parametrize("site", SITES)
def test_a_link_is_resolved_as_on_the_site(tmp_path: Path, site: str) -> None:
    assert findings(tmp_path, [*RIGHT, *WRONG], SITES[site]) == WRONG


def test_without_a_site_an_address_without_its_suffix_leads_nowhere(tmp_path: Path) -> None:
    assert findings(tmp_path, ["guide/start", "guide/start.md"], {}) == ["guide/start"]


def test_docusaurus_finds_pages_beside_it_and_behind_a_number(tmp_path: Path) -> None:
    files = {"website/docusaurus.config.js": "x", "docs/02-intro.md": "# In\n", "docs/page.md": ""}
    files |= {"website/static/img/b.png": "x"}
    (tmp_path / "docs").mkdir()
    text = "[a](./intro) [b](/docs/intro) [c](/img/b.png) [d](gone.md)\n"
    for path, content in {**files, "docs/page.md": text}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = check_repository(Repository.at(tmp_path), ["docs/page.md"]).findings
    assert [each.message for each in found] == ["the link 'gone.md' leads nowhere"]
