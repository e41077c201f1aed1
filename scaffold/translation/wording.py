"""Do the words of a translation agree with its page: code, links, numbers, terms?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from scaffold.findings import Finding
from scaffold.translation.finding import Comparison
from scaffold.translation.glossary import Glossary
from scaffold.translation.links import Links
from scaffold.translation.numbers import foreign_numbers, missing_numbers
from scaffold.translation.page import Passage, Piece

# Punctuation of East Asia, ideographs, and full-width forms.
_CHINESE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
# No part of a file's name or of another compound; a period behind it ends the sentence.
_WORD = re.compile(r"(?<![\w./=-])[a-z]{2,}(?!\w|[./=]\w)")
_ADDRESS = re.compile(r"[a-z][a-z+.-]*://\S+|\{[%{].*?[%}]\}", re.DOTALL)
_NAMES = {"zh": "Chinese"}
_CAPITAL = re.compile(r"(?<![\w.])[A-Z][\w-]+")
_ENDED = re.compile(r"\w[)\]'\"*_]*[.!?:]+\s*\Z")
# `Dao et al. FlashAttention: ...`: a work, whose title is not translated.
_CITED = re.compile(r"\bet al\.(?:,?\s+\(?\d{4}\)?)?[.,:]?\s+[\"'\u201c]?[A-Z]")
_MIN_WORDS = 4
"""So many words of lower case are a sentence, and no list of names."""

_LINKING = re.compile(
    r"\b(?:an?|are|by|do|does|for|from|how|if|in|is|its?|no|not|on|or|that|the|this|to|was|what"
    r"|when|where|which|who|why|with|your?)\b",
    re.IGNORECASE,
)
"""Words that join others to a phrase; names and lists of them have no such words."""


def check_passage(
    at: Comparison, source: Passage, passage: Passage, language: str
) -> Iterator[Finding]:
    """Yield what two passages of the same place do not share, links apart."""
    # Where blocks differ a section is one passage, and what they lack counts among its text.
    if source.slot and source.paragraphs != passage.paragraphs:
        found, wanted = str(passage.paragraphs), str(source.paragraphs)
        yield at.finding("paragraph", passage.line, found, wanted, source.line)
    yield from _check_codes(at, source, passage)
    yield from _check_numbers(at, source, passage)
    theirs, ours = ({piece.text for piece in each.tags} for each in (passage, source))
    for tag in sorted(ours - theirs):
        yield at.finding("html", passage.line, "none", f"<{tag}>", source.line)
    for tag in sorted(theirs - ours):
        yield at.finding("html", passage.line, f"<{tag}>", "none", source.line)
    same = {tuple(each.prose.split()) for each in source.parts or [source]}
    for part in passage.parts or [passage]:
        # Other languages share their letters with English, so only the same words show it.
        is_same = tuple(part.prose.split()) in same
        if _is_sentence(part.prose) and (
            not _CHINESE.search(part.prose) if language == "zh" else is_same
        ):
            said = " ".join(part.plain.split())
            shown = said if len(said) <= 60 else f"{said[:57]}..."
            wanted = _NAMES.get(language, language)
            yield at.finding("untranslated", part.line, f"{shown!r}", wanted, source.line)


def _is_sentence(prose: str) -> bool:
    """Return whether a text holds a sentence in Latin letters, be it a short one."""
    # Of an address and of a template's tag the parts are words, and nobody translates them.
    text = _ADDRESS.sub(" ", prose)
    # "MIT or Apache-2.0" is a list of names.
    if _CITED.search(text) or not {*_WORD.findall(text)} - {"and", "or"}:
        return False
    lower = [len(_WORD.findall(each)) for each in text.split(",")]
    count, capitals = sum(lower), len(_CAPITAL.findall(text))
    # Names, acronyms and titles of works have capitals; a sentence may begin with one.
    if count < capitals - 1:
        return False
    if count >= _MIN_WORDS:
        # Between commas, settings and names stand alone.
        return max(lower) > 2 or _ENDED.search(text) is not None
    if _ENDED.search(text):
        return count + capitals > 1
    return count + capitals > 2 and _LINKING.search(text) is not None


def check_links(
    at: Comparison, links: Links, source: Passage, passage: Passage
) -> Iterator[Finding]:
    """Yield links and images of two passages that do not lead to the same."""
    for rule, expected, ours, theirs in (
        ("link", links.expected, source.links, passage.links),
        ("image", links.expected_image, source.images, passage.images),
    ):
        wanted = {piece: expected(piece.text) for piece in ours}
        agreeing = {lead for each in wanted.values() for lead in each.leads}
        found = {links.found(piece.text) for piece in theirs}
        lost = [(piece, each) for piece, each in wanted.items() if not each.leads & found]
        new = [piece for piece in theirs if links.found(piece.text) not in agreeing]
        for row, other in zip_longest(lost, new):
            yield at.finding(
                rule,
                other.line if other else at.translation.line,
                other.text if other else "none",
                row[1].text if row else "none",
                row[0].line if row else at.source.line,
            )


def check_terms(at: Comparison, glossary: Glossary) -> Iterator[Finding]:
    """Yield the terms of a section that its translation lacks."""
    prose = at.translation.prose
    for term in glossary.used_in(at.source.prose):
        if term.is_in(prose) if term.is_kept else term.is_translated_in(prose):
            continue
        # A term may span passages once they are joined, so none of them need have it alone.
        line = next((p.line for p in at.source.passages if term.is_in(p.prose)), at.source.line)
        words = f"{' or '.join(term.translations)} for {term.name!r}"
        wanted = f"{term.name!r}, which stays as it is" if term.is_kept else words
        yield at.finding("term", at.translation.line, "none", wanted, line)


def check_comments(at: Comparison) -> Iterator[Finding]:
    """Yield comments that are missing, too many, or that direct a tool in other words."""
    ours, theirs = at.source.comments, at.translation.comments
    if len(ours) != len(theirs):
        found, wanted = _counted(theirs), _counted(ours)
        yield at.finding("comment", at.translation.line, found, wanted, at.source.line)
        return
    for source, comment in zip(ours, theirs, strict=True):
        # What a tool reads has other signs than letters; the rest of a comment may be translated.
        lost = [
            word
            for word in re.findall(r"[A-Za-z][\w.:/=*-]*[\w*]:?", source.text)
            if re.search(r"[:_/=*-]", word) and word not in comment.text
        ]
        if lost:
            found = " ".join(comment.text.split())
            yield at.finding("comment", comment.line, found, " ".join(lost), source.line)


def _counted(comments: list[Piece]) -> str:
    return f"{len(comments)} comment{'' if len(comments) == 1 else 's'}"


def _check_codes(at: Comparison, source: Passage, passage: Passage) -> Iterator[Finding]:
    ours, theirs = {p.text for p in source.codes}, {p.text for p in passage.codes}
    # As sets: a language may need to repeat a name, or to leave a repetition out.
    lost = list(dict.fromkeys(p for p in source.codes if p.text not in theirs))
    new = list(dict.fromkeys(p for p in passage.codes if p.text not in ours))
    for wanted, found in zip_longest(lost, new):
        yield at.finding(
            "inline-code",
            found.line if found else passage.line,
            f"`{found.text}`" if found else "none",
            f"`{wanted.text}`" if wanted else "none",
            wanted.line if wanted else source.line,
        )


def _check_numbers(at: Comparison, source: Passage, passage: Passage) -> Iterator[Finding]:
    lost = missing_numbers(source.prose, passage.prose)
    new = foreign_numbers(source.prose, passage.prose)
    if lost or new:
        found, wanted = ", ".join(new) or "none", ", ".join(lost) or "none"
        yield at.finding("number", passage.line, found, wanted, source.line)
