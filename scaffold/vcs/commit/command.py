"""The draft of the next commit's message, reported with the evidence for each part of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaffold.errors import RequestError
from scaffold.report import Report
from scaffold.vcs.changes import FileChange, staged_changes
from scaffold.vcs.commit.draft import Draft, draft_message
from scaffold.vcs.commit.history import past_commits
from scaffold.vcs.commit.inference import (
    Guess,
    SubjectHabits,
    infer_scope,
    infer_type,
    learn_habits,
)
from scaffold.vcs.commit.issue_references import branch_references
from scaffold.vcs.commit.key_changes import KeyChanges, key_changes
from scaffold.vcs.commit.settings import CommitSettings, read_commit_settings
from scaffold.vcs.repository import is_empty, is_shallow, open_repository, root_of

if TYPE_CHECKING:
    import git

COMMAND = "commit-msg"
# How many files a message names before it counts the rest.
MAX_NAMED = 5


def draft_commit_message(folder: Path) -> Report:
    """Draft the message for what is staged in the repository that a folder lies in.

    Raises:
        RequestError: Nothing is staged, or files are in conflict.
    """
    repository = open_repository(folder)
    try:
        settings = read_commit_settings(root_of(repository))
        changes = staged_changes(repository)
        _confirm(changes)
        habits = known_habits(repository)
        key = key_changes(repository, changes)
        guesses = infer_type(changes, key, habits, settings), infer_scope(changes, habits, settings)
        references = branch_references(branch_of(repository) or "")
        draft = draft_message(changes, key, guesses, references, settings.rules)
        warnings = tuple(_warnings(repository, key, habits))
        return _report(draft, settings, changes, key, guesses, warnings)
    finally:
        repository.close()


def known_habits(repository: git.Repo, start: str = "HEAD") -> SubjectHabits:
    """Return what the subjects before a commit teach; nothing in an empty repository."""
    return (
        SubjectHabits()
        if is_empty(repository)
        else learn_habits(past_commits(repository, start=start))
    )


def branch_of(repository: git.Repo) -> str | None:
    """Return the branch that is checked out; None where HEAD is detached."""
    return None if repository.head.is_detached else repository.head.reference.name


def key_changes_json(key: KeyChanges) -> dict[str, Any]:
    """Return key changes as the JSON report has them."""
    return {
        "symbols": [each._asdict() for each in key.symbols],
        "moved": [{"from": old, "to": new} for old, new in key.moved],
        "dependencies": [each._asdict() for each in key.dependencies],
        "unread": [each._asdict() for each in key.unread],
    }


def guess_json(guess: Guess) -> dict[str, Any]:
    """Return an inferred word as the JSON report has it."""
    return {**guess._asdict(), "share": round(guess.share, 3), "evidence": list(guess.evidence)}


def unread_warning(key: KeyChanges) -> str | None:
    """Return the warnings about sources whose definitions were not compared."""
    if not key.unread:
        return None
    names = ", ".join(each.path for each in key.unread[:MAX_NAMED])
    more = f" and {len(key.unread) - MAX_NAMED} more" if len(key.unread) > MAX_NAMED else ""
    whys = "; ".join(dict.fromkeys(each.why for each in key.unread))
    return f"definitions not compared in {names}{more}: {whys}"


def _confirm(changes: tuple[FileChange, ...]) -> None:
    unmerged = [each.path for each in changes if each.status == "U"]
    if unmerged:
        raise RequestError(
            f"{len(unmerged)} files are in conflict: {', '.join(unmerged[:MAX_NAMED])}",
            code="unmerged",
            hint="settle them and `git add` them first",
        )
    if not changes:
        raise RequestError(
            "nothing is staged, so there is no commit to describe",
            code="nothing_staged",
            hint="stage what belongs together with `git add PATH`, or `git add -p`",
        )


def _warnings(repository: git.Repo, key: KeyChanges, habits: SubjectHabits) -> list[str]:
    found = [unread_warning(key)]
    if is_shallow(repository):
        found.append(
            f"this clone is shallow: type and scope were learned from {habits.types.count} commits"
        )
    if (Path(repository.git_dir) / "MERGE_HEAD").is_file():
        found.append(
            "a merge is in progress, for which git has a message already; `git commit --no-edit` "
            "takes it"
        )
    return [each for each in found if each]


def _report(
    draft: Draft,
    settings: CommitSettings,
    changes: tuple[FileChange, ...],
    key: KeyChanges,
    guesses: tuple[Guess, Guess],
    warnings: tuple[str, ...],
) -> Report:
    message = draft.text(settings.rules.max_body)
    extra = {
        "message": message,
        "type": guess_json(guesses[0]),
        "scope": guess_json(guesses[1]),
        "key_changes": key_changes_json(key),
        "breaking": [each._asdict() for each in key.breaking],
        "references": list(draft.references),
        "files": [{"path": each.path, "status": each.status} for each in changes],
    }
    text = f"{message}\n{evidence_text(*guesses)}"
    return Report(COMMAND, text=text, warnings=warnings, extra={"commit_message": extra})


def evidence_text(type_: Guess, scope: Guess) -> str:
    """Return why type and scope are as they are, as comment lines that git leaves out."""
    rows = [f"# type     {_shown(type_)}", *(f"#          {line}" for line in type_.evidence)]
    rows += [f"# scope    {_shown(scope)}", *(f"#          {line}" for line in scope.evidence)]
    return "\n".join(rows) + "\n"


def _shown(guess: Guess) -> str:
    where = {
        "table": "from the path table",
        "history": "from earlier subjects",
        "structure": "from the diff",
        "layout": "from the folders",
        "none": "left out",
    }[guess.source]
    # Votes never prove a word, so no share is shown as 100 %.
    sure = f", {min(guess.share, 0.99):.0%} of the votes" if guess.source == "history" else ""
    return f"{guess.word or '(none)'}  {where}{sure}"
