"""What `scaffold pr` found out and did, as people and programs read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaffold.errors import ScaffoldError
from scaffold.report import Report
from scaffold.vcs.commit.command import unread_warning
from scaffold.vcs.pull_request.body import Material, all_references, breaking_lines
from scaffold.vcs.pull_request.branch import Check
from scaffold.vcs.pull_request.squash import ConflictError

COMMAND = "pr"


@dataclass
class Outcome:
    """The findings and actions so far; a failure reports them, too."""

    material: Material
    checks: tuple[Check, ...]
    title: str
    body: str
    message: str | None
    template: str | None
    done: list[str] = field(default_factory=list[str])
    rewritten: dict[str, str] | None = None
    pushed: dict[str, Any] | None = None
    request: dict[str, Any] | None = None


def done_lines(outcome: Outcome) -> list[str]:
    lines: list[str] = []
    if outcome.rewritten:
        made = outcome.rewritten
        lines.append(f"rewritten  {outcome.material.branch.name} is {made['new'][:9]} now")
        lines.append(f"backup     {made['backup']} is {made['old'][:9]}")
        lines.append(f"           git reset --hard {made['backup']} takes it back")
    if outcome.pushed:
        made = outcome.pushed
        lines.append(f"pushed     {made['remote']}/{made['branch']} is {made['new'][:9]}")
    if outcome.request:
        lines.append(f"{outcome.request['action']:<10} {outcome.request['url']}")
    return lines


def report_of(
    outcome: Outcome,
    failed: list[Check],
    error: ScaffoldError | None = None,
    *,
    dry_run: bool = False,
    is_rewrite: bool = False,
) -> Report:
    """Return the report; what keeps the branch back is its error."""
    if failed:
        error = ScaffoldError(
            f"{outcome.material.branch.name} is not ready: "
            + "; ".join(each.said for each in failed),
            code="not_ready",
            hint="\n".join(each.hint for each in failed if each.hint),
        )
    conflicts = error.conflicts if isinstance(error, ConflictError) else ()
    extra = {**_extra(outcome), "conflicts": [each._asdict() for each in conflicts]}
    warnings = [unread_warning(outcome.material.key)]
    return Report(
        COMMAND,
        ok=error is None,
        text=_text(outcome, conflicts, is_refused=error is not None, is_rewrite=is_rewrite),
        warnings=tuple(each for each in warnings if each),
        extra={"pull_request": extra},
        error=error,
        dry_run=dry_run,
    )


def _text(
    outcome: Outcome, conflicts: tuple[Any, ...], *, is_refused: bool, is_rewrite: bool
) -> str:
    rows: list[str] = []
    for each in outcome.checks:
        # Once something is done, only what was not in order is of interest.
        if outcome.done and each.state == "ok":
            continue
        rows.append(f"{each.state:<10} {each.name:<10} {each.said}")
        rows += [f"{'':<21} {each.hint}"] if each.hint else []
    for each in conflicts:
        rows += ["", f"conflict   {each.path}: {each.why}"]
        rows += [f"  yours    {line}" for line in each.ours]
        rows += [f"  theirs   {line}" for line in each.theirs]
        rows += [f"  {line}" for hunk in each.hunks for line in hunk.split("\n")]
    if outcome.done:
        rows += [*([""] if rows else []), *outcome.done]
    # A text above a refusal would hide it.
    elif not is_refused and outcome.title:
        rows += ["", outcome.title, "", outcome.body.rstrip("\n")]
        if is_rewrite and outcome.message:
            rows += ["", "The one commit:", "", outcome.message.rstrip("\n")]
    return "\n".join(rows) + "\n"


def _extra(outcome: Outcome) -> dict[str, Any]:
    material = outcome.material
    branch = material.branch
    return {
        "branch": branch.name,
        "head": branch.head,
        "base": {**branch.base._asdict(), "merge_base": branch.merge_base},
        "behind": branch.behind,
        "commits": [
            {"name": each.name, "subject": each.subject, "author": each.author, "date": each.date}
            for each in branch.commits
        ],
        "checks": [each._asdict() for each in outcome.checks],
        "title": outcome.title,
        "body": outcome.body,
        "message": outcome.message,
        "template": outcome.template,
        "key_changes": material.key.to_json(),
        "breaking": breaking_lines(material),
        "references": list(all_references(material)),
        "rewritten": outcome.rewritten,
        "pushed": outcome.pushed,
        "request": outcome.request,
    }
