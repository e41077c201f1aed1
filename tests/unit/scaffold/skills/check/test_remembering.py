"""What is judged again after something changed: no more than it has a say in."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import Outcome, check_repository

HEAD = "---\nname: {0}\ndescription: Checks that {0} is used when it is needed.\n---\n"
NAMES = ("first", "second", "third", "fourth")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of four skills; the second one names a heading and the third one a line."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "repository"
    write(root, "pkg/__init__.py", "")
    write(root, "pkg/code.py", "def run(rows):\n    return rows\n")
    write(root, "notes.txt", "one\ntwo\nthree\n")
    bodies = {
        "first": "# First\n\n## Steps\n\nRead `pkg/code.py`.\n",
        "second": "Follow [its steps](../first/SKILL.md#steps).\n",
        "third": "Read `notes.txt:3`.\n",
        "fourth": "Call `pkg.code.run(rows)`.\n",
    }
    for name, body in bodies.items():
        write(root, skill(name), HEAD.format(name) + body)
    return root


def test_nothing_is_judged_again_where_nothing_changed(root: Path) -> None:
    assert checked(root).num_fresh == 4
    assert checked(root).num_fresh == 0


def test_a_skill_that_changed_is_judged_alone(root: Path) -> None:
    checked(root)
    write(root, skill("fourth"), HEAD.format("fourth") + "Read `pkg/code.py`, `pkg/gone.py`.\n")
    outcome = checked(root)
    assert outcome.num_fresh == 1
    assert [each.rule for each in outcome.findings] == ["path-missing"]
    assert checked(root).num_fresh == 0


def test_a_skill_is_judged_again_when_a_page_changed_that_it_looked_into(root: Path) -> None:
    checked(root)
    write(root, skill("first"), HEAD.format("first") + "# First\n\n## Way\n")
    outcome = checked(root)
    assert outcome.num_fresh == 2
    assert [(each.path, each.rule) for each in outcome.findings] == [
        (skill("second"), "link-anchor")
    ]
    write(root, skill("first"), HEAD.format("first") + "# First\n\n## Steps\n")
    assert checked(root).findings == []


def test_a_file_that_one_skill_counts_lines_of_makes_it_alone_judged_again(root: Path) -> None:
    checked(root)
    write(root, "notes.txt", "one\n")
    outcome = checked(root)
    assert outcome.num_fresh == 1
    assert [(each.path, each.rule) for each in outcome.findings] == [
        (skill("third"), "line-number")
    ]


def test_code_may_have_a_say_in_everything(root: Path) -> None:
    checked(root)
    write(root, "pkg/code.py", "def stop(rows):\n    return rows\n")
    outcome = checked(root)
    assert outcome.num_fresh == 4
    assert [each.path for each in outcome.findings] == [skill("fourth")]


def test_a_file_that_one_looked_into_and_another_read_counts_for_all(root: Path) -> None:
    # A line of it is named, and its symbols stand in an index that all share.
    write(root, skill("third"), HEAD.format("third") + "Read `pkg/code.py:2`.\n")
    checked(root)
    write(root, "pkg/code.py", "walk = None\n")
    outcome = checked(root)
    assert outcome.num_fresh == 4
    assert {each.path for each in outcome.findings} == {skill("third"), skill("fourth")}


def test_what_processes_looked_into_is_kept_too(root: Path) -> None:
    for number in range(40):
        name = f"more-{number}"
        text = f"{HEAD.format(name)}Follow [its steps](../first/SKILL.md#steps).\n"
        write(root, skill(name), text)
    assert checked(root).num_fresh == 44
    write(root, skill("first"), HEAD.format("first") + "# First\n\n## Way\n")
    outcome = checked(root)
    assert outcome.num_fresh == 42
    assert len(outcome.findings) == 41
    assert checked(root).num_fresh == 0


PARSER = "import argparse\n\nparser = argparse.ArgumentParser()\n"
VARIANTS = {
    "pkg/code.py": (
        "def run(rows):\n    return rows\n",
        "def run(rows, limit=5):\n    return rows\n\nLIMITS = {'a': 1, 'b': 2}\n",
        "class Runner:\n    def run(self):\n        return 1\n",
        "def run(rows:\n",
    ),
    "pkg/more.py": ("from pkg.code import run\n", "run = None\n", "from pkg.code import *\n"),
    "tools/go.py": (
        PARSER + "parser.add_argument('--fast')\nparser.parse_args()\n",
        PARSER + "parser.add_argument('--slow')\nparser.parse_args()\n",
    ),
    "pyproject.toml": (
        "[project]\nname = 'x'\nversion = '1.2.0'\ndependencies = ['click', 'rich']\n",
        "[project]\nname = 'x'\nversion = '2.0.0'\ndependencies = ['click']\n",
        "[tool.pytest.ini_options]\nmarkers = ['gpu: needs one']\n",
        "[tool.scaffold.skills]\nignore = ['path-missing']\n",
    ),
    "notes.txt": ("one\ntwo\nthree\n", "one\n"),
    "docs/page.md": ("# Page\n\n## Way\n", "# Page\n\n## Road\n", "# Page\n\n`pkg/gone.py`\n"),
    "Makefile": ("build:\n\techo\n", "deploy:\n\techo\n"),
    ".github/workflows/ci.yml": ("jobs:\n  lint:\n    runs-on: x\n", "jobs:\n  test: {}\n"),
    ".gitignore": ("out/\n", ""),
    "settings.yaml": ("train:\n  steps: 3\n", "train:\n  rate: 3\n"),
}
CLAIMS = (
    "Read `pkg/code.py` and `notes.txt:3`.",
    "Call `pkg.code.run(rows)` or `pkg.more.run`.",
    "`LIMITS` has 2 entries.",
    "```bash\npython tools/go.py --fast\nmake build\npytest -m gpu\n```",
    "```python\nfrom pkg.code import Runner\n\nRunner().run()\n```",
    "See [the way](../../../docs/page.md#way).",
    "The job `lint` in `.github/workflows/ci.yml` runs it.",
    "Set `train.steps` in `settings.yaml`.",
    "There are 2 dependencies in `pyproject.toml`.",
    "Read `docs/page.md` and [the first](../first/SKILL.md#steps).",
    "## Steps",
)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(each, marks=pytest.mark.slow) for each in range(4, 60))]
)
def test_memory_says_what_a_fresh_check_says_whatever_changes(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    for path in VARIANTS:
        _change(root, path, chance)
    for name in NAMES:
        _rewrite(root, name, chance)
    checked(root)
    for _ in range(10):
        for _ in range(chance.randint(1, 2)):
            if chance.random() < 0.4:
                _rewrite(root, chance.choice(NAMES), chance)
            else:
                _change(root, chance.choice(list(VARIANTS)), chance)
        checked(root)


def _change(root: Path, path: str, chance: random.Random) -> None:
    """Writes another variant of a file, or takes it away."""
    place = root / path
    if place.exists() and chance.random() < 0.2:
        place.unlink()
    else:
        write(root, path, chance.choice(VARIANTS[path]))


def _rewrite(root: Path, name: str, chance: random.Random) -> None:
    """Writes another text of a skill."""
    claims = chance.sample(CLAIMS, chance.randint(1, len(CLAIMS)))
    write(root, skill(name), HEAD.format(name) + "\n\n".join(claims) + "\n")


def skill(name: str) -> str:
    """Returns the path of a skill."""
    return f".agents/skills/{name}/SKILL.md"


def checked(root: Path) -> Outcome:
    """Checks a repository with what is remembered of it; it must say what a fresh check says."""
    outcome = check_repository(Repository.at(root), remember=True)
    fresh = check_repository(Repository.at(root))
    assert outcome.findings == fresh.findings
    assert _told(outcome) == _told(fresh)
    return outcome


def _told(outcome: Outcome) -> dict[str, list[tuple[object, ...]]]:
    """Returns each claim with its verdict, without what its finder knew."""
    return {
        path: [(*each.reference[:4], each.verdict, each.near, each.wide) for each in rows]
        for path, rows in outcome.judged.items()
    }


_clock = itertools.count()


def write(root: Path, path: str, text: str) -> None:
    """Writes a file, at a time of its own: the clock of a file system may be too coarse."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    moment = 1_700_000_000_000_000_000 + next(_clock) * 1_000_000_000
    os.utime(place, ns=(moment, moment))
