"""The skills of a source: which there are, and one of them read with all of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scaffold import __version__
from scaffold.errors import ScaffoldError, nearest
from scaffold.skills.install import git
from scaffold.skills.install.address import Source, is_address
from scaffold.skills.install.front_matter import NAME, check_name, read_head
from scaffold.skills.install.source_tree import (
    SKILL_FILE,
    Entry,
    SkillFile,
    Tree,
    What,
    mounted,
    read_single,
    read_skill,
    tree_of_folder,
)
from scaffold.skills.install.subagents import FOLDERS, PREFIX, find_subagents, is_subagent


@dataclass(frozen=True)
class Skill:
    """A skill or subagent of a source.

    Args:
        name: The name in its front matter; of a subagent ``agents/`` and its file's name.
        path: Its folder in the source; "" for the source itself.
        files: Its files by their paths in the folder.
        commit: The commit that has exactly these files, or "" where none is known to.
    """

    name: str
    path: str
    files: dict[str, SkillFile]
    commit: str = ""


@dataclass(frozen=True)
class Opened:
    """A source whose files can be read.

    Args:
        commit: The commit that they were read from; "" for a folder.
        version: The version of the tool for its own pack, else "".
        head: For a folder: the commit its repository is at, with the files in it.
    """

    source: Source
    tree: Tree
    commit: str = ""
    version: str = ""
    head: tuple[str, dict[str, git.Blob]] = ("", {})


def open_source(source: Source, scratch: Path) -> Opened:
    """Make the files of a source readable; a remote is fetched.

    Args:
        scratch: A temporary folder that outlives what is returned.

    Raises:
        ScaffoldError: It cannot be read or reached.
    """
    if source.kind == "builtin":
        skills, agents = (tree_of_folder(folder) for folder in pack_folders())
        return Opened(source, mounted(skills, FOLDERS[1], agents), version=__version__)
    if source.kind == "folder":
        folder = Path(source.place)
        return Opened(source, tree_of_folder(folder), head=git.head_files(folder))
    if not is_address(source.place):
        folder = Path(source.place)
        commit = git.resolve(folder, source.revision)
    else:
        folder = scratch
        commit = git.fetch(source.place, source.revision, folder)
    listed = git.list_commit(folder, commit)
    entries = {path: _git_entry(blob) for path, blob in listed.items()}
    return Opened(source, Tree(entries, lambda keys: git.read_blobs(folder, keys)), commit)


def find_skills(opened: Opened) -> dict[str, list[str]]:
    """Return the folders of the skills in a source by their last part, the likelier ones first.

    A skill below another one is a part of it. Where one is in several places that clients read,
    that which people edit is taken.
    """
    folders = sorted(
        path.rpartition("/")[0]
        for path in opened.tree.entries
        if path.rpartition("/")[2] == SKILL_FILE
    )
    # A SKILL.md at the top makes the whole source one skill.
    if "" in folders:
        return {"": [""]}
    outer: list[str] = []
    for folder in folders:
        # The folders are sorted, so an outer one comes before those inside it.
        if not any(folder.startswith(f"{each}/") for each in outer):
            outer.append(folder)
    ranks = {folder: _rank(folder) for folder in outer}
    # Folders outside of every skills folder are examples or tests where there are others.
    if any(rank < _ODD for rank in ranks.values()):
        ranks = {folder: rank for folder, rank in ranks.items() if rank < _ODD}
    found: dict[str, list[str]] = {}
    for folder in sorted(ranks, key=lambda each: (ranks[each], each)):
        found.setdefault(folder.rpartition("/")[2], []).append(folder)
    return {
        name: [each for each in places if ranks[each] == ranks[places[0]]]
        for name, places in found.items()
    }


def take_skills(opened: Opened, wanted: Sequence[str]) -> list[Skill]:
    """Read skills and subagents of a source; all of them if none is named.

    Args:
        wanted: Names of skills, their folders in the source, or ``agents/NAME``.

    Raises:
        ScaffoldError: There is no such skill, there are two, or one is unsound.
    """
    found, agents = find_skills(opened), _subagents(opened)
    if not found and not agents:
        raise ScaffoldError(
            f"{opened.source} has no skill: no folder with a {SKILL_FILE}",
            code="skill_unknown",
            hint="name the folder or repository with the skills",
        )
    names = list(dict.fromkeys(each.strip("/") for each in wanted)) or [*found, *agents]
    # Subagents have no folder of their own; their names are suggested for misspelt ones.
    known = {**found, **{key: list[str]() for key in agents}}
    return [
        _take_subagent(opened, agents[name], name)
        if name in agents
        else _take(opened, _folder_of(opened, known, name))
        for name in names
    ]


def take_again(opened: Opened, path: str, name: str) -> Skill:
    """Read a skill again from the folder where it was, or from where one of its name is by now.

    Raises:
        ScaffoldError: It is gone, or unsound.
    """
    if is_subagent(name) and _subagents(opened).get(name) == path:
        return _take_subagent(opened, path, name)
    is_there = (
        not is_subagent(name)
        and (f"{path}/{SKILL_FILE}" if path else SKILL_FILE) in opened.tree.entries
    )
    if is_there:
        return _take(opened, path)
    try:
        return take_skills(opened, [name])[0]
    except ScaffoldError as error:
        if error.code != "skill_unknown":
            raise
        raise ScaffoldError(
            error.message,
            code=error.code,
            hint="remove it with --remove, or name the skills to update",
        ) from error


def pack_folders() -> tuple[Path, Path]:
    """Return the skills and the subagents that come with the tool, in its wheel or its checkout.

    Raises:
        ScaffoldError: The installation has none.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_data", package.parent / ".agents"):
        if (folder / "skills").is_dir():
            return folder / "skills", folder / "agents"
    raise ScaffoldError(
        "this installation of the tool has no skills",
        code="source_invalid",
        hint="reinstall areal-scaffold",
    )


