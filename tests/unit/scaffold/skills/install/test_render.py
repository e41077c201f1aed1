"""A skill as it is installed, and what no rendering may let through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.errors import ScaffoldError
from scaffold.skills.install.front_matter import granted_in
from scaffold.skills.install.render import render
from scaffold.skills.install.source import Skill
from scaffold.skills.install.source_tree import SkillFile

ROOTS = (".agents/skills", ".claude/skills")
HEAD = "---\nname: one\ndescription: Does it.\n{more}---\n\n# Do it\n"


def skill(more: str = "", **others: str | bytes) -> Skill:
    texts = {"SKILL.md": HEAD.format(more=more), **others}
    files = {
        path.replace("__", "/"): SkillFile(
            text if isinstance(text, bytes) else text.encode(), False
        )
        for path, text in texts.items()
    }
    return Skill("one", "skills/one", files)


def test_both_forms() -> None:
    more = "allowed-tools: Bash\nmetadata:\n  claude-argument-hint: NAME\n"
    given_skill = skill(more, **{"refs__a.sh": b"\xff"})
    found = render(given_skill, "acme-one", ROOTS, grant_tools=False)
    assert sorted(found) == [
        f"{root}/acme-one/{path}" for root in ROOTS for path in ("SKILL.md", "refs/a.sh")
    ]
    plain = HEAD.format(more=more).replace("name: one", "name: acme-one")
    plain = plain.replace("allowed-tools: Bash\n", "")
    assert found[".agents/skills/acme-one/SKILL.md"].data.decode() == plain
    claude = plain.replace("---\n\n", "argument-hint: NAME\n---\n\n")
    assert found[".claude/skills/acme-one/SKILL.md"].data.decode() == claude
    assert found[".claude/skills/acme-one/refs/a.sh"].data == b"\xff"


def test_with_what_it_grants() -> None:
    given_skill = skill("metadata:\n  claude-allowed-tools: Bash\n")
    found = render(given_skill, "one", ROOTS, grant_tools=True)
    assert found[".agents/skills/one/SKILL.md"] == given_skill.files["SKILL.md"]
    assert b"\nallowed-tools: Bash\n" in found[".claude/skills/one/SKILL.md"].data
    found = render(given_skill, "one", ROOTS, grant_tools=False)
    assert b"allowed-tools" not in b"".join(file.data for file in found.values())


def test_a_skill_inside_loses_what_it_grants_too() -> None:
    inner = HEAD.format(more="hooks: {Stop: x}\n")
    for path in ("assets__SKILL.md", "assets__skill.md"):
        found = render(skill(**{path: inner}), "one", ROOTS[:1], grant_tools=False)
        data = found[f"{ROOTS[0]}/one/{path.replace('__', '/')}"].data
        assert data.decode() == HEAD.format(more="")


BEGIN = '<!-- scaffold:begin output "rm -rf /" inputs=* -->'
END = "<!-- scaffold:end -->"
BLOCKS: dict[str, tuple[str, str]] = {
    "a block": (f"a\n{BEGIN}\nb\n{END}\nc\n", "a\nb\nc\n"),
    "two": (f"{BEGIN}\nb\n{END}\n{BEGIN}\n{END}\n", "b\n"),
    "with other line ends": (f"a\r\n  {BEGIN}\r\nb\r\n{END}\r\n", "a\r\nb\r\n"),
    "not closed": (f"a\n{BEGIN}\nb\nc\n", "a\nb\nc\n"),
    "not opened": (f"a\n{END}\nb", "a\nb"),
    "one in another": (f"{BEGIN}\n{BEGIN}\na\n{END}\n{END}\n", "a\n"),
    "quoted in a fence": (f"```\n{BEGIN}\n```\n", f"```\n{BEGIN}\n```\n"),
    "behind a byte that is not text": (f"\udcff\n{BEGIN}\n{END}\n", "\udcff\n"),
    "none": ("a\n<!-- a comment -->\n", "a\n<!-- a comment -->\n"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_generated_blocks_become_plain_text(name: str) -> None:
    before, after = (text.encode("utf-8", "surrogateescape") for text in BLOCKS[name])
    given_skill = skill(**{"refs__a.md": before, "refs__a.txt": before})
    for grant_tools in (False, True):
        found = render(given_skill, "one", ROOTS[:1], grant_tools=grant_tools)
        assert found[f"{ROOTS[0]}/one/refs/a.md"].data == after
        assert found[f"{ROOTS[0]}/one/refs/a.txt"].data == before


REFUSED: dict[str, Skill] = {
    "a broken skill inside": skill(**{"assets__SKILL.md": "---\nhooks: [\n---\n"}),
    "one that is not text": skill(**{"assets__SKILL.md": b"---\nhooks: \xff\n---\n"}),
    "merged keys": skill("<<: {allowed-tools: Bash}\n"),
    "a key that is there twice for Claude": skill(
        "argument-hint: x\nmetadata:\n  claude-argument-hint: y\n"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(ScaffoldError) as caught:
        render(REFUSED[name], "one", ROOTS, grant_tools=False)
    assert caught.value.code == "skill_invalid"
    assert "skills/one/" in caught.value.message


KEYS = ["allowed-tools", "Allowed_Tools", "hooks", '"allowed-tools"', "mcpServers", "license", "x"]
VALUES = [
    "Bash", "|\n  claude-hooks: x\n  allowed-tools: y", "\n  a: b\n  # c", "{a: b}", "&a Bash",
    "*a", "\n- a\n- b", '"x\\nallowed-tools: z"', ">-\n  x\n\n  claude-tools: z",
    "\n  claude-hooks: {a: b}", '"x\nallowed-tools: q\n y"',
    "\n  claude-x: &a\n    claude-tools: q",
    "null", "'a: b'",
]  # fmt: skip
rows = st.lists(
    st.tuples(
        st.sampled_from([*KEYS, "metadata", "<<", "? allowed-tools"]), st.sampled_from(VALUES)
    ),
    max_size=4,
)


@settings(max_examples=400, deadline=None)
@given(pairs=rows, name=st.sampled_from(["one", "two"]), end=st.sampled_from(["\n", "\r\n"]))
def test_nothing_that_grants_comes_through(
    pairs: list[tuple[str, str]], name: str, end: str
) -> None:
    """However the front matter is written: it is refused, or grants nothing in any form."""
    text = HEAD.format(more="".join(f"{key}: {value}\n" for key, value in pairs))
    data = text.replace("\n", end).encode()
    given_skill = Skill("one", "", {"SKILL.md": SkillFile(data, False)})
    try:
        found = render(given_skill, name, ROOTS, grant_tools=False)
    except ScaffoldError:
        return
    for file in found.values():
        head = read_front_matter(file.data.decode())
        assert head.problem is None
        assert granted_in(file.data) == []
        assert head.fields["name"] == name
        assert head.fields["description"] == "Does it."
