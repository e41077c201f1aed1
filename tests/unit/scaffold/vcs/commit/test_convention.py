"""What a repository asks of its messages: settings, configurations of other tools, its history."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.vcs.commit.convention import ENOUGH, Convention, learn_convention
from scaffold.vcs.commit.conventional import check_message
from scaffold.vcs.commit.settings import CommitSettings
from tests.integration.scaffold.git_places import ENV, commit, git, make_repository


def history(folder: Path, *subjects: str) -> Path:
    """Make a repository with one commit for each message."""
    make_repository(folder)
    for number, each in enumerate(subjects):
        commit(folder, each, {"a.txt": f"{number}\n"})
    return folder


def learn(folder: Path) -> Convention:
    return learn_convention(folder, CommitSettings())


def rules_broken(folder: Path, message: str) -> set[str]:
    return {each.rule for each in check_message(message, None, learn(folder).rules)}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)


def test_a_history_without_types_asks_for_none(tmp_path: Path) -> None:
    free = [f"[Core] Sorted the rows {n} (#{n + 1})" for n in range(ENOUGH + 5)]
    folder = history(tmp_path / "r", *free)
    found = learn(folder)
    assert not found.rules.is_conventional
    assert found.evidence[:2] == (
        "0 of the newest 25 subjects are Conventional Commits", "so the form is not asked for",
    )  # fmt: skip
    # All of them are in the past tense, so that is the custom here.
    assert "subject-mood" in found.rules.unasked or not rules_broken(folder, free[0])
    assert rules_broken(folder, "[Core] Sort the columns") == set()
    assert rules_broken(folder, "[Core] Sort\nand more") == {"body-blank"}


def test_a_history_with_types_asks_for_them_and_has_its_own(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", *[f"deps: bump it to {n}" for n in range(ENOUGH + 1)])
    assert learn(folder).rules.is_conventional
    assert rules_broken(folder, "deps: bump the rest") == set()
    assert rules_broken(folder, "dpes: bump the rest") == {"type"}
    assert rules_broken(folder, "Bump the rest") == {"form"}


def test_a_label_in_capitals_is_no_type(tmp_path: Path) -> None:
    # As in sqlfluff: dialects before a colon among Conventional Commits that a page asks for.
    lines = [f"{('Snowflake', 'MariaDB', 'fix', 'feat')[n % 4]}: parse {n}" for n in range(ENOUGH)]
    folder = history(tmp_path / "r", *lines, "Mend", "Sort")
    (folder / "AGENTS.md").write_text("Use conventional commit style when appropriate.\n")
    assert "10 of the newest 22 subjects are Conventional Commits" in learn(folder).evidence
    assert rules_broken(folder, "Snowflake: accept the name") == set()
    capitals = history(tmp_path / "c", *[f"Fix: mend {n}" for n in range(ENOUGH)])
    assert rules_broken(capitals, "Fix: sort the rows") == set()


def test_areas_before_the_colon_are_no_closed_list(tmp_path: Path) -> None:
    # Every fourth subject is of an area that has only one.
    lines = [f"{'net' if n % 4 else 'x' * (n + 1)}: sort {n}" for n in range(ENOUGH)]
    folder = history(tmp_path / "r", *lines)
    assert rules_broken(folder, "usb: sort the rows") == set()
    assert rules_broken(folder, "Sort the rows") == {"form"}


def test_a_rule_that_the_history_breaks_is_not_asked_for(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", *[f"fix: {'x' * 90} {n}" for n in range(ENOUGH)])
    assert learn(folder).rules.unasked == {"subject-length"}
    assert rules_broken(folder, "fix: " + "y" * 90) == set()


def test_a_page_that_asks_needs_half_of_the_history(tmp_path: Path) -> None:
    half = [f"{'fix: ' * (n % 4 > 0)}mend {n}" for n in range(ENOUGH)]
    folder = history(tmp_path / "r", *half)
    assert not learn(folder).rules.is_conventional
    page = "We follow [Conventional Commits](https://www.conventionalcommits.org).\n"
    commit(folder, "docs: ask", {"CONTRIBUTING.md": page})
    assert learn(folder).rules.is_conventional
    assert "CONTRIBUTING.md asks for Conventional Commits" in learn(folder).evidence


@pytest.mark.parametrize(
    ("page", "is_asked"),
    [
        ("Use conventional commit style when appropriate\n", False),
        ("Conventional Commits are recommended,\nbut not required.\n", False),
        ("## Style\n\nIf possible, write [Conventional\nCommits](https://x.org).\n", False),
        ("- A scope is optional.\n- Messages follow the Conventional Commits standard.\n", True),
        ("Run the tests where possible. Follow Conventional Commits.\n", True),
        ("Conventional Commits are nice.\n\nThe title must follow Conventional Commits.\n", True),
        ("We do not use Conventional Commits here.\n", False),
        ("Conventional Commits aren't used here.\n", False),
        ("There is no need to write Conventional Commits.\n", False),
        ("PR titles must follow Conventional Commits. Commit messages can be anything.\n", False),
        ("PR titles and commit messages must follow Conventional Commits.\n", True),
        ("Where it makes sense, write Conventional Commits.\n", False),
        ("- Try to follow conventional commits.\n", False),
        ("You may also use Conventional Commits.\n", False),
        ("Messages must follow Conventional Commits and may name a scope.\n", True),
        ("Conventional Commits are optional here.\n\nThey are Conventional Commits: x: y\n", True),
    ],
)
def test_a_page_that_leaves_it_open_does_not_ask(page: str, is_asked: bool, tmp_path: Path) -> None:
    half = [f"{'fix: ' * (n % 4 > 0)}mend {n}" for n in range(ENOUGH)]
    folder = history(tmp_path / "r", *half)
    (folder / "AGENTS.md").write_text(page)
    assert learn(folder).rules.is_conventional is is_asked
    assert ("form" in rules_broken(folder, "Mend the rest")) is is_asked


def test_the_limit_of_length_is_the_longest_that_the_history_mostly_keeps(tmp_path: Path) -> None:
    lengths = [60] * 46 + [80] * 3 + [120]
    folder = history(
        tmp_path / "r", *[f"Mend {'x' * (n - 9)} {at:03}" for at, n in enumerate(lengths)]
    )
    found = learn(folder)
    assert found.rules.max_subject == 80
    assert "49 of 50 have at most 80 characters" in found.evidence
    assert rules_broken(folder, f"Mend {'x' * 75}") == set()
    assert rules_broken(folder, f"Mend {'x' * 76}") == {"subject-length"}


def test_bots_and_merges_show_no_custom(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", *[f"Mend {n}" for n in range(ENOUGH)])
    for n in range(40):
        commit(folder, f"chore: bump {n}", {"b.txt": f"{n}\n"}, GIT_AUTHOR_NAME="robot[bot]")
    assert not learn(folder).rules.is_conventional


LINTED = {
    ".commitlintrc.yml": "extends: ['@commitlint/config-conventional']\n"
    "rules:\n  type-enum: [2, always, [add, mend]]\n  header-max-length: [2, always, 40]\n",
    "commitlint.config.js": "module.exports = {\n  extends: ['@commitlint/config-conventional'],\n"
    "  rules: {\n    'type-enum': [2, 'always', [\n      'add', 'mend',\n    ]],\n"
    "    'header-max-length': [2, 'always', 40],\n  },\n}\n",
    "package.json": '{"commitlint": {"extends": ["@commitlint/config-conventional"], "rules": '
    '{"type-enum": [2, "always", ["add", "mend"]], "header-max-length": [2, "always", 40]}}}',
}  # fmt: skip


@pytest.mark.parametrize("name", LINTED)
def test_commitlint_is_read_and_never_run(name: str, tmp_path: Path) -> None:
    folder = history(tmp_path / "r", "begin")
    (folder / name).write_text(LINTED[name])
    assert learn(folder).evidence == (name,)
    assert rules_broken(folder, "mend: sort") == set()
    assert rules_broken(folder, "fix: sort") == {"type"}
    assert rules_broken(folder, f"mend: {'x' * 40}") == {"subject-length"}


OPEN = {
    ".commitlintrc.json": '{"extends": ["@commitlint/config-conventional"], "rules": {"type-enum": '
    '[0], "header-max-length": [0, "always"], "body-max-line-length": [1, "always", 9], '
    '"subject-full-stop": [0], "scope-enum": [1, "always", ["core"]]}}',
    "commitlint.config.mjs": "const types = ['a'];\nexport default { extends: ['@commitlint/config-"
    "conventional'], rules: { 'type-enum': [2, 'always', [...types, 'release']], "
    "'header-max-length': [RuleConfigSeverity.Disabled], 'body-max-line-length': [0, 'always', 9], "
    "'subject-full-stop': [1, 'never', '.'], 'scope-enum': [2, 'always', scopes] } };",
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_what_commitlint_leaves_open_or_warns_of_is_not_asked_for(
    name: str, tmp_path: Path
) -> None:
    folder = history(tmp_path / "r", *[f"fix: mend {n}" for n in range(ENOUGH)])
    (folder / name).write_text(OPEN[name])
    assert learn(folder).evidence == (name,)
    long = "x y" * 60
    assert rules_broken(folder, f"wip(any): {long}.\n\n{long}") == set()
    assert rules_broken(folder, "Mend it") == {"form"}


def test_commitizen_may_ask_for_a_pattern_of_its_own(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", "begin")
    table = "[tool.commitizen]\nname = 'cz_customize'\n[tool.commitizen.customize]\n"
    (folder / "pyproject.toml").write_text(table + r"schema_pattern = '[A-Z]+-\d+ \w+'" + "\n")
    assert rules_broken(folder, "ABC-12 sort") == set()
    assert rules_broken(folder, "fix: sort") == {"form"}


def test_a_broken_configuration_is_none(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", "begin")
    (folder / ".commitlintrc").write_text("{[}")
    (folder / "pyproject.toml").write_text("[tool.commitizen]\nname = 'own_plugin'\n")
    assert learn(folder).evidence == ("the default: Conventional Commits",)


def test_settings_of_this_tool_come_first(tmp_path: Path) -> None:
    folder = history(tmp_path / "r", *[f"Mend {n}" for n in range(ENOUGH)])
    found = learn_convention(folder, CommitSettings(is_set=True))
    assert found.rules.is_conventional
    assert git(folder, "log", "-1", "--format=%s") == found.examples[0]
