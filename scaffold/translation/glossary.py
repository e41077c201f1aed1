"""The terms of a translation: what each is called, and what stays as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from scaffold.analysis.files.files import Files
from scaffold.errors import RequestError


class Term(NamedTuple):
    """A term of the source with its translations; () where it stays as it is."""

    name: str
    translations: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        return not self.translations

    def is_in(self, prose: str) -> bool:
        """Return whether a text has the term, in the singular or the plural."""
        return bool(self.pattern.search(prose))

    def is_translated_in(self, prose: str) -> bool:
        """Return whether a translation has one of the words for the term."""
        # Chinese sets blanks around Latin words by taste.
        folded = re.sub(r"\s+", "", prose).lower()
        return any(re.sub(r"\s+", "", each).lower() in folded for each in self.translations)

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds the term, in the singular or the plural."""
        # "open source" is found in "open-source" and across a line end.
        words = r"[\s-]+".join(re.escape(word) for word in self.name.split())
        # Chinese letters are letters to `\w`, and may touch a term.
        return re.compile(rf"(?<![A-Za-z0-9_]){words}(?:s|es)?(?![A-Za-z0-9_])", re.IGNORECASE)


class Glossary:
    """The terms of a repository, longer ones first: a term that contains another one wins."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms = sorted(terms, key=lambda term: (-len(term.name), term.name))

    def used_in(self, prose: str) -> list[Term]:
        """Return the terms that a text uses; one inside a longer one counts where it is alone."""
        found: list[Term] = []
        for term in self.terms:
            if term.is_in(prose):
                found.append(term)
                # What a longer term has used up is not left for the shorter one inside it.
                prose = term.pattern.sub(" ", prose)
        return sorted(found)


def read_glossary(files: Files, path: str) -> Glossary:
    """Return the glossary of a repository, an empty one where there is no file.

    Raises:
        RequestError: The file is wrong.
    """
    if path not in files.paths:
        return Glossary()
    text = files.text(path)
    if text is None:
        raise _wrong(path, files.why_unreadable(path))
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong(path, f"is not valid TOML: {error}") from error
    unknown = [key for key in table if key not in ("keep", "terms")]
    if unknown:
        raise _wrong(path, f"has the key {unknown[0]!r}; known are keep and terms")
    return Glossary([*_kept(path, table.get("keep", [])), *_told(path, table.get("terms", {}))])


def _kept(path: str, value: Any) -> list[Term]:
    # `keep = ["rollout", "token"]`.
    rows = cast("list[Any]", value) if isinstance(value, list) else []
    words = [row for row in rows if isinstance(row, str) and row.strip()]
    if not isinstance(value, list) or len(words) < len(rows):
        raise _wrong(path, "has a `keep` that is not a list of words")
    return [Term(word) for word in words]


def _told(path: str, value: Any) -> list[Term]:
    if not isinstance(value, dict):
        raise _wrong(path, "has `terms` that are not a table")
    found: list[Term] = []
    for name, given in cast("dict[str, Any]", value).items():
        # `"reward" = "奖励"`, or a list of words that all will do.
        words = cast("list[Any]", given) if isinstance(given, list) else [given]
        if not (words and all(isinstance(word, str) and word.strip() for word in words)):
            raise _wrong(path, f"translates {name!r} by no word")
        found.append(Term(name, tuple(words)))
    return found


def _wrong(path: str, why: str) -> RequestError:
    return RequestError(
        f"the glossary {path} {why}",
        code="target_invalid",
        hint='write keep = ["rollout"] and, under [terms], "reward" = "..."',
    )
