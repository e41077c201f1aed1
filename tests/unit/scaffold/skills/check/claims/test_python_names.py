"""What is said of Python's names: a variable is no package, and a block's own names are its own.

The texts stand in tests/fixtures/skill_sentences; one that has a fault begins with its rule.
"""

from __future__ import annotations

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.repository import Repository
from scaffold.skills.check.documents import Document
from scaffold.skills.check.judging import finding_of, judge_document
from tests.skill_fixtures import read_sentences

SOURCES = {
    "app/__init__.py": "from app.engine import Engine\n",
    "app/engine.py": """
class Engine:
    def __init__(self, a, b=1):
        self.a = a
    def run(self, x): ...
    @property
    def size(self): ...
class Shop:
    pass
def build(a, b): ...
def load(path, *, mode): ...
""",
    "app/client.py": "class Client:\n    def get(self, url): ...\n",
    "orders/__init__.py": "__version__ = '1.2.0'\n",
    "orders/api.py": "class Order:\n    total: int\n    def pay(self, amount): ...\nLIMIT = 3\n",
    "tests/conftest.py": "import pytest\n@pytest.fixture\ndef app(): ...\n",
    "pyproject.toml": "[project]\nname = 'orders'\nversion = '1.2.0'\n",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("repository")
    for path, text in SOURCES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    return Repository(Files(root, list(SOURCES), has_git=False))


def found_in(text: str, repository: Repository) -> list[str]:
    document = Document("AGENTS.md", "guide", "", text)
    rows = [each for each in judge_document(document, repository) if each.verdict.state == "false"]
    return [f"{each.rule} {each.severity}" for each in (finding_of(row, document) for row in rows)]


@pytest.mark.parametrize("text", read_sentences("python_names.txt"))
def test_names_of_other_things_are_left_alone(text: str, repository: Repository) -> None:
    assert found_in(text, repository) == []


@pytest.mark.parametrize("told", read_sentences("python_faults.txt"))
def test_what_is_certain_is_found(told: str, repository: Repository) -> None:
    rule, _, text = told.partition("\n")
    assert found_in(text, repository) == [rule]
