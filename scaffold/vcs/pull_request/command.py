"""The command `scaffold pr`: it looks, words, and, where asked to, rewrites, pushes and opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scaffold.errors import RequestError, ScaffoldError
from scaffold.report import Report
from scaffold.vcs.changes import changes_between
from scaffold.vcs.commit.convention import learn_convention
from scaffold.vcs.commit.conventional import Rules, check_message, read_header
from scaffold.vcs.commit.issue_references import branch_references
from scaffold.vcs.commit.key_changes import key_changes
from scaffold.vcs.commit.settings import read_commit_settings
from scaffold.vcs.pull_request import github, remote
from scaffold.vcs.pull_request.body import (
    Material,
    all_references,
    breaking_lines,
    is_untouched,
    sections_of,
    squash_message,
    title_of,
    with_mark,
)
from scaffold.vcs.pull_request.branch import (
    Base,
    BranchState,
    find_base,
    find_branch,
    find_push_remote,
    find_uncommitted,
)
from scaffold.vcs.pull_request.preflight import Actions, Check, preflight
from scaffold.vcs.pull_request.report import Outcome, done_lines, report_of
from scaffold.vcs.pull_request.rewrite import RefMove, TreeMove, move_refs
from scaffold.vcs.pull_request.risks import Surroundings
from scaffold.vcs.pull_request.squash import (
    ConflictError,
    confirm_version,
    scratch_store,
    squashed_tree,
    write_commit,
)
from scaffold.vcs.pull_request.template import fill_template, find_template
from scaffold.vcs.repository import Repository, open_repository
from scaffold.vcs.signals import Stopped, listening, stoppable, undisturbed

BACKUPS = "refs/scaffold/backup"


class Options(NamedTuple):
    """The options of the command."""

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
    no_verify: bool = False
    tested: tuple[str, ...] = ()
    look_around: Callable[..., Surroundings] = lambda *_: Surroundings()
    """Finds what is near to a change, by the tables of reviews, which import this package."""


def pull_request(folder: Path, options: Options, ask: Callable[[str], bool] | None) -> Report:
    """Prepare the pull request of the branch that is checked out.

    Args:
        folder: A folder of the repository.
        options: What was asked for.
        ask: Shows a plan and asks for a yes; None where nobody can be asked.

    Raises:
        ScaffoldError: What was asked for cannot be done; then nothing was changed.
    """
    with open_repository(folder) as repository:
        outcome = _look(repository, options)
        tell = partial(report_of, outcome, dry_run=options.dry_run, is_rewrite=options.rewrite)
        # All checks are reported at once, so that one run shows everything there is to fix.
        failed = [check for check in outcome.checks if check.state == "failed"]
        if failed or not (options.rewrite or options.push):
            return tell(failed)
        try:
            if options.dry_run:
                _rehearse(repository, outcome, options)
                return tell([])
            with stoppable():
                _carry_out(repository, outcome, options, ask)
        except ConflictError as error:
            return tell([], error)
        return tell([])


def _look(repository: Repository, options: Options) -> Outcome:
    """Read everything and word the texts; nothing is written and no network is used."""
    root = repository.root
    base = find_base(repository, options.base, options.remote)
    branch = find_branch(repository, base)
    rules = learn_convention(root, read_commit_settings(root), base.commit).rules
    how = Actions(options.rewrite, options.push)
    uncommitted = find_uncommitted(repository)
    checks = preflight(repository, branch, uncommitted, rules, how)
    return _worded(repository, branch, checks, rules, options)


def _worded(
    repository: Repository,
    branch: BranchState,
    checks: tuple[Check, ...],
    rules: Rules,
    options: Options,
) -> Outcome:
    root = repository.root
    material = _material(repository, branch, rules, options)
    template = find_template(root, options.template)
    message = _read_text(options.message, "the message") if options.message else None
    title = options.title or (message or "").strip().partition("\n")[0]
    if not title:
        title = title_of(material) if branch.commits else ""
    if options.body is not None:
        body = _read_text(options.body, "the body")
    else:
        header = read_header(title)
        type_ = header.type if header else ""
        references = all_references(material)
        is_breaking = bool(breaking_lines(material))
        body = fill_template(
            template.text, sections_of(material), type_, references, is_breaking=is_breaking
        )
    if options.rewrite and message is None and branch.commits:
        message = squash_message(material, title)
    return Outcome(branch, checks, title, body, message, template, material)


def _material(
    repository: Repository, branch: BranchState, rules: Rules, options: Options
) -> Material:
    old = branch.merge_base or branch.base.commit
    changes = changes_between(repository, old, branch.head)
    key = key_changes(repository, changes)
    near = options.look_around(repository, old, branch.head, changes, key)
    references = branch_references(branch.name)
    return Material(branch, changes, key, references, rules, near, options.tested)


def _read_text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{what} {path!r} cannot be read: {error}", code="usage", hint="name a text file"
        ) from error


def _carry_out(
    repository: Repository, outcome: Outcome, options: Options, ask: Callable[[str], bool] | None
) -> None:
    """Carry out the plan: the remote and the request first, the local branch last.

    So a push that is refused, a gh that fails, or a stop in the middle finds branch, index and
    files as they were, and there is nothing to restore.
    """
    branch = outcome.branch
    root = repository.root
    # First of all, as a login that is missing makes everything else pointless.
    if options.push:
        github.confirm_login(root)
    new, base = branch.head, branch.base
    if options.rewrite:
        confirm_version(repository)
        base = _fetched(repository, branch.base)
        tree = _merged(repository, outcome, base)
        # Nothing points to the commit yet.
        new = write_commit(repository, branch, base, tree, outcome.message or "")
    place = None
    if options.rewrite:
        place = TreeMove(repository, branch.name, branch.head, new)
    send = _planned_push(repository, outcome, options, new) if options.push else None
    _confirm(outcome, options, base, new, send, ask)
    if send is not None:
        _send(repository, outcome, options, send, place, base, new)
    elif place is not None:
        place.move(_refs(repository, outcome, base, new, None))
    outcome.done.extend(done_lines(outcome))


def _rehearse(repository: Repository, outcome: Outcome, options: Options) -> None:
    """End as the real run would, as of the last fetch: the merge goes into a folder of its own.

    Raises:
        ScaffoldError: What the real run would raise.
    """
    branch = outcome.branch
    if options.rewrite:
        confirm_version(repository)
        with scratch_store(repository) as env:
            tree = _merged(repository, outcome, branch.base, env)
            TreeMove(repository, branch.name, branch.head, tree, env)
    if options.push:
        name = find_push_remote(repository, branch.name, branch.base)
        seen = repository.commit_of(f"refs/remotes/{name}/{branch.name}")
        new = branch.base.commit if options.rewrite else branch.head
        if seen is not None:
            lost = repository.call("log", "--format=%h %s", f"{new}..{seen}", "--").splitlines()
            _confirm_lost(f"{name}/{branch.name}", lost, options)


def _fetched(repository: Repository, base: Base) -> Base:
    if base.remote is None:
        return base
    return base._replace(commit=remote.fetch_branch(repository, base.remote, base.name))


def _merged(
    repository: Repository, outcome: Outcome, base: Base, env: dict[str, str] | None = None
) -> str:
    """Return the tree of the one commit, once its message has the form that is asked for."""
    message, rules = outcome.message or "", outcome.material.rules
    problems = check_message(message, None, rules)
    if problems:
        said = "; ".join(f"line {each.line}: {each.message}" for each in problems[:3])
        raise RequestError(
            f"the message of the one commit has not the form: {said}",
            code="message_invalid",
            hint="give another --title, or the whole message with --message FILE",
        )
    tree = squashed_tree(repository, outcome.branch, base, env)
    # Equal trees mean an empty commit, whatever the histories are.
    if tree == repository.look("rev-parse", f"{base.commit}^{{tree}}"):
        raise ScaffoldError(
            f"{base.name} has all that {outcome.branch.name} changes",
            code="nothing_to_propose",
            hint="the work seems to be merged already",
        )
    return tree


def _planned_push(
    repository: Repository, outcome: Outcome, options: Options, new: str
) -> remote.Push:
    branch = outcome.branch
    name = find_push_remote(repository, branch.name, branch.base)
    assert name is not None, "the preflight refuses a push without a remote"
    # The author has seen the remote's branch only as of the last fetch.
    seen = repository.commit_of(f"refs/remotes/{name}/{branch.name}")
    plan = remote.plan_push(repository, name, branch.name, new, seen)
    _confirm_lost(f"{name}/{branch.name}", plan.lost, options)
    return plan if options.no_verify else plan._replace(hooks=remote.hooks_folder(repository))


def _confirm_lost(place: str, lost: Sequence[str], options: Options) -> None:
    if lost and not options.may_force:
        raise ScaffoldError(
            f"{place} has {len(lost)} commits that the push would replace: {'; '.join(lost[:3])}",
            code="push_refused",
            hint="--force-with-lease replaces them, if the branch is still as it was fetched",
        )


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
            "the plan needs confirmation, and there is no terminal to ask",
            code="unconfirmed",
            hint=f"add --yes for this plan:\n{plan.rstrip()}",
        )
    # A prompt waits on a person, who may answer with Ctrl-C.
    with listening():
        is_agreed = ask(plan)
    if not is_agreed:
        raise ScaffoldError("stopped; nothing was changed", code="aborted", hint="")


def _plan(
    outcome: Outcome, options: Options, base: Base, new: str, send: remote.Push | None
) -> list[str]:
    branch, lines = outcome.branch, list[str]()
    if options.rewrite:
        lines.append(
            f"rewrite    {len(branch.commits)} commits of {branch.name} become {new[:9]} on "
            f"{base.name} {base.commit[:9]}; the backup is {branch.head[:9]}"
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
    repository: Repository,
    outcome: Outcome,
    options: Options,
    send: remote.Push,
    place: TreeMove | None,
    base: Base,
    new: str,
) -> None:
    """Push, open the pull request and move what is here; the push is undone if that fails."""
    try:
        if send.old != new:
            remote.push(repository, send)
        outcome.request = _request(repository, outcome, options, send.remote)
        fields = ("remote", "branch", "old", "new")
        outcome.pushed = {each: getattr(send, each) for each in fields} | {"lost": list(send.lost)}
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
        with undisturbed():
            is_back = remote.take_back(repository, send)
        if not is_back and isinstance(error, ScaffoldError | Stopped):
            raise _left_behind(error, send) from error
        raise


def _left_behind(error: ScaffoldError | Stopped, send: remote.Push) -> ScaffoldError:
    where = f"{send.remote}/{send.branch}"
    told = error if isinstance(error, ScaffoldError) else ScaffoldError(str(error), code="aborted")
    how = f"git fetch {send.remote} shows the commit of {where}"
    return ScaffoldError(
        f"{told.message}; {where} may be at {send.new[:9]}, and could not be set back",
        code=told.code,
        hint=f"{told.hint}; {how}" if told.hint else how,
    )


def _request(
    repository: Repository, outcome: Outcome, options: Options, pushed_to: str
) -> dict[str, Any]:
    branch, root = outcome.branch, repository.root
    fork = github.Fork()
    # With a fork, gh has to be told where the request goes and whose branch it is.
    if branch.base.remote not in (None, pushed_to):
        urls = (("remote", "get-url", str(each)) for each in (branch.base.remote, pushed_to))
        fork = github.fork_of(*(repository.look(*each) for each in urls))
    there = github.open_request(root, branch.name, fork)
    if there is None:
        url = github.create_request(
            root, branch.name, branch.base.name, outcome.title,
            with_mark(outcome.body), fork, is_draft=options.is_draft,
        )  # fmt: skip
        return {"action": "created", "number": None, "url": url}
    # What a person wrote there stays, unless a text is given.
    is_ours = is_untouched(there.body)
    body = with_mark(outcome.body) if options.body is not None or is_ours else None
    title = outcome.title if options.title is not None or is_ours else None
    github.edit_request(root, there.number, fork, base=branch.base.name, title=title, body=body)
    return {"action": "edited", "number": there.number, "url": there.url}


def _refs(
    repository: Repository, outcome: Outcome, base: Base | None, new: str, send: remote.Push | None
) -> list[RefMove]:
    """Return the refs that move, all at once: branch, backup, and what is known of the remote."""
    branch, moves = outcome.branch, list[RefMove]()
    if base is not None:
        # With microseconds, so that two rewrites in one second keep two backups.
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        backup = f"{BACKUPS}/{branch.name}/{time}"
        moves = [
            RefMove(backup, None, branch.head),
            RefMove(f"refs/heads/{branch.name}", branch.head, new),
        ]
        outcome.rewritten = {"old": branch.head, "new": new, "backup": backup}
        # Whoever has fetched meanwhile, an editor perhaps, has moved it already.
        is_unmoved = base.commit != branch.base.commit == repository.commit_of(base.ref)
        if base.remote is not None and is_unmoved:
            moves.append(RefMove(base.ref, branch.base.commit, base.commit))
    if send is not None:
        ref = f"refs/remotes/{send.remote}/{send.branch}"
        old = repository.commit_of(ref)
        moves += [RefMove(ref, old, new)] if old != new else []
    return moves
