"""The command lines of a document, and what they name: programs, options, tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.cli.calls import Call, call_of
from scaffold.analysis.cli.shell_words import Script, Simple, Word, read_shell
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block, Span
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.named import Symbol
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.references.tasks import RUNNERS, Task, tasks_of

LANGUAGES = frozenset({"bash", "sh", "shell", "zsh", "ksh"})
CONSOLES = frozenset({"console", "shell-session", "shellsession", "terminal", "sh-session"})
_PROMPT = lazy_re(r"^(?P<lead>\s*(?:\([\w.-]+\)\s*)?(?:[\w.@:~/-]*[$%❯➜]|>)\s)(?P<rest>\S.*)$")
_DOLLAR = lazy_re(r"^\s*(?:\([\w.-]+\)\s*)?[$❯➜]\s+\S", re.MULTILINE)
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "{", "}", "!"}
    | {"time"}
)
_ENDS = frozenset({"for", "select", "case", "function", "in"})
_ASSIGNMENT = lazy_re(r"^[A-Za-z_]\w*\+?=")
_NAMED = lazy_re(r"[\w.-]+(?:/[\w.-]+)+")
_FILE = lazy_re(r"(?:\./)?[\w.@-]+(?:/[\w.@-]+)+\.[A-Za-z]\w{0,9}")
_OPTION = lazy_re(r"--?[A-Za-z][\w-]*")
_KEY = lazy_re(r"\+{0,2}(?P<key>[a-z_]\w*(?:\.[a-z_]\w*)+)=.*", re.DOTALL)
_DOTTED = lazy_re(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CAPITALS = lazy_re(r"^[A-Z][A-Z0-9_]*$")
# Words of languages that begin a line of code, and no command.
_CODE = """
    return import from class def async await const let var function type interface select insert
    update create raise yield lambda true false none null and or not for with public private
    static new throw export use fn mod struct enum the a an
"""
_NO_COMMANDS = frozenset(_CODE.split())
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
        folders: The folders that commands before it change to.
        made: What commands before it write.
        left: The folders that earlier blocks of the document end in.
        span: The inline code it is in.
        block: The fenced code it is in.
        has_fallback: Whether another command follows for the case that it fails.
    """

    words: tuple[Word, ...]
    line: int
    columns: tuple[int, ...]
    folders: tuple[str, ...] = ()
    made: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    span: Span | None = None
    block: Block | None = None
    has_fallback: bool = False

    @property
    def text(self) -> str:
        """The line as one text."""
        return " ".join(word.raw for word in self.words)

    def line_of(self, index: int) -> int:
        """Return the line of a word in the document."""
        return self.line + self.words[index].line - self.words[0].line

    def from_word(self, words: Sequence[Word]) -> Invocation:
        """Return the same command line with other words in front taken off."""
        skipped = len(self.words) - len(words)
        line = self.line_of(skipped) if words else self.line
        return self._replace(words=tuple(words), columns=self.columns[skipped:], line=line)


class Run(NamedTuple):
    """What a command line runs, with the line from there on, and the option it is about, if any."""

    call: Call
    line: Invocation
    option: int = -1


class Asked(NamedTuple):
    """A word that a runner is given, with its command line."""

    task: Task
    line: Invocation


def find_shell(document: Document) -> Iterator[Reference]:
    """Yield what the command lines of a document run, their options, and what they are given."""
    for each in invocations(document):
        call = call_of(each.words)
        line = each.from_word(call.words) if call is not None else each
        if call is not None and call.target.text not in RUNNERS and _is_command(call, each):
            yield _reference("command", each.text, line, 0, Run(call, line))
            yield from _options(call, line)
        if call is not None and call.kind == "module" and call.target.text == "unittest":
            yield from _unittests(line)
        for index, word in enumerate(line.words):
            if word.is_sure and (key := _KEY.fullmatch(word.text)):
                yield _reference("key", word.text, line, index, key["key"])
        is_wrapped = call is None or call.kind in ("script", "interpreted")
        words = each.words if is_wrapped else line.words
        whole = each if is_wrapped else line
        for task in tasks_of(words):
            at = next((n for n, one in enumerate(words) if one.column == task.word.column
                       and one.line == task.word.line), 0)  # fmt: skip
            text = f"{words[0].text} {task.name}"
            yield _reference("task", text, whole, at, Asked(task, whole))
        yield from _given_files(each)


def _given_files(line: Invocation) -> Iterator[Reference]:
    """Yield the files that a command is given; behind ``--`` they are nothing else."""
    is_behind = False
    for index, word in enumerate(line.words[1:], 1):
        is_behind = is_behind or word.text == "--"
        if word.is_sure and _FILE.fullmatch(word.text):
            task = Task("argument" if is_behind else "maybe", word, word.text)
            yield _reference("task", word.text, line, index, Asked(task, line))


