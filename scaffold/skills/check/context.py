"""What the words around a claim say of it: that it is to be made, gone, an example, a placeholder.

A claim that its author did not make is no claim. When in doubt these functions say so, because a
false alarm costs more than a miss.
"""

from __future__ import annotations

import re

from scaffold.skills.check.markdown import Block, Span

_CREATED = re.compile(
    r"\b(?:creat(?:e|es|ed|ing)|writ(?:e|es|ing|ten)|generat(?:e|es|ed|ing)|sav(?:e|es|ed|ing)"
    r"|produc(?:e|es|ed|ing)|outputs?|scaffolds?|new (?:file|module|folder|directory|script|test"
    r"|page|entry)|add(?:s|ed|ing)? (?:a|an|another|your|the) (?:new )?(?:file|module|folder"
    r"|directory|script|test|page)|plac(?:e|ed|ing)|put(?:s|ting)?|stor(?:e|es|ed|ing)|export(?:s"
    r"|ed|ing)?|dump(?:s|ed|ing)?|cop(?:y|ies|ied|ying)|mov(?:e|es|ed|ing)|renam(?:e|es|ed|ing)"
    r"|mkdir|touch|log(?:s|ged) to|will (?:be|live|appear|contain)|goes? (?:in|into|to|under)"
    r"|should (?:be|live|contain)|emit(?:s|ted|ting)?|download(?:s|ed|ing)?"
    r"|install(?:s|ed|ing)?)\b",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\b(?:delet(?:e|es|ed|ing)|remov(?:e|es|ed|ing)|no longer|formerly|used to|previously"
    r"|deprecated|obsolete|legacy|there (?:is|are) no|does not exist|do not exist|doesn't exist"
    r"|don't exist|not exist|missing|never|instead of|rather than|replaced|old(?:er)?|was called"
    r"|avoid|whether|if (?:it|they|one|there|any|present)|if .{0,40}\bexists?|optional(?:ly)?"
    r"|unlike|without an?|ignored?|git-?ignored?)\b|\bnot\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\b(?:e\.?g\.?|for example|for instance|such as|example|examples|imagine|suppose|say,|like"
    r"|sample|template|placeholder|hypothetical|similar to|something like|named like|pattern)\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"\b(?:your|user's|users'|their|upstream|third-party|external|another repo(?:sitory)?"
    r"|other repo|target (?:repo(?:sitory)?|project)|remote|container|server)\b",
    re.IGNORECASE,
)
_WRONG = re.compile(
    r"❌|✗|✘|🚫|\b(?:bad|wrong|incorrect(?:ly)?|anti-?patterns?|mistakes?|pitfalls?|before:|don'?t"
    r"|broken|buggy|fails?|error|legacy|old)\b",
    re.IGNORECASE,
)
_WRONG_COMMENT = re.compile(
    r"❌|✗|✘|🚫|\b(?:bad|wrong|incorrect(?:ly)?|anti-?pattern|don'?t|do not|broken|buggy|old way"
    r"|before|deprecated|error:|raises|will fail|fails)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"<[^<>\s][^<>]*>|\{[^{}]*\}|\$\w+|\$\{[^}]*\}|\[[^\[\]]*\]|\.\.\.|…|\*|\?|%s|%\w+%|[Xx]{3}"
    r"|YYYY|NNN|\b(?:your|my|some|foo|bar|baz|example|placeholder|path/to)(?:[-_/.]|\b)"
    r"|(?:^|[/_.-])(?:foo|bar|baz|qux|example|xxx?|yyy|abc|dummy)(?:[/_.-]|$)",
    re.IGNORECASE,
)


# So many characters before a span can govern it; a longer way has other things in between.
_NEAR = 70
_LIST_BEFORE = re.compile(r"(?:`[^`]*`[\s,/&+]*(?:and|or|und)?[\s,(]*)+$")
_BEGINS_WITH_MAKING = re.compile(
    r"\W*(?:\d+[.)]\s*)?(?:then\s+|also\s+|now\s+|next,?\s+|please\s+)?(?:create|write|generate|scaffold"
    r"|add (?:a|an|another|your)\b|copy|move|rename|save|put|place|output|export|download)\b",
    re.IGNORECASE,
)
_LIST_BEHIND = re.compile(r"^(?:[\s,/&+]*(?:and|or)?\s*`[^`]*`)+")
_MADE_BEHIND = re.compile(
    r"[^.;]{0,30}?\b(?:(?:is|are|gets?|be|was|were|being) (?:then |also |now |automatically )?"
    r"(?:creat|writ|generat|produc|sav|stor|made|emitt|built|render|updat|download)\w*"
    r"|will (?:be|appear|contain|hold)|appears?\b"
    r"|\((?:new|created|generated|optional|auto-?generated|to be))",
    re.IGNORECASE,
)
_GONE_BEHIND = re.compile(
    r"[^.;]{0,40}?\b(?:no longer|(?:was|were) (?:removed|deleted|renamed|replaced)"
    r"|(?:has|have) been|(?:does|do)(?: not|n't) exist|is(?: not|n't)\b|when present"
    r"|if (?:it|they|one|present|any|you)|(?:may|might) (?:not )?exist"
    r"|where (?:present|it exists|you)|only (?:if|when|where)|optional(?:ly)?|deprecated|is gone"
    r"|is missing|or (?:similar|equivalent)|for example|if\b)",
    re.IGNORECASE,
)
_CAPITALS = re.compile(
    r"(?:^|[/_.-])(?:NAME|FILE|FOLDER|DIR|KIND|STYLE|PATH|MODEL|PAGE|TOPIC|MODULE|SLUG|ID|USER|OWNER"
    r"|REPO|VERSION|DATE|RULE|KEY|N|X|Y)(?=[/_.-]|$)"
)


def is_placeholder(text: str) -> bool:
    """Tells whether a text stands for many: it holds `<name>`, `*`, `...`, `my_` and the like."""
    return _PLACEHOLDER.search(text) is not None or _CAPITALS.search(text) is not None


def silence(span: Span) -> str | None:
    """Returns why a span in running text makes no claim that something exists, or None.

    What counts are the words that govern it: those just before it (a list of other spans may stand
    between), those just behind it, the verb that the sentence begins with, the heading above it,
    and in a table the column's title.
    """
    before, after = sentence_around(span)
    lead = _LIST_BEFORE.sub("", before)[-_NEAR:]
    titles = " ".join(span.block.headings[-1:])
    if span.block.kind == "cell":
        titles = f"{titles} {span.block.info}"
    after = _LIST_BEHIND.sub("", after)
    if _BEGINS_WITH_MAKING.match(before) or _MADE_BEHIND.match(after):
        return "it may be a file that the reader is told to make"
    if _GONE_BEHIND.match(after):
        return "the text may say that it is not there"
    return why_no_claim(lead, titles)


def why_no_claim(words: str, titles: str = "") -> str | None:
    """Returns why words around something say that it need not exist, or None."""
    for pattern, reason in (
        (_CREATED, "it may be a file that the reader is told to make"),
        (_GONE, "the text may say that it is not there"),
        (_EXAMPLE, "it may be an example"),
        (_ELSEWHERE, "it may be of another repository"),
    ):
        if pattern.search(words):
            return reason
    if re.search(r"\b(?:creat|output|generat|writ|example|deprecat|legacy|migrat)", titles, re.I):
        return "it stands under a heading about what is made, shown or gone"
    return None


def lead_silence(block: Block) -> str | None:
    """Returns why the words that introduce a block of code take back what it claims, or None."""
    last = block.lead.rsplit("\n", 1)[-1]
    return why_no_claim(last, " ".join(block.headings[-1:]))


def block_silence(block: Block) -> str | None:
    """Returns why a block of code is meant to be wrong or old, or None."""
    lead = block.lead.rsplit("\n", 1)[-1]
    title = block.headings[-1] if block.headings else ""
    comments = " ".join(re.findall(r"(?:#|//)\s*(.*)", block.text))
    if _WRONG.search(lead) or _WRONG.search(title) or _WRONG_COMMENT.search(comments):
        return "it may show how not to do it"
    return None


def sentence_around(span: Span) -> tuple[str, str]:
    """Returns the words of a span's own sentence before it and behind it, comments left out."""
    before = re.split(r"(?<=[.!?;:])\s+(?=[A-Z`*\[(])|\n\s*\n", _shown(span.before))[-1]
    after = re.split(r"(?<=[.!?;])\s+(?=[A-Z`*\[(])|(?<=[.!?])$|\n\s*\n", _shown(span.after))[0]
    return before, after


def _shown(text: str) -> str:
    # A comment that allows a rule holds words ("path-missing") that would silence the claim.
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
