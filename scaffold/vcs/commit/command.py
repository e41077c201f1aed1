"""The draft of the next commit's message, reported with the evidence for each part of it."""

from __future__ import annotations

from pathlib import Path

from scaffold.errors import RequestError
from scaffold.report import Report
from scaffold.vcs.changes import FileChange, staged_changes
from scaffold.vcs.commit.convention import Convention, learn_convention
from scaffold.vcs.commit.draft import MAX_LISTED, branch_references, draft_message
from scaffold.vcs.commit.key_changes import KeyChanges, key_changes, symbol_json
from scaffold.vcs.commit.settings import CommitSettings, read_commit_settings
from scaffold.vcs.commit.type_evidence import Word, find_type, from_table, past_commits
from scaffold.vcs.repository import Repository, listed, open_repository

COMMAND = "commit-msg"
# How many files a message names before it counts the rest.
MAX_NAMED = 5


def draft_commit_message(folder: Path) -> Report:
    """Draft the message for what is staged in the repository that a folder lies in.

    Raises:
        RequestError: Nothing is staged, or files are in conflict.
    """
    with open_repository(folder) as repository:
        root = repository.root
        settings = read_commit_settings(root)
        changes = staged_changes(repository)
        _confirm(changes)
        convention = learn_convention(root, settings)
        words = _words(root, changes, settings, convention)
        key = key_changes(repository, changes)
        references = branch_references(repository.branch or "")
        warnings = tuple(_warnings(repository, key))
    type_, scope = (each.word for each in words)
    message = draft_message(key, type_, scope, references, convention.rules)
    extra = {
        "message": message,
        "type": words[0]._asdict(),
        "scope": words[1]._asdict(),
        "convention": {
            "is_conventional": convention.rules.is_conventional,
            "evidence": list(convention.evidence),
            "unasked": sorted(convention.rules.unasked),
        },
        "key_changes": key.to_json(),
        "may_break": [symbol_json(each) for each in key.breaking],
        "references": list(references),
        "files": [{"path": each.path, "status": each.status} for each in changes],
    }
    text = f"{message}\n{_comments(words, convention, key)}"
    return Report(COMMAND, text=text, warnings=warnings, extra={"commit_message": extra})


def _words(
    root: Path, changes: tuple[FileChange, ...], settings: CommitSettings, convention: Convention
) -> tuple[Word, Word]:
    if not convention.rules.is_conventional:
        return Word(None, ""), Word(None, "")
    past = past_commits(root)
    type_ = find_type(changes, past, settings.paths, convention.rules)
    return type_, from_table(changes, settings.paths, "scope")


def _comments(words: tuple[Word, Word], convention: Convention, key: KeyChanges) -> str:
    """Return the evidence for a draft, as comment lines that git leaves out."""
    rows = [("form", line) for line in convention.evidence]
    if not convention.rules.is_conventional:
        rows += [("newest", line) for line in convention.examples]
    for label, word in zip(("type", "scope"), words, strict=True):
        if word.why:
            rows.append((label, f"{word.word}: {word.why}" if word.word else word.why))
    rows += [("breaks?", f"{each.breaks} ({each.path})") for each in key.breaking[:MAX_LISTED]]
    if len(key.breaking) > MAX_LISTED:
        rows.append(("breaks?", f"{len(key.breaking) - MAX_LISTED} more public definitions"))
    if key.breaking:
        rows.append(("", "if callers outside of this commit rely on it: '!' before the colon, and"))
        rows.append(("", "a footer 'BREAKING CHANGE: ' with what they have to do"))
    return "".join(f"# {label:<8} {line}\n" for label, line in rows)


def unread_warning(key: KeyChanges) -> str | None:
    """Return the warnings about sources whose definitions were not compared."""
    if not key.unread:
        return None
    names = listed([each.path for each in key.unread], MAX_NAMED)
    whys = "; ".join(dict.fromkeys(each.why for each in key.unread))
    return f"definitions not compared in {names}: {whys}"


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


def _warnings(repository: Repository, key: KeyChanges) -> list[str]:
    found = [unread_warning(key)]
    if repository.is_shallow:
        found.append("this clone is shallow: the convention was learned from what it has")
    if (repository.folder / "MERGE_HEAD").is_file():
        found.append(
            "a merge is in progress, for which git has a message already; `git commit --no-edit` "
            "takes it"
        )
    return [each for each in found if each]
