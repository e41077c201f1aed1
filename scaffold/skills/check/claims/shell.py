"""The command lines of a document: of its blocks of shell, of prompts, of inline code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.cli.argument_check import Input
from scaffold.analysis.cli.shell_words import Script, Simple, Word, read_shell
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.doubt import is_doubted, is_doubtful_lead
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import sentence_around

LANGUAGES = frozenset({"bash", "sh", "shell", "zsh", "ksh"})
CONSOLES = frozenset({"console", "shell-session", "shellsession", "terminal", "sh-session"})
_PROMPT = lazy_re(r"^(?P<lead>\s*(?:\([\w.-]+\)\s*)?(?:[\w.@:~/-]*[$%❯➜]|>)\s)(?P<rest>\S.*)$")
_DOLLAR = lazy_re(r"^\s*(?:\([\w.-]+\)\s*)?[$❯➜]\s+\S", re.MULTILINE)
_COMMENT = lazy_re(r"(?:^|\s)#(?!!)(?P<text>.*)$")
# What says that a line is not to be run as it stands.
_ASIDE = lazy_re(
    r"\b(?:wrong|bad|incorrect(?:ly)?|avoid|don'?t|do not|never|not|no longer|deprecated|removed?"
    r"|renamed?|obsolete|legacy|previously|formerly|used to|before|old(?:er)?|instead of|fails?"
    r"|error|broken|does ?n[o']t|cannot|can't|unsupported|hypothetical|planned|future|proposed"
    r"|upstream|another repo(?:sitory)?|other repo(?:sitory)?|pseudo-?code|example output"
    r"|illustrat\w+|todo)\b|[❌✗🚫⛔]",
    re.IGNORECASE,
)
_EXAMPLE = lazy_re(
    r"\b(?:for example|for instance|e\.g\.|such as|suppose|imagine|say|your (?:own )?(?:project"
    r"|repo(?:sitory)?|package|app|script)|their|target (?:project|repo(?:sitory)?)|would|might"
    r"|could)\b",
    re.IGNORECASE,
)
_ADDED = lazy_re(
    r"\b(?:add|define|introduce|register|provide)(?:s|ed|ing)?\b[^.]{0,20}$", re.IGNORECASE
)
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "{", "}", "!"}
    | {"time"}
)
_ENDS = frozenset({"for", "select", "case", "function", "in"})
_ASSIGNMENT = lazy_re(r"^[A-Za-z_]\w*\+?=")
_NAMED = lazy_re(r"[\w.-]+(?:/[\w.-]+)+")
_CAPITALS = lazy_re(r"^[A-Z][A-Z0-9_]*$")
_NO_COMMANDS = frozenset(
    {
        "return",
        "import",
        "from",
        "class",
        "def",
        "async",
        "await",
        "const",
        "let",
        "var",
        "function",
    }
    | {"type", "interface", "select", "insert", "update", "create", "raise", "yield", "lambda"}
    | {"true", "false", "none", "null", "and", "or", "not", "for", "with", "public", "private"}
    | {
        "function",
        "static",
        "new",
        "throw",
        "export",
        "use",
        "fn",
        "mod",
        "struct",
        "enum",
        "the",
        "a",
        "an",
    }
)
_INLINE = lazy_re(r"(?:\$ )?(?:[A-Z_]+=\S* )*(?P<first>[\w./${}~<>-]+) \S")
_LINE_SHELL = lazy_re(
    r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:(?:uv|poetry|pdm|hatch|rye) run |python3? |bash |sh |make "
    r"|just |task |npm |pnpm |yarn |npx |pytest |pre-commit |pip3? |\./|scripts/)"
)


class Invocation(NamedTuple):
    """One command line of a document.

    Args:
        words: Its words, without assignments and keywords of the shell in front.
        line: The line of the first word in the document, from 1.
        columns: The columns of the words in the document, from 1.
        is_whole: Whether it is meant to be run as it stands.
        silence: Why what it says of the repository need not hold, or "".
        example: Why its files need not exist, or "".
        around: The words that introduce it, and the comments at it.
        has_fallback: Whether another command stands by for the case that it fails.
        folders: The folders that commands before it change to.
        made: What commands before it write.
        left: The folders that earlier blocks of the document end in.
        allowed: What commands before it make executable.
        span: The inline code it stands in.
    """

    words: tuple[Word, ...]
    line: int
    columns: tuple[int, ...]
    is_whole: bool
    silence: str = ""
    example: str = ""
    folders: tuple[str, ...] = ()
    made: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    span: Span | None = None
    around: tuple[str, ...] = ()
    has_fallback: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the words around it leave open whether its files exist."""
        if self.has_fallback or (self.span is not None and is_doubted(self.span)):
            return True
        return any(is_doubtful_lead(each) for each in self.around)

    @property
    def text(self) -> str:
        """The line as one text."""
        return " ".join(word.raw for word in self.words)

    def line_of(self, index: int) -> int:
        """Return the line of a word in the document."""
        return self.line + self.words[index].line - self.words[0].line


