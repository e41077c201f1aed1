"""What can be seen of a change without understanding it: places, roles of files, sizes, forms.

A trait is a short text; `describe` words it for people. Two changes of one kind share traits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from scaffold.vcs.changes import FileChange
from scaffold.vcs.roles import role_of

# Bounds of sizes, each about three times the one before.
_STEPS = (0, 1, 3, 10, 30, 100)
# A line that defines something in one of many languages: `pub fn x`, `export class X`, `def x`.
_DEFINES = re.compile(
    r"\s*(?:(?:export|default|pub(?:\([^)]*\))?|public|static|async|abstract|final) +)*"
    r"(?:def|class|func|fn|function|struct|enum|trait|interface|type|const|module) +[A-Za-z]"
)
_COMMENT = ("#", "//", "*", "/*", '"""', "'''", "--", ";;")


def place_traits(changes: Sequence[FileChange]) -> frozenset[str]:
    """Return where a change lies: its files, the folders around them, the words of its paths."""
    found: set[str] = set()
    for change in changes:
        *folders, name = change.path.split("/")
        found.add(f"file {change.path}")
        found |= {f"in {'/'.join(folders[:depth])}/" for depth in range(1, len(folders) + 1)}
        found |= {f"word {each.lower()}" for each in (*folders, name.split(".")[0])}
        found.add(f"suffix .{name.rpartition('.')[2]}")
    roles = sorted({role_of(change.path) for change in changes})
    return frozenset(found | {f"roles {' + '.join(roles)}"})


def shape_traits(changes: Sequence[FileChange]) -> frozenset[str]:
    """Return what a change looks like: roles of files, what happened to them, how many lines."""
    # Words of paths point to a scope and not to a type.
    found = {trait for trait in place_traits(changes) if not trait.startswith("word ")}
    found |= {f"status {change.status} {role_of(change.path)}" for change in changes}
    found.add(f"files {_step(len(changes))}")
    for role in ("source", "test"):
        these = [change for change in changes if role_of(change.path) == role]
        added = _step(sum(change.added_count for change in these))
        removed = _step(sum(change.removed_count for change in these))
        found |= {f"{role} lines +{added} -{removed}"}
        if role == "source":
            found |= {f"source +{added}", f"source -{removed}", *_line_traits(these)}
    return frozenset(found)


def describe(trait: str) -> str:
    """Return a trait as people read it."""
    kind, _, rest = trait.partition(" ")
    words = {"word": f"{rest!r} in a path", "roles": f"the files are {rest}", "file": rest}
    return words.get(kind, trait)


def _line_traits(changes: Sequence[FileChange]) -> set[str]:
    """Return how many definitions, lines of code and comments were put in and taken out."""
    counts: Counter[str] = Counter()
    for change in changes:
        for hunk in change.hunks:
            for sign, lines in (("+", hunk.added), ("-", hunk.removed)):
                for line in filter(None, map(str.strip, lines)):
                    counts[f"{sign}{'comment' if line.startswith(_COMMENT) else 'code'}"] += 1
                counts[f"{sign}define"] += sum(map(bool, map(_DEFINES.match, lines)))
    found = {f"definitions +{_step(counts['+define'])}", f"definitions -{_step(counts['-define'])}"}
    for word in ("define", "code"):
        found.add(f"{word} +{_step(counts[f'+{word}'])} -{_step(counts[f'-{word}'])}")
    # Of comments only none, one, or several matters.
    few = {sign: min(2, _step(counts[f"{sign}comment"])) for sign in "+-"}
    return found | {f"comments +{few['+']} -{few['-']}"}


def _step(count: int) -> int:
    """Return the size of a number in steps, for which commits of like size share a trait."""
    return sum(count > bound for bound in _STEPS)
