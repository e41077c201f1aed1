"""The errors of the toolkit, and the parts of a manifest: kinds, styles, answers, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

CODES: dict[str, str] = {
    "aborted": "The person at the keyboard stopped the command.",
    "answer_invalid": "An answer has the wrong type, or is none of the choices.",
    "answer_missing": "A style asks for an answer that has no default, and nobody can be asked.",
    "answers_differ": "The unit exists already, made with other answers.",
    "base_missing": "The rendered base of a unit, which merging needs, is gone.",
    "base_unknown": "There is no branch that a pull request could go into.",
    "block_invalid": "A generated block of a document is wrong, or cannot be made.",
    "branch_missing": "No branch is checked out, or it has no commit.",
    "changed_meanwhile": "A file changed between planning and writing; nothing was written.",
    "checkpoint_invalid": "A checkpoint of a model cannot be read.",
    "client_unknown": "The tool renders skills for no client of this name.",
    "columns_unclear": "A sample does not show which of its columns holds what.",
    "command_refused": "A document asks for a command that the repository does not allow.",
    "config_invalid": "A model's configuration is missing, broken, or refused by transformers.",
    "docs_missing": "No pages with a Chinese translation were found.",
    "fault": "The tool itself is at fault; please report it.",
    "file_exists": "A file that the tool did not make stands where one has to go.",
    "gh_failed": "GitHub's command gh failed, or is not logged in.",
    "git_failed": "A call of git failed; all is as it was.",
    "git_missing": "Merging, or reading a repository, needs git, which was not found.",
    "git_old": "Git is too old for what was asked for.",
    "index_unreachable": "The package index cannot be reached.",
    "interpreter_lacks": "The interpreter lacks a package that the command needs.",
    "journal_unfinished": "An earlier run was interrupted and its journal cannot be settled alone.",
    "kind_known": "The kind that is to be taught is known already.",
    "ledger_invalid": "A file under .scaffold/made cannot be read.",
    "locked": "Another scaffold command is writing to the same place.",
    "message_invalid": "A commit message has not the form that the repository asks for.",
    "mesh_invalid": "The layout of ranks cannot be read.",
    "model_unknown": "transformers knows no model of this type.",
    "model_unsuited": "The model is no decoder of text, so it cannot become an Archon model.",
    "module_unsuited": "The module defines nothing that tests can be written for.",
    "name_builtin": "The name is that of a Python builtin.",
    "name_characters": "The name holds characters that no identifier can hold.",
    "name_digit": "The name begins with a digit.",
    "name_empty": "The name holds no letter or digit.",
    "name_keyword": "The name is a Python keyword or soft keyword.",
    "name_kind": "The name is only the word for its kind.",
    "name_length": "The name is too long.",
    "name_non_ascii": "The name holds characters outside ASCII.",
    "name_path": "The name holds a path separator or '..'.",
    "name_reserved": "The name is that of a device or of a folder that has another use.",
    "name_stdlib": "A module of this name would shadow one that Python or the project imports.",
    "name_taken": "The name is registered already, in this or another spelling.",
    "not_ready": "A branch is not ready for a pull request.",
    "nothing_staged": "Nothing is staged, so there is no commit to describe.",
    "nothing_to_propose": "The base has all that the branch changes.",
    "output_edited": "A person edited what the tool renders; it is not overwritten.",
    "outside_target": "A path leads out of the target, perhaps through a link.",
    "page_unknown": "No page of this name is to be translated.",
    "pins_conflict": "The pins that were asked for do not go together with others.",
    "pins_missing": "No manifest pins the package, or none of them can be read.",
    "probe_failed": "A probe of a model failed, or was killed.",
    "program_missing": "The program that is to be run was not found, or cannot be started.",
    "push_refused": "A push would replace commits that only the remote has.",
    "rebase_conflict": "A branch and its base changed the same places.",
    "record_invalid": "A record of a job cannot be read, or holds not what is asked for.",
    "registry_computed": "The registry is no literal that can be edited without risk.",
    "registry_differs": "The registry holds the key already, with another value.",
    "registry_generated": "The registry's file is generated and must not be edited.",
    "registry_missing": "The registry's file, or the table in it, does not exist.",
    "registry_shadowed": "An earlier branch of the dispatch takes what the new one is for.",
    "registry_syntax": "The registry's file cannot be parsed.",
    "release_unknown": "The package index has no such release that can be read as files.",
    "release_unreadable": "The archive of a release is broken, too large, or unsafe to unpack.",
    "remote_code": "The model's code comes with its checkpoint and is not run unasked.",
    "remote_moved": "A branch of the remote has moved since it was last fetched.",
    "remote_unknown": "There is no such remote, or nothing chooses one of several.",
    "repository_missing": "The folder lies in no git repository, or in one that git refuses.",
    "requirement_invalid": "A package's name, version or pin is none.",
    "resolver_failed": "The resolver of the project ended without an answer.",
    "revision_unknown": "A repository has no such branch, tag or commit.",
    "rope_unknown": "The configuration names a kind of rotary positions that nothing implements.",
    "rules_invalid": "Rules or settings of the review are not of the form that they have.",
    "sample_invalid": "A sample of the data cannot be read.",
    "skill_ambiguous": "A source holds several skills of the name.",
    "skill_edited": "Files of an installed skill were edited, and would be changed.",
    "skill_exists": "A skill or command of the name exists already.",
    "skill_hidden_text": "A skill hides text that can carry instructions.",
    "skill_invalid": "A skill's SKILL.md cannot be read.",
    "skill_lock_invalid": "The lock file of installed skills cannot be read.",
    "skill_too_large": "A skill is larger than what is installed.",
    "skill_unknown": "The source, or the lock file, has no skill of the name.",
    "skill_unsafe": "A path in a skill leads elsewhere, or is another one on some system.",
    "source_invalid": "Skills cannot be read from what was named as their source.",
    "source_unreachable": "A repository of skills cannot be fetched.",
    "source_unreadable": "A file or folder cannot be read.",
    "target_ambiguous": "The folder lies in two targets, one inside the other.",
    "target_invalid": "The target's [tool.scaffold] table is wrong or incomplete.",
    "target_lacks": "The target lacks modules that the unit would import.",
    "target_missing": "No folder that the tool knows how to extend was found.",
    "target_newer": "A newer version of the tool wrote this; upgrade areal-scaffold.",
    "template_invalid": "A template's manifest or one of its files is wrong.",
    "template_unknown": "There is no template of this name for pull requests.",
    "unconfirmed": "What is proposed has to be agreed to, and nobody can be asked.",
    "unit_ambiguous": "Units of several kinds share the name.",
    "unit_needed": "Another unit needs a file of this one.",
    "unit_unknown": "No unit of this id was made here.",
    "unknown_kind": "There is no template of this kind.",
    "unknown_style": "The kind has no style of this name.",
    "unmerged": "Files are in conflict, in the index of the repository.",
    "usage": "The command line is wrong.",
    "write_failed": "A file could not be written; everything was put back.",
}
"""Every error code with its meaning; codes are stable, agents and scripts may branch on them."""

HINTS: dict[str, str] = {
    "answer_missing": "give the option, or answer at a terminal",
    "columns_unclear": "name the columns with the options",
    "file_exists": "move it away, or choose another name",
    "outside_target": "nothing is written outside of the target; take the link or the path out",
    "registry_computed": "add the line by hand",
    "registry_generated": "change what it is generated from",
    "registry_missing": "take it back from version control",
    "registry_syntax": "repair the file first",
    "target_invalid": "see the table that `scaffold new` writes",
    "template_invalid": "repair the template; one under .scaffold/templates can be deleted too",
    "unknown_kind": "`scaffold list` shows what can be made",
    "unknown_style": "`scaffold list` shows what can be made",
    "usage": "give the command --help to see what it takes",
}
"""What to do about an error where its place in the code knows nothing better."""


class ScaffoldError(Exception):
    """Is the root of every error that the toolkit raises on purpose.

    Args:
        message: What was found, and where; one line, so that what is quoted is escaped.
        code: One of CODES.
        hint: What to do about it; without one, that of HINTS.
    """

    exit_status = 1

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        assert code in CODES, f"error code {code!r} is not in CODES"
        self.message = escaped(message)
        self.code = code
        self.hint = hint or HINTS.get(code, "")


class RequestError(ScaffoldError):
    """The request itself is wrong: a name, a kind, a style or an answer."""

    exit_status = 2


class TargetError(ScaffoldError):
    """The target cannot be found, or is not one that the tool can extend."""


class ConflictError(ScaffoldError):
    """The request is sound, but what stands in the target forbids it."""


class RegistryError(ConflictError):
    """A registry cannot be edited without risk; the hint holds the exact text to add by hand."""


class LedgerError(ScaffoldError):
    """The record of what was made cannot be read, or holds no such unit."""


class TemplateError(ScaffoldError):
    """A template is wrong."""


class ApplyError(ScaffoldError):
    """Writing failed, and was undone."""


DOCSTRING_FORMS = ("google", "numpy", "sphinx")
"""The forms of docstrings that can be written; templates have the first."""

AnswerValue = str | int | float | bool
AnswerType = Literal["str", "int", "float", "bool"]


@dataclass(frozen=True)
class Answer:
    """Says what a question of a style accepts; ``default`` None means that it must be answered."""

    name: str
    type: AnswerType
    help: str
    default: AnswerValue | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    check: str = ""
    minimum: float | None = None
    maximum: float | None = None
    option: str = ""
    default_from: str = ""

    @property
    def is_free_text(self) -> bool:
        """Is true where any text may come in, so that templates must quote it."""
        return self.type == "str" and not (self.choices or self.pattern)


class FileRule(NamedTuple):
    """Says which template file goes where; ``source`` is relative to the kind's folder."""

    source: str
    to: str
    role: str