class Shell(NamedTuple):
    """What a document says in shell.

    Args:
        invocations: Its command lines.
        fences: The blocks that are shell for certain, each with what was read of it.
    """

    invocations: tuple[Invocation, ...]
    fences: tuple[tuple[Block, Script], ...]


@lru_cache(maxsize=8)
def shell_of(document: Document) -> Shell:
    """Return the command lines of a document."""
    found: list[Invocation] = []
    fences: list[tuple[Block, Script]] = []
    left: list[str] = []
    made: set[str] = set()
    allowed: set[str] = set()
    for block in document.markdown.fences:
        text, is_whole = _shell_text(block)
        if text is None:
            continue
        script = read_shell(text)
        fences += [(block, script)] if is_whole and text == block.text else []
        folders = list(
            _block(block, script, document, is_whole, (tuple(left), made, allowed), found)
        )
        left += folders
    for span in document.markdown.codes:
        found += _inline(span, tuple(left), frozenset(made), frozenset(allowed))
    return Shell(tuple(found), tuple(fences))


def _shell_text(block: Block) -> tuple[str | None, bool]:
    """Return what of a block is shell, with empty lines for the rest, and whether to trust it."""
    language = re.split(r"[\s{,:]", block.info.strip().lower(), maxsplit=1)[0]
    if language in CONSOLES or (
        language in LANGUAGES | {"", "text"} and _DOLLAR.search(block.text)
    ):
        return _prompted(block.text), True
    if language in LANGUAGES:
        return block.text, True
    if language == "":
        lines = [each if _LINE_SHELL.match(each) else "" for each in block.text.split("\n")]
        return ("\n".join(lines), False) if any(lines) else (None, False)
    return None, False


def _prompted(text: str) -> str:
    """Return the lines behind a prompt; where there is no prompt at all, every line."""
    if not any(_PROMPT.match(line) for line in text.split("\n")):
        return text
    lines: list[str] = []
    goes_on = False
    has_dollars = _DOLLAR.search(text) is not None
    for line in text.split("\n"):
        found = _PROMPT.match(line)
        if found and not ((goes_on or has_dollars) and line.lstrip().startswith(">")):
            shown = " " * len(found["lead"]) + found["rest"]
        else:
            shown = re.sub(r"^> ?", "", line) if goes_on else ""
        goes_on = shown.endswith("\\")
        lines.append(shown)
    return "\n".join(lines)


def _block(
    block: Block,
    script: Script,
    document: Document,
    is_whole: bool,
    before: tuple[tuple[str, ...], set[str], set[str]],
    found: list[Invocation],
) -> list[str]:
    """Collect the command lines of one block; returns the folder it ends in."""
    left, made, allowed = before
    folders: list[str] = []
    inner = 0
    lead = _lead(block)
    own = block.text.split("\n")
    for index, simple in enumerate(script.commands):
        if simple.before == "(":
            inner = len(folders) + 1
        elif inner and simple.before not in ("&&", "||", "|", ";"):
            folders, inner = folders[: inner - 1], 0
        words = _command_words(simple)
        if words:
            around = _around(own, words)
            aside, example = _asides("\n".join([lead, *around]))
            said = (block.lead.rsplit("\n", 1)[-1], *around)
            line = block.line + words[0].line
            columns = tuple(_column(document, block.line + each.line, each) for each in words)
            found.append(
                Invocation(
                    tuple(words), line, columns, is_whole, aside, example, tuple(folders),
                    frozenset(made), left, frozenset(allowed), None, said,
                    _may_fail(script.commands, index),
                )
            )  # fmt: skip
            if words[0].text in ("cd", "pushd", "popd"):
                folders.append(words[1].text if len(words) > 1 and words[1].is_sure else "?")
            if words[0].text == "chmod":
                allowed.update(each.text for each in words[2:])
        made |= _made(simple, words)
    return folders


def _lead(block: Block) -> str:
    return "\n".join([block.lead.rsplit("\n", 1)[-1], *block.headings[-1:]])


def _around(lines: Sequence[str], words: Sequence[Word]) -> list[str]:
    """Return the comments at a command line: on its lines and on the one above."""
    first, last = words[0].line, words[-1].line
    found: list[str] = []
    for number in range(first - 1, last + 1):
        line = lines[number] if 0 <= number < len(lines) else ""
        comment = _COMMENT.search(line)
        if comment and (number >= first or line.lstrip().startswith("#")):
            found.append(comment["text"])
    return found


def _asides(text: str) -> tuple[str, str]:
    """Return why a line is not meant, and why its files need not exist, by the words around it."""
    aside = "the text may say that it does not work" if _ASIDE.search(text) else ""
    return aside, "it may be an example" if _EXAMPLE.search(text) else ""


