"""`scaffold skills install`: skills of others are installed, renewed, checked and taken back."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scaffold.errors import ConflictError, RequestError, ScaffoldError, nearest
from scaffold.report import Report
from scaffold.skills.install.address import Source, parse_source, with_revision
from scaffold.skills.install.lock import LockedSkill, read_lock, source_text
from scaffold.skills.install.permissions import find_permissions
from scaffold.skills.install.places import (
    agent_roots_for,
    check_free,
    check_free_files,
    distinct,
    roots_for,
)
from scaffold.skills.install.plan import (
    Found,
    file_states,
    find,
    grown,
    locked_files,
    plan_files,
)
from scaffold.skills.install.render import render
from scaffold.skills.install.run import (
    COMMAND,
    Options,
    Outcome,
    SkillPlan,
    carry_out,
    compare,
    target_of,
)
from scaffold.skills.install.source import (
    Opened,
    Skill,
    open_source,
    take_again,
    take_skills,
)
from scaffold.skills.install.subagents import (
    is_subagent,
    prefixed,
    subagent_path,
    subagent_permissions,
    unprefixed,
)
from scaffold.transaction.leftovers import leftover_warning


@dataclass(frozen=True)
class InstallOptions:
    """How skills are to be installed.

    Args:
        clients: For whom; none for all.
        revision: The revision of the source, where it is not part of it.
        grant_tools: Whether what a skill grants itself is left in.
        allow_hidden: Files whose hidden text is agreed to, as ``SKILL/FILE``.
        overwrite: Edited files that are given up, relative to the target.
    """

    clients: tuple[str, ...] = ()
    prefix: str = ""
    revision: str = ""
    grant_tools: bool = False
    allow_hidden: tuple[str, ...] = ()
    overwrite: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    """A skill as it was read, with the name it gets and where it came from."""

    skill: Skill
    name: str
    opened: Opened


def install_skills(
    source: str, wanted: Sequence[str], here: Path, how: InstallOptions, options: Options
) -> Report:
    """Install skills of a source; all of them where none is named.

    Args:
        source: A folder, an address, or "builtin"; each but the last may end in ``@REVISION``.

    Raises:
        ScaffoldError: The source cannot be read, a skill is unsound, or its name is taken.
    """
    parsed = parse_source(source, how.revision, here)
    prefix = how.prefix.rstrip("-") + "-" if how.prefix else ""
    # The fetch lies outside of the plan, which runs twice: before and under the lock.
    with _opened([parsed]) as opened:
        reads = [
            _Read(skill, prefixed(prefix, skill.name, "--prefix"), opened[parsed])
            for skill in take_skills(opened[parsed], wanted)
        ]
        _check_once(reads, source)
        _check_allowed(how.allow_hidden, reads)

        def plan(locked: Mapping[str, LockedSkill]) -> list[SkillPlan]:
            planner = _Planner(how, options)
            return [planner.install(read, locked.get(read.name), prefix) for read in reads]

        return carry_out(plan, options)


def update_skills(names: Sequence[str], how: InstallOptions, options: Options) -> Report:
    """Renew installed skills from where they came from; all of them where none is named.

    Raises:
        ScaffoldError: No such skill is installed, its source cannot be read or lacks it, or a file
            was edited that is to change.
    """
    chosen = _chosen(read_lock(options.target), names)
    sources = {
        skill.name: with_revision(origin, how.revision) if how.revision else origin
        for skill in chosen
        for origin in [skill.origin(options.target)]
    }
    with _opened(sources.values()) as opened:
        reads: dict[str, _Read] = {}
        for skill in chosen:
            source = opened[sources[skill.name]]
            # In the source the skill has its name without the prefix.
            again = take_again(source, skill.path, unprefixed(skill.prefix, skill.name))
            reads[skill.name] = _Read(again, skill.name, source)
        _check_allowed(how.allow_hidden, list(reads.values()))

        def plan(locked: Mapping[str, LockedSkill]) -> list[SkillPlan]:
            now = _chosen(locked, list(reads))
            _check_overwrite(how.overwrite, now)
            return [_Planner(how, options).update(reads[skill.name], skill) for skill in now]

        return carry_out(plan, options)


def remove_skills(names: Sequence[str], discard: Sequence[str], options: Options) -> Report:
    """Take installed skills back: exactly what was written, and only if nobody edited it.

    Args:
        discard: Those whose edited files go too, once they are copied.

    Raises:
        ScaffoldError: No such skill is installed, or a file of it was edited.
    """
    if not names:
        raise RequestError("--remove names no skill", code="usage", hint="name the skills")
    wrong = [name for name in discard if name not in names]
    if wrong:
        raise RequestError(
            f"--discard-edits names {wrong[0]!r}, which is not to be removed", code="usage"
        )

    def plan(locked: Mapping[str, LockedSkill]) -> list[SkillPlan]:
        plans: list[SkillPlan] = []
        for skill in _chosen(locked, names):
            # --discard-edits names a skill, which gives up every file of it.
            given_up = [file.path for file in skill.files if skill.name in discard]
            files = plan_files(options.target, skill.files, {}, given_up)
            plans.append(SkillPlan(skill.name, "removed", None, files))
        return plans

    return carry_out(plan, options)


def check_skills(names: Sequence[str], options: Options) -> Report:
    """Return whether installed skills are still as they were written; reads files alone.

    Raises:
        ScaffoldError: No such skill is installed, or the lock file cannot be read.
    """
    report = Report(COMMAND, target_of(options), warnings=leftover_warning(options.target))
    rows: list[str] = []
    found: list[dict[str, object]] = []
    for skill in _chosen(read_lock(options.target), names):
        states = dict(file_states(options.target, skill))
        wrong = {path: state for path, state in states.items() if state != "intact"}
        rows += [f"{state:<10} {path}" for path, state in wrong.items()]
        rows += [] if wrong else [f"{'intact':<10} {skill.name}  {skill.described()}"]
        files = [{"path": path, "state": state} for path, state in states.items()]
        found.append({"name": skill.name, "outcome": "changed" if wrong else "intact"})
        found[-1] |= {"source": skill.source, "commit": skill.commit, "files": files}
        report.ok = report.ok and not wrong
    report.extra["skills"] = found
    report.text = "\n".join(rows or ["nothing is installed"]) + "\n"
    return report


@dataclass(frozen=True)
class _Planner:
    """What becomes of skills, by how they are to be installed."""

    how: InstallOptions
    options: Options

    def install(self, read: _Read, old: LockedSkill | None, prefix: str) -> SkillPlan:
        """Plan to install a skill; the same one again brings back files that somebody deleted."""
        roots = self._roots(read.name)
        new = self._locked(read, prefix, roots, self.how.grant_tools, _allowed(self.how, read))
        if old is None:
            self._check_free(read, roots, ())
            return self._plan(read, None, new, "installed")
        # Two skills of one name: the second would replace the first.
        if (old.source, old.path, old.kind) != (new.source, new.path, new.kind):
            raise ConflictError(
                f"{read.name} is installed from {old.described()} already",
                code="skill_exists",
                hint="install it under another name with --prefix WORD, or "
                f"--remove {read.name} first",
            )
        # The same skill with other content or rights is for --update, which shows what has changed.
        if _is_other(old, new):
            words = ["scaffold skills install --update", read.name]
            words += [f"--client {client}" for client in self.how.clients]
            words += ["--grant-tools"] * self.how.grant_tools + ["--user"] * self.options.user
            raise ConflictError(
                f"{read.name} is installed otherwise, from {old.described()}",
                code="skill_exists",
                hint=" ".join(words),
            )
        # A deleted file counts as given up, so that the plan writes it again.
        target = self.options.target
        gone = [file.path for file in old.files if find(target, file.path) == Found(None)]
        files = render(read.skill, read.name, old.roots, grant_tools=old.grant_tools)
        planned = plan_files(target, old.files, files, gone)
        if not gone:
            return SkillPlan(read.name, "unchanged", old, planned)
        # Files that come back are listed like those of a first installation.
        return SkillPlan(read.name, "installed", old, planned, tuple(compare(None, old)))

    def update(self, read: _Read, old: LockedSkill) -> SkillPlan:
        """Plan to renew an installed skill."""
        roots = self._roots(read.name) if self.how.clients else old.roots
        grant_tools = self.how.grant_tools or old.grant_tools
        # What was agreed to once stays agreed to; an update only adds.
        allowed = tuple(sorted({*old.allow_hidden, *_allowed(self.how, read)}))
        new = self._locked(read, old.prefix, roots, grant_tools, allowed)
        # Only a folder that is new may hold somebody else's skill.
        if not set(roots) <= set(old.roots):
            self._check_free(read, roots, old.roots)
        return self._plan(read, old, new, "updated")

    def _roots(self, name: str) -> tuple[str, ...]:
        """Return the folders that a skill or subagent is installed to."""
        roots = roots_for(self.how.clients)
        if is_subagent(name):
            roots = agent_roots_for(self.how.clients, user=self.options.user)
        return distinct(self.options.target, roots)

    def _check_free(self, read: _Read, roots: Sequence[str], own: Sequence[str]) -> None:
        source, target = str(read.opened.source), self.options.target
        if is_subagent(read.name):
            paths = [subagent_path(root, read.name) for root in roots if root not in own]
            check_free_files(target, paths, source)
        else:
            check_free(target, read.name, own, source)

    def _plan(
        self, read: _Read, old: LockedSkill | None, new: LockedSkill, outcome: Outcome
    ) -> SkillPlan:
        files = render(read.skill, read.name, new.roots, grant_tools=new.grant_tools)
        before = old.files if old else ()
        planned = plan_files(self.options.target, before, files, self.how.overwrite)
        is_same = old is not None and not _is_other(old, new) and not planned.changes
        more = grown(old.permissions if old else (), new.permissions)
        return SkillPlan(
            read.name,
            "unchanged" if is_same else outcome,
            new,
            planned,
            tuple(compare(old, new)),
            tuple(f"{each.kind} {each.file}:{each.line} {each.what}" for each in more),
        )

    def _locked(
        self,
        read: _Read,
        prefix: str,
        roots: tuple[str, ...],
        grant_tools: bool,
        allowed: tuple[str, ...],
    ) -> LockedSkill:
        """Return what the lock file is to say of a skill."""
        source, skill = read.opened.source, read.skill
        brought = find_permissions(skill.files, grant_tools=grant_tools, allowed=allowed)
        if is_subagent(read.name):
            for path, file in skill.files.items():
                brought += subagent_permissions(path, file.data, grant_tools=grant_tools)
        return LockedSkill(
            name=read.name,
            source=source_text(source, self.options.target, user=self.options.user),
            kind=source.kind,
            revision=source.revision,
            commit=skill.commit,
            version=read.opened.version,
            path=skill.path,
            prefix=prefix,
            grant_tools=grant_tools,
            roots=roots,
            allow_hidden=allowed,
            permissions=tuple(brought),
            files=locked_files(render(skill, read.name, roots, grant_tools=grant_tools)),
        )


def _is_other(old: LockedSkill, new: LockedSkill) -> bool:
    """Return whether a skill is to be another one, or elsewhere; the commit alone is no matter."""
    return (old.files, old.roots, old.grant_tools) != (new.files, new.roots, new.grant_tools)


@contextmanager
def _opened(sources: Iterable[Source]) -> Generator[dict[Source, Opened]]:
    """Open every source once, and drop what was fetched at the end."""
    import tempfile  # 3 ms, and checks and removals do without

    try:
        folder = tempfile.TemporaryDirectory(prefix="scaffold-skills-")
    except OSError as error:
        raise ScaffoldError(
            f"no temporary folder can be made: {error.strerror or error}",
            code="write_failed",
            hint="check free space and permissions, or set TMPDIR",
        ) from error
    with folder as scratch:
        found: dict[Source, Opened] = {}
        for source in sources:
            if source not in found:
                place = Path(scratch) / str(len(found))
                place.mkdir()
                found[source] = open_source(source, place)
        yield found


def _chosen(locked: Mapping[str, LockedSkill], names: Sequence[str]) -> list[LockedSkill]:
    wrong = [name for name in names if name not in locked]
    if wrong:
        raise ScaffoldError(
            f"no skill {wrong[0]!r} was installed here{nearest(wrong[0], locked)}",
            code="skill_unknown",
            hint="`scaffold skills install --check` lists what was installed",
        )
    return [locked[name] for name in dict.fromkeys(names or sorted(locked))]


def _check_once(reads: Sequence[_Read], source: str) -> None:
    names = [read.name for read in reads]
    # Two folders may hold a SKILL.md of the same name.
    twice = [read for read in reads if names.count(read.name) > 1]
    if twice:
        places = ", ".join(read.skill.path for read in twice)
        raise ScaffoldError(
            f"{source} has several skills of the name {twice[0].name!r}: {places}",
            code="skill_ambiguous",
            hint="name one folder of them, or rename one",
        )


def _allowed(how: InstallOptions, read: _Read) -> tuple[str, ...]:
    """Return the files of a skill that --allow-hidden names."""
    start = f"{read.name}/"
    return tuple(
        sorted(each.removeprefix(start) for each in how.allow_hidden if each.startswith(start))
    )


def _check_allowed(named: Iterable[str], reads: Sequence[_Read]) -> None:
    known = {f"{read.name}/{path}" for read in reads for path in read.skill.files}
    wrong = [each for each in named if each not in known]
    if wrong:
        raise RequestError(
            f"--allow-hidden names {wrong[0]!r}, which is not a file of a skill",
            code="usage",
            hint="write it as SKILL/FILE, such as add-thing/SKILL.md",
        )


def _check_overwrite(named: Iterable[str], skills: Sequence[LockedSkill]) -> None:
    known = {f"{root}/{skill.name}/" for skill in skills for root in skill.roots}
    known |= {file.path for skill in skills for file in skill.files}
    wrong = [each for each in named if not each.startswith(tuple(known))]
    if wrong:
        raise RequestError(
            f"--overwrite names {wrong[0]!r}, which is not a file of a skill that is renewed",
            code="usage",
            hint="write it as it is reported, such as .agents/skills/add-thing/SKILL.md",
        )
