"""Whether a sentence, what introduces its list or the headings above take back what it names."""

from __future__ import annotations

import re

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import (
    any_of,
    before_colon,
    compiled,
    plain,
    sentence_around,
    sentence_before,
    words_before,
)

# Whose place it is where it is not this repository's.
_OTHERS = any_of(
    "users? targets? remote hosts? servers? containers? clusters? clients? customers? callers?"
    r" readers? consumers? consuming_\w+ downstream upstream box vm image machine"
)
_OWNED = "(?:'s)? " + any_of(
    r"own \w*repo\w* projects? packages? app\w* code_?base workspace machine home"
)
_ELSEWHERE = (
    rf"your(?: \w+)?{_OWNED}|(?:on|in|inside|of|from|at|into) (?:the|a|an|their) (?:\w+ )?{_OTHERS}"
    rf"|{_OTHERS}(?: \w+)?{_OWNED}|{_OTHERS}'s|ssh|scp|third-party|external|another|other|their"
)
_MADE = any_of(
    r"creat\w* generat\w* writes? writing written outputs? results? artifacts? deliverables?"
    r" scaffold\w* produces? produced producing emit\w* new saves? saved saving append record built"
    " compiled rendered downloaded uploaded reports? logs? dumps? snapshots? screenshots?"
    " recordings? transcripts?"
)
_GONE = any_of(
    "removed? deleted? renamed? replaced? gone deprecated obsolete legacy old former formerly"
    " used_to dropped moved was were had missing absent"
)
_OPEN = any_of(
    "will would could might may shall if whether unless until once wasn not no never without"
    r" nobody nothing none soon eventually plan plans planned later future to-?do fixme optional\w*"
    " needs? wants? proposed? otherwise default_(?:location|path|folder|place) exists? ensure"
    " make_sure depending branch check_?out log_in_to bug traceback trace fictional made-?up"
    " picture draft candidate destination scratch temporary finished then_(?:lives?|is|are)"
    " afterwards finally ready (?:are|is|be)_done"
)
_LOOSE = any_of(
    r"e\.g examples? instance such_as like suppose says said claims? thinks reports imagin\w+"
    r" assum\w+ consider say hypothetical\w* illustrat\w+ typical\w* usual\w* often sometimes"
    r" normally commonly? something similar template sample placeholder reply answer\w* respond"
    " good bad wrong instead rather each every any some most many"
)
# What is so only where something ran, or on one machine.
_OF_RUNS = any_of(
    r"resulting made fresh\w* just final intermediate local(?:ly)? production staging deployed"
    " installed trained exported bundled minified extracted unpacked checked-out downloaded"
    " mounted private personal ignored runtime run_time latest previous current_run"
)
# What takes an assertion back before the span, and behind it.
_DOUBT = compiled(rf"\b(?:{_ELSEWHERE}|{_GONE}|{_OPEN}|{_LOOSE})\b|n't\b|[❌✗✘🚫]")
_MAKING = compiled(rf"\b(?:{_MADE}|{_OF_RUNS})\b|\?")
# A command that makes something is run all the same; the script itself may be what is made.
_MADE_SCRIPT = compiled(
    rf"\b(?:(?:script|file)s? (?:is|are|was) {_MADE}",
    rf"|(?:{_MADE}|adds?|puts?|leaves?|drops?|makes?) (?:a|an|the|this|your) (?:\w+ )?",
    r"(?:script|file)",
    r"|clon\w+|installer|companion)\b",
)
_IT = any_of(
    "it one they present there available any needed necessary applicable your"
    " the_(?:project|repo|file)"
)
_TAIL = compiled(
    rf"\b(?:creat\w+ (?:it|one|them)|(?:if|when|once|where|unless|until) {_IT}",
    rf"|(?:in|of|inside|on|from|for) (?:your(?: \w+)?{_OWNED}|their|the {_OTHERS}|another|other",
    r"|upstream)|(?:of|in|from) the [\w§-]+ (?:project|repo\w*)|or (?:in )?(?:a )?",
    any_of("similar equivalent something whatever new separate (?:file|module)_of"),
    r"|not (?:yet|there|present|exist\w*)|does not|do not|(?:has|have) been|you (?:just )?",
    any_of("wrote created made added"),
    r"|as (?:a|an|the) ",
    any_of("name example illustration placeholder starting_point template new"),
    r"|",
    any_of(
        r"absent missing don doesn no_longer was were used_to removed deleted renamed e\.g"
        r" for_example etc will would might may could should generated optional\w* soon eventually"
        r" planned some_?day named_after instead yourself placeholders? stand-?in ignor\w+"
        " is_an_example until after_(?:it|you|writing) appears? exists?"
    ),
    r")\b|\bthere\W*$|n't\b|\?",
)
_FIRST = any_of(
    "in on for with inside within after once when(?:ever)? while during by upon at under before"
)
_LEADING = compiled(
    # Such a beginning sets a place or a time, with a comma behind it or without.
    r"^(?:(?:after|once|on|at|during|by|upon|until|inside|within)\s(?!you\b|\w+ing\b)|",
    rf"(?:{_FIRST}|as soon as)\s+(?!(?:this|the|our) ",
    any_of(r"repo\w* package project codebase skill"),
    r"\b)(?!you\b|\w+ing\b|[^,]*, (?:see|read|consult|refer to)\b)[^,]*,|",
    any_of("an? each every any some most many other one good typical given consider take"),
    r"\s|(?!you\b|we\b)\w+ (?:can|may|might|could)\b",
    # What someone says is not what the text says.
    r"|(?:.*\s)?(?!note\b|remember\b|see\b)[\w-]+ that (?:the|it|its|this|there|all|every)\b)",
)
_INDEFINITE = compiled(r"\b", any_of("an? each every any some another one"), r"\s+(?:\w+\s+)?$")
# Whose it is, and a proper name: that of another project.
_OWNER = compiled(r"^your\b|\b(?!it\b|let\b|here\b|what\b|that\b|there\b)[\w-]+'s\s")
_PROPER_BEHIND = lazy_re(r"^\s*\(?(?:in|of|from) (?:the )?\w*[A-Z]")
_TITLE = compiled(
    r"\b",
    any_of(
        "example output creat generat layout deprecat migrat legacy history changelog to-?do"
        " roadmap future plan deliverable artifact new remov template sample target expected"
        " result"
    ),
)
# What sets a scene for all the sentences that follow it in a paragraph.
_SCENE = compiled(
    r"\b(?:",
    any_of(
        r"suppose imagine assume consider hypothetical\w* for_example for_instance e\.g typical\w*"
        " upstream roadmap planned in_the_future"
    ),
    rf"|(?:the|a) {_OTHERS}'s|your{_OWNED}|the (?:target|host|remote|generated|resulting|new) \w+"
    r"|^an? [A-Z]\w+ (?:project|repo\w*|app\w*))\b",
)
# And what the sentence before says of the one that follows it.
_FAR = compiled(rf"\b(?:{_ELSEWHERE}|{_GONE}|{_LOOSE})\b")
# What qualifies the span itself: "x when supplied", "x, the page from step 4", "x of requests".
_QUALIFIED = compiled(
    r"^\)?(?:\s+(?:if|when|where|once|as) \w+\W*$|,\s+(?:the|an?|your)\b|\s+out of\b",
    r"|,?\s+(?:that|which) (?!(?:are|have|also|only|now)\b|\w+s\b)\w",
    r"|\s+(?:of|in|from) the (?:\w+ )?(?:project|repo\w*|package|app\w*|code ?base)\b",
    r"|\s+(?:of|in|from)\s+(?!(?:the|this|our|every|each|all|both|its|sync|line|order|full)\b",
    r"|step with|§)\w)",
)
_QUOTES = lazy_re(r"[\"“”]")


