"""The command `scaffold pr`: it looks, words, and, where asked to, rewrites, pushes and opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scaffold.report import Report
from scaffold.spec import RequestError, ScaffoldError
from scaffold.vcs.changes import changes_between
from scaffold.vcs.commit_message import key_changes_json, known_manner, unread_warning
from scaffold.vcs.commit_settings import CommitSettings, read_commit_settings
from scaffold.vcs.drafting import draft_message
from scaffold.vcs.inference import infer_scope, infer_type
from scaffold.vcs.key_changes import key_changes
from scaffold.vcs.message_format import check_message
from scaffold.vcs.opening import open_repository, root_of
from scaffold.vcs.pull import github, remote
from scaffold.vcs.pull.calling import confirm_version
from scaffold.vcs.pull.placing import Placing, RefMove, move_refs
from scaffold.vcs.pull.preflight import Check, Wish, preflight
from scaffold.vcs.pull.squash import ConflictError, squashed_tree, write_commit
from scaffold.vcs.pull.standing import Base, Standing, find_base, find_disorder, find_standing
from scaffold.vcs.pull.stopping import stoppable
from scaffold.vcs.pull.template import Template, fill_template, find_template
from scaffold.vcs.pull.wording import (
    Material,
    all_references,
    breaking_lines,
    is_untouched,
    sections_of,
    squash_message,
    title_of,
    with_mark,
)
from scaffold.vcs.references import branch_references

if TYPE_CHECKING:
    import git

COMMAND = "pr"
BACKUPS = "refs/scaffold/backup"


class Options(NamedTuple):
    """Is what was asked for."""

    base: str | None = None
    remote: str | None = None
    title: str | None = None
    body: str | None = None
    message: str | None = None
    template: str | None = None
    is_draft: bool = False
    rewrite: bool = False
    push: bool = False
    may_force: bool = False
    dry_run: bool = False
    agreed: bool = False


@dataclass
class Outcome:
    """Is what was found out and done so far; a failure reports it too."""

    standing: Standing
    checks: tuple[Check, ...]
    title: str
    body: str
    message: str | None
    template: Template
    material: Material
    done: list[str] = field(default_factory=list[str])
    rewritten: dict[str, str] | None = None
    pushed: dict[str, Any] | None = None
    request: dict[str, Any] | None = None


def pull_request(folder: Path, options: Options, ask: Callable[[str], bool] | None) -> Report:
    """Prepares the pull request of the branch that is checked out.

    Args:
        folder: A folder of the repository.
        options: What was asked for.
        ask: Shows a plan and asks for a yes; None where nobody can be asked.

    Raises:
        ScaffoldError: What was asked for cannot be done; then nothing was changed.
    """
    repository = open_repository(folder)
    try:
        outcome = _look(repository, options)
        failed = [check for check in outcome.checks if check.state == "failed"]
        if failed or options.dry_run or not (options.rewrite or options.push):
            return _report(outcome, options, failed)
        try:
            with stoppable():
                _work(repository, outcome, options, ask)
        except ConflictError as error:
            return _report(outcome, options, [], error)
        return _report(outcome, options, [])
    finally:
        repository.close()


def _look(repository: git.Repo, options: Options) -> Outcome:
    """Reads everything and words the texts; nothing is written and no network is used."""
    root = root_of(repository)
    settings = read_commit_settings(root)
    base = find_base(repository, options.base, options.remote)
    standing = find_standing(repository, base)
    wish = Wish(options.rewrite, options.push)
    disorder = find_disorder(repository)
    checks = preflight(repository, standing, disorder, settings.rules, wish)
    return _worded(repository, standing, checks, settings, options)


def _worded(
    repository: git.Repo,
    standing: Standing,
    checks: tuple[Check, ...],
    settings: CommitSettings,
    options: Options,
) -> Outcome:
    root = root_of(repository)
    material = _material(repository, standing, settings)
    template = find_template(root, options.template)
    message = _read_text(options.message, "the message") if options.message else None
    title = options.title or (message or "").strip().partition("\n")[0]
    if not title:
        title = title_of(material) if standing.work else ""
    if options.body is not None:
        body = _read_text(options.body, "the body")
    else:
        word = material.guesses[0].word or ""
        type_ = title.partition(":")[0].partition("(")[0].rstrip("!") or word
        is_breaking = bool(breaking_lines(material))
        body = fill_template(template.text, sections_of(material), type_, is_breaking=is_breaking)
    if options.rewrite and message is None and standing.work:
        message = squash_message(material, title)
    return Outcome(standing, checks, title, body, message, template, material)


def _material(repository: git.Repo, standing: Standing, settings: CommitSettings) -> Material:
    old = standing.merge_base or standing.base.commit
    changes = changes_between(repository, old, standing.head)
    manner = known_manner(repository, old)
    key = key_changes(repository, changes)
    references = branch_references(standing.branch)
    guesses = infer_type(changes, key, manner, settings), infer_scope(changes, manner, settings)
    draft = draft_message(changes, key, guesses, references, settings.rules)
    return Material(standing, changes, key, guesses, draft, references, settings.rules)


def _read_text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{what} {path!r} cannot be read: {error}", code="usage", hint="name a text file"
        ) from error


def _work(
    repository: git.Repo, outcome: Outcome, options: Options, ask: Callable[[str], bool] | None
) -> None:
    """Does what was asked for. What others see comes first, and what is here moves last.

    So a push that is refused, a gh that fails, or a stop in the middle finds branch, index and
    files as they were, and there is nothing to restore.
    """
    standing = outcome.standing
    root = root_of(repository)
    if options.push:
        github.confirm_login(root)
    new, base = standing.head, standing.base
    if options.rewrite:
        confirm_version(repository)
        base = _fetched(repository, standing.base)
        new = _squashed(repository, outcome, base)
    place = Placing(repository, standing.head, new) if options.rewrite else None
    send = _planned_push(repository, outcome, options, new) if options.push else None
    _confirm(outcome, options, base, new, send, ask)
    if send is not None:
        _send(repository, outcome, options, send, place, base, new)
    elif place is not None:
        place.move(_refs(repository, outcome, base, new, None))
    outcome.done.extend(_done_lines(outcome))


def _fetched(repository: git.Repo, base: Base) -> Base:
    if base.remote is None:
        return base
    return base._replace(commit=remote.fetch_branch(repository, base.remote, base.name))


def _squashed(repository: git.Repo, outcome: Outcome, base: Base) -> str:
    """Writes the one commit into git's store, where nothing points to it yet."""
    message, rules = outcome.message or "", outcome.material.rules
    problems = check_message(message, None, rules)
    if problems:
        said = "; ".join(f"line {each.line}: {each.message}" for each in problems[:3])
        raise RequestError(
            f"the message of the one commit has not the form: {said}",
            code="message_invalid",
            hint="give another --title, or the whole message with --message FILE",
        )
    tree = squashed_tree(repository, outcome.standing, base)
    if tree == repository.commit(base.commit).tree.hexsha:
        raise ScaffoldError(
            f"{base.name} has all that {outcome.standing.branch} changes",
            code="nothing_to_propose",
            hint="the work seems to be merged already",
        )
    return write_commit(repository, outcome.standing, base, tree, message)


