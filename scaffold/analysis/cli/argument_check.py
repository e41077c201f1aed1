"""Whether the words of a command line fit what a command takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.lazy_re import lazy_re

ProblemKind = Literal[
    "command-unknown",
    "option-unknown",
    "option-value-missing",
    "option-required",
    "choice-unknown",
    "cli-argument-missing",
    "cli-argument-surplus",
]

# A negative number such as `-1.5`, and the key of `model.lr=1e-5`.
_NUMBER = lazy_re(r"-\d")
_KEY = lazy_re(r"[A-Za-z_][\w.]*=")
_HELP = frozenset({"--help", "-h", "--version"})


class Input(NamedTuple):
    """One word of a command line.

    Args:
        text: The word without its quotes.
        is_sure: Whether the word is meant as it stands; a variable or `<name>` is not.
        is_many: Whether it may stand for several words, or for none.
    """

    text: str
    is_sure: bool = True
    is_many: bool = False


@dataclass(frozen=True)
class Problem:
    """One word that does not fit.

    Args:
        kind: What is wrong: the rule that it breaks.
        index: Which word; -1 for what is missing.
        message: What is wrong, in a sentence.
        evidence: What was looked at.
        near: What was probably meant, or "".
        option: Which word is the option that it is about; -1 where it is about none.
    """

    kind: ProblemKind
    index: int
    message: str
    evidence: str
    near: str = ""
    option: int = -1


@dataclass
class Fit:
    """The result of fitting the words of a command line to a command.

    Args:
        problems: What does not fit.
        unsure: Why some words could not be judged, by their index.
        known: What shows that a word is right, by its index.
        path: The names of the commands that the words lead to.
    """

    problems: list[Problem] = field(default_factory=list[Problem])
    unsure: dict[int, str] = field(default_factory=dict[int, str])
    known: dict[int, str] = field(default_factory=dict[int, str])
    path: tuple[str, ...] = ()


def fit(command: Command, words: Sequence[Input], *, is_whole: bool) -> Fit:
    """Fit the words behind a program's name to what the program takes.

    Args:
        command: The program.
        words: The words behind its name.
        is_whole: Whether the line is meant to be run as it stands, so that what is missing counts.
    """
    reader = _Reader(command, words, is_whole=is_whole)
    reader.read()
    if is_whole:
        reader.find_missing()
    return reader.result


class _Reader:
    def __init__(self, command: Command, words: Sequence[Input], *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._command = command
        self._words = words
        self._index = 0
        # The places of positional words, and the options that were met, since the last command
        # name.
        self._given: list[int] = []
        self._options: set[str] = set()
        # Once a word may hold anything, what is missing cannot be told any more.
        self._is_loose = False
        self._asks_help = False
        self.result = Fit(path=(command.name,))

    def read(self) -> None:
        """Read all words."""
        is_rest = False
        while self._index < len(self._words):
            word = self._words[self._index]
            self._index += 1
            if not word.is_sure:
                if not self._read_unsure(word, is_rest=is_rest):
                    return
            elif word.text == "--" and not is_rest:
                is_rest = True
            elif self._is_option(word.text) and not is_rest:
                self._read_option(word.text)
            elif not self._read_argument(word.text):
                return

    def _is_option(self, text: str) -> bool:
        # A negative number is a value unless the command has such an option, as in argparse.
        if _NUMBER.match(text):
            return text in self._command.option_names()
        # A lone dash means standard input.
        return text.startswith("-") and len(text) > 1

    def _read_unsure(self, word: Input, *, is_rest: bool) -> bool:
        """Read a word that stands for others; return whether to go on."""
        at = self._index - 1
        # `--lr=$LR`: only the value is open, so the option is judged.
        name, is_set, _ = word.text.partition("=")
        if is_set and re.fullmatch(r"--?[a-zA-Z][\w-]*", name) and not is_rest:
            self._read_option(name, value=None)
            return True
        self.result.unsure[at] = "the word stands for others"
        # Without the name of the command nothing behind it can be judged.
        if self._command.commands is not None:
            self._stop("the command is not named")
            return False
        # A variable or a bracket of a usage line may hold an option, with its value in the next
        # word.
        self._is_loose = self._is_loose or word.is_many or word.text.startswith(("-", "[", "$"))
        self._given.append(at)
        return True

    def _stop(self, reason: str) -> None:
        """Give up on the words that are left."""
        self._is_loose = True
        for index in range(self._index, len(self._words)):
            self.result.unsure[index] = reason
        self._index = len(self._words)

    def _read_option(self, text: str, value: str | None = "") -> None:
        at = self._index - 1
        name, is_set, given = text.partition("=")
        option = self._command.option(name)
        # An exact name comes first: argparse allows long options with one dash.
        may_be_cluster = option is None and not name.startswith("--") and len(name) > 2
        if may_be_cluster and self._read_cluster(text, at):
            return
        if option is None:
            self._read_unknown(name, at)
            return
        self.result.known[at] = f"{self._here} has {name}"
        self._options.update(option.names)
        if value is None:
            return
        if is_set:
            self._check_choice(option, given, at, at)
        elif option.num_values is None:
            self._skip_values()
        elif option.num_values:
            self._take_value(option, name, at)

    @property
    def _here(self) -> str:
        where = f" ({self._command.place})" if self._command.place else ""
        return f"`{' '.join(self.result.path)}`{where}"

    def _read_cluster(self, text: str, at: int) -> bool:
        """Read `-xvf` and `-n4`; return whether all of it is known."""
        for position in range(1, len(text)):
            option = self._command.option(f"-{text[position]}")
            if option is None:
                return False
            self._options.update(option.names)
            rest = text[position + 1 :]
            # The rest of the word is the value of the first short option that takes one, as in
            # `-n4`; without a rest the next word is.
            if option.num_values != 0:
                if not rest and option.num_values:
                    self._take_value(option, f"-{text[position]}", at)
                break
        self.result.known[at] = f"{self._here} has each of {text}"
        return True

    def _read_unknown(self, name: str, at: int) -> None:
        if name in _HELP or name.startswith("--help"):
            self._asks_help = True
            self.result.known[at] = "every command prints its help"
            return
        # What an unknown option takes is unknown too, so later words may be its values.
        self._is_loose = True
        if self._command.is_open:
            self.result.unsure[at] = self._command.why_open or "it takes more than is listed"
            return
        names = sorted(set(self._command.option_names()))
        message = f"{' '.join(self.result.path)} has no option {name!r}"
        evidence = f"{self._here} has {_shown(names)}"
        # Keys such as `lr` are no correction for a dashed option.
        near = _nearest(name, [each for each in names if each[0] != "-" or each[:2] == "--"])
        self.result.problems.append(Problem("option-unknown", at, message, evidence, near, at))

    def _skip_values(self) -> None:
        """Skip the words behind an option that takes nobody knows how many of them."""
        self._is_loose = True
        if self._command.commands is not None:
            self._stop("it may be the option's value or a command")
        while self._index < len(self._words):
            word = self._words[self._index]
            if word.is_sure and (self._is_option(word.text) or word.text == "--"):
                return
            self.result.unsure[self._index] = "it may be the option's value or an argument"
            self._index += 1

    def _take_value(self, option: Option, name: str, at: int) -> None:
        if self._index >= len(self._words):
            self._say_no_value(option, name, at)
            return
        word = self._words[self._index]
        # Only a known option ends the search for a value: values may begin with a dash.
        if word.is_sure and word.text in self._command.option_names():
            self._say_no_value(option, name, at)
            return
        self._index += 1
        if word.is_sure:
            self._check_choice(option, word.text, self._index - 1, at)
        else:
            self.result.unsure[self._index - 1] = "the word stands for others"
            self._is_loose = self._is_loose or word.is_many

    def _say_no_value(self, option: Option, name: str, at: int) -> None:
        if not self._is_whole:
            return  # it is mentioned, and not used
        if self._is_loose and any(word.is_many for word in self._words):
            return
        message = f"{name} needs a value and has none"
        takes = (
            f"one of {_shown(option.choices)}" if option.choices else option.metavar or "a value"
        )
        evidence = f"{self._here}: {name} takes {takes}"
        self.result.problems.append(Problem("option-value-missing", at, message, evidence, "", at))

    def _check_choice(self, taker: Option | Argument, value: str, at: int, of: int = -1) -> None:
        if not taker.choices:
            return
        if value in taker.choices:
            self.result.known[at] = f"{value!r} is one of the choices"
            return
        what = taker.names[0] if isinstance(taker, Option) else taker.name
        message = f"{value!r} is not a choice of {what}"
        evidence = f"{self._here}: {what} is one of {_shown(taker.choices)}"
        near = _nearest(value, taker.choices)
        self.result.problems.append(Problem("choice-unknown", at, message, evidence, near, of))

    def _read_argument(self, text: str) -> bool:
        """Read a word that is no option; return whether to go on."""
        at = self._index - 1
        commands = self._command.commands
        if commands is None:
            # A program that is configured by its classes takes `model.lr=1e-5`.
            if _KEY.match(text) and any(each[0] != "-" for each in self._command.option_names()):
                self._read_option(text)
            else:
                self._given.append(at)
            return True
        if self._command.arguments:
            self._stop("arguments come before the command")
            return False
        inner = commands.get(text)
        if inner is not None:
            self.result.known[at] = f"{self._here} has the command {text!r}"
            self.result.path = (*self.result.path, text)
            self._command = inner
            # Each command requires its own options.
            self._options.clear()
            return True
        if text == "help":
            self._stop("it asks for help")
            return False
        self._stop("its command is unknown")
        if self._command.is_open:
            self.result.unsure[at] = (
                self._command.why_open or "it has more commands than are listed"
            )
            return False
        names = sorted(commands)
        message = f"{' '.join(self.result.path)} has no command {text!r}"
        evidence = f"{self._here} has {_shown(names)}"
        near = _nearest(text, names)
        self.result.problems.append(Problem("command-unknown", at, message, evidence, near))
        return False

    def find_missing(self) -> None:
        """Find arguments and options that are needed and not given, or one argument too many."""
        command = self._command
        if self._asks_help or self._is_loose or command.is_open or command.commands is not None:
            return
        if {"--help", "-h", "--version"} & self._options or self.result.problems:
            return
        self._match_arguments()
        for option in command.options:
            if option.is_required and not self._options & set(option.names):
                message = f"{' '.join(self.result.path)} needs {option.names[0]}"
                evidence = f"{self._here} requires {option.names[0]}"
                self.result.problems.append(Problem("option-required", -1, message, evidence))

    def _match_arguments(self) -> None:
        arguments, given = self._command.arguments, self._given
        needed = [each for each in arguments if each.is_required]
        if len(given) < len(needed):
            missing = needed[len(given)]
            message = f"{' '.join(self.result.path)} needs the argument {missing.name}"
            evidence = f"{self._here} takes {_shown([each.name for each in arguments])}"
            self.result.problems.append(Problem("cli-argument-missing", -1, message, evidence))
            return
        if any(each.is_repeatable for each in arguments):
            return
        if len(given) > len(arguments):
            at = given[len(arguments)]
            text = self._words[at].text
            message = f"{' '.join(self.result.path)} takes no argument {text!r}"
            takes = _shown([each.name for each in arguments]) if arguments else "no arguments"
            evidence = f"{self._here} takes {takes}"
            self.result.problems.append(Problem("cli-argument-surplus", at, message, evidence))
            return
        for argument, at in zip(arguments, given, strict=False):
            # With optional arguments a word may belong to any of several places.
            if self._words[at].is_sure and len(needed) == len(arguments):
                self._check_choice(argument, self._words[at].text, at)


def _nearest(text: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(text, names, n=1, cutoff=0.6)
    return found[0] if found else ""


def _shown(names: Sequence[str]) -> str:
    """List names, the first dozen where there are many."""
    if len(names) <= 12:
        return ", ".join(names) if names else "none"
    return f"{', '.join(names[:12])} and {len(names) - 12} more"
