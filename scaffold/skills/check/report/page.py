"""One page of what is false in a repository's guidance, to send to whoever maintains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.analysis.lazy_re import lazy_re
from scaffold.findings import Finding
from scaffold.skills.check.checking import Outcome

Form = Literal["html", "markdown"]

_TEMPLATES = {"html": "page.html.jinja", "markdown": "page.md.jinja"}
# `https://host/owner/name.git`, `git@host:owner/name`.
_ADDRESS = lazy_re(
    r"(?:https?://|ssh://(?:\w+@)?|\w+@)(?P<host>[\w.-]+)[/:](?P<slug>[\w./-]+?)(?:\.git)?/?$"
)
_SLUG = lazy_re(
    r"https?://(?P<host>github\.com|gitlab\.com)/(?P<slug>[\w.-]+/[\w.-]+?)(?:\.git)?"
    r"(?=[/\"'#\s)]|$)"
)
_COMMIT = lazy_re(r"\bcommit (?P<hash>[0-9a-f]{10})\b")


class Row(NamedTuple):
    """A finding as the page shows it.

    Args:
        finding: The finding.
        words: The line of the document that it is about.
        link: The address of that line, or empty.
        evidence: The evidence in parts: a text, and the address that it leads to or nothing.
    """

    finding: Finding
    words: str
    link: str
    evidence: list[tuple[str, str]]


def page(outcome: Outcome, files: Files, form: Form) -> str:
    """Return the page of an outcome.

    Args:
        outcome: What a check found.
        files: The repository's files.
        form: "html" for a page that needs no other file, "markdown" for the text of an issue.
    """
    import jinja2  # 40 ms, which every other command does without

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=form == "html",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATES[form]).render(_facts(outcome, files))


def _facts(outcome: Outcome, files: Files) -> dict[str, Any]:
    head = (git_output(files.root, "rev-parse", "--verify", "--quiet", "HEAD") or b"").decode()
    address = _address(files)
    base = f"{address}/blob/{head.strip()}" if address and head else ""
    wrong = [each for each in outcome.findings if each.severity != "note"]
    documents = {
        path: [_row(each, files, base, address) for each in wrong if each.path == path]
        for path in dict.fromkeys(each.path for each in wrong)
    }
    return {
        "name": address.rpartition("//")[2].partition("/")[2] or files.root.name,
        "address": address,
        "commit": head.strip(),
        "documents": documents,
        "counts": Counter(each.severity for each in wrong),
        "states": outcome.states,
        "num_documents": outcome.num_documents,
        "uncompared": sorted(outcome.uncompared.items()),
        "undecided": sorted(_undecided(outcome).items(), key=lambda each: (-each[1], each[0])),
        "notes": outcome.notes,
    }


def _address(files: Files) -> str:
    """Return where the repository is on the web, by its remote or its project files, or nothing."""
    remote = (git_output(files.root, "config", "--get", "remote.origin.url") or b"").decode()
    if found := _ADDRESS.match(remote.strip()):
        return f"https://{found['host']}/{found['slug']}"
    for path in ("pyproject.toml", "package.json", "Cargo.toml", "setup.cfg", "setup.py"):
        if path in files.paths and (found := _SLUG.search(files.text(path) or "")):
            return f"https://{found['host']}/{found['slug']}"
    return ""


def _row(finding: Finding, files: Files, base: str, address: str) -> Row:
    lines = (files.look_into(finding.path) or "").split("\n")
    words = lines[finding.line - 1].strip() if finding.line <= len(lines) else ""
    link = f"{base}/{quote(finding.path)}?plain=1#L{finding.line}" if base else ""
    return Row(finding, words[:300], link, list(_linked(finding.evidence, address)))


def _linked(evidence: str, address: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in _COMMIT.finditer(evidence) if address else ():
        yield evidence[at : found.start()], ""
        yield found.group(), f"{address}/commit/{found['hash']}"
        at = found.end()
    yield evidence[at:], ""


def _undecided(outcome: Outcome) -> Counter[str]:
    every = (each for path in outcome.judged for each in outcome.undecided(path))
    return Counter(each.verdict.reason for each in every)
