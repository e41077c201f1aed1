"""The command `scaffold pr`: it looks, words, and, where asked to, rewrites, pushes and opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scaffold.errors import RequestError, ScaffoldError
from scaffold.report import Report
from scaffold.vcs.changes import changes_between
from scaffold.vcs.commit.command import branch_references
from scaffold.vcs.commit.convention import learn_convention
from scaffold.vcs.commit.conventional import check_message, read_header
from scaffold.vcs.commit.key_changes import key_changes
from scaffold.vcs.commit.settings import read_commit_settings
from scaffold.vcs.pull_request import github, remote
from scaffold.vcs.pull_request.body import (
    Material,
    Surroundings,
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
    preflight,
)
from scaffold.vcs.pull_request.report import Outcome, done_lines, report_of
from scaffold.vcs.pull_request.rewrite import RefMove, TreeMove, move_refs
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
        work = _Work(repository, outcome, options)
        try:
            if options.dry_run:
                work.rehearse()
                return tell([])
            with stoppable():
                work.carry_out(ask)
        except ConflictError as error:
            return tell([], error)
        return tell([])


def _look(repository: Repository, options: Options) -> Outcome:
    """Read everything and word the texts; nothing is written and no network is used."""
    root = repository.root
    base = find_base(repository, options.base, options.remote)
    branch = find_branch(repository, base)
    rules = learn_convention(root, read_commit_settings(root), base.commit).rules
    checks = preflight(repository, branch, rules, is_rewrite=options.rewrite, is_push=options.push)
    old = branch.merge_base or base.commit
    changes = changes_between(repository, old, branch.head)
    key = key_changes(repository, changes)
    near = options.look_around(repository, old, branch.head, changes, key)
    references = branch_references(branch.name)
    material = Material(branch, changes, key, references, rules, near, options.tested)
    template = find_template(root, options.template)
    message = _read_text(options.message, "the message") if options.message else None
    title = options.title or (message or "").strip().partition("\n")[0]
    if not title:
        title = title_of(material) if branch.commits else ""
    if options.body is not None:
        body = _read_text(options.body, "the body")
    else:
        header = read_header(title)
        body = fill_template(
            template.text,
            sections_of(material),
            header.type if header else "",
            all_references(material),
            is_breaking=bool(breaking_lines(material)),
        )
    if options.rewrite and message is None and branch.commits:
        message = squash_message(material, title)
    return Outcome(material, checks, title, body, message, template.path)


def _read_text(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{what} {path!r} cannot be read: {error}", code="usage", hint="name a text file"
        ) from error


@dataclass
class _Work:
    """What is to be done with a branch, and by which answers."""

    repository: Repository
    outcome: Outcome
    options: Options

    @property
    def branch(self) -> BranchState:
        return self.outcome.material.branch

    def carry_out(self, ask: Callable[[str], bool] | None) -> None:
        """Carry out the plan: the remote and the request first, the local branch last.

        So a push that is refused, a gh that fails, or a stop in the middle finds branch, index and
        files as they were, and there is nothing to restore.
        """
        branch, options = self.branch, self.options
        # First of all, as a login that is missing makes everything else pointless.
        if options.push:
            github.confirm_login(self.repository.root)
        new, base, place = branch.head, branch.base, None
        if options.rewrite:
            confirm_version(self.repository)
            if base.remote is not None:
                newest = remote.fetch_commit(
                    self.repository, base.remote, f"refs/heads/{base.name}"
                )
                base = base._replace(commit=newest)
            tree = self.merged(base)
            # Nothing points to the commit yet.
            message = self.outcome.message or ""
            new = write_commit(self.repository, branch, base, tree, message)
            place = TreeMove(self.repository, branch.name, branch.head, new)
        send = self.planned_push(new) if options.push else None
        self.confirm(base, new, send, ask)
        if send is not None:
            self.send(send, place, base, new)
        elif place is not None:
            place.move(self.refs(base, new, None))
        self.outcome.done.extend(done_lines(self.outcome))

    def rehearse(self) -> None:
        """End as the real run would, as of the last fetch: the merge goes into a folder of its own.

        Raises:
            ScaffoldError: What the real run would raise.
        """
        branch, repository = self.branch, self.repository
        if self.options.rewrite:
            confirm_version(repository)
            with scratch_store(repository) as env:
                tree = self.merged(branch.base, env)
                TreeMove(repository, branch.name, branch.head, tree, env)
        if self.options.push:
            name = find_push_remote(repository, branch.name, branch.base)
            seen = repository.commit_of(f"refs/remotes/{name}/{branch.name}")
            new = branch.base.commit if self.options.rewrite else branch.head
            if seen is not None:
                lost = repository.call("log", "--format=%h %s", f"{new}..{seen}", "--")
                self.confirm_lost(f"{name}/{branch.name}", lost.splitlines())

    def merged(self, base: Base, env: dict[str, str] | None = None) -> str:
        """Return the tree of the one commit, once its message has the form that is asked for."""
        message, rules = self.outcome.message or "", self.outcome.material.rules
        problems = check_message(message, None, rules)
        if problems:
            said = "; ".join(f"line {each.line}: {each.message}" for each in problems[:3])
            raise RequestError(
                f"the message of the one commit has not the form: {said}",
                code="message_invalid",
                hint="give another --title, or the whole message with --message FILE",
            )
        tree = squashed_tree(self.repository, self.branch, base, env)
        # Equal trees mean an empty commit, whatever the histories are.
        if tree == self.repository.look("rev-parse", f"{base.commit}^{{tree}}"):
            raise ScaffoldError(
                f"{base.name} has all that {self.branch.name} changes",
                code="nothing_to_propose",
                hint="the work seems to be merged already",
            )
        return tree

    def planned_push(self, new: str) -> remote.Push:
        branch, repository = self.branch, self.repository
        name = find_push_remote(repository, branch.name, branch.base)
        assert name is not None, "the preflight refuses a push without a remote"
        # The author has seen the remote's branch only as of the last fetch.
        seen = repository.commit_of(f"refs/remotes/{name}/{branch.name}")
        plan = remote.plan_push(repository, name, branch.name, new, seen)
        self.confirm_lost(f"{name}/{branch.name}", plan.lost)
        no_verify = self.options.no_verify
        return plan if no_verify else plan._replace(hooks=remote.hooks_folder(repository))

    def confirm_lost(self, place: str, lost: Sequence[str]) -> None:
        if lost and not self.options.may_force:
            said = f"{len(lost)} commits that the push would replace: {'; '.join(lost[:3])}"
            raise ScaffoldError(
                f"{place} has {said}",
                code="push_refused",
                hint="--force-with-lease replaces them, if the branch is still as it was fetched",
            )

    def confirm(
        self, base: Base, new: str, send: remote.Push | None, ask: Callable[[str], bool] | None
    ) -> None:
        if self.options.agreed:
            return
        plan = "".join(f"{line}\n" for line in self.plan(base, new, send))
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

    def plan(self, base: Base, new: str, send: remote.Push | None) -> Iterator[str]:
        branch = self.branch
        if self.options.rewrite:
            yield (
                f"rewrite    {len(branch.commits)} commits of {branch.name} become {new[:9]} on "
                f"{base.name} {base.commit[:9]}; the backup is {branch.head[:9]}"
            )
            yield f"           {(self.outcome.message or '').partition(chr(10))[0]}"
        if send is not None:
            what = f"replacing {len(send.lost)} commits there" if send.lost else "adding to it"
            yield f"push       {send.place}: {what if send.old else 'a new branch'}"
            yield from (f"           lost: {line}" for line in send.lost)
            yield f"request    {self.outcome.title}"

    def send(self, send: remote.Push, place: TreeMove | None, base: Base, new: str) -> None:
        """Push, open the pull request and move what is here; undo the push if that fails."""
        try:
            if send.old != new:
                remote.push(self.repository, send)
            self.outcome.request = self.request(send.remote)
            fields = ("remote", "branch", "old", "new")
            pushed = {each: getattr(send, each) for each in fields}
            self.outcome.pushed = pushed | {"lost": list(send.lost)}
            refs = self.refs(base if place else None, new, send)
            if place is not None:
                place.move(refs)
            elif refs:
                move_refs(self.repository, refs)
        except BaseException as error:
            # Without --rewrite the commits are the author's own, and may stay where they were
            # pushed.
            if place is None or send.old == new:
                raise
            if place.is_done:  # a stop that came too late
                return
            with undisturbed():
                is_back = remote.take_back(self.repository, send)
            if not is_back and isinstance(error, ScaffoldError | Stopped):
                raise _left_behind(error, send) from error
            raise

    def request(self, pushed_to: str) -> dict[str, Any]:
        branch, root = self.branch, self.repository.root
        outcome, options = self.outcome, self.options
        base, fork = branch.base, github.Fork()
        # With a fork, gh has to be told where the request goes and whose branch it is.
        if base.remote not in (None, pushed_to):
            urls = (("remote", "get-url", str(each)) for each in (base.remote, pushed_to))
            fork = github.fork_of(*(self.repository.look(*each) for each in urls))
        there = github.open_request(root, branch.name, fork)
        marked = with_mark(outcome.body)
        if there is None:
            texts = (branch.name, base.name, outcome.title, marked)
            url = github.create_request(root, *texts, fork, is_draft=options.is_draft)
            return {"action": "created", "number": None, "url": url}
        # What a person wrote there stays, unless a text is given.
        is_ours = is_untouched(there.body)
        body = marked if options.body is not None or is_ours else None
        title = outcome.title if options.title is not None or is_ours else None
        github.edit_request(root, there.number, fork, base=base.name, title=title, body=body)
        return {"action": "edited", "number": there.number, "url": there.url}

    def refs(self, base: Base | None, new: str, send: remote.Push | None) -> list[RefMove]:
        """Return the refs that move, all at once: branch, backup, what is known of the remote."""
        branch, moves = self.branch, list[RefMove]()
        if base is not None:
            # With microseconds, so that two rewrites in one second keep two backups.
            time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            backup = f"{BACKUPS}/{branch.name}/{time}"
            moves = [
                RefMove(backup, None, branch.head),
                RefMove(f"refs/heads/{branch.name}", branch.head, new),
            ]
            self.outcome.rewritten = {"old": branch.head, "new": new, "backup": backup}
            # Whoever has fetched meanwhile, an editor perhaps, has moved it already.
            is_unmoved = base.commit != branch.base.commit == self.repository.commit_of(base.ref)
            if base.remote is not None and is_unmoved:
                moves.append(RefMove(base.ref, branch.base.commit, base.commit))
        if send is not None:
            ref = f"refs/remotes/{send.place}"
            old = self.repository.commit_of(ref)
            moves += [RefMove(ref, old, new)] if old != new else []
        return moves


def _left_behind(error: ScaffoldError | Stopped, send: remote.Push) -> ScaffoldError:
    told = error if isinstance(error, ScaffoldError) else ScaffoldError(str(error), code="aborted")
    how = f"git fetch {send.remote} shows the commit of {send.place}"
    return ScaffoldError(
        f"{told.message}; {send.place} may be at {send.new[:9]}, and could not be set back",
        code=told.code,
        hint=f"{told.hint}; {how}" if told.hint else how,
    )
