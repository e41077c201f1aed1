"""A glossary to begin with: terms of the field that the translations there already bear out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from scaffold.transaction.change import Change
from scaffold.translation.documents import Documents
from scaffold.translation.glossary import Glossary, Term
from scaffold.translation.page import Section

_TABLE = Path(__file__).with_name("starter_glossary.toml")
_SHARE = 0.8
"""In so many of the sections that use a term its translation has the word, or the term is left."""


def starter_glossary(documents: Documents) -> Change | None:
    """Return the glossary that a repository's own use bears out; None where it has one.

    A term counts where pages use it and most of their translations have the word; one that no
    translated page uses yet counts for nothing.
    """
    path = documents.layout.glossary
    if documents.has(path):
        return None
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    told = table.get(documents.settings.language, {})
    terms = [Term(name, tuple(words)) for name, words in told.items()]
    terms += [Term(name) for name in table["keep"]]
    texts = [
        (_prose(pair.source), _prose(pair.translation))
        for page, other in documents.layout.pages.items()
        if documents.has(page) and documents.has(other)
        for pair in documents.pairs(page)
        if pair.source and pair.translation
    ]
    # Longer terms first, as in every glossary: "loss function" leaves no "loss".
    used = [
        (term, other) for source, other in texts for term in Glossary(path, terms).used_in(source)
    ]
    borne = [term for term in terms if _is_borne_out(term, used)]
    return Change(path, "created", None, _text(borne).encode())


def _is_borne_out(term: Term, used: list[tuple[Term, str]]) -> bool:
    found = [
        each.is_kept_in(other) if each.is_kept else each.is_translated_in(other)
        for each, other in used
        if each == term
    ]
    return bool(found) and sum(found) >= _SHARE * len(found)


def _prose(section: Section) -> str:
    return "\n".join(passage.prose for passage in section.passages)


def _text(terms: list[Term]) -> str:
    kept = json.dumps([each.name for each in terms if each.is_kept], ensure_ascii=False)
    rows = [f"keep = {kept}", "", "[terms]"]
    rows += [
        f"{json.dumps(each.name)} = {json.dumps(each.translations, ensure_ascii=False)}"
        for each in terms
        if not each.is_kept
    ]
    return "\n".join(rows) + "\n"
