"""Commit messages, in a file as git hands it to a hook or in stored commits: read and checked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.errors import RequestError
from scaffold.report import Report
from scaffold.vcs.commit.conventional import DEFAULT_RULES, Problem, Rules, check_bytes
from scaffold.vcs.commit.settings import read_commit_settings

if TYPE_CHECKING:
    import git

COMMAND = "commit-msg"
DEFAULT_COMMENT = "#"


def check_messages(what: str, target: str | None = None) -> Report:
    """Checks the message in a file, or those of the commits of a range.

    Args:
        what: A file; or, where there is none of that name, a range such as "main..HEAD".
        target: The repository's folder; else the working folder.

    Raises:
        RequestError: The file cannot be read, or there is no such range.
        TargetError: A range is given, and there is no repository.
    """
    if ".." in what and not Path(what).exists() and Path(what).name not in ("..", "."):
        return _check_range(what, Path(target or "."))
    return check_message_file(what, target)


def check_message_file(file: str, target: str | None = None) -> Report:
    """Checks the message that a file holds.

    Args:
        file: The file.
        target: The folder where git is asked what a comment begins with; else the working folder.

    Raises:
        RequestError: The file cannot be read.
    """
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise RequestError(
            f"the message {file!r} cannot be read: {error.strerror}",
            code="usage",
            hint="name the file that holds it, such as .git/COMMIT_EDITMSG, or a range of commits",
        ) from error
    problems = check_bytes(data, comment_mark(target), _rules_at(target))
    rows = [{"file": file, **problem._asdict()} for problem in problems]
    text = "".join(_shown(file, problem, data) for problem in problems)
    return Report(
        COMMAND, ok=not problems, text=text + _rescue(file, problems), extra={"problems": rows}
    )


def _check_range(span: str, folder: Path) -> Report:
    """Checks each commit of a range by itself, the oldest first; merges are left to git."""
    from scaffold.vcs.repository import open_repository, root_of

    repository = open_repository(folder)
    try:
        rules = read_commit_settings(root_of(repository)).rules
        rows: list[dict[str, str | int]] = []
        text = ""
        names = _commits_of(repository, span)
        for name in names:
            data = _stored_message(repository, name)
            problems = check_bytes(data, None, rules)
            rows += [{"commit": name, **problem._asdict()} for problem in problems]
            text += "".join(_shown(name[:9], problem, data) for problem in problems)
    finally:
        repository.close()
    wrong = len({row["commit"] for row in rows})
    text += f"{len(names)} commits checked, {wrong} of them with problems\n"
    return Report(COMMAND, ok=not rows, text=text, extra={"problems": rows})


def _commits_of(repository: git.Repo, span: str) -> list[str]:
    from scaffold.vcs.repository import commit_at, is_empty

    if is_empty(repository):
        raise RequestError(
            "the repository has no commit yet", code="revision_unknown", hint="commit something"
        )
    first, dots, last = span.partition("..")
    ends = [commit_at(repository, end.lstrip(".") or "HEAD").hexsha for end in (first, last)]
    dots += "." * last.startswith(".")
    found: str = repository.git.rev_list("--reverse", "--no-merges", dots.join(ends), "--")
    return found.split()


def _stored_message(repository: git.Repo, name: str) -> bytes:
    """Returns a commit's message as UTF-8 where the commit names another encoding."""
    head, _, message = repository.git.get_object_data(name)[3].partition(b"\n\n")
    for line in head.split(b"\n"):
        if line.startswith(b"encoding "):
            encoding = line.split(b" ", 1)[1].decode("ascii", "replace")
            try:
                return message.decode(encoding).encode("utf-8")
            except (LookupError, UnicodeDecodeError):
                return message
    return message


def _rules_at(target: str | None) -> Rules:
    """Returns the rules of the repository that a folder lies in; the usual ones where none is."""
    here = Path(target or ".").resolve()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return read_commit_settings(folder).rules
    return DEFAULT_RULES


def comment_mark(folder: str | None = None) -> str:
    """Returns what git's settings let a comment line begin with; "auto" and silence mean "#"."""
    for setting in ("core.commentString", "core.commentChar"):
        argv = ["git", "config", "--get", setting]
        try:
            asked = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
        except OSError:  # there is no git, or no such folder: the file was written without it
            return DEFAULT_COMMENT
        mark = asked.stdout.decode("utf-8", "replace").removesuffix("\n")
        if mark and mark != "auto":
            return mark
    return DEFAULT_COMMENT


def _shown(file: str, problem: Problem, data: bytes) -> str:
    """Returns a problem with its line, and a mark below the place."""
    line = data.split(b"\n")[problem.line - 1].decode("utf-8", "replace").rstrip()
    place = f"{file}:{problem.line}:{problem.column}: {problem.message} [{problem.rule}]\n"
    if len(line) > 2 * problem.column + 80 or not line.isprintable():
        return place
    return f"{place}    {line}\n    {' ' * (problem.column - 1)}^\n"


def _rescue(file: str, problems: list[Problem]) -> str:
    """Returns how to go on with a message that git has kept, which it does not say itself."""
    if not problems or Path(file).name != "COMMIT_EDITMSG":
        return ""
    return f"The message is kept; to mend it: git commit --edit --file={file}\n"
