"""What the words around a claim say of it: that it is to be made, gone, an example, a placeholder.

A claim that its author did not make is no claim. When in doubt these functions say so, because a
false alarm costs more than a miss.
"""

from __future__ import annotations

import re
from functools import lru_cache

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.assertion import Stance
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import sentence_around

MADE = "it may be a file that the reader is told to make"
_CREATED = lazy_re(
    r"\b(?:creat(?:e|es|ed|ing)|mak(?:e|es|ing)|writ(?:e|es|ing|ten)|(?:auto-?)?generat(?:e|es|ed|ing)"
    r"|sav(?:e|es|ed|ing)|produc(?:e|es|ed|ing)|outputs?|scaffolds?|new|add(?:s|ed|ing)?"
    r"|implement(?:s|ed|ing)?|defin(?:e|es|ed|ing)|introduc(?:e|es|ed|ing)|nam(?:e|ed) (?:it|them)"
    r"|call(?:ed)? it|render(?:s|ed|ing)?|plac(?:e|ed|ing)|put(?:s|ting)?|stor(?:e|es|ed|ing)"
    r"|export(?:s|ed|ing)?|dump(?:s|ed|ing)?|cop(?:y|ies|ied|ying)|mov(?:e|es|ed|ing)"
    r"|renam(?:e|es|ed|ing)|mkdir|touch|log(?:s|ged) to|will|would|go(?:es)? (?:in|into|to|under)"
    r"|went (?:in|into|to)|should (?:be|live|contain|go)|emit(?:s|ted|ting)?|gets? (?:a|an|its|one)"
    r"|download(?:s|ed|ing)?|install(?:s|ed|ing)?|cached (?:in|to|under|at)"
    r"|built (?:by|from|into)|split out|paste[sd]?"
    r"|(?:this|it|them|the following)(?: \w+)? (?:into|to|as))\b",
    re.IGNORECASE,
)
_GONE = lazy_re(
    r"\b(?:delet(?:e|es|ed|ing)|remov(?:e|es|ed|ing)|no longer|formerly|historically|used to"
    r"|previously|drop(?:s|ped)?|deprecated|obsolete|legacy|no|nothing|nobody|none of"
    r"|(?:do|does|did)(?: not|n't)|not exist|missing|never|instead of|rather than|over"
    r"|replac(?:e|es|ed|ing)|renamed|old(?:er)?|was called|avoid|whether|cannot find"
    r"|if (?:it|they|one|there|any|present|you)|if .{0,40}\bexists?|optional(?:ly)?|need|may have"
    r"|when .{0,40}\bexists?|unlike|without an?|(?:git-?)?ignored?|stale|in the past|once lived"
    r"|local only|uncommitted|private|temp(?:orary)?|cached)\b"
    r"|\bnot\b|[❌✗✘🚫]|\b(?:wrong|bad|don't)\b\W*$",
    re.IGNORECASE,
)
# Words that take back a whole sentence, wherever they stand in it.
_TAKEN_BACK = lazy_re(
    r"\b(?:planned|roadmap|to ?do:|future|upcoming|we plan|we want|not yet|some ?day|eventually"
    r"|follow-up|later:?$|any ?more|(?:was|were|has been|have been|got) (?:removed|dropped|deleted"
    r"|split|replaced|renamed|moved)|has moved|moved (?:to|into)|renamed\)|used to (?:hold|be|live)"
    r"|we dropped|in the past|before v?\d|is absent|are absent|raises? (?:a |an )?\w*Error"
    r"|not (?:committed|checked in|tracked)|auto-?generated|build output|comes? from `"
    r"|(?:do|does)(?: not|n't) (?:have|exist)|there(?:'s| is| are) (?:currently )?no"
    r"|write it first)\b",
    re.IGNORECASE,
)
_BEGINS_WITH_DOUBT = lazy_re(r"\W*(?:if|when|once|unless|where|should)\b", re.IGNORECASE)
_BEHIND_DOUBT = lazy_re(
    r"\W*(?:exists?|is (?:there|present|missing|not)|are (?:there|present|missing)|isn't)\b",
    re.IGNORECASE,
)
_EXAMPLE = lazy_re(
    r"\b(?:e\.?g\.?|for example|for instance|such as|examples?|imagine|suppose|say,|say the|like"
    r"|given|numbered|called"
    r"|sample|template|placeholder|hypothetical|similar to|something like|named like|pattern)\b",
    re.IGNORECASE,
)
_ELSEWHERE = lazy_re(
    r"\b(?:your|user's|their|upstream|third-party|external|another repo(?:sitory)?"
    r"|other repo|in the \w+ repo(?:sitory)?|target (?:repo(?:sitory)?|project)|remote|container"
    r"|server)\b|\busers'(?!\w)",
    re.IGNORECASE,
)
_TITLES = lazy_re(
    r"\b(?:creat|output|generat|writ|example|deprecat|legacy|migrat|remov|plan|to ?do\b|future"
    r"|roadmap|(?:files?|things?) to (?:add|create|make|write)|don'?t|do not|wrong|bad\b|avoid"
    r"|gone|history|changelog|new\b|before\b|old\b|anti-?pattern|mistake)",
    re.IGNORECASE,
)
_WRONG = lazy_re(
    r"❌|✗|✘|🚫|\b(?:bad|wrong|incorrect(?:ly)?|anti-?patterns?|mistakes?|pitfalls?|before:|don'?t"
    r"|broken|buggy|fails?|error|legacy|old)\b",
    re.IGNORECASE,
)
_WRONG_COMMENT = lazy_re(
    r"❌|✗|✘|🚫|\b(?:bad|wrong|incorrect(?:ly)?|anti-?pattern|don'?t|do not|broken|buggy|old way"
    r"|before|deprecated|error:|raises|will fail|fails)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy_re(
    r"<[^<>\s][^<>]*>|\{[^{}]*\}|\$\w+|\$\{[^}]*\}|\[[^\[\]]*\]|\.\.\.|…|\*|\?|%s|%\w+%|[Xx]{3}"
    r"|YYYY|NNN|\b(?:your|my|some|foo|bar|baz|example|placeholder|path[/_-]to)(?:[-_/.]|\b)"
    r"|(?:^|[/_.-])(?:foo|bar|baz|qux|example|xxx?|yyy|abc|dummy)(?:[/_.-]|$)",
    re.IGNORECASE,
)


