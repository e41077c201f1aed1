"""What a command line takes: options, arguments and commands, from wherever they were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple


class Option(NamedTuple):
    """One option of a command.

    Args:
        names: How it is written, the first one being the usual: ("--style", "-s").
        help: What it does.
        metavar: The placeholder of its value; "" for a flag.
        choices: The values that it takes; none for any.
        default: The value without it, as text; "" for none.
        num_values: How many words follow it, none or one; None where that is not known.
    """

    names: tuple[str, ...]
    help: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    num_values: Literal[0, 1] | None = 0


class Command(NamedTuple):
    """One command, or a group of them.

    Args:
        name: The word that calls it.
        help: What it does.
        options: Its options.
        commands: Its commands by name; None where it is no group.
        why_open: Why it may take what is not listed here; "" where it is not open.
        place: Where it is defined, or "".
        takes_words: Whether words of its own come before the name of a command.
        abbreviates: Whether the beginning of an option's name is enough.
    """

    name: str
    help: str = ""
    options: tuple[Option, ...] = ()
    commands: Mapping[str, Command] | None = None
    why_open: str = ""
    place: str = ""
    takes_words: bool = False
    abbreviates: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it may take what is not listed here."""
        return bool(self.why_open)

    def find(self, words: tuple[str, ...]) -> Command | None:
        """Return the command that words lead to, or None."""
        if not words:
            return self
        inner = (self.commands or {}).get(words[0])
        return None if inner is None else inner.find(words[1:])

    def option(self, name: str) -> Option | None:
        """Return the option of this name, or the one that it is the only beginning of."""
        for each in self.options:
            if name in each.names:
                return each
        if not (self.abbreviates and name.startswith("--") and len(name) > 2):
            return None
        # An ambiguous beginning is an error in argparse, so only a unique one counts.
        begun = [each for each in self.options if any(n.startswith(name) for n in each.names)]
        return begun[0] if len(begun) == 1 else None

    def option_names(self) -> Iterator[str]:
        """Yield every way to write one of its options."""
        for each in self.options:
            yield from each.names
