"""``scaffold skills list``: every skill with the length of its description and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.files import list_files
from scaffold.report import Report
from scaffold.skills.blocks.settings import CLIENTS
from scaffold.skills.pack.sources import Pack, Skill, read_what_can_be

CLAUDE_MAX_CHARACTERS = 1536
"""Source: Claude Code cuts a skill's entry in its list after so many characters."""

BUDGETS = {"claude": 0.01, "codex": 0.02}
"""Source: the part of the context that Claude Code and Codex give to their lists of skills."""

CONTEXT_TOKENS = 200_000
"""The context that the budgets are told for; the smallest that the three clients use by default."""

NOTE = "tokens are estimated: four ASCII characters to one, any other character for one"


class Cost(NamedTuple):
    """What one client spends on one skill.

    Args:
        listing: Tokens in every conversation, for its row in the list of skills.
        body: Tokens once the skill is used.
    """

    listing: int
    body: int


def tokens(text: str) -> int:
    """Return about how many tokens a text has: ASCII in fours, every other character for one.

    The clients' tokenizers differ, are not all public and change with the model, so that a precise
    number for one of them would not be truer for the others. Four characters to a token is what
    English prose and code come to; beyond ASCII it is rather one.
    """
    ascii_count = sum(char < "\x80" for char in text)
    # Rounded up: one character costs a whole token.
    return -(-ascii_count // 4) + len(text) - ascii_count


def cost_of(skill: Skill, client: str) -> Cost:
    """Return what a client spends on a skill.

    Source: the lists that `claude`, `codex debug prompt-input` and OpenCode's tool `skill` show.
    """
    body = tokens(skill.body)
    if client == "claude":
        return Cost(tokens(f"- {skill.name}: {skill.description}"[:CLAUDE_MAX_CHARACTERS]), body)
    if client == "codex":
        row = f"- {skill.name}: {skill.description} (file: {skill.path})"
        return Cost(tokens(row), tokens(skill.data.decode("utf-8-sig")))
    # OpenCode lists skills as XML.
    tags = "<skill><name></name><description></description><location></location></skill>"
    return Cost(tokens(f"{tags}{skill.name}{skill.description}{skill.path}"), body)


def list_skills(root: Path) -> Report:
    """List a repository's skills and subagents; one that cannot be read makes the report fail."""
    pack, problems = read_what_can_be(list_files(root))
    report = Report("skills list", warnings=pack.warnings)
    report.fail_in_part(problems)
    report.extra = {
        "skills": [_skill_json(each) for each in pack.skills],
        "agents": [{"name": each.name, "path": each.path} for each in pack.agents],
        "estimate": NOTE,
    }
    report.text = _text(pack)
    return report


def _skill_json(skill: Skill) -> dict[str, object]:
    return {
        "name": skill.name,
        "path": skill.path,
        "description": skill.description,
        "description_characters": len(skill.description),
        "lines": len(skill.data.splitlines()),
        "file_count": 1 + len(skill.others),
        "tokens": {client: cost_of(skill, client)._asdict() for client in CLIENTS},
    }


def _text(pack: Pack) -> str:
    head = ["skill", "description", *(f"{client} list/body" for client in CLIENTS)]
    rows = [head]
    for each in pack.skills:
        costs = (cost_of(each, client) for client in CLIENTS)
        numbers = [f"{cost.listing} / {cost.body}" for cost in costs]
        rows.append([each.name, f"{len(each.description)} characters", *numbers])
    rows.append(_totals(pack))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    agents = [f"agent  {each.name}  {each.description}" for each in pack.agents]
    return "\n".join([*lines, *agents, NOTE]) + "\n"


def _totals(pack: Pack) -> list[str]:
    """Return the last row: what the list costs in all, and of what budget where there is one."""
    cells: list[str] = []
    for client in CLIENTS:
        total = sum(cost_of(each, client).listing for each in pack.skills)
        budget = int(BUDGETS.get(client, 0) * CONTEXT_TOKENS)
        cells.append(f"{total} of {budget}" if budget else f"{total}")
    return [f"all {len(pack.skills)}", "", *cells]
