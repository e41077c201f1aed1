"""A skill as it is installed: without what it grants itself, under its name, for each client."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError
from scaffold.skills.blocks.markers import parse_blocks
from scaffold.skills.install.front_matter import granted_in, with_name, without_grants
from scaffold.skills.install.permissions import is_markdown, is_skill_file
from scaffold.skills.install.places import CLAUDE
from scaffold.skills.install.source import Skill
from scaffold.skills.install.source_tree import SKILL_FILE, SkillFile
from scaffold.skills.install.subagents import is_subagent, render_subagent
from scaffold.skills.pack.clients import for_claude

# What is true of the repository that a skill comes from, and of no other one.
_SOURCE_ONLY = lazy_re(
    r"^<!-- scaffold:source-only -->\n.*?^<!-- scaffold:source-only-end -->\n\n?",
    re.DOTALL | re.MULTILINE,
)


def render(
    skill: Skill, name: str, roots: Iterable[str], *, grant_tools: bool
) -> dict[str, SkillFile]:
    """Return the files of a skill by their paths in the target.

    Args:
        grant_tools: Whether what it grants itself is left in.

    Raises:
        ScaffoldError: What it grants itself cannot be taken out.
    """
    if is_subagent(name):
        (file,) = skill.files.values()
        return render_subagent(
            skill, without_blocks(file.data), name, roots, grant_tools=grant_tools
        )
    plain = {
        path: SkillFile(_plain(skill, path, file.data, grant_tools), file.executable)
        for path, file in skill.files.items()
    }
    head = plain[SKILL_FILE]
    plain[SKILL_FILE] = head._replace(data=with_name(head.data, name, _where(skill, SKILL_FILE)))
    found: dict[str, SkillFile] = {}
    for root in roots:
        for path, file in plain.items():
            data = file.data
            # Claude's keys are added last: they come from metadata of the cleaned file.
            if root == CLAUDE and path == SKILL_FILE:
                data = _for_claude(skill, data, grant_tools)
            found[f"{root}/{name}/{path}"] = file._replace(data=data)
    return found


def _plain(skill: Skill, path: str, data: bytes, grant_tools: bool) -> bytes:
    data = without_blocks(data) if is_markdown(path) else data
    if grant_tools or not is_skill_file(path):
        return data
    where = _where(skill, path)
    try:
        head = read_front_matter(data.decode())
    except UnicodeDecodeError as error:
        raise _invalid(f"{where} is not UTF-8 text") from error
    if head.problem is not None:
        raise _invalid(f"{where}:{head.problem_line}: {head.problem}")
    return without_grants(data, where)


def without_blocks(data: bytes) -> bytes:
    """Return a document whose generated blocks are plain text, without what stays in its source.

    Blocks follow from the repository that the skill comes from. In another one, renewing them would
    fail, or run what somebody else wrote there.
    """
    text = data.decode("utf-8", "surrogateescape")  # one byte that is no text hides no block
    text = _SOURCE_ONLY.sub("", text)
    # Taking out a pair of marks can bring another pair together.
    while blocks := parse_blocks(text):
        dropped = {line for block in blocks for line in (block.line, block.end_line)}
        dropped -= {block.end_line for block in blocks if block.problem}
        dropped |= {block.line for block in blocks}
        rows = enumerate(text.split("\n"), 1)
        text = "\n".join(row for number, row in rows if number not in dropped)
    return text.encode("utf-8", "surrogateescape")


def _for_claude(skill: Skill, data: bytes, grant_tools: bool) -> bytes:
    """Return Claude's form, read again: its keys come from lines and not from what YAML means."""
    where = _where(skill, SKILL_FILE)
    rendered = for_claude(data, where)
    head = read_front_matter(rendered.decode())
    if head.problem is not None:
        raise _invalid(f"{where}, as Claude Code is to read it: {head.problem}")
    if not grant_tools and (granted := granted_in(rendered)):
        raise _invalid(f"{where} grants {granted[0]} where Claude Code reads it")
    return rendered


def _where(skill: Skill, path: str) -> str:
    return f"{skill.path}/{path}" if skill.path else path


def _invalid(message: str) -> ScaffoldError:
    hint = "repair the skill in its source"
    return ScaffoldError(message, code="skill_invalid", hint=hint)
