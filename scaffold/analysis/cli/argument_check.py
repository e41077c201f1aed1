"""Whether a command line has the commands and options that a program takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import closest

# A negative number such as `-1.5`, and the key of `model.lr=1e-5`.
_NUMBER = lazy_re(r"-\d")
_KEY = lazy_re(r"[A-Za-z_][\w.]*=")


class Problem(NamedTuple):
    """One word that does not fit.

    Args:
        kind: What is wrong: the rule that it breaks.
        message: What is wrong, in a sentence.
        evidence: What was looked at.
        near: What was probably meant, or "".
    """

    kind: Literal["command-unknown", "option-unknown"]
    message: str
    evidence: str
    near: str = ""


@dataclass
class Fit:
    """The result of fitting the words of a command line to a command; words by their index.

    Args:
        problems: What does not fit.
        unsure: Why some words could not be judged.
        known: What shows that a word is right.
        path: The names of the commands that the words lead to.
    """

    problems: dict[int, Problem] = field(default_factory=dict[int, Problem])
    unsure: dict[int, str] = field(default_factory=dict[int, str])
    known: dict[int, str] = field(default_factory=dict[int, str])
    path: tuple[str, ...] = ()


def fit(command: Command, words: Sequence[Word]) -> Fit:
    """Fit the words behind a program's name to what the program takes.

    Args:
        command: The program.
        words: The words behind its name.
    """
    reader = _Reader(command, words)
    reader.read()
    return reader.result


class _Reader:
    def __init__(self, command: Command, words: Sequence[Word]) -> None:
        self._command = command
        self._words = words
        self._index = 0
        self.result = Fit(path=(command.name,))

    def read(self) -> None:
        """Read all words up to ``--``, behind which nothing is an option."""
        while self._index < len(self._words):
            at, word = self._index, self._words[self._index]
            self._index += 1
            name, is_set, _ = word.text.partition("=")
            # `--lr=$LR`: only the value is open, so the option is judged.
            is_open_value = is_set and re.fullmatch(r"--?[a-zA-Z][\w-]*", name)
            if word.is_sure and word.text == "--":
                return
            if is_open_value or (word.is_sure and self._is_option(word.text)):
                self._read_option(word.text, at)
            elif not word.is_sure:
                self.result.unsure[at] = "the word is a placeholder"
                if self._command.commands is not None:
                    self._stop("the command is not named")
            elif self._command.commands is not None:
                self._read_command(word.text, at, self._command)
            # A program that is configured by its classes takes `model.lr=1e-5`.
            elif _KEY.match(word.text) and any(
                each[0] != "-" for each in self._command.option_names()
            ):
                self._read_option(word.text, at)

    def _is_option(self, text: str) -> bool:
        # A negative number is a value unless the command has such an option, as in argparse.
        if _NUMBER.match(text):
            return text in self._command.option_names()
        # A lone dash means standard input.
        return text.startswith("-") and len(text) > 1

    def _stop(self, reason: str) -> None:
        """Give up on the words that are left."""
        for index in range(self._index, len(self._words)):
            self.result.unsure[index] = reason
        self._index = len(self._words)

    @property
    def _here(self) -> str:
        where = f" ({self._command.place})" if self._command.place else ""
        return f"`{' '.join(self.result.path)}`{where}"

    def _read_option(self, text: str, at: int) -> None:
        name, is_set, _ = text.partition("=")
        option = self._command.option(name)
        # An exact name comes first: argparse allows long options with one dash.
        cluster = self._cluster(name) if option is None and name[:2] != "--" else []
        if not cluster and option is None:
            self._read_unknown(name, at)
            return
        self.result.known[at] = f"{self._here} has {name}"
        # In `-n4` the rest of the word is the value.
        last = option or (cluster[-1] if len(cluster) == len(name) - 1 else None)
        if last is not None and not is_set:
            self._skip_values(last)

    def _cluster(self, text: str) -> list[Option]:
        """Return the options of `-xvf`, up to one that takes a value: `-n4`; none if unknown."""
        found: list[Option] = []
        for sign in text[1:] if len(text) > 2 else "":
            option = self._command.option(f"-{sign}")
            if option is None:
                return []
            found.append(option)
            if option.num_values != 0:
                break
        return found

    def _skip_values(self, option: Option) -> None:
        """Skip the words behind an option that are its values, or may be."""
        if option.num_values is None and self._command.commands is not None:
            self._stop("it may be the option's value or a command")
        names = set(self._command.option_names())
        most = {0: 0, 1: 1, None: len(self._words)}[option.num_values]
        for word in self._words[self._index :][:most]:
            # Only a known option ends the search for one value: values may begin with a dash.
            is_next = word.text in names if most == 1 else self._is_option(word.text)
            if word.is_sure and (is_next or word.text == "--"):
                return
            self.result.unsure[self._index] = "it may be the option's value or an argument"
            self._index += 1

    def _read_unknown(self, name: str, at: int) -> None:
        if name in ("-h", "--version") or name.startswith("--help"):
            self.result.known[at] = "every command prints its help"
        elif self._command.why_open:
            self.result.unsure[at] = self._command.why_open
        else:
            names = sorted(set(self._command.option_names()))
            # Keys such as `lr` are no correction for a dashed option.
            near = closest(name, [each for each in names if each[0] != "-" or each[:2] == "--"])
            message = f"{' '.join(self.result.path)} has no option {name!r}"
            evidence = f"{self._here} has {shown(names)}"
            self.result.problems[at] = Problem("option-unknown", message, evidence, near)

    def _read_command(self, text: str, at: int, group: Command) -> None:
        inner = (group.commands or {}).get(text)
        if group.takes_words:
            self._stop("arguments come before the command")
        elif inner is not None:
            self.result.known[at] = f"{self._here} has the command {text!r}"
            self.result.path = (*self.result.path, text)
            self._command = inner
        elif text == "help":
            self._stop("it asks for help")
        elif group.why_open:
            self._stop("its command is unknown")
            self.result.unsure[at] = group.why_open
        else:
            self._stop("its command is unknown")
            names = sorted(group.commands or ())
            message = f"{' '.join(self.result.path)} has no command {text!r}"
            evidence = f"{self._here} has {shown(names)}"
            near = closest(text, names)
            self.result.problems[at] = Problem("command-unknown", message, evidence, near)


def shown(names: Sequence[str]) -> str:
    """List names, the first dozen where there are many."""
    if len(names) <= 12:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:12])} and {len(names) - 12} more"