def _planned_push(
    repository: git.Repo, outcome: Outcome, options: Options, new: str
) -> remote.Push:
    name = outcome.standing.base.remote or repository.remotes[0].name
    branch = outcome.standing.branch
    seen = _ref(repository, f"refs/remotes/{name}/{branch}")
    plan = remote.plan_push(repository, name, branch, new, seen)
    if plan.is_forced and not options.may_force:
        raise ScaffoldError(
            f"{name}/{branch} has {len(plan.lost)} commits that the push would replace: "
            f"{'; '.join(plan.lost[:3])}",
            code="push_refused",
            hint="--force-with-lease replaces them, if the branch is still as it was fetched",
        )
    return plan


def _confirm(
    outcome: Outcome,
    options: Options,
    base: Base,
    new: str,
    send: remote.Push | None,
    ask: Callable[[str], bool] | None,
) -> None:
    if options.agreed:
        return
    plan = "".join(f"{line}\n" for line in _plan(outcome, options, base, new, send))
    if ask is None:
        raise RequestError(
            "the plan has to be agreed to, and nobody can be asked",
            code="unconfirmed",
            hint=f"add --yes for this plan:\n{plan.rstrip()}",
        )
    if not ask(plan):
        raise ScaffoldError("stopped; nothing was changed", code="aborted", hint="")