def is_doubtful_intro(text: str) -> bool:
    """Return whether what introduces a list, a table or a drawing takes back what it shows."""
    last = re.split(r"(?<=[.!?])\s+", plain(text).strip())[-1]
    return any(pattern.search(last) for pattern in (_DOUBT, _MAKING, _TAIL, _LEADING))


def is_doubtful_lead(text: str) -> bool:
    """Return whether what introduces a command, or a comment at it, leaves open what it runs."""
    last = re.split(r"(?<=[.!?])\s+", plain(text).strip())[-1]
    return any(each.search(last) for each in (_DOUBT, _MADE_SCRIPT, _LEADING))


def is_doubted(span: Span) -> bool:
    """Return whether anything around a span leaves open whether it is there."""
    before, after = plain(before_colon(span)), plain(sentence_around(span)[1])
    doubts = (_DOUBT, _MAKING, _LEADING, _INDEFINITE, _OWNER)
    if any(pattern.search(before) for pattern in doubts):
        return True
    if (
        _TAIL.search(after)
        or _PROPER_BEHIND.match(after)
        or _QUALIFIED.match(after)
        or len(_QUOTES.findall(before)) % 2
    ):
        return True
    told = words_before(span)
    if _SCENE.search(told) or _FAR.search(sentence_before(told)):
        return True
    return _is_doubtful_place(span.block)


def _is_doubtful_place(block: Block) -> bool:
    """Return whether the headings above a block, or what introduces its list, leave it open."""
    # The first heading is the title, and says what the whole text is for.
    titles = {*block.headings[1:], *block.headings[-1:]}
    if any(_TITLE.search(title) for title in titles):
        return True
    return any(is_doubtful_intro(text) for text in block.intros if text)
