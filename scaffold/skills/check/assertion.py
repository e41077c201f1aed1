"""Whether a sentence says plainly that what it names is there.

An error needs such a sentence: a frame of words around the span that only makes sense where the
thing exists ("read x", "y is defined in x", "x holds y"), and no doubt about it.
"""

from __future__ import annotations

from functools import cached_property

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.doubt import is_doubted
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import SPAN, any_of, compiled, plain, sentence_around

_LIST_BEFORE = lazy_re(r"(?:§[\s,/&+]*(?:and|or)?[\s,]*)+$")
_LIST_BEHIND = lazy_re(r"(?:[\s,/&+]*(?:and|or)?\s*§)+")
# Words that a plain object does not hold: "open a file such as x", "check whether x".
_VAGUE = any_of(
    "as for if whether into onto to which that who where when named called your their his her an?"
    " any another some each every or not no like similar new own other old first it them and then"
    " what you we back path name filename"
)
_OBJECT = rf"(?:\s+(?!{_VAGUE}\b)[\w§'-]+){{0,5}}\s*\(?\s*$"
_READ = any_of(
    "read open look_at look_in look_into look_inside look_through look_under consult refer_to"
    " follow run execute use invoke study review inspect examine check edit modify change update"
    " extend start_with start_from start_at start_in start_by_reading begin_with mirror mimic"
    " import reuse adapt source load skim browse visit"
)
# Behind "run x and", what is read may be what the run has made.
_LOOK = any_of(
    "read open look_at look_in look_into consult refer_to follow study review inspect examine"
    " edit modify change extend"
)
# What may stand before the verb of a sentence and sets no other place or condition for it.
_OPENING = (
    r"(?:^|[:(]|\s[-–—])\s*(?:\d+[.)]\s*|[-*]\s*)?(?:(?:"
    + any_of("and then also please always must should can you we just now next first finally")
    + r",?\s+)*|(?:to|before|while|for|when you|after you)\b[^,.;:§]{1,60},\s*"
    + r"(?:always\s+|please\s+)?"
    + rf"|(?:(?:re-?)?{_LOOK}\b[^,.;:]{{0,60}}?,?\s+(?:and|then|and then)\s+))"
)
# "You should see x" tells what comes out.
_SEE = compiled(
    r"(?:^|[:(]|\s[-–—]|^(?:for|to|before) [^,.;:§]{1,60}\b,?|;|\b(?:and|please))",
    r"\s*(?:\d+[.)]\s*)?see(?: also)?",
    _OBJECT,
)
_IMPERATIVE = compiled(
    _OPENING,
    rf"(?:{_READ}{_OBJECT}|",
    # Verbs that mean other things with more words: "call the file x", "keep a log in x".
    any_of("call copy keep"),
    r"\s*$|",
    any_of("verify compare check validate test"),
    r"\b[^§,;:.()]{1,40}\b",
    any_of("against with to"),
    r"(?: the)?\s*$)",
)
# Any participle but those of what is made or moved: "the cache is defined in x".
_DONE = (
    r"(?:(?!"
    + any_of(
        r"\w*saved stored cached created generated emitted exported logged dumped downloaded"
        " uploaded copied moved renamed placed recorded appended deployed installed rendered"
        " compiled collected published archived extracted split merged replaced removed deleted"
        " dropped used needed required expected assumed called named produced added inserted"
        " attached unpacked packed folded"
    )
    + r"\b)[a-z-]+ed|set|kept|driven|run|read|shown|given|laid out|found|told)"
)
_AT = any_of("in under at inside by from within via through")
_KIND = any_of("file module script folder directory package class function")
_SAID = any_of(
    "defined implemented declared registered described documented listed configured shown found"
)
_STANDS = any_of("lives? sits? resides? stays? begins? starts? ends?")
_PLACED = compiled(
    rf"\b(?:(?:is|are|be)(?: \w+ly| all| only| also)?(?: {_DONE})?|(?<!to ){_STANDS}",
    rf"|{_SAID}|find [^§,;:.()]{{1,40}})\s+(?:\w+ly )?{_AT}",
    rf"(?:\s+(?:the|our|both|and|{SPAN}|\w+ ?{_KIND}|{_KIND})){{0,4}}\s*\(?\s*$",
)
_ACCORDING = compiled(
    r"(?:^|[,;(]\s*)(?:as (?:\w+ed|shown|set out) (?:in|by)|",
    any_of("according_to per more_in details_in details_are_in more_details_in"),
    r")\s*$",
)
_IS = compiled(
    r"\b(?:the|our|its|main|this)\b[^§,;:.()]{0,30}\b",
    any_of(
        "entry_?point source_of_truth reference guide module script implementation documentation"
        r" spec specification config\w*"
    ),
    r" (?:is|are)\s*$",
)
_WE = compiled(
    r"^we (?:keep|define|document|describe|implement|track|list) [^§,;:.()]{1,40} in(?: the)?\s*$"
)
_DOES = compiled(
    r"^(?:§|it|ci|we|(?:the|our|this) (?:"
    + any_of("ci workflow build makefile project package repo repository codebase cli skill tool")
    + r")(?: \w+)?|(?:the|our|this|all|both) §[^§,;:.()]{0,20}?)\s*\b",
    any_of(
        "reads runs uses loads calls imports includes sources executes invokes wraps extends"
        " covers follows mirrors parses describes documents depends_on relies_on delegates_to"
    ),
    r"(?: the)?\s*$",
)
_BEFORE = (_SEE, _IMPERATIVE, _PLACED, _ACCORDING, _IS, _WE, _DOES)
# A path that is used as a name, or to put something in, may be one to come.
_USED_FOR = compiled(
    r"\buse\b[^§]{0,40}§\s*(?:for|to (?!",
    any_of(
        "check find see run verify measure format lint build test start learn get understand"
        " debug profile regenerate deploy release reproduce"
    ),
    r"\b))\b|§\s*as\b(?! a (?:reference|guide|model|blueprint))",
)

