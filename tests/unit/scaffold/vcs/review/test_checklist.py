"""Which readings a change wants, and who does them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.vcs.review.checklist import Agent, agent_for, choose_passes, read_agents
from scaffold.vcs.review.rule import Pass, Rule, When
from scaffold.vcs.review.rule_matching import Signal

A, B, C, D = (Pass(name, name.upper(), "Look.", roles=()) for name in "abcd")
SOURCE = Pass("s", "S", "Read.", words=("review", "fault"), roles=("source",))


def signal(*passes: str) -> Signal:
    """Returns a signal that any one of some passes looks at."""
    rule = Rule("-".join(passes), "x", "X", "LOW", "X.", (), passes, When(status=("A",)))
    return Signal(rule, "a.py")


CASES: list[tuple[list[Signal], list[str], str]] = [
    ([], [], ""),
    ([], ["source"], "s"),
    ([], ["unknown"], ""),
    ([signal("a")], [], "a"),
    ([signal("a", "b")], [], "a"),
    ([signal("a", "b"), signal("b", "c")], [], "b"),
    ([signal("a", "b"), signal("c", "b"), signal("a")], [], "ab"),
    ([signal("a", "b"), signal("c", "d"), signal("b", "c")], [], "ac"),
    ([signal("a", "s")], ["source"], "s"),
    ([signal("d", "c"), signal("d", "b"), signal("d", "a")], [], "d"),
]


@pytest.mark.parametrize(("signals", "roles", "chosen"), CASES)
def test_the_fewest_passes_that_look_at_all_are_chosen(
    signals: list[Signal], roles: list[str], chosen: str
) -> None:
    assert "".join(each.id for each in choose_passes(signals, roles, (SOURCE, A, B, C, D))) in {
        chosen, "".join(sorted(chosen, key="sabcd".index)),
    }  # fmt: skip


READER = Agent("code-reader", "Reviews a change for faults.", "a.md")
WRITER = Agent("docs-writer", "Writes what people read; a review of it too.", "b.md")
REVIEWER = Agent("reviewer", "Reads.", "c.md")


@pytest.mark.parametrize(
    ("agents", "chosen"),
    [
        ([], None),
        ([WRITER], None),
        ([WRITER, READER], READER),
        ([READER, REVIEWER], READER),
        ([REVIEWER, WRITER], REVIEWER),
    ],
)
def test_one_word_of_a_description_is_not_enough(agents: list[Agent], chosen: Agent | None) -> None:
    assert agent_for(SOURCE, agents, {})[0] == chosen


def test_a_named_subagent_comes_before_all_words() -> None:
    agent, because = agent_for(SOURCE, [READER, WRITER], {"s": "docs-writer"})
    assert (agent, because) == (WRITER, "[tool.scaffold.review.agents] names it")
    stranger, _ = agent_for(SOURCE, [READER], {"s": "of-the-user"})
    assert stranger == Agent("of-the-user", "", "")


def test_subagents_are_read_where_clients_keep_them(tmp_path: Path) -> None:
    texts = {
        ".agents/agents/one.md": '---\nname: "first"\ndescription: Does one thing.\n---\nText.\n',
        ".claude/agents/deep/two.md": "No front matter.\n",
        ".claude/agents/one.md": "---\nname: first\ndescription: A copy.\n---\n",
        "docs/agents/three.md": "---\nname: three\n---\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert [(each.name, each.description) for each in read_agents(list_files(tmp_path))] == [
        ("first", "Does one thing."),
        ("two", ""),
    ]
