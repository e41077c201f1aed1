"""A reference, the verdict that the repository gives of it, and the class of the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from scaffold.findings import Fix

if TYPE_CHECKING:
    from scaffold.skills.check.read.markdown import Block, Span

Reason = Literal[
    "true",
    "removed",
    "moved",
    "other spelling",
    "wrong line",
    "contradicts",
    "never here",
    "written from the root",
    "absent",
    "another namespace",
    "placeholder",
    "generated",
    "ignored by git",
    "third party not installed",
    "open",
]
"""Why a reference holds, does not, or cannot be decided.

"absent" is what the files alone say; the history makes "removed", "moved" or "never here" of it.
"""

HELD: frozenset[Reason] = frozenset({"true"})
REFUTED: frozenset[Reason] = frozenset(
    {
        "removed",
        "moved",
        "other spelling",
        "wrong line",
        "contradicts",
        "never here",
        "written from the root",
    }
)

Intent = Literal["asserts", "makes", "denies", "elsewhere", "template"]
"""What a sentence or a block does with what it names."""


class Reference(NamedTuple):
    """Something that a document names.

    Args:
        kind: What it is; a key of `kinds.KINDS`.
        text: The words themselves, on one line.
        line: Where they are, from 1.
        column: The first character, from 1.
        data: What its finder knows beyond the words, for its resolver.
        block: The block it is in, where that is code.
        span: The inline code or link it is, where it is in running text.
    """

    kind: str
    text: str
    line: int
    column: int = 1
    data: Any = None
    block: Block | None = None
    span: Span | None = None

    @classmethod
    def in_block(cls, block: Block, at: int, kind: str, text: str, data: Any = None) -> Self:
        """Return what the text of a block names from a character on."""
        line = block.line + block.text.count("\n", 0, at)
        return cls(kind, text, line, at - block.text.rfind("\n", 0, at), data, block)

    @classmethod
    def at(cls, span: Span, kind: str, data: Any = None, text: str = "") -> Self:
        """Return what a span names, by its own words or others."""
        return cls(kind, text or span.text, span.line, span.column, data, span=span)


class Asked(NamedTuple):
    """What the history is asked where the files have nothing.

    Args:
        paths: The places that a path may mean.
        name: The name of a definition.
        otherwise: The class of the reason where the history knows neither.
        is_bare: Whether the name alone is named: then any place that holds the word holds it.
        file: The name of a file that is named without its folder.
        lines_of: A file of which lines are named.
        line: The first of them.
        end: The last of them.
        home: The folder that the name is said to be in: what was removed elsewhere is another.
    """

    paths: tuple[str, ...] = ()
    name: str = ""
    otherwise: Reason = "never here"
    is_bare: bool = False
    file: str = ""
    lines_of: str = ""
    line: int = 0
    end: int = 0
    home: str = ""


class Verdict(NamedTuple):
    """What the repository shows of a reference.

    Args:
        reason: Its class.
        evidence: What was looked at, in a sentence.
        rule: The rule that is broken where it does not hold.
        message: What is wrong, in a sentence that begins with the reference.
        now: What is so now, or empty.
        fix: What would fix it.
        asked: What the history is asked of it.
        place: The file, or the folder, that it leads to, for the neighbours of what does not.
        is_sure: Whether only its own clause can take it back; a number may be that of something
            else.
    """

    reason: Reason
    evidence: str
    rule: str = ""
    message: str = ""
    now: str = ""
    fix: Fix | None = None
    asked: Asked | None = None
    place: str = ""
    is_sure: bool = True

    @classmethod
    def holds(cls, evidence: str, place: str = "") -> Self:
        """Return the verdict of a reference that ``evidence`` proves."""
        return cls("true", evidence, place=place)

    @classmethod
    def wrong(
        cls, evidence: str, rule: str, message: str, given: str, near: str, line: int = 0
    ) -> Self:
        """Return the verdict of a name that is not there, with the one that is meant, if any."""
        now = f"there is {near}" if near else ""
        fix = Fix(line, given, near, is_safe=False) if near else None
        return cls("contradicts", evidence, rule, message, now, fix)

    @classmethod
    def unknown(cls, evidence: str, reason: Reason = "open") -> Self:
        """Return the verdict of a reference that cannot be decided, with the class of the why."""
        return cls(reason, evidence)


class Judged(NamedTuple):
    """A reference with its verdict and what the text does with it.

    Args:
        reference: The reference.
        verdict: What the repository shows of it.
        near: What its own clause does with it.
        wide: What its sentence, its list or its heading does with it.
        group: The list, table or block it is in: those of one group are neighbours.
    """

    reference: Reference
    verdict: Verdict
    near: Intent = "asserts"
    wide: Intent = "asserts"
    group: int = 0
