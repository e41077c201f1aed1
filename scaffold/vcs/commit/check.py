"""Check commit messages: one in a file, as git hands it to a hook, or those of a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.analysis.files.git import git_output
from scaffold.errors import RequestError
from scaffold.findings import Finding, RuleText, write_findings
from scaffold.report import Report
from scaffold.vcs.commit.convention import Convention, learn_convention
from scaffold.vcs.commit.conventional import DEFAULT_RULES, PROBLEMS, Problem, check_bytes
from scaffold.vcs.commit.settings import read_commit_settings
from scaffold.vcs.repository import Repository, commit_at, open_repository

COMMAND = "commit-msg"
DEFAULT_COMMENT = "#"
RULE_TEXTS = {name: RuleText(asks) for name, asks in PROBLEMS.items()}


def is_range(what: str) -> bool:
    """Return whether `--check` was given a range such as "main..HEAD", and no file."""
    path = Path(what)
    return ".." in what and not path.exists() and path.name not in ("..", ".")


def check_message_file(file: str, target: str | None = None, form: str = "human") -> Report:
    """Check the message that a file holds.

    Args:
        target: The folder where git is asked what a comment begins with; else the working folder.
        form: One of `scaffold.findings.FORMATS`.

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
    convention = _convention_at(target)
    problems = check_bytes(data, comment_mark(target), convention.rules)
    rows = [{"file": file, **problem._asdict()} for problem in problems]
    text = "".join(shown(file, problem, data) for problem in problems)
    if problems:
        text += _form_line(convention)
        # git has kept the message, and does not say so.
        if Path(file).name == "COMMIT_EDITMSG":
            text += f"The message is kept; to fix it: git commit --edit --file={file}\n"
    return _report(rows, text, convention, list(findings_of(file, problems, data)), form)


def _report(
    rows: list[dict[str, str | int]],
    text: str,
    convention: Convention,
    findings: list[Finding],
    form: str,
) -> Report:
    extra = {"problems": rows, "convention": list(convention.evidence)}
    report = Report(COMMAND, ok=not rows, text=text, extra=extra)
    return write_findings(report, form, findings, RULE_TEXTS)


def check_range(span: str, folder: Path, form: str = "human") -> Report:
    """Check each commit of a range by itself, the oldest first; merges are left to git.

    Args:
        span: The range, such as "main..HEAD".
        form: One of `scaffold.findings.FORMATS`; the path of a finding is the name of its commit.

    Raises:
        RequestError: There is no such range.
        TargetError: There is no repository.
    """
    rows: list[dict[str, str | int]] = []
    findings: list[Finding] = []
    text = ""
    with open_repository(folder) as repository:
        root = repository.root
        names, start = _commits_of(repository, span)
        # The history before the range: what is checked does not set the form itself.
        convention = learn_convention(root, read_commit_settings(root), start)
        for name in names:
            data = _stored_message(repository, name)
            problems = check_bytes(data, None, convention.rules)
            rows += [{"commit": name, **problem._asdict()} for problem in problems]
            findings += findings_of(name, problems, data)
            text += "".join(shown(name[:9], problem, data) for problem in problems)
    wrong = len({row["commit"] for row in rows})
    text += f"{len(names)} commits checked, {wrong} of them with problems\n"
    text += _form_line(convention)
    return _report(rows, text, convention, findings, form)


def findings_of(path: str, problems: Sequence[Problem], data: bytes) -> Iterator[Finding]:
    """Yield the problems of one message, each with its line."""
    # split and not splitlines: only line feeds end lines for git, and the numbers have to agree.
    lines = data.decode("utf-8", "replace").split("\n")
    for each in problems:
        claim = lines[each.line - 1].rstrip()
        yield Finding(path, each.line, each.column, each.rule, claim, each.message)


def _convention_at(target: str | None) -> Convention:
    """Return the convention of the repository that a folder lies in; the usual one without."""
    here = Path(target or ".").resolve()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return learn_convention(folder, read_commit_settings(folder))
    return Convention(DEFAULT_RULES, ("the default: Conventional Commits",))


def _form_line(convention: Convention) -> str:
    """Return what the form is that messages are held to, and how that is known."""
    return f"form: {'; '.join(convention.evidence)}\n"


def comment_mark(folder: str | None = None) -> str:
    """Return what git's settings let a comment line begin with; "auto" and silence mean "#"."""
    # The string is that of newer gits and wins over the character.
    for setting in ("core.commentString", "core.commentChar"):
        # Without git or such a folder the file was written without it.
        asked = git_output(Path(folder or "."), "config", "--get", setting) or b""
        mark = asked.decode("utf-8", "replace").removesuffix("\n")
        if mark and mark != "auto":
            return mark
    return DEFAULT_COMMENT


def shown(file: str, problem: Problem, data: bytes) -> str:
    """Return a problem with its line, and a mark below the place."""
    line = data.split(b"\n")[problem.line - 1].decode("utf-8", "replace").rstrip()
    place = f"{file}:{problem.line}:{problem.column}: {problem.message} [{problem.rule}]\n"
    # The mark is aligned by characters, which only short and printable lines allow.
    if len(line) > 2 * problem.column + 80 or not line.isprintable():
        return place
    return f"{place}    {line}\n    {' ' * (problem.column - 1)}^\n"


def _commits_of(repository: Repository, span: str) -> tuple[list[str], str]:
    """Return the commits of a range, and the one where it begins."""
    if repository.head is None:
        raise RequestError(
            "the repository has no commit yet", code="revision_unknown", hint="commit something"
        )
    first, dots, last = span.partition("..")
    ends = [commit_at(repository, end.lstrip(".") or "HEAD") for end in (first, last)]
    # "A...B" was split at its first two dots.
    dots += "." * last.startswith(".")
    found = repository.read("rev-list", "--reverse", "--no-merges", dots.join(ends), "--")
    return found.decode().split(), ends[0]


def _stored_message(repository: Repository, name: str) -> bytes:
    """Return a commit's message as UTF-8 where the commit names another encoding."""
    # The raw object: `git log` would decode it and hide what is wrong with its bytes.
    head, _, message = (repository.object(name) or b"").partition(b"\n\n")
    for line in head.split(b"\n"):
        if line.startswith(b"encoding "):
            encoding = line.split(b" ", 1)[1].decode("ascii", "replace")
            try:
                return message.decode(encoding).encode("utf-8")
            except (LookupError, UnicodeDecodeError):
                return message
    return message
