"""What is left undecided, and why: a near miss is to be silent for the reason that is meant."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Judged, Verdict
from scaffold.skills.check.context import silence
from scaffold.skills.check.documents import Document, find_documents
from scaffold.skills.check.judging import judge_document
from scaffold.skills.check.kinds import KINDS

TESTS = {
    "pytest.ini": "[pytest]\nmarkers =\n    slow: long\n",
    "tests/test_a.py": "def test_a(net): ...",
}
FIXED = {"tests/conftest.py": "import pytest\n@pytest.fixture\ndef repo(): ...\n"}
CONFIG = {
    "pkg/__init__.py": "",
    "pkg/config.py": """
from dataclasses import dataclass
from typing import Any
@dataclass
class ModelConfig:
    depth: int = 1
    extra: dict[str, Any] | None = None
    def size(self): ...
@dataclass
class RunConfig:
    model: ModelConfig | None = None
""",
    "run.yaml": "model:\n  depth: 1\n  only_here: 2\n",
}
ORDER = {
    "pkg/__init__.py": "",
    "pkg/order.py": "NAMES = ['a', 'b']\ndef sort_it(names, **rest): ...\n",
}


def judged(tmp_path: Path, text: str, files: dict[str, str], at: str = "AGENTS.md") -> list[Judged]:
    sources = {**files, at: text}
    for path, content in sources.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    repository = Repository(Files(tmp_path, list(sources), has_git=False))
    document = next(each for each in find_documents(repository.files)[0] if each.path == at)
    return judge_document(document, repository)


def verdict_of(
    tmp_path: Path, kind: str, text: str, files: dict[str, str], at: str = "AGENTS.md"
) -> Verdict:
    rows = [each for each in judged(tmp_path, text, files, at) if each.claim.kind == kind]
    assert len(rows) == 1, rows
    return rows[0].verdict


def code(language: str, text: str) -> str:
    return f"Look:\n\n```{language}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("kind", "text", "files", "state", "reason"),
    [
        ("marker", "`pytest -m slow`", TESTS, "true", "pytest.ini registers it"),
        ("marker", "`@pytest.mark.asyncio`", TESTS, "undecided", "plugins brings it"),
        ("marker", "Register `@pytest.mark.web` first.", TESTS, "undecided", "told to register"),
        ("marker", "`pytest -m net`", TESTS, "undecided", "the tests hold the word"),
        (
            "marker",
            "`pytest -m web`",
            {"tests/test_a.py": ""},
            "undecided",
            "no markers of its own",
        ),
        (
            "marker",
            "`pytest -m web`",
            {**TESTS, "plugin.py": "def f(c):\n for m in X: c.addinivalue_line('markers', m)"},
            "undecided",
            "registers markers while it runs",
        ),
        (
            "marker",
            "`pytest -m web`",
            {**TESTS, "pyproject.toml": "[project]\ndependencies = ['pytest-web-thing']"},
            "undecided",
            "asks for pytest-web",
        ),
        ("fixture", "The `tmp_path` fixture.", FIXED, "true", "pytest brings it"),
        ("fixture", "The `repo` fixture.", FIXED, "true", "conftest.py:3"),
        ("fixture", "The `disk` fixture.", TESTS, "undecided", "no fixtures of its own"),
        ("fixture", "The `net` fixture.", {**TESTS, **FIXED}, "undecided", "a plugin may bring it"),
        ("count", "`NAMES` has 2 entries.", ORDER, "true", "pkg/order.py:1 has 2"),
        (
            "count",
            "`NAMES` has 9 entries.",
            {**ORDER, "b.py": "NAMES = []"},
            "undecided",
            "nothing",
        ),
        (
            "count",
            "`NAMES` has 9 entries.",
            {**ORDER, "pkg/more.py": "from pkg.order import NAMES\nNAMES += ['c']"},
            "undecided",
            "nothing of this name that can be counted",
        ),
        ("count", "`pkg/` holds 2 files.", ORDER, "true", "pkg has 2"),
        (
            "version",
            "It requires Python 3.13+.",
            {"setup.py": "python_requires='>=3.11'"},
            "undecided",
            "asks for more",
        ),
        ("version", "It requires Python 3.9+.", {}, "undecided", "no file of the project says"),
        (
            "version",
            "It needs `a==1`.",
            {"requirements/cpu.txt": "a==2"},
            "undecided",
            "another use",
        ),
        ("image", "Run `x/y:1`.", {"Dockerfile": "FROM x/y:${TAG}"}, "undecided", "variables"),
        ("image", "Run `x/y:1`.", {"Dockerfile": "FROM x/yy:2"}, "undecided", "uses this image"),
        (
            "workflow job",
            "The `gpu` job in `ci.yml`.",
            {".github/workflows/ci.yml": "jobs:\n  all:\n    matrix: [cpu, gpu]\n"},
            "true",
            "has it",
        ),
        ("config key", "The key `model.depth`.", CONFIG, "true", "pkg/config.py:6"),
        ("config key", "The key `model.size`.", CONFIG, "undecided", "as something else"),
        ("config key", "The key `model.extra.any`.", CONFIG, "undecided", "is open"),
        ("config key", "The key `model.only_here`.", CONFIG, "undecided", "a YAML file"),
        ("config key", "The key `engine.depth`.", CONFIG, "undecided", "no YAML"),
        ("data", code("json", '{"a": 1, // one\n "b": 2}'), {}, "undecided", "comments"),
        ("data", code("json", '{"a": string}'), {}, "undecided", "descriptions of types"),
        ("data", code("json", '{"a":' * 3000), {}, "undecided", "nested deeper"),
        ("data", code("yaml", "a: {{ b }}: c"), {}, "undecided", "placeholders"),
        ("data", code("yaml", "---\na: 1\n---\n# T\na: b: c"), {}, "undecided", "front matter"),
        ("data", code("toml", "[a]\nb = 1\n[a]\nb = 2"), {}, "undecided", "several choices"),
        ("named", "Implement `run()` in `pkg/order.py`.", ORDER, "undecided", "told to make"),
        ("named", "`run()` in `pkg/gone.py`.", {}, "undecided", "there is no pkg/gone.py"),
        ("parameter", "The `x` parameter of `sort_it`.", ORDER, "undecided", "takes any argument"),
        ("parameter", "The `x` parameter of `sorted`.", ORDER, "undecided", "cannot be told"),
        ("called upon", "Use the `sort-al` skill.", {}, "undecided", "only 0 of its own"),
    ],
)
def test_the_reason_is_the_one_that_is_meant(
    kind: str, text: str, files: dict[str, str], state: str, reason: str, tmp_path: Path
) -> None:
    verdict = verdict_of(tmp_path, kind, text, files)
    assert (verdict.state, reason in verdict.reason) == (state, True), verdict.reason


@pytest.mark.parametrize(
    ("kind", "text", "files"),
    [
        ("marker", "`pytest -m web`", TESTS),
        ("fixture", "The `disk` fixture.", FIXED),
        ("named", "`run()` in `pkg/order.py`.", ORDER),
        ("parameter", "The `x` parameter of `sort_it`.", {"order.py": "def sort_it(names): ..."}),
    ],
)
def test_a_pack_speaks_of_other_repositories(
    kind: str, text: str, files: dict[str, str], tmp_path: Path
) -> None:
    head = "---\nname: any\ndescription: Any. Use for any.\n---\n"
    here = verdict_of(tmp_path / "here", kind, text, files)
    pack = verdict_of(tmp_path / "pack", kind, head + text, files, "skills/any/SKILL.md")
    assert (here.state, pack.state) == ("false", "undecided")


LOCKED = 'schema = 1\n[[skills]]\nname = "any"\nroots = [".agents/skills"]\n'


@pytest.mark.parametrize(
    ("lock", "state"),
    [
        (LOCKED, "undecided"),
        (LOCKED.replace("any", "another"), "false"),
        ("", "false"),
        ("[[skills", "false"),
        ("skills = 3", "false"),
        ('[[skills]]\nname = "any"\nroots = ""', "false"),
    ],
)
def test_an_installed_skill_speaks_of_where_it_came_from(
    lock: str, state: str, tmp_path: Path
) -> None:
    text = "---\nname: any\ndescription: Any. Use for any.\n---\nRead `pkg/gone.py`.\n"
    files = {**ORDER, ".scaffold/skills-lock.toml": lock}
    assert verdict_of(tmp_path, "path", text, files, ".agents/skills/any/SKILL.md").state == state


@pytest.mark.parametrize(
    "text",
    ["`a_name` in " * 4000, "Two options:\n\n- a\n- b\n\n" * 1200, "requires Python " * 4000],
)
def test_long_texts_take_no_long_time(text: str, tmp_path: Path) -> None:
    kinds = ("named", "parameter", "marker", "fixture", "count", "listed", "version", "called upon")
    document = Document("AGENTS.md", "guide", "", text)
    assert document.markdown.blocks
    start = time.process_time()
    for kind in KINDS:
        if kind.name in kinds:
            assert all(claim.kind == kind.name for claim in kind.find(document))
    # Half a second is usual; what is quadratic takes minutes.
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("symbol", "It raises `ValueError`.", "true"),
        ("symbol", "Give `str(answer)`.", "true"),
        ("symbol", "Score with `float(found == expected)`.", "true"),
        ("symbol", "Write `str.lower` here.", "true"),
        ("symbol", "Write `str.lowr` here.", "undecided"),
        ("symbol", "It raises `WildError`.", "undecided"),
        # A name of the document's own hides the one of Python.
        ("symbol", "```python\nfrom torch import float\n```\n\n`float(x)`", "undecided"),
        ("import", "Begin with `from __future__ import annotations`.", "true"),
        ("import", "Begin with `from __future__ import barry`.", "undecided"),
    ],
)
def test_what_python_brings_is_there(kind: str, text: str, state: str, tmp_path: Path) -> None:
    assert verdict_of(tmp_path, kind, text, ORDER).state == state


@pytest.mark.parametrize(
    ("text", "files", "told"),
    [
        ("Mark it `pytest.mark.slow`.", TESTS, [("marker", "true")]),
        ("Mark it `pytest.mark.slow(reason)`.", TESTS, [("marker", "true")]),
        ("Set the key `model.depth`.", CONFIG, [("config key", "true")]),
        ("Set the key `model.dept`.", CONFIG, [("config key", "false")]),
        ("The key of `pkg.order`.", ORDER, [("symbol", "true")]),
        (
            "Set the key `other.depth`.",
            CONFIG,
            [("symbol", "undecided"), ("config key", "undecided")],
        ),
    ],
)
def test_what_one_kind_decides_the_others_leave(
    text: str, files: dict[str, str], told: list[tuple[str, str]], tmp_path: Path
) -> None:
    rows = judged(tmp_path, text, files)
    kinds = ("symbol", "marker", "config key")
    assert [(e.claim.kind, e.verdict.state) for e in rows if e.claim.kind in kinds] == told


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Run `./pkg/gone.sh` first.", ["script-missing"]),
        ("Run `bash pkg/gone.sh`; read `pkg/gone.sh`.", ["script-missing"]),
        ("See [`pkg/gone.md`](pkg/gone.md).", ["link-missing"]),
        ("Run `bash pkg/gone.sh`.\n\nRead `pkg/gone.sh`.", ["path-missing", "script-missing"]),
        ("Run `bash pkg/gone.sh` and read `pkg/other.sh`.", ["path-missing", "script-missing"]),
    ],
)
def test_one_defect_is_told_once(text: str, rules: list[str], tmp_path: Path) -> None:
    rows = judged(tmp_path, text, ORDER)
    assert [each.verdict.rule for each in rows if each.verdict.state == "false"] == rules


def silence_in(text: str) -> str | None:
    """Returns why the first span of a text makes no claim."""
    return silence(Document("AGENTS.md", "guide", "", text).markdown.codes[0])


@pytest.mark.parametrize(
    "words",
    [
        *("your", "the user's", "all users'", "their", "upstream", "third-party", "external"),
        *("another repo", "another repository", "the other repo"),
        *("in the demo repo", "in the demo repository"),
        *("the target repo", "the target repository", "the target project"),
        *("the remote", "the container", "the server"),
    ],
)
def test_each_word_for_another_place_is_known(words: str) -> None:
    assert silence_in(f"It stands, {words}: `pkg/gone.py`.") == "it may be of another repository"
    assert silence_in("It stands, of course: `pkg/gone.py`.") is None


@pytest.mark.parametrize(
    "words",
    [
        *("is created at the end", "are written at the end", "gets generated at the end"),
        *("get produced at the end", "be saved at the end", "is stored", "is made", "is emitted"),
        *("is built", "is rendered", "is updated", "is downloaded"),
        *("was then created", "were also written", "being now generated"),
        *("is automatically created", "will be there", "will appear", "will contain it"),
        *("will hold it", "appears", "appear", "comes from it", "come from it", "goes there"),
        *("(new)", "— created by it", "– generated", ": optional", "- auto-generated"),
        *("(autogenerated)", "(to be there)", "(add it)", "(planned)", "(later)"),
    ],
)
def test_each_word_for_what_is_made_is_known(words: str) -> None:
    told = "it may be a file that the reader is told to make"
    assert silence_in(f"See `pkg/gone.py` {words}") == told
    assert silence_in("See `pkg/gone.py` and go on") is None
