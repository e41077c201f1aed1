"""What a command line runs, behind `sudo`, `uv run` and other programs that start programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.lazy_re import lazy_re

CallKind = Literal["script", "module", "interpreted", "name"]

_PYTHON = lazy_re(r"^(?:.*/)?(?:python|pypy)(?:\d(?:\.\d+)?)?$")
_STARTERS: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g"}),
    "nohup": frozenset(),
    "exec": frozenset({"-a"}),
    "command": frozenset(),
    "env": frozenset({"-u"}),
    "nice": frozenset({"-n"}),
    "xvfb-run": frozenset(),
    "timeout": frozenset({"-s", "-k"}),
    "stdbuf": frozenset({"-o", "-e", "-i"}),
    "watch": frozenset({"-n"}),
}
_RUNNERS: dict[str, frozenset[str]] = {
    "uv": frozenset(
        {"--with", "--extra", "--group", "--python", "-p", "--project", "--directory", "--package"}
        | {"--env-file", "--index", "--with-requirements", "--with-editable", "--only-group"}
        | {"--no-group", "--no-extra", "--index-url", "--default-index", "--color", "--config-file"}
    ),
    "poetry": frozenset({"-C", "-P", "--directory", "--project"}),
    "pdm": frozenset({"-p", "--project", "--venv"}),
    "hatch": frozenset({"-e", "--env"}),
    "pipenv": frozenset(),
    "rye": frozenset(),
    "pixi": frozenset({"-e", "--environment", "--manifest-path"}),
}
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_INTERPRETERS = frozenset(
    {"bash", "sh", "zsh", "source", ".", "node", "ruby", "perl", "deno"} | {"tsx"}
)
_LAUNCHERS = frozenset({"torchrun", "deepspeed"})


class Call(NamedTuple):
    """What a command line runs.

    Args:
        kind: "script" for a file that is run itself, "interpreted" for a file that another
            program reads, "module" for `python -m`, "name" for a program by its name.
        words: The words from the one on that names it.
    """

    kind: CallKind
    words: Sequence[Word]

    @property
    def target(self) -> Word:
        """The word that names it."""
        return self.words[0]

    @property
    def args(self) -> tuple[Word, ...]:
        """The words behind the target."""
        return tuple(self.words[1:])


def call_of(words: Sequence[Word]) -> Call | None:
    """Return what a command line runs; None where it runs nothing of a repository."""
    is_run = False
    for _ in range(6):
        if not words:
            return None
        name = words[0].text.rpartition("/")[2]
        if name in _STARTERS and words[0].is_sure:
            words = _without_options(words[1:], _STARTERS[name])
            words = [*words][1:] if name == "timeout" else _without_assignments(words)
        elif name in _RUNNERS and [each.text for each in words[1:2]] == ["run"]:
            is_run = True
            module = _option_value(words[2:], ("-m", "--module")) if name == "uv" else None
            if module is not None:
                return Call("module", module)
            words = _without_options(words[2:], _RUNNERS[name])
        else:
            break
    return _call(words, is_run=is_run)


def _call(words: Sequence[Word], *, is_run: bool) -> Call | None:
    """Return what words call.

    Args:
        words: The words behind those that only start something.
        is_run: Whether a runner such as `uv run` starts it, which reads a file of Python itself.
    """
    if not words:
        return None
    first = words[0]
    name = first.text.rpartition("/")[2]
    if _PYTHON.match(first.text) and first.is_sure:
        return _python(words[1:])
    if name in _INTERPRETERS and first.is_sure:
        rest = _without_options(words[1:], frozenset({"-r", "--require", "-O", "-o"}))
        if len(rest) < len(words) - 1 and any(w.text in ("-c", "-e", "-p") for w in words[1:]):
            return None
        if name == "deno":
            rest = rest[1:] if rest and rest[0].text == "run" else ()
        return _file("interpreted", rest)
    if name in _LAUNCHERS and first.is_sure:
        return _launched(words[1:])
    is_python = is_run and first.text.endswith(".py")
    if "/" in first.raw or first.text.startswith(("$", "<", "{")):
        if first.text.startswith(("http:", "https:", "/")) and first.is_sure:
            return None
        return _file("interpreted" if is_python else "script", words)
    if is_python:
        return _file("interpreted", words)
    if not first.is_sure or not re.fullmatch(r"[a-zA-Z][\w.+-]*", first.text):
        return None
    return Call("name", words)


def _python(words: Sequence[Word]) -> Call | None:
    module = _option_value(words, ("-m",))
    if module is not None:
        if module[0].text in ("torch.distributed.run", "torch.distributed.launch"):
            return _launched(module[1:])
        return Call("module", module)
    if any(re.fullmatch(r"-\w*c|-", each.text) for each in words[:3]):
        return None
    return _file("interpreted", _without_options(words, _PYTHON_VALUES))


def _launched(words: Sequence[Word]) -> Call | None:
    """Return the script behind a launcher's own options, which often take a word each."""
    for index, each in enumerate(words):
        if each.text in ("-m", "--module"):
            return None
        if each.text.endswith(".py") and not each.text.startswith("-"):
            return _file("interpreted", words[index:])
    return None


def _file(kind: CallKind, words: Sequence[Word]) -> Call | None:
    return Call(kind, words) if words and not words[0].text.startswith("-") else None


def _option_value(words: Sequence[Word], names: tuple[str, ...]) -> Sequence[Word] | None:
    """Return the words from an option's value on, where it comes before any other word."""
    for index, each in enumerate(words):
        if each.text in names:
            return words[index + 1 :] or None
        if not each.text.startswith("-"):
            return None
    return None


def _without_options(words: Sequence[Word], with_value: frozenset[str]) -> Sequence[Word]:
    index = 0
    while index < len(words) and words[index].text.startswith("-") and len(words[index].text) > 1:
        if words[index].text == "--":
            return words[index + 1 :]
        index += 2 if words[index].text in with_value else 1
    return words[index:]


def _without_assignments(words: Sequence[Word]) -> Sequence[Word]:
    index = 0
    while index < len(words) and re.match(r"[A-Za-z_]\w*=", words[index].raw):
        index += 1
    return words[index:]
