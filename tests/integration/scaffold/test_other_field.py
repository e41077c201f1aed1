"""A repository of another field is taught by one of its units, and its kind works as the own ones.

The first one keeps scrapers: a src/ layout, a dictionary of classes, `__all__`, imports, a Markdown
table, mkdocs, CODEOWNERS, entry points, licence headers, NumPy docstrings. The second keeps losses:
a decorator and a list in a text file, no src/ and no pyproject.toml.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaffold.target.target import key_names

pytestmark = pytest.mark.heavy

Command = Callable[..., Any]

HEAD = "# Copyright 2024 The Scrapers Authors.\n# SPDX-License-Identifier: MIT\n"

SOURCE = '''"""Reads the front page of @title@."""

from __future__ import annotations

from scrapers.base import Article, Scraper


class @pascal@Scraper(Scraper):
    """Scrapes @title@.

    Parameters
    ----------
    limit : int
        The most articles to return.
    """

    name = "@key@"
    url = "https://@dashed@.example/"

    def __init__(self, limit: int = 10) -> None:
        self.limit = limit

    def parse(self, html: str) -> list[Article]:
        """Return the articles of a page.

        Parameters
        ----------
        html : str
            The page.

        Returns
        -------
        list of Article
            The newest first.
        """
        rows = self.rows(html, marker="h2")
        return [Article(self.name, f"{row}") for row in rows[: self.limit]]
'''

TEST = '''"""Tests of the @title@ scraper."""

from pathlib import Path

from scrapers.sources import SCRAPERS
from scrapers.sources.@key@ import @pascal@Scraper

PAGE = Path(__file__).parent / "pages" / "@key@.html"


def test_@key@_parses_its_page():
    articles = @pascal@Scraper(limit=1).parse(PAGE.read_text())
    assert [each.source for each in articles] == ["@key@"]


def test_@key@_is_registered():
    assert SCRAPERS["@key@"] is @pascal@Scraper
'''

PAGE = """<html><title>@title@</title>
<h2>One</h2>
<h2>{{ two }} {% if %} {# three #}</h2>
</html>
"""

DOC = """# @title@

The front page of @title@, by `@pascal@Scraper`.

```python
from scrapers.sources.@key@ import @pascal@Scraper
```
"""

BASE = '''"""What scrapers share."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Article:
    """Is one article."""

    source: str
    title: str


class Scraper:
    """Reads one site."""

    def rows(self, html: str, marker: str) -> list[str]:
        """Return the text of every element of a kind."""
        return re.findall(rf"<{marker}>(.*?)</{marker}>", html)
'''

REGISTRY = '''"""Every scraper by its name."""

from __future__ import annotations

from scrapers.base import Scraper
from scrapers.sources.bbc import BbcScraper
from scrapers.sources.heise import HeiseScraper
from scrapers.sources.heise_plus import HeisePlusScraper

__all__ = ["SCRAPERS", "BbcScraper", "HeisePlusScraper", "HeiseScraper"]

SCRAPERS: dict[str, type[Scraper]] = {
    "bbc": BbcScraper,
    "heise": HeiseScraper,
    "heise_plus": HeisePlusScraper,
}
'''

OTHERS = {
    "src/scrapers/__init__.py": HEAD + '"""Scrapers of news."""\n',
    "src/scrapers/base.py": HEAD + BASE,
    "src/scrapers/sources/__init__.py": HEAD + REGISTRY,
    "docs/index.md": """# Scrapers

## Sources

| Source     | Class              | Page                                |
| ---------- | ------------------ | ----------------------------------- |
| bbc        | `BbcScraper`       | [Bbc](sources/bbc.md)               |
| heise      | `HeiseScraper`     | [Heise](sources/heise.md)           |
| heise_plus | `HeisePlusScraper` | [Heise plus](sources/heise_plus.md) |
""",
    "mkdocs.yml": """site_name: Scrapers
nav:
  - Home: index.md
  - Sources:
      - Bbc: sources/bbc.md
      - Heise: sources/heise.md
      - Heise plus: sources/heise_plus.md
""",
    "CODEOWNERS": """* @core
/src/scrapers/sources/bbc.py @news
/src/scrapers/sources/heise.py @news
/src/scrapers/sources/heise_plus.py @paid
""",
    "pyproject.toml": """[project]
name = "scrapers"
version = "1.0"

[project.entry-points."scrapers.sources"]
bbc = "scrapers.sources.bbc:BbcScraper"
heise = "scrapers.sources.heise:HeiseScraper"
heise_plus = "scrapers.sources.heise_plus:HeisePlusScraper"

[tool.pytest.ini_options]
pythonpath = ["src"]

[tool.ruff]
line-length = 100
src = ["src"]

[tool.ruff.lint]
select = ["D100", "D419", "E", "F", "I"]

[tool.ruff.lint.per-file-ignores]
"tests/*" = ["D"]
""",
    "README.md": "# Scrapers\n\nReady to use: bbc, heise and heise_plus.\n",
    "CHANGELOG.md": "- Added heise.\n",
    "src/scrapers/cli.py": HEAD + '"""Runs one."""\n\nDEFAULT = "heise"\n',
    ".gitignore": "build/\n.ruff_cache/\n__pycache__/\n",
    "build/copy/heise.py": "raise SystemExit('nobody looks here')\n",
}


def make_scrapers(root: Path) -> None:
    """Writes a repository of three scrapers; the name of one holds that of another."""
    texts = dict(OTHERS)
    for key in ("bbc", "heise", "heise_plus"):
        words = key.split("_")
        names = {
            "key": key,
            "dashed": "-".join(words),
            "pascal": "".join(map(str.capitalize, words)),
            "title": " ".join(words).capitalize(),
        }
        for path, text in (
            (f"src/scrapers/sources/{key}.py", HEAD + SOURCE),
            (f"tests/test_{key}.py", HEAD + TEST),
            (f"tests/pages/{key}.html", PAGE),
            (f"docs/sources/{key}.md", DOC),
        ):
            for name, value in names.items():
                text = text.replace(f"@{name}@", value)
            texts[path] = text
    write(root, texts)


LOSS = '''"""The @words@ loss."""

import statistics

from losses.registry import register

@upper@_SCALE = 1.0


@register("@key@")
def @key@_loss(predicted, wanted):
    """Returns the @words@ of distances."""
    distances = [abs(a - b) for a, b in zip(predicted, wanted, strict=True)]
    return statistics.mean(distances) * @upper@_SCALE
'''

LOSSES = {
    "losses/__init__.py": "",
    "losses/registry.py": '''"""The registry: modules that are enabled register their losses."""

import importlib
from pathlib import Path

LOSSES = {}


def register(name):
    def keep(function):
        LOSSES[name] = function
        return function

    return keep


def load():
    for line in (Path(__file__).parent / "enabled.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            importlib.import_module(f"losses.{line}_loss")
    return LOSSES
''',
    "losses/enabled.txt": "# Enabled losses, one per line.\nhuber\nmean\nsmooth_mean",
    "setup.cfg": "[metadata]\nname = losses\n",
}


def make_losses(root: Path) -> None:
    """Writes a repository of three losses; one is called like a function of `statistics`."""
    texts = dict(LOSSES)
    for key in ("huber", "mean", "smooth_mean"):
        names = {"key": key, "upper": key.upper(), "words": key.replace("_", " ")}
        text = LOSS
        for name, value in names.items():
            text = text.replace(f"@{name}@", value)
        texts[f"losses/{key}_loss.py"] = text
        texts[f"test/{key}_loss_test.py"] = (
            "from losses.registry import load\n\n\n"
            f'def test_{key}():\n    assert load()["{key}"]([1.0], [1.0]) == 0.0\n'
        )
    write(root, texts)


def write(root: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())


def tree(root: Path) -> dict[str, bytes]:
    """Returns every file with its bytes, those of git and of caches apart."""
    apart = {".git", ".ruff_cache", "__pycache__", "state"}
    paths = [path for path in sorted(root.rglob("*")) if not apart & set(path.parts)]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


def commit(root: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *argv], cwd=root, check=True)


def run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *argv], cwd=root, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, scaffold: Command) -> Path:
    """Makes the scrapers, and teaches them by one."""
    root = tmp_path_factory.mktemp("taught")
    make_scrapers(root)
    commit(root)
    done = scaffold(root, "init", "--like", "heise", "--yes", "--json")
    assert done.status == 0, done.text
    (root / "report.json").write_text(json.dumps(done.report))
    return root


@pytest.fixture(scope="module")
def extended(taught: Path, tmp_path_factory: pytest.TempPathFactory, scaffold: Command) -> Path:
    """Adds a scraper to them."""
    root = tmp_path_factory.mktemp("extended") / "repository"
    shutil.copytree(taught, root)
    done = scaffold(root, "add", "scraper", "New Site", "--json")
    assert done.status == 0, done.text
    (root / "report.json").write_text(json.dumps(done.report))
    return root


@pytest.fixture
def repository(extended: Path, tmp_path: Path) -> Path:
    """Copies them for a test that changes them."""
    return shutil.copytree(extended, tmp_path / "repository")


def test_everything_of_the_example_is_found(taught: Path):
    draft = json.loads((taught / "report.json").read_text())["draft"]
    assert (draft["kind"], draft["example"]) == ("scraper", "heise")
    assert {row["path"]: row["role"] for row in draft["files"]} == {
        "src/scrapers/sources/heise.py": "source",
        "tests/test_heise.py": "test",
        "tests/pages/heise.html": "data",
        "docs/sources/heise.md": "doc",
    }
    lines = {(row["file"], row["line"]): row["shape"] for row in draft["registry"]}
    assert lines == {
        ("CODEOWNERS", 3): "owners",
        ("docs/index.md", 8): "markdown",
        ("mkdocs.yml", 6): "yaml",
        ("pyproject.toml", 7): "toml",
        ("src/scrapers/sources/__init__.py", 9): "import",
        ("src/scrapers/sources/__init__.py", 12): "list",
        ("src/scrapers/sources/__init__.py", 16): "dict",
    }


def test_units_are_left_out_and_made_again_and_a_new_one_is_imported(taught: Path):
    draft = json.loads((taught / "report.json").read_text())["draft"]
    assert draft["siblings"] == ["bbc", "heise_plus"]
    bbc, plus, _, imports = draft["proof"]
    assert "bbc left out and generated again: 4 of 4 files" in bbc
    assert "heise_plus left out and generated again: 4 of 4 files" in plus
    assert "scrapers.sources.probe_unit" in imports


def test_the_configuration_is_added_below_all_else(taught: Path):
    text = (taught / "pyproject.toml").read_text()
    assert text == OTHERS["pyproject.toml"] + (
        '\n[tool.scaffold]\nschema = 1\npackage = "scrapers"\ntests = "tests"\n'
    )


def test_a_new_unit_stands_in_every_file_and_registry(extended: Path):
    report = json.loads((extended / "report.json").read_text())
    created = {row["path"] for row in report["changes"] if row["action"] == "created"}
    assert created == {
        "src/scrapers/sources/new_site.py",
        "tests/test_new_site.py",
        "tests/pages/new_site.html",
        "docs/sources/new_site.md",
    }
    lines = {
        "CODEOWNERS": "/src/scrapers/sources/new_site.py @news",
        "docs/index.md": "| new_site   | `NewSiteScraper`   "
        "| [New site](sources/new_site.md)     |",
        "mkdocs.yml": "      - New site: sources/new_site.md",
        "pyproject.toml": 'new_site = "scrapers.sources.new_site:NewSiteScraper"',
    }
    for file, line in lines.items():
        assert line in (extended / file).read_text().splitlines(), file
    registry = (extended / "src/scrapers/sources/__init__.py").read_text().splitlines()
    assert "from scrapers.sources.new_site import NewSiteScraper" in registry
    assert '    "new_site": NewSiteScraper,' in registry
    assert any('"HeiseScraper", "NewSiteScraper"]' in row for row in registry)
    # A sentence that names the units is no registry.
    assert not any(row["file"] == "README.md" for row in report["next"])
    assert any("comes from the repository" in row for row in report["warnings"])


def test_a_new_unit_is_written_in_the_repository_s_own_manner(extended: Path):
    text = (extended / "src/scrapers/sources/new_site.py").read_text()
    expected = SOURCE.replace("@pascal@", "NewSite").replace("@key@", "new_site")
    expected = expected.replace("@dashed@", "new-site").replace("@title@", "New site")
    mark = "        # YOURS: replace what is specific to heise\n"
    assert text.count(mark) == 1
    assert text.replace(mark, "") == HEAD + expected
    page = (extended / "tests/pages/new_site.html").read_text()
    assert page == PAGE.replace("@title@", "New site")


def test_its_tests_pass_and_the_linter_has_nothing_to_say(extended: Path):
    tests = run(extended, "pytest", "-q", "-p", "no:cacheprovider")
    assert "8 passed" in tests.stdout, tests.stdout
    for argv in (("check", "--no-cache", "."), ("format", "--no-cache", "--check", ".")):
        done = run(extended, "ruff", *argv)
        assert done.returncode == 0, done.stdout


def test_it_is_listed_shown_and_untouched(extended: Path, scaffold: Command):
    listed = scaffold(extended, "list", "--json").report
    kind = next(row for row in listed["kinds"] if row["kind"] == "scraper")
    assert (kind["origin"], kind["command"]) == ("repository", "add-scraper")
    assert listed["units"] == ["scraper/new_site"]
    status = scaffold(extended, "status", "--json").report
    assert status["units"][0]["states"] == ["untouched"]
    shown = scaffold(extended, "show", "new_site", "--json").report
    assert shown["unfinished"][0]["file"] == "src/scrapers/sources/new_site.py"


def test_a_second_run_of_the_alias_has_nothing_to_do(repository: Path, scaffold: Command):
    before = tree(repository)
    done = scaffold(repository, "add-scraper", "new-site", "--json")
    assert (done.status, done.report["changes"]) == (0, [])
    assert tree(repository) == before


def test_verify_is_unfinished_until_the_place_is_written(repository: Path, scaffold: Command):
    first = scaffold(repository, "verify", "new_site", "--json")
    assert (first.status, first.report["verdict"]) == (1, "unfinished")
    path = repository / "src/scrapers/sources/new_site.py"
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(row for row in rows if "YOURS" not in row))
    second = scaffold(repository, "verify", "new_site", "--json")
    assert (second.status, second.report["verdict"]) == (0, "ok"), second.text


def test_remove_gives_back_the_first_bytes(repository: Path, taught: Path, scaffold: Command):
    (repository / "report.json").unlink()
    assert scaffold(repository, "remove", "scraper/new_site").status == 0
    after, before = tree(repository), tree(taught)
    del before["report.json"]
    after.pop(".scaffold/.gitattributes", None)
    assert after == before


def test_update_merges_what_the_template_says_by_now(repository: Path, scaffold: Command):
    source = repository / "src/scrapers/sources/new_site.py"
    source.write_text(source.read_text().replace("limit: int = 10", "limit: int = 20"))
    folder = repository / ".scaffold/templates/scraper/default"
    template = folder / "unit.py.jinja"
    template.write_text(template.read_text().replace("Reads the front", "Reads all of the front"))
    manifest = folder / "template.toml"
    manifest.write_text(manifest.read_text().replace("version = 1", "version = 2"))
    status = scaffold(repository, "status", "--json").report
    assert set(status["units"][0]["states"]) == {"edited", "outdated"}
    done = scaffold(repository, "update", "new_site", "--json")
    assert done.status == 0, done.text
    text = source.read_text()
    assert "Reads all of the front page of New site." in text
    assert "limit: int = 20" in text


def test_the_same_repository_is_not_taught_the_same_twice(taught: Path, scaffold: Command):
    done = scaffold(taught, "init", "--like", "bbc", "--yes", "--json")
    assert (done.status, done.report["error"]["code"]) == (1, "kind_known")


def test_the_page_s_commands_do_what_it_says(tmp_path: Path, scaffold: Command):
    page = (Path(__file__).parents[3] / "docs/en/own-kinds.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    commands = [shlex.split(row) for block in blocks for row in block.splitlines()]
    assert [argv[1] for argv in commands] == ["init", "init", "add", "verify"]
    make_scrapers(tmp_path)
    outcomes = [scaffold(tmp_path, *argv[1:]) for argv in commands]
    assert [each.status for each in outcomes] == [0, 0, 0, 1]
    assert "verdict    unfinished" in outcomes[-1].text
    for variable, value in re.findall(r"`(\w+)` \| ([\w -]+?) \|", page):
        assert key_names("new_site")[variable] == value


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    """Makes the losses, without git."""
    make_losses(tmp_path)
    return tmp_path


def test_a_decorator_and_a_text_list_without_configuration(losses: Path, scaffold: Command):
    before = tree(losses)
    done = scaffold(losses, "init", "--like", "mean", "--yes")
    assert done.status == 0, done.text
    assert (losses / "pyproject.toml").read_text().splitlines() == [
        "[tool.scaffold]", "schema = 1", 'package = "losses"', 'tests = "test"',
    ]  # fmt: skip
    taught = tree(losses)
    assert {path: data for path, data in taught.items() if path in before} == before

    done = scaffold(losses, "add", "loss", "LogCoshLoss")
    assert done.status == 0, done.text
    source = (losses / "losses/log_cosh_loss.py").read_text()
    assert 'LOG_COSH_SCALE = 1.0\n\n\n@register("log_cosh")\ndef log_cosh_loss(' in source
    assert "statistics.mean(distances) * LOG_COSH_SCALE" in source
    enabled = (losses / "losses/enabled.txt").read_bytes()
    assert enabled == b"# Enabled losses, one per line.\nhuber\nlog_cosh\nmean\nsmooth_mean"
    tests = run(losses, "pytest", "-q", "-p", "no:cacheprovider", "test/log_cosh_loss_test.py")
    assert "1 passed" in tests.stdout, tests.stdout

    assert scaffold(losses, "remove", "log_cosh").status == 0
    after = tree(losses)
    after.pop(".scaffold/.gitattributes", None)
    assert after == taught


def test_an_add_without_configuration_is_refused_with_what_to_do(losses: Path, scaffold: Command):
    before = tree(losses)
    done = scaffold(losses, "add", "reward", "sums", "--json")
    assert (done.status, done.report["error"]["code"]) == (1, "target_missing")
    assert "scaffold init --like" in done.report["error"]["hint"]
    assert "[tool.scaffold]" in done.report["error"]["hint"]
    assert tree(losses) == before


@pytest.mark.parametrize("argv", [(), ("--no-input",), ("--json",), ("--dry-run",)])
def test_nothing_is_written_unless_agreed_to(
    losses: Path, scaffold: Command, argv: tuple[str, ...]
):
    before = tree(losses)
    done = scaffold(losses, "init", "--like", "losses/huber_loss.py", *argv)
    assert done.status == (0 if argv == ("--dry-run",) else 1)
    assert ("--yes" in done.text) == (argv != ("--dry-run",))
    assert "+def {{ key }}_loss" in done.text or "def {{ key }}_loss" in done.text
    assert tree(losses) == before


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
@pytest.mark.parametrize(("answer", "status"), [(b"n\n", 1), (b"y\n", 0)])
def test_at_a_terminal_it_shows_and_asks(losses: Path, answer: bytes, status: int):
    import pty

    before = tree(losses)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "scaffold", "init", "--like", "huber"],
        cwd=losses, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, answer)
        _, errors = process.communicate(timeout=60)
        os.close(ours)
    assert process.returncode == status
    shown = errors.decode()
    assert shown.index("+++ b/.scaffold/templates/loss/kind.toml") < shown.index("Write this?")
    assert (tree(losses) == before) == bool(status)
