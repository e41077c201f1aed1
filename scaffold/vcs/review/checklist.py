"""The readings that a change wants: the fewest that look at every signal, and who does each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.vcs.review.rule import Pass
from scaffold.vcs.review.rule_matching import Signal

# `.claude/agents/review/tests.md`; the folders of the other tools are named alike.
_AGENT = re.compile(r"(?:^|/)\.(?:agents|claude|codex|opencode)/agents?/(?:[^/]+/)*([^/]+)\.md$")
_FIELD = re.compile(r"^(name|description):[ \t]*(.+)$", re.MULTILINE)


class Agent(NamedTuple):
    """A subagent that the repository describes."""

    name: str
    description: str
    path: str


class Reading(NamedTuple):
    """One pass that the change wants.

    Args:
        of: The pass.
        signals: What it looks at.
        roles: The roles of the files that it reads where no rule matches.
        agent: Who does it; None where the repository has nobody for it.
        because: Why that one.
    """

    of: Pass
    signals: tuple[Signal, ...]
    roles: tuple[str, ...]
    agent: Agent | None
    because: str


def choose_passes(
    signals: Sequence[Signal], roles: Iterable[str], passes: Sequence[Pass]
) -> tuple[Pass, ...]:
    """Return the fewest passes such that one looks at each signal and at each role of a file.

    Of several choices of one size the one whose passes come first in the rules is taken.

    Args:
        signals: What the rules see.
        roles: The roles of the changed files.
        passes: The passes that there are.
    """
    needs = {frozenset(each.rule.passes) for each in signals}
    needs |= {frozenset(each.id for each in passes if role in each.roles) for role in roles}
    needs = {each for each in needs if each}
    useful = [each for each in passes if any(each.id in need for need in needs)]
    # A need with one answer is settled at once, which leaves few passes to combine.
    forced = {next(iter(need)) for need in needs if len(need) == 1}
    open_needs = [need for need in needs if not need & forced]
    others = [each.id for each in useful if each.id not in forced]
    # By size, so the first hit is smallest; passes are few enough to try all.
    for size in range(len(others) + 1):
        for chosen in combinations(others, size):
            if all(need & set(chosen) for need in open_needs):
                wanted = forced | set(chosen)
                return tuple(each for each in useful if each.id in wanted)
    raise AssertionError("all passes together look at everything")


def read_agents(files: Files) -> tuple[Agent, ...]:
    """Return the subagents that a repository describes, each name once."""
    found: dict[str, Agent] = {}
    for path in sorted(files.paths):
        match = _AGENT.search(path)
        text = files.text(path) if match else None
        if match is None or text is None:
            continue
        head = text.split("---", 2)[1] if text.startswith("---") else ""
        told = {key: value.strip().strip("\"'") for key, value in _FIELD.findall(head)}
        name = told.get("name", match[1])
        found.setdefault(name, Agent(name, told.get("description", ""), path))
    return tuple(found.values())


def agent_for(
    a_pass: Pass, agents: Sequence[Agent], chosen: Mapping[str, str]
) -> tuple[Agent | None, str]:
    """Return the subagent for a pass and why: the one that is named for it, or the best match.

    A word of the pass in an agent's name decides; in its description, it takes two of them.
    """
    if a_pass.id in chosen:
        named = chosen[a_pass.id]
        known = next((each for each in agents if each.name == named), Agent(named, "", ""))
        return known, "[tool.scaffold.review.agents] names it"
    best: tuple[int, Agent, list[str]] | None = None
    for agent in agents:
        in_name = [each for each in a_pass.words if _has(agent.name.replace("-", " "), each)]
        told = [each for each in a_pass.words if _has(agent.description, each)]
        weight = 2 * len(in_name) + len(told)
        # Strictly greater: of equals the first by path stays.
        if weight >= 2 and (best is None or weight > best[0]):
            best = weight, agent, list(dict.fromkeys([*in_name, *told]))
    if best is None:
        return None, "no subagent of the repository speaks of it"
    words = ", ".join(repr(each) for each in best[2])
    return best[1], f"its name or description has {words}"


def readings(
    signals: Sequence[Signal],
    roles: Iterable[str],
    passes: Sequence[Pass],
    agents: Sequence[Agent],
    chosen: Mapping[str, str],
) -> tuple[Reading, ...]:
    """Return the passes that a change wants, each with what it looks at and who does it."""
    present = sorted(set(roles))
    found: list[Reading] = []
    for each in choose_passes(signals, present, passes):
        agent, because = agent_for(each, agents, chosen)
        own = tuple(signal for signal in signals if each.id in signal.rule.passes)
        found.append(
            Reading(each, own, tuple(r for r in present if r in each.roles), agent, because)
        )
    return tuple(found)


def _has(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}", text, re.IGNORECASE) is not None