def _plan(
    outcome: Outcome, options: Options, base: Base, new: str, send: remote.Push | None
) -> list[str]:
    standing, lines = outcome.standing, list[str]()
    if options.rewrite:
        lines.append(
            f"rewrite    {len(standing.work)} commits of {standing.branch} become {new[:9]} on "
            f"{base.name} {base.commit[:9]}; the backup is {standing.head[:9]}"
        )
        lines.append(f"           {(outcome.message or '').partition(chr(10))[0]}")
    if send is not None:
        what = f"replacing {len(send.lost)} commits there" if send.is_forced else "adding to it"
        lines.append(
            f"push       {send.remote}/{send.branch}: {what if send.old else 'a new branch'}"
        )
        lines += [f"           lost: {line}" for line in send.lost]
        lines.append(f"request    {outcome.title}")
    return lines


def _send(
    repository: git.Repo,
    outcome: Outcome,
    options: Options,
    send: remote.Push,
    place: Placing | None,
    base: Base,
    new: str,
) -> None:
    """Pushes, opens the pull request and moves what is here; the push is undone if that fails."""
    try:
        if send.old != new:
            remote.push(repository, send)
        outcome.request = _request(root_of(repository), outcome, options)
        outcome.pushed = {**send._asdict(), "lost": list(send.lost)}
        refs = _refs(repository, outcome, base if place else None, new, send)
        if place is not None:
            place.move(refs)
        elif refs:
            move_refs(repository, refs)
    except BaseException as error:
        # Without --rewrite the commits are the author's own, and may stay where they were pushed.
        if place is None or send.old == new:
            raise
        if place.is_done:  # a stop that came too late
            return
        if not remote.take_back(repository, send) and isinstance(error, ScaffoldError):
            raise _left_behind(error, send) from error
        raise


def _left_behind(error: ScaffoldError, send: remote.Push) -> ScaffoldError:
    where = f"{send.remote}/{send.branch}"
    return ScaffoldError(
        f"{error.message}; {where} may stand at {send.new[:9]}, and could not be set back",
        code=error.code,
        hint=f"{error.hint}; git fetch {send.remote} shows where {where} stands",
    )


def _request(root: Path, outcome: Outcome, options: Options) -> dict[str, Any]:
    standing = outcome.standing
    there = github.open_request(root, standing.branch)
    if there is None:
        url = github.create_request(
            root, standing.branch, standing.base.name, outcome.title,
            with_mark(outcome.body), is_draft=options.is_draft,
        )  # fmt: skip
        return {"action": "created", "number": None, "url": url}
    # What a person wrote there stays, unless a text is given.
    is_ours = is_untouched(there.body)
    body = with_mark(outcome.body) if options.body is not None or is_ours else None
    title = outcome.title if options.title is not None or is_ours else None
    github.edit_request(root, there.number, base=standing.base.name, title=title, body=body)
    return {"action": "edited", "number": there.number, "url": there.url}