def _unittests(line: Invocation) -> Iterator[Reference]:
    for index, word in enumerate(line.words[1:], 1):
        if word.is_sure and _DOTTED.fullmatch(word.text) and not is_invented(word.text):
            yield _reference("value", word.text, line, index, Symbol(word.text))


def _reference(kind: str, text: str, line: Invocation, index: int, data: object) -> Reference:
    place = (line.line_of(index), line.columns[index])
    return Reference(kind, text, *place, data, line.block, line.span)


def _options(call: Call, line: Invocation) -> Iterator[Reference]:
    for index, word in enumerate(call.args):
        if word.text == "--":
            return
        if _OPTION.match(word.text) and not word.is_quoted:
            yield _reference("option", word.raw, line, index + 1, Run(call, line, index))


def _is_command(call: Call, line: Invocation) -> bool:
    """Return whether inline code that begins with any word looks like a command line."""
    if call.kind != "name" or line.span is None:
        return True
    rest = call.args
    # Words in quotes may be code of any language, unless they are given to an option.
    return bool(rest) and all(
        re.fullmatch(r"[\w./:=<>\[\]|,@{}$-]+|--[\w-]+=[\"'].*", each.raw) for each in rest
    )


@lru_cache(maxsize=8)
def invocations(document: Document) -> tuple[Invocation, ...]:
    """Return the command lines of a document."""
    found: list[Invocation] = []
    left: list[str] = []
    made: frozenset[str] = frozenset()
    for block in document.markdown.fences:
        if text := _shell_text(block):
            folders, made = _block(block, read_shell(text), document, (tuple(left), made), found)
            left += folders
    for span in document.markdown.codes:
        found += _inline(span, tuple(left), made)
    return tuple(found)


def _shell_text(block: Block) -> str:
    """Return what of a block is shell, with empty lines for the rest."""
    language = re.split(r"[\s{,:]", block.info.strip().lower(), maxsplit=1)[0]
    if language in CONSOLES or (
        language in LANGUAGES | {"", "text"} and _DOLLAR.search(block.text)
    ):
        return _prompted(block.text)
    if language in LANGUAGES:
        return block.text
    lines = block.text.split("\n") if not language else ()
    return "\n".join(each if _LINE_SHELL.match(each) else "" for each in lines)


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
    before: tuple[tuple[str, ...], frozenset[str]],
    found: list[Invocation],
) -> tuple[list[str], frozenset[str]]:
    """Collect the command lines of one block.

    Returns:
        The folders it ends in, and what was written up to there.
    """
    left, made = before
    folders: list[str] = []
    inner, is_cloned = 0, False
    for index, simple in enumerate(script.commands):
        if simple.before == "(":
            inner = len(folders) + 1
        elif inner and simple.before not in ("&&", "||", "|", ";"):
            folders, inner = folders[: inner - 1], 0
        words = _command_words(simple)
        made |= _made(simple, words)
        if words:
            line = block.line + words[0].line
            columns = tuple(_column(document, block.line + each.line, each) for each in words)
            is_safe = index + 1 < len(script.commands) and script.commands[index + 1].before == "||"
            found.append(
                Invocation(
                    tuple(words), line, columns, tuple(folders), made, left, None, block, is_safe
                )
            )
            verb, *given = words
            if verb.text in ("cd", "pushd", "popd") and not is_cloned:
                folders.append(given[0].text if given and given[0].is_sure else "?")
            # What is cloned from an address that is left open is this repository.
            is_clone = [each.text for each in words[:2]] == ["git", "clone"]
            is_cloned = is_clone and not all(each.is_sure for each in given)
    return folders, made


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


def _inline(span: Span, left: tuple[str, ...], made: frozenset[str]) -> Iterator[Invocation]:
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
    for simple in script.commands if not script.is_open else ():
        if words := _command_words(simple):
            columns = tuple(span.column + each.column for each in words)
            yield Invocation(tuple(words), span.line, columns, (), made, left, span)


def inputs(words: Sequence[Word]) -> list[Word]:
    """Return words as they are fitted: those that stand for others are marked."""
    return [word._replace(is_sure=word.is_sure and _is_meant(word)) for word in words]


def _is_meant(word: Word) -> bool:
    text = word.text
    if text.startswith("-"):
        name, is_set, value = text.partition("=")
        is_open = is_set and not word.is_quoted and is_invented(value)
        return not is_open and re.fullmatch(r"--?[\w-]*", name.partition(":")[0]) is not None
    return word.is_quoted or not (is_invented(text) or _CAPITALS.match(text))