# So many characters before a span can govern it; a longer way has other things in between.
_NEAR = 70
_LIST_BEFORE = lazy_re(r"(?:`[^`]*`[\s,/&+]*(?:and|or|und)?[\s,(]*)+$")
_BEGINS_WITH_MAKING = lazy_re(
    r"\W*(?:\d+[.)]\s*)?(?:then\s+|also\s+|now\s+|next,?\s+|please\s+)?(?:create|write|generate|scaffold"
    r"|add (?:a|an|another|your)\b|copy|move|rename|save|put|place|paste|output|export|download)\b",
    re.IGNORECASE,
)
_LIST_BEHIND = lazy_re(r"^(?:[\s,/&+]*(?:and|or)?\s*`[^`]*`)+")
_MADE_BEHIND = lazy_re(
    r"[^.]{0,30}?\b(?:(?:is|are|gets?|be|was|were|being) (?:then |also |now |automatically )?"
    r"(?:creat|writ|generat|produc|sav|stor|made|emitt|built|render|updat|download)\w*"
    r"|will (?:be|contain|hold)|appears?|comes? from|goes)\b"
    r"|^[^.;\w]{0,3}[(—–:-]\s*(?:new|creat|generat|optional|auto-?generat|to be|add|write\b|make\b"
    r"|planned|later)",
    re.IGNORECASE,
)
_GONE_BEHIND = lazy_re(
    r"[^.]{0,40}?\b(?:no longer|(?:was|were) (?:removed|deleted|renamed|replaced)"
    r"|(?:has|have) been|(?:does|do)(?: not|n't) exist|is(?: not|n't)\b|when present"
    r"|if (?:it|they|one|present|any|you)|(?:may|might) (?:not )?exist"
    r"|where (?:present|it exists|you)|only (?:if|when|where)|optional(?:ly)?|deprecated|is gone"
    r"|is missing|or (?:similar|equivalent)|for example|if\b)",
    re.IGNORECASE,
)
# "x of the `infra` repository": this one goes by no name in its own texts.
_OTHERS_BEHIND = lazy_re(
    r"\s+\(?(?:of|in|from) (?:the|our) (?!(?:same|this|main|whole|entire|current|root|git|local)\b)"
    r"[`\w-]+ repo(?:sitory)?\b",
    re.IGNORECASE,
)
_CAPITALS = lazy_re(
    r"(?:^|[/_.-])(?:NAME|FILE|FOLDER|DIR|KIND|STYLE|PATH|MODEL|PAGE|TOPIC|MODULE|SLUG|ID|USER|OWNER"
    r"|REPO|VERSION|DATE|RULE|KEY|N|X|Y)(?=[/_.-]|$)"
)