class NextStep(NamedTuple):
    """Says what is left to do after the unit was made."""

    file: str
    why: str
    symbol: str


class RegistryRule(NamedTuple):
    """Says how a unit of the kind is registered.

    Args:
        shape: How the registry is edited; "manual" leaves the line to a person.
        key: What the line is known by.
        value: What stands for it.
        file: Where the registry is; empty for the one that the target names for the kind.
        table: What to look for in the file; empty as above.
        code: Which of "key" and "value" are source text rather than the content of a string.
    """

    shape: str
    key: str
    value: str = ""
    file: str = ""
    table: str = ""
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Holds what a kind.toml and a template.toml have in common.

    ``origin`` says whose it is: "builtin", "repository" or "package NAME".
    """

    name: str
    folder: Path
    origin: str
    version: int
    title: str
    help: str
    answers: Mapping[str, Answer]
    files: tuple[FileRule, ...]
    next: tuple[NextStep, ...]


class Style(Manifest):
    """Is one template of a kind: a folder ``templates/<kind>/<style>``."""


@dataclass(frozen=True)
class Kind(Manifest):
    """Is everything that units of one kind share: where they go and how they are named.

    ``writer`` says what writes the files that no template stands for: "archon", or "" for nothing.
    """

    command: str = ""
    new_folder: bool = False
    suffixes: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    option: str = "style"
    multiple: bool = False
    default: str = ""
    symbol: str = ""
    subject: str = ""
    writer: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    place: Mapping[str, str] = field(default_factory=dict[str, str])
    registry: tuple[RegistryRule, ...] = ()
    verify: Mapping[str, Any] = field(default_factory=dict[str, Any])


def all_answers(kind: Kind, styles: Iterable[Style]) -> dict[str, Answer]:
    """Returns every question that the kind and the given styles ask, by name; a style's wins."""
    answers = dict(kind.answers)
    for style in styles:
        answers.update(style.answers)
    return answers


def escaped(text: str) -> str:
    """Returns text on one line: what no terminal should be sent stands as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def is_private(path: str) -> bool:
    """Tells whether a path leads into a folder of git or of the tool, the target's or another's.

    Some file systems know no upper case, and drop dots and spaces at the end of a name.
    """
    return any(part.lower().rstrip(". ") in (".git", ".scaffold") for part in path.split("/"))


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'? known: a, b"``, without the guess where none is near."""
    import difflib  # costs 3 ms, and only errors need it

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    return f"{guess} known: {', '.join(names) or 'none'}"


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """Replaces every ``{name}`` in a manifest's string.

    Raises:
        TemplateError: The string names a variable that does not exist.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in variables:
            raise TemplateError(
                f"{text!r} names an unknown variable{nearest(found[1], variables)}",
                code="template_invalid",
            )
        return str(variables[found[1]])

    return re.sub(r"\{(\w+)\}", value, text)