_SUBJECT = compiled(
    r"^(?:(?:both|the|this|our)(?: (?!that\b)[\w-]+){0,2}",
    r"|(?:the|all|these|our) [\w§'-]+(?: [\w§'-]+){0,2}(?: §)? (?:in|of|from|under))?\s*\(?$",
)
_PREDICATE = compiled(
    r"^\)?\s+(?:(?:which|that) )?(?:(?:also|only|now|already|still) )?(?:(?:is|are) ",
    rf"(?:the|a|an|our|where|responsible|used|{_DONE})\b|(?:",
    any_of(
        "define contain hold implement provide export handle list describe document explain show"
        " register read run load call keep own import depend map wrap test cover configure set"
        " drive sort parse check build use manage control start wire expose re-?export give tell"
        " say walk serve enforce orchestrate delegate mirror"
    ),
    r"s?|(?:has|have)(?! (?:left|gone|come|been|\w+ed)\b)|does)\b)",
)
# Or any other verb with a definite object: "x bumps the version".
_VERB = compiled(
    r"^\s+(?!"
    + any_of(
        "is was has gets needs goes comes takes becomes replaces appears exists misses lacks"
        " wants disappears vanishes awaits follows"
    )
    + r"\b)[a-z]+s\s+(?:the|a|an|all|every|each|our|its)\b"
)
_ITEM = lazy_re(r"^\s*(?:[-–—:|]|\([^)]*\)\s*[-–—:])\s*\S")
# A heading or a sentence that introduces what there is.
_LISTING = compiled(
    r"\b(?:"
    + any_of(
        "key main core important relevant architecture structure overview files? modules? where"
        " references? see resources codebase directories folders components? documentation docs"
        " layout map tour further more reading source tests scripts configuration tools guides?"
    )
    + r")\b"
)
# What the other columns of a table say of the files that there are.
_PURPOSE = compiled(
    r"\b",
    any_of(r"purpose what description contents? role responsib\w+ does area component where about"),
    r"\b",
)
# What a list of what is to come says in its introduction, and a sentence may say anyway.
_TO_COME = compiled(
    r"\b(?:"
    + any_of(
        "suggested proposed recommended desired possible you your add adds added gets? made-?up"
        " fictional fictitious invented imaginary hand_in pretend toy demo need needed required"
        " delivers? deliver ends? leaves? holds?_then"
    )
    + r")\b"
)
_LABEL = compiled(
    r"^(?:the )?(?:\w+ )?",
    any_of(
        "see see_also read docs? documentation details more reference source code implementation"
        " entry_?points? guide where tests fixtures"
    ),
    r"\s*:\s*$",
)
_LISTING_TITLE = compiled(
    r"(?:^|\s)",
    any_of("files? paths? where location modules? folders? directory directories source"),
    r"\W*$",
)


class Stance:
    """How a text stands to what it names; only what is asked for is found out.

    Args:
        span: What it names.
    """

    def __init__(self, span: Span) -> None:
        self._span = span

    @cached_property
    def is_directed(self) -> bool:
        """Whether a verb before the span leads to it."""
        return _is_directed(*self._words)

    @cached_property
    def is_described(self) -> bool:
        """Whether words behind it, or its place in a list, say what it is, and no verb leads."""
        return not self.is_directed and _is_described(self._span, *self._words)

    @cached_property
    def is_doubted(self) -> bool:
        """Whether anything takes it back."""
        return is_doubted(self._span)

    @property
    def is_plain(self) -> bool:
        """Whether the text says plainly that the thing is there."""
        return (self.is_directed or self.is_described) and not self.is_doubted

    @cached_property
    def _words(self) -> tuple[str, str]:
        before, after = sentence_around(self._span)
        return plain(before), plain(after)


def _is_directed(before: str, after: str) -> bool:
    lead = _LIST_BEFORE.sub("", before)
    if _USED_FOR.search(f"{lead} {SPAN}{after}"):
        return False
    return any(frame.search(lead) for frame in _BEFORE)


def _is_described(span: Span, before: str, after: str) -> bool:
    if span.block.kind == "cell":
        return _LISTING_TITLE.search(span.block.info) is not None and _is_listing(span.block)
    lead = _LIST_BEFORE.sub("", before).strip()
    rest = _LIST_BEHIND.sub("", after, count=1) if _LIST_BEHIND.match(after) else after
    if _SUBJECT.match(lead) and (_PREDICATE.match(rest) or (not lead and _VERB.match(rest))):
        return True
    if _LABEL.match(lead):
        return True
    is_first = span.block.kind == "item" and not lead
    return is_first and _ITEM.match(rest) is not None and _is_listing(span.block)


def _is_listing(block: Block) -> bool:
    """Return whether what introduces a list or a table says that it shows what there is."""
    *intros, last = block.intros or ("",)
    titles = last if block.kind == "cell" else ""
    intros = [text for text in (intros if titles else block.intros) if text]
    above = [*block.headings[-1:], *(text.rsplit("\n", 1)[-1] for text in intros[-1:])]
    if any(_TO_COME.search(text) for text in above):
        return False
    if titles:
        return _PURPOSE.search(titles) is not None
    return not above or any(_LISTING.search(text) for text in above)