# Ranks of folders: 0 where skills are edited, 1 in any other `skills`, 2 among what is rendered
# for a client, 3 elsewhere.
_ODD = 3
_COPIES = (".claude/skills", ".codex/skills", ".opencode/skills", ".opencode/skill")


def _rank(folder: str) -> int:
    """Return how likely a folder is that of a skill for others, and the source of its copies."""
    above = folder.rpartition("/")[0]
    if above in ("", ".agents/skills", "skills"):
        return 0
    if above.endswith(_COPIES):
        return 2
    return 1 if f"/{above}".endswith("/skills") else _ODD


def _take(opened: Opened, folder: str) -> Skill:
    files = read_skill(opened.tree, folder)
    where = f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE
    name = check_name(read_head(files[SKILL_FILE].data, where).fields["name"].strip(), where)
    return Skill(name, folder, files, opened.commit or _commit_of(opened, folder))


def _subagents(opened: Opened) -> dict[str, str]:
    # In a folder of another repository, `agents` may hold anything.
    folders = FOLDERS[1:] if opened.source.kind == "builtin" else FOLDERS[:1]
    return find_subagents(opened.tree.entries, folders)


def _take_subagent(opened: Opened, folder: str, name: str) -> Skill:
    file = f"{name.removeprefix(PREFIX)}.md"
    path = f"{folder}/{file}"
    data = read_single(opened.tree, folder, file)
    check_name(name.removeprefix(PREFIX), path)
    read_head(data.data, path)
    return Skill(name, folder, {file: data}, opened.commit or _commit_of(opened, path))


def _commit_of(opened: Opened, folder: str) -> str:
    """Return the commit of the repository if it has exactly these files in a folder, or a file."""
    commit, blobs = opened.head
    start = f"{folder}/" if folder else ""

    def is_of_it(path: str) -> bool:
        return path == folder or path.startswith(start)

    mine = {path: e for path, e in opened.tree.entries.items() if is_of_it(path)}
    theirs = {path: blob for path, blob in blobs.items() if is_of_it(path)}
    # A commit is named only if it has exactly these files, with nothing edited or untracked.
    if not commit or mine.keys() != theirs.keys():
        return ""
    data = opened.tree.read(entry.key for entry in mine.values())
    is_same = all(
        # Kind and run bit; an id covers the bytes alone.
        _git_entry(blob)[:2] == mine[path][:2]
        and git.blob_id(data[mine[path].key], blob.oid) == blob.oid
        for path, blob in theirs.items()
    )
    return commit if is_same else ""


def _folder_of(opened: Opened, found: dict[str, list[str]], wanted: str) -> str:
    places = found.get(wanted)
    # A folder may be named that is no skill by the rules above, such as one inside another skill.
    if places is None and f"{wanted}/{SKILL_FILE}" in opened.tree.entries:
        return wanted
    if places is None:
        places = _by_front_matter(opened, found, wanted)
    if not places:
        raise ScaffoldError(
            f"{opened.source} has no skill {wanted!r}{nearest(wanted, filter(None, found))}",
            code="skill_unknown",
            hint="name one of these, or its folder in the source",
        )
    if len(places) > 1:
        raise ScaffoldError(
            f"{opened.source} has {wanted or 'a skill'} twice: {', '.join(places)}",
            code="skill_ambiguous",
            hint="name the folder",
        )
    return places[0]


def _by_front_matter(opened: Opened, found: dict[str, list[str]], wanted: str) -> list[str]:
    """Return the folders of skills that are named otherwise than their folders."""
    if not NAME.fullmatch(wanted):
        return []
    matching: list[str] = []
    for folder in (each for places in found.values() for each in places):
        path = f"{folder}/{SKILL_FILE}" if folder else SKILL_FILE
        entry = opened.tree.entries[path]
        # Nothing larger than 1 MiB is read only to learn its name.
        if entry.what != "file" or entry.size_bytes > 1 << 20:
            continue
        try:
            head = read_head(opened.tree.read([entry.key])[entry.key], path)
        except ScaffoldError:
            continue  # that one is broken, which is told when it is asked for
        if head.fields["name"].strip() == wanted:
            matching.append(folder)
    return matching


def _git_entry(blob: git.Blob) -> Entry:
    what = _GIT_MODES.get(blob.mode, "file")
    return Entry(what, blob.mode == "100755", blob.size_bytes, blob.oid)


_GIT_MODES: dict[str, What] = {"120000": "link", "160000": "submodule"}
