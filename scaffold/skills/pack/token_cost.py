"""What a skill costs each client, in tokens of its context: an estimate, and named as one."""

from __future__ import annotations

from typing import NamedTuple

from scaffold.skills.pack.sources import Skill

CLAUDE_MAX_CHARACTERS = 1536
"""Source: Claude Code cuts what its list says of a skill after so many characters."""

BUDGETS = {"claude": 0.01, "codex": 0.02}
"""Source: the part of the context that Claude Code and Codex give to their lists of skills."""

CONTEXT_TOKENS = 200_000
"""The context that the budgets are told for; the smallest that the three clients use by default."""


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
