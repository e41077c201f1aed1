"""What a text writes out in one block it may use in the next; without that block it is wrong."""

from __future__ import annotations

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.repository import Repository
from scaffold.skills.check.documents import Document
from scaffold.skills.check.judging import finding_of, judge_document

FILES = {
    "Makefile": "test:\n\tpytest\n",
    "justfile": "test:\n    pytest\n",
    "package.json": '{"scripts": {"build": "tsc"}}',
    "pyproject.toml": """
[project]
name = "pkg"
scripts = { pkg = "pkg.cli:main", grove = "pkg.grove:grove" }
optional-dependencies = { dev = ["ruff"] }
[tool.pytest.ini_options]
markers = ["slow: long"]
""",
    "pkg/__init__.py": "",
    "pkg/cli.py": """
import argparse
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int)
    parser.add_argument("--mode", choices=["fast", "slow"])
    parser.parse_args()
""",
    "pkg/grove.py": """
import click
@click.group()
def grove(): ...
@grove.command()
def cut(): ...
""",
    "tests/conftest.py": "import pytest\n@pytest.fixture\ndef tree(): ...\n",
    "tests/test_a.py": "def test_a(tree): ...\n",
    ".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    runs-on: x\n",
}
WRITTEN = {
    "make-target-missing": ("make", "bench: test\n\tpkg", "Run `make bench`."),
    "just-recipe-missing": ("just", "bench:\n    pkg", "Run `just bench`."),
    "npm-script-missing": ("json", '{"scripts": {"e2e": "x"}}', "Run `npm run e2e`."),
    "pip-extra-missing": (
        "toml",
        '[project.optional-dependencies]\ndocs = ["mkdocs"]',
        "```bash\npip install -e '.[docs]'\n```",
    ),
    "marker-missing": ("toml", 'markers = ["network: needs it"]', "Run `pytest -m network`."),
    "option-unknown": ("python", 'parser.add_argument("--width")', "```bash\npkg --width 4\n```"),
    "choice-unknown": (
        "python",
        'parser.add_argument("--mode", choices=["fast", "exact"])',
        "```bash\npkg --mode exact\n```",
    ),
    "command-unknown": (
        "python",
        "@grove.command()\ndef grow_up(): ...",
        "```bash\ngrove grow-up\n```",
    ),
    "fixture-missing": (
        "python",
        "@pytest.fixture\ndef forest(tree): ...",
        "The `forest` fixture is there for all.",
    ),
    "test-missing": ("python", "def test_b(tree): ...", "`pytest tests/test_a.py::test_b`"),
    "workflow-job-missing": (
        "yaml",
        "jobs:\n  docs:\n    runs-on: x",
        "The `docs` job in `ci.yml`.",
    ),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Repository(Files(root, list(FILES), has_git=False))


def rules_of(text: str, repository: Repository) -> set[str]:
    document = Document("AGENTS.md", "guide", "", text)
    rows = judge_document(document, repository)
    return {finding_of(each, document).rule for each in rows if each.verdict.state == "false"}


@pytest.mark.parametrize("rule", WRITTEN)
def test_what_a_block_writes_out_may_be_used(rule: str, repository: Repository) -> None:
    language, block, use = WRITTEN[rule]
    assert rule in rules_of(f"{use}\n", repository)
    assert rules_of(f"Extend it:\n\n```{language}\n{block}\n```\n\n{use}\n", repository) == set()


@pytest.mark.parametrize(
    "text",
    [
        "```python\nbench(1)\n```\n\nRun `make bench`.",
        "```yaml\nrun: make bench\n```\n\nRun `make bench`.",
        "```bash\nbench: 1\n```\n\nRun `make bench`.",
        "```make\nworkbench: test\n```\n\nRun `make bench`.",
    ],
)
def test_what_a_block_only_uses_is_not_written_out(text: str, repository: Repository) -> None:
    assert rules_of(text, repository) >= {"make-target-missing"}


def test_a_job_that_is_said_to_be_elsewhere_is_left_alone(repository: Repository) -> None:
    assert rules_of("The `portal` job is in `ci.yml`.", repository) == {"workflow-job-missing"}
    assert rules_of("The `portal` job is there, not in our `ci.yml`.", repository) == set()