@lru_cache(maxsize=1024)  # each kind of claim asks it of the same spans
def is_placeholder(text: str) -> bool:
    """Return whether a text stands for many: it holds `<name>`, `*`, `...`, `my_` and the like."""
    return _PLACEHOLDER.search(text) is not None or _CAPITALS.search(text) is not None


def silence(span: Span) -> str | None:
    """Return why a span in running text makes no claim that something exists, or None.

    What counts are the words that govern it: those just before it (a list of other spans may stand
    between), those just behind it, the verb that the sentence begins with, the heading above it,
    and in a table the column's title.
    """
    if reason := denial(span):
        return reason
    before, _ = sentence_around(span)
    lead = _LIST_BEFORE.sub("", before)[-_NEAR:]
    titles = " ".join(span.block.headings[-1:])
    if span.block.kind == "cell":
        titles = f"{titles} {span.block.info}"
        lead = " ".join([*(cell for cell in span.block.row if cell != span.block.text), lead])
    reason = why_no_claim(lead, titles)
    if reason is None:
        return None
    # The verb that leads to it is nearer than any word of making.
    stance = Stance(span)
    is_near = stance.is_directed and not stance.is_doubted
    return why_no_claim("", titles) if is_near else reason


def denial(span: Span) -> str | None:
    """Return why a sentence plainly says of a span that it is not there, or not yet, or None."""
    before, after = sentence_around(span)
    after = _LIST_BEHIND.sub("", after)
    if _BEGINS_WITH_MAKING.match(before) or _MADE_BEHIND.match(after):
        return MADE
    if _OTHERS_BEHIND.match(after):
        return "it may be of another repository"
    if _GONE_BEHIND.match(after) or _TAKEN_BACK.search(f"{before} ` {after}"):
        return "the text may say that it is not there"
    if _BEGINS_WITH_DOUBT.match(before) and _BEHIND_DOUBT.match(after):
        return "the text leaves open whether it is there"
    return None


def why_no_claim(words: str, titles: str = "") -> str | None:
    """Return why words around something say that it need not exist, or None."""
    for pattern, reason in (
        (_CREATED, MADE),
        (_GONE, "the text may say that it is not there"),
        (_EXAMPLE, "it may be an example"),
        (_ELSEWHERE, "it may be of another repository"),
    ):
        if pattern.search(words):
            return reason
    if _TITLES.search(titles):
        return "it stands under a heading about what is made, shown or gone"
    return None


def lead_silence(block: Block, *, is_code: bool = False) -> str | None:
    """Return why the words that introduce a block take back what it claims, or None.

    Args:
        block: The block.
        is_code: Whether it is code: what is new, or an example, still uses what is there.
    """
    last = block.lead.rsplit("\n", 1)[-1][-_NEAR:]
    if not is_code:
        return why_no_claim(last, " ".join(block.headings[-1:]))
    if _GONE.search(last) or _TAKEN_BACK.search(last):
        return "the text may say that it is not there"
    if _ELSEWHERE.search(last):
        return "it may be of another repository"
    return None


def block_silence(block: Block) -> str | None:
    """Return why a block of code is meant to be wrong or old, or None."""
    lead = block.lead.rsplit("\n", 1)[-1]
    title = block.headings[-1] if block.headings else ""
    comments = " ".join(re.findall(r"(?:#|//)\s*(.*)", block.text))
    if _WRONG.search(lead) or _WRONG.search(title) or _WRONG_COMMENT.search(comments):
        return "it may show how not to do it"
    return None
