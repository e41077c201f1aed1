"""The errors of the toolkit, and the words that their messages share.

A code that several rooms raise is declared here, any other one in `codes.py` of its room.
"""

from __future__ import annotations

from collections.abc import Iterable

CODES: dict[str, str] = {
    "aborted": "The user stopped the command.",
    "changed_meanwhile": "A file changed between planning and writing; nothing was written.",
    "fault": "This is a bug in the tool; please report it.",
    "file_exists": "A file that the tool did not write is in the way.",
    "git_missing": "The command needs git, which was not found.",
    "interpreter_lacks": "The interpreter lacks a package that the command needs.",
    "outside_target": "A path is outside the target, perhaps through a link.",
    "repository_missing": "The folder is not in a git repository, or git refuses to use it.",
    "revision_unknown": "A repository has no such branch, tag or commit.",
    "source_unreadable": "A file or folder cannot be read.",
    "target_invalid": "The target's [tool.scaffold] table is wrong or incomplete.",
    "target_missing": "No folder that the tool can extend was found.",
    "target_newer": "A newer version of the tool wrote this; upgrade areal-scaffold.",
    "template_invalid": "A template's manifest or one of its files is wrong.",
    "unconfirmed": "The proposal needs confirmation, and there is no terminal to ask.",
    "usage": "The command line is wrong.",
    "write_failed": "A file could not be written; all changes were undone.",
}
"""Error codes with their meaning; codes are stable, agents and scripts may branch on them."""

HINTS: dict[str, str] = {
    "answer_missing": "give the option, or answer at a terminal",
    "columns_unclear": "name the columns with the options",
    "file_exists": "move it away, or choose another name",
    "outside_target": "nothing is written outside the target; remove the link or the path",
    "registry_computed": "add the line by hand",
    "registry_generated": "change its source",
    "registry_missing": "restore it from version control",
    "registry_syntax": "repair the file first",
    "target_invalid": "see the table that `scaffold new` writes",
    "target_newer": "install a newer checkout or wheel of areal-scaffold with pip",
    "template_invalid": "repair the template; one under .scaffold/templates can be deleted too",
    "unknown_kind": "`scaffold list` shows what can be generated",
    "unknown_style": "`scaffold list` shows what can be generated",
    "usage": "run it with --help",
}
"""What to do about an error where its place in the code knows nothing better."""


class ScaffoldError(Exception):
    """An error that the toolkit raises on purpose.

    Args:
        message: What was found, and where; one line, so that what is quoted is escaped.
        code: One that this module or the room that raises it declares.
        hint: What to do about it; without one, that of HINTS.
    """

    exit_status = 1

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = escaped(message)
        self.code = code
        self.hint = hint or HINTS.get(code, "")


class RequestError(ScaffoldError):
    """The request itself is wrong: a name, a kind, a style or an answer."""

    exit_status = 2


class TargetError(ScaffoldError):
    """The target cannot be found, or is not one that the tool can extend."""


class ConflictError(ScaffoldError):
    """The request is sound, but the state of the target forbids it."""


class RegistryError(ConflictError):
    """A registry cannot be edited without risk; the hint holds the exact text to add by hand."""


class LedgerError(ScaffoldError):
    """The record of what was made cannot be read, or holds no such unit."""


class TemplateError(ScaffoldError):
    """A template is wrong."""


class ApplyError(ScaffoldError):
    """Writing failed, and was undone."""


def escaped(text: str) -> str:
    """Return text on one line: what no terminal should be sent becomes an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def is_private(path: str) -> bool:
    """Return whether a path leads into a folder of git or of the tool, the target's or another's.

    Some file systems know no upper case, and drop dots and spaces at the end of a name.
    """
    return any(part.lower().rstrip(". ") in (".git", ".scaffold") for part in path.split("/"))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'? known: a, b"``, without the guess where none is near."""
    import difflib  # costs 3 ms, and only errors need it

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    return f"{guess} known: {', '.join(names) or 'none'}"


def declared_codes() -> dict[str, str]:
    """Return the codes of all rooms with their meaning."""
    # Only the reference and the tests ask, and an error must not cost these.
    import importlib.util
    import pkgutil

    import scaffold  # the package itself, whose rooms are listed

    found = dict(CODES)
    for room in pkgutil.iter_modules(scaffold.__path__, "scaffold."):
        if room.ispkg and importlib.util.find_spec(f"{room.name}.codes"):
            found |= importlib.import_module(f"{room.name}.codes").CODES
    return found
