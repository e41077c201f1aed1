"""The mood of a subject: an order ("add"), where a word can be nothing but another form of a verb.

Only what is certain counts. "fixes" and "tests" are nouns too, "removed" and "testing" adjectives,
so most forms count only before an article or a pronoun, where no noun or adjective fits.
"""

from __future__ import annotations

_VERBS = (
    "add", "adjust", "allow", "apply", "avoid", "build", "bump", "change", "check", "clarify",
    "clean", "configure", "convert", "copy", "correct", "create", "delete", "deprecate", "detect",
    "disable", "document", "drop", "enable", "ensure", "expose", "extend", "extract", "fix",
    "format", "handle", "implement", "improve", "include", "increase", "introduce", "limit", "list",
    "load", "merge", "move", "name", "pass", "pin", "prevent", "print", "provide", "raise", "read",
    "reduce", "refactor", "refuse", "reject", "remove", "rename", "reorder", "replace", "report",
    "require", "resolve", "restore", "return", "revert", "show", "simplify", "skip", "sort",
    "split", "stop", "store", "support", "test", "turn", "unify", "update", "upgrade", "use",
    "validate", "verify", "wrap",
)  # fmt: skip
_DOUBLED = {"drop", "pin", "skip", "split", "stop", "wrap"}
_NO_REGULAR_PAST = {"build", "read", "show", "split"}
_NO_NOUN = {"add", "allow", "avoid", "create", "delete", "ensure", "introduce", "prevent", "remove"}
"""Verbs whose form in -s is not the plural of a noun."""

_BEFORE_NOUNS = {
    "a", "an", "the", "this", "that", "these", "those", "its", "their", "some", "all", "more",
}  # fmt: skip

_BEHIND_NOUNS = {"this", "that", "some", "all", "more"}
"""Those that follow a noun as well: "tests that fail", "changes this week", "checks all"."""


def imperative_of(subject: str) -> str | None:
    """Return the verb to begin with where a subject surely begins with another form of it."""
    words = subject.lower().split()
    verb = _FORMS.get(words[0])
    if verb is None:
        return None
    # Only the very next word counts: "fixes the" is a verb, "fixes for the" is a noun.
    nouns = _BEFORE_NOUNS - _BEHIND_NOUNS if words[0].endswith("s") else _BEFORE_NOUNS
    is_certain = words[0] in _CERTAIN or not nouns.isdisjoint(words[1:2])
    return verb if is_certain else None


def _third_person(verb: str) -> str:
    if verb.endswith("y"):
        return f"{verb[:-1]}ies"
    return verb + ("es" if verb.endswith(("s", "x", "ch", "sh")) else "s")


def _stem(verb: str) -> str:
    # "dropping" and "removing".
    return verb + verb[-1] if verb in _DOUBLED else verb.removesuffix("e")


_FORMS = {
    **{_third_person(verb): verb for verb in _VERBS},
    **{f"{_stem(verb)}ing": verb for verb in _VERBS},
    **{
        f"{verb[:-1]}ied" if verb.endswith("y") else f"{_stem(verb)}ed": verb
        for verb in _VERBS
        if verb not in _NO_REGULAR_PAST
    },
}
_CERTAIN = {"added", *map(_third_person, _NO_NOUN)}