def _refs(
    repository: git.Repo, outcome: Outcome, base: Base | None, new: str, send: remote.Push | None
) -> list[RefMove]:
    """Returns the refs that move, all at once: branch, backup, and what is known of the remote."""
    standing, moves = outcome.standing, list[RefMove]()
    if base is not None:
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        backup = f"{BACKUPS}/{standing.branch}/{time}"
        moves = [
            RefMove(backup, None, standing.head),
            RefMove(f"refs/heads/{standing.branch}", standing.head, new),
        ]
        outcome.rewritten = {"old": standing.head, "new": new, "backup": backup}
        if base.remote is not None and base.commit != standing.base.commit:
            moves.append(RefMove(base.ref, standing.base.commit, base.commit))
    if send is not None:
        ref = f"refs/remotes/{send.remote}/{send.branch}"
        old = _ref(repository, ref)
        moves += [RefMove(ref, old, new)] if old != new else []
    return moves


def _ref(repository: git.Repo, name: str) -> str | None:
    found: str = repository.git.rev_parse("--verify", "--quiet", name, with_exceptions=False)
    return found or None


def _done_lines(outcome: Outcome) -> list[str]:
    lines: list[str] = []
    if outcome.rewritten:
        made = outcome.rewritten
        lines.append(f"rewritten  {outcome.standing.branch} is {made['new'][:9]} now")
        lines.append(f"backup     {made['backup']} is {made['old'][:9]}")
        lines.append(f"           git reset --hard {made['backup']} takes it back")
    if outcome.pushed:
        made = outcome.pushed
        lines.append(f"pushed     {made['remote']}/{made['branch']} is {made['new'][:9]}")
    if outcome.request:
        lines.append(f"{outcome.request['action']:<10} {outcome.request['url']}")
    return lines


def _report(
    outcome: Outcome,
    options: Options,
    failed: list[Check],
    error: ScaffoldError | None = None,
) -> Report:
    """Returns the report; what keeps the branch back is its error."""
    if failed:
        error = ScaffoldError(
            f"{outcome.standing.branch} is not ready: " + "; ".join(each.said for each in failed),
            code="not_ready",
            hint="\n".join(each.hint for each in failed if each.hint),
        )
    conflicts = error.conflicts if isinstance(error, ConflictError) else ()
    extra = {**_extra(outcome), "conflicts": [each._asdict() for each in conflicts]}
    warnings = [unread_warning(outcome.material.key)]
    return Report(
        COMMAND,
        ok=error is None,
        text=_text(outcome, options, conflicts),
        warnings=tuple(each for each in warnings if each),
        extra={"pull_request": extra},
        error=error,
        dry_run=options.dry_run,
    )


def _text(outcome: Outcome, options: Options, conflicts: tuple[Any, ...]) -> str:
    rows: list[str] = []
    for each in outcome.checks:
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
    elif not conflicts and outcome.title:
        rows += ["", outcome.title, "", outcome.body.rstrip("\n")]
        if options.rewrite and outcome.message:
            rows += ["", "The one commit:", "", outcome.message.rstrip("\n")]
    return "\n".join(rows) + "\n"


def _extra(outcome: Outcome) -> dict[str, Any]:
    standing, material = outcome.standing, outcome.material
    return {
        "branch": standing.branch,
        "head": standing.head,
        "base": {**standing.base._asdict(), "merge_base": standing.merge_base},
        "behind": standing.behind,
        "commits": [
            {"name": each.name, "subject": each.subject, "author": each.author, "date": each.date}
            for each in standing.work
        ],
        "checks": [each._asdict() for each in outcome.checks],
        "title": outcome.title,
        "body": outcome.body,
        "message": outcome.message,
        "template": outcome.template.path,
        "key_changes": key_changes_json(material.key),
        "breaking": breaking_lines(material),
        "references": list(all_references(material)),
        "rewritten": outcome.rewritten,
        "pushed": outcome.pushed,
        "request": outcome.request,
    }