def _may_fail(commands: Sequence[Simple], index: int) -> bool:
    """Return whether another command stands by for the case that one fails."""
    return index + 1 < len(commands) and commands[index + 1].before == "||"


def _column(document: Document, line: int, word: Word) -> int:
    source = document.lines[line - 1] if line <= len(document.lines) else ""
    first = word.raw.split("\n")[0]
    at = source.find(first, min(word.column, len(source)))
    return (at if at >= 0 else max(source.find(first), 0)) + 1


def _command_words(simple: Simple) -> list[Word]:
    """Return a command's words without keywords and assignments; none where it is no command."""
    words = list(simple.words)
    while words and (
        (words[0].text in _KEYWORDS and not words[0].is_quoted) or _ASSIGNMENT.match(words[0].raw)
    ):
        words.pop(0)
    if not words or words[0].text in _ENDS or words[0].is_quoted:
        return []
    if words[0].text.endswith((":", ",", ";")) or words[0].text.startswith(("-", "#", "+")):
        return []
    return words


def _made(simple: Simple, words: Sequence[Word]) -> set[str]:
    """Return the files that a command writes."""
    made = {each.text for each in simple.outputs}
    if not words:
        return made
    program, rest = words[0].text.rpartition("/")[2], [each.text for each in words[1:]]
    plain = [each for each in rest if not each.startswith("-")]
    if program in ("touch", "tee", "mkdir", "test", "make"):  # what is tested for may be missing
        made.update(plain)
    elif words[0].text.startswith("["):
        made.update(_NAMED.findall(words[0].text))
    elif "-c" in rest[:-1]:  # code that may write anything that it names
        made.update(_NAMED.findall(rest[rest.index("-c") + 1]))
    elif program in ("cp", "mv", "ln", "install", "rsync", "scp") and plain:
        made.add(plain[-1])
    elif program == "git" and rest[:1] == ["clone"] and len(plain) > 1:
        made.add(plain[-1].rpartition("/")[2].removesuffix(".git"))
    elif program in ("curl", "wget", "unzip", "tar"):
        made.update(plain)
        made.update(each.rpartition("/")[2] for each in plain)
    for index, each in enumerate(rest):
        name, is_set, value = each.partition("=")
        if re.fullmatch(r"-o|-O|--out(?:put)?(?:-\w+)*|--dest|--file", name):
            made.add(value if is_set else rest[index + 1] if index + 1 < len(rest) else "")
    return {re.sub(r"^\./", "", each) for each in made if each}


def _inline(
    span: Span, left: tuple[str, ...], made: frozenset[str], allowed: frozenset[str]
) -> Iterator[Invocation]:
    """Yield the command line that inline code is."""
    text = span.text.removeprefix("$ ")
    first = _INLINE.match(text)
    is_direct = re.fullmatch(r"\./[\w./-]+", text) is not None
    if first is None and not is_direct:
        return
    if first is not None and (first["first"].lower() in _NO_COMMANDS or first["first"][:1] == "-"):
        return
    if re.search(r"[(){}=;]{2}|^\w+\(|\s[=:+*/<>-]\s|,\s|:\s", text) or text[0].isupper():
        return
    script = read_shell(text)
    if script.faults:
        return
    reason = silence(span) or ""
    before, after = sentence_around(span)
    is_example = _EXAMPLE.search(f"{before} {after}") or _ADDED.search(before)
    example = reason or ("it may be an example" if is_example else "")
    for simple in script.commands:
        words = _command_words(simple)
        if words:
            columns = tuple(span.column + each.column for each in words)
            yield Invocation(
                tuple(words),
                span.line,
                columns,
                False,
                reason,
                example,
                (),
                made,
                left,
                allowed,
                span,
            )


def inputs(words: Sequence[Word]) -> list[Input]:
    """Return words as they are fitted: those that stand for others are marked."""
    return [_input(word) for word in words]


def _input(word: Word) -> Input:
    text = word.text
    sure = word.is_sure
    if text.startswith("-"):
        name, is_set, value = text.partition("=")
        sure = sure and not (is_set and not word.is_quoted and is_placeholder(value))
        sure = sure and re.fullmatch(r"--?[\w-]*", name.partition(":")[0]) is not None
    elif not word.is_quoted:
        sure = sure and not is_placeholder(text) and not _CAPITALS.match(text)
    return Input(text, sure, word.is_many)


def with_words(invocation: Invocation, words: Sequence[Word]) -> Invocation:
    """Return the same command line with other words in front taken off."""
    skipped = len(invocation.words) - len(words)
    return invocation._replace(
        words=tuple(words),
        columns=invocation.columns[skipped:],
        line=invocation.line_of(skipped) if words else invocation.line,
    )
