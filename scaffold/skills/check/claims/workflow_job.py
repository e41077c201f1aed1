"""Jobs of workflows: "the `build` job in `.github/workflows/ci.yml`"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.sentence import sentence_around

_JOB = lazy_re(r"[A-Za-z_][\w-]*")
_BEHIND = lazy_re(r"^\s+(?:CI\s+)?job\b", re.IGNORECASE)
_AHEAD = lazy_re(r"\bjob\s+(?:named\s+|called\s+)?$", re.IGNORECASE)
_NOT = lazy_re(r"^[^.`]*\bnot\b")
_FILE = lazy_re(r"`(?P<path>(?:\.github/workflows/)?[\w.-]+\.ya?ml)`")


def find_workflow_jobs(document: Document) -> Iterator[Claim]:
    """Yield the jobs that a text names together with one workflow."""
    for span in document.markdown.codes:
        if not _JOB.fullmatch(span.text) or is_placeholder(span.text):
            continue
        if not (_BEHIND.match(span.after) or _AHEAD.search(span.before[-160:])):
            continue
        files = {each["path"] for each in _FILE.finditer(" ".join(sentence_around(span)))}
        if len(files) == 1:
            elsewhere = "it may be of another workflow" if _NOT.search(span.after[:60]) else ""
            data = (files.pop(), silence(span) or elsewhere)
            yield Claim("workflow job", span.text, span.line, span.column, data)


def judge_workflow_job(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a job: does its name occur in the workflow at all?"""
    file, silent = claim.data
    path = f".github/workflows/{str(file).rpartition('/')[2]}"
    text = repository.files.look_into(path) if path in repository.files.paths else None
    if text is None or not document.is_about_here:
        return Verdict.open(f"there is no workflow {file} here")
    if re.search(rf"(?<![\w-]){re.escape(claim.text)}(?![\w-])", text, re.IGNORECASE):
        return Verdict.holds(f"{path} has it")
    jobs = _jobs(text)
    if not jobs or re.search(r"^\s+uses:\s*\S*/\.github/workflows/", text, re.MULTILINE):
        return Verdict.open(f"{path} takes its jobs from elsewhere")
    if silent:
        return Verdict.open(silent)
    return Verdict.fails(
        "workflow-job-missing",
        f"there is no job {claim.text!r} in {file}",
        f"{path} has {', '.join(jobs)}",
        now=f"its jobs are {', '.join(jobs)}",
    )


def _jobs(text: str) -> list[str]:
    import yaml  # costs 25 ms: only a job that is not found needs it

    try:
        loaded: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    whole = cast("dict[Any, Any]", loaded) if isinstance(loaded, dict) else {}
    jobs = whole.get("jobs")
    return [str(each) for each in cast("dict[Any, Any]", jobs)] if isinstance(jobs, dict) else []


WORKFLOW_JOBS = Kind("workflow job", find_workflow_jobs, judge_workflow_job)
