"""Check the messages of a range of commits."""

from __future__ import annotations

from pathlib import Path

from scaffold.errors import RequestError
from scaffold.findings import Finding, write_findings
from scaffold.report import Report
from scaffold.vcs.commit.check import COMMAND, RULE_TEXTS, findings_of, form_line, shown
from scaffold.vcs.commit.convention import learn_convention
from scaffold.vcs.commit.conventional import check_bytes
from scaffold.vcs.commit.settings import read_commit_settings
from scaffold.vcs.repository import Repository, commit_at, open_repository


def check_range(span: str, folder: Path, form: str = "human") -> Report:
    """Check each commit of a range by itself, the oldest first; merges are left to git.

    Args:
        span: The range, such as "main..HEAD".
        folder: Where the repository is.
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
    text += form_line(convention)
    extra = {"problems": rows, "convention": list(convention.evidence)}
    report = Report(COMMAND, ok=not rows, text=text, extra=extra)
    return write_findings(report, form, findings, RULE_TEXTS)


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
