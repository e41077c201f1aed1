"""What programs of the trade are given: targets, scripts, extras, hooks, tests, requirements."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project import tasks
from scaffold.analysis.project.project import normal_name
from scaffold.analysis.project.tasks import Tasks
from scaffold.analysis.python.modules import is_scenery
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import Invocation, Word, shell_of, with_words
from scaffold.skills.check.claims.shell_call import Call, call_of
from scaffold.skills.check.claims.shell_place import find_file, has_left, run_folders
from scaffold.skills.check.context import is_placeholder
from scaffold.skills.check.documents import Document

RUNNERS = frozenset(
    {"make", "gmake", "npm", "pnpm", "yarn", "bun", "just", "task", "pytest", "py.test"}
    | {"pre-commit", "prek", "uv", "pip", "pip3", "poetry", "pdm", "tox", "nox"}
)
_NPM_OWN = frozenset({"test", "start", "stop", "restart"})
_MAKE_VALUES = frozenset({"-j", "-f", "-C", "-o", "-W", "-I", "-l"})
_TEST = lazy_re(r"^(?P<path>[\w./-]+\.py)(?P<node>(?:::[\w.-]+)*)(?:\[.*\])?$", re.DOTALL)
_EXTRA = lazy_re(r"^(?P<base>[\w./-]*)\[(?P<extras>[\w.,\s-]+)\]$")


class Task(NamedTuple):
    """One word that a runner is given.

    Args:
        family: What it is: "make", "npm", "just", "task", "hook", "extra", "group", "file", "test".
        word: The word.
        line: The command line.
        name: The name within the word.
        folder: The folder that an option names, or "".
    """

    family: str
    word: Word
    line: Invocation
    name: str
    folder: str = ""


def find_tasks(document: Document) -> Iterator[Claim]:
    """Yield the words that runners are given."""
    for invocation in shell_of(document).invocations:
        for task in _tasks(_plain(invocation)):
            index = task.line.words.index(task.word)
            line = task.line.line_of(index)
            text = f"{task.line.words[0].text} {task.name}"
            yield Claim("task", text, line, task.line.columns[index], task)


def _plain(invocation: Invocation) -> Invocation:
    """Return a command line without what starts it: `sudo`, `uv run`, `python -m`."""
    call: Call | None = call_of(invocation)
    if call is not None and call.kind in ("name", "module"):
        return call.line
    first = invocation.words[0].text
    if first in ("sudo", "command") and len(invocation.words) > 1:
        return with_words(invocation, invocation.words[1:])
    return invocation


def _tasks(line: Invocation) -> Iterator[Task]:
    if not line.words:
        return
    reader = _READERS.get(line.words[0].text)
    if reader is not None:
        for task in reader(line):
            if (task.word.is_sure and not is_placeholder(task.name)) or (
                task.family == "extra" and not is_placeholder(task.name)
            ):
                yield task


def _make(line: Invocation) -> Iterator[Task]:
    folder, skip = "", False
    found: list[Word] = []
    words = line.words[1:]
    for index, each in enumerate(words):
        text = each.text
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text in _MAKE_VALUES
            if text in ("-j", "-l") and not re.match(r"\d", _text(words, index + 1)):
                skip = False
            if text in ("-f", "--file"):
                return
            folder = _text(words, index + 1) if text == "-C" else folder
            folder = text.partition("=")[2] if text.startswith("--directory=") else folder
        elif "=" not in text:
            found.append(each)
    for each in found:
        if re.fullmatch(r"[\w./-]+", each.text) and not each.text.isupper():
            yield Task("make", each, line, each.text, folder)


def _text(words: Sequence[Word], index: int) -> str:
    return words[index].text if index < len(words) else ""


def _npm(line: Invocation) -> Iterator[Task]:
    program, words = line.words[0].text, line.words[1:]
    folder = ""
    index = 0
    while index < len(words) and words[index].text.startswith("-"):
        if words[index].text in ("--prefix", "-C", "--cwd", "--dir"):
            folder = _text(words, index + 1)
            index += 1
        elif words[index].text in ("-w", "--workspace", "--filter", "-F"):
            index += 1
        index += 1
    if index >= len(words):
        return
    verb = words[index]
    if verb.text in ("run", "run-script"):
        rest = words[index + 1 :]
        while rest and rest[0].text.startswith("-"):
            takes = rest[0].text in ("-w", "--workspace", "--filter", "-F", "--prefix")
            rest = rest[2 if takes else 1 :]
        if rest and program in ("npm", "pnpm") and re.fullmatch(r"[\w:.@/-]+", rest[0].text):
            yield Task("npm", rest[0], line, rest[0].text, folder)
    elif program == "npm" and verb.text in ("test", "stop", "restart"):
        yield Task("npm", verb, line, verb.text, folder)


def _just(line: Invocation) -> Iterator[Task]:
    words = line.words[1:]
    if words and re.fullmatch(r"[A-Za-z_][\w-]*", words[0].text):
        yield Task("just", words[0], line, words[0].text)


def _task(line: Invocation) -> Iterator[Task]:
    for each in line.words[1:]:
        if each.text == "--":
            return
        if re.fullmatch(r"[A-Za-z_][\w:-]*", each.text):
            yield Task("task", each, line, each.text)


def _hook(line: Invocation) -> Iterator[Task]:
    words = line.words[1:]
    if _text(words, 0) != "run":
        return
    with_value = {"-c", "--config", "--hook-stage", "--from-ref", "--to-ref", "-s", "-o"}
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        if words[index].text in ("-c", "--config", "--files"):
            return
        index += 2 if words[index].text in with_value else 1
    if index < len(words) and re.fullmatch(r"[\w.+-]+", words[index].text):
        yield Task("hook", words[index], line, words[index].text)


def _pip(line: Invocation) -> Iterator[Task]:
    words = line.words[1:]
    if _text(words, 0) == "pip":  # uv pip install
        words = words[1:]
    if _text(words, 0) in ("install", "add", "sync", "compile", "wheel", "download"):
        yield from _requirements(line, words[1:])


def _requirements(line: Invocation, words: Sequence[Word]) -> Iterator[Task]:
    for index, each in enumerate(words):
        name, is_set, value = each.text.partition("=")
        if name in ("-r", "--requirement", "-c", "--constraint"):
            if is_set:
                yield Task("file", each, line, value)
            elif index + 1 < len(words):
                yield Task("file", words[index + 1], line, words[index + 1].text)
            continue
        raw = each.raw.strip("'\"").removeprefix("--editable=")
        found = _EXTRA.match(raw)
        if found:
            for extra in found["extras"].split(","):
                yield Task("extra", each, line, extra.strip(), found["base"])


def _uv(line: Invocation) -> Iterator[Task]:
    verb = _text(line.words, 1)
    if verb == "pip":
        yield from _pip(line)
    elif verb in ("sync", "run", "export", "lock"):
        yield from _named_options(line, ("--extra",), ("--group", "--only-group", "--no-group"))


def _poetry(line: Invocation) -> Iterator[Task]:
    if _text(line.words, 1) in ("install", "sync"):
        yield from _named_options(line, ("--extras", "-E"), ("--with", "--without", "--only"))


def _pdm(line: Invocation) -> Iterator[Task]:
    if _text(line.words, 1) in ("install", "sync"):
        yield from _named_options(line, (), ())


def _named_options(
    line: Invocation, extras: Sequence[str], groups: Sequence[str]
) -> Iterator[Task]:
    words = line.words[2:]
    for index, each in enumerate(words):
        name, is_set, value = each.text.partition("=")
        if each.text == "--" or not (name.startswith("-") or line.words[1].text != "run"):
            return
        family = "extra" if name in extras else "group" if name in groups else ""
        word = each if is_set else words[index + 1] if index + 1 < len(words) else None
        if family and word is not None and word.is_sure:
            for part in re.split(r"[,\s]+", value if is_set else word.text):
                if re.fullmatch(r"[\w.-]+", part):
                    yield Task(family, word, line, part)


def _pytest(line: Invocation) -> Iterator[Task]:
    for each in line.words[1:]:
        if not each.text.startswith("-") and _TEST.match(each.text) and each.is_sure:
            yield Task("test", each, line, each.text)
        elif not each.is_sure and (found := _TEST.match(each.raw.strip("'\""))) and found["node"]:
            bare = Word(f"{found['path']}{found['node']}", each.line, each.column, raw=each.raw)
            words = tuple(bare if one is each else one for one in line.words)
            yield Task("test", bare, _with(line, words), bare.text)


def _with(line: Invocation, words: tuple[Word, ...]) -> Invocation:

    return line._replace(words=words)


_READERS: dict[str, Callable[[Invocation], Iterator[Task]]] = {
    "make": _make,
    "gmake": _make,
    "npm": _npm,
    "pnpm": _npm,
    "just": _just,
    "task": _task,
    "pre-commit": _hook,
    "prek": _hook,
    "pip": _pip,
    "pip3": _pip,
    "uv": _uv,
    "poetry": _poetry,
    "pdm": _pdm,
    "pytest": _pytest,
    "py.test": _pytest,
}


def judge_task(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a word that a runner is given."""
    task: Task = claim.data
    if task.family == "file":
        return _judge_file(task, document, repository)
    if task.family == "test":
        return _judge_test(task, document, repository)
    verdict = _judge_name(task, document, repository)
    if verdict.state != "false":
        return verdict
    line = task.line
    if not document.is_about_here:
        return Verdict.open("it may be of the reader's repository")
    if line.silence or line.example:
        return Verdict.open(line.silence or line.example)
    if line.has_fallback:
        return Verdict.open("another command stands by for the case that it fails")
    if has_left(line, document, repository):
        return Verdict.open("it may run in another folder")
    return verdict


def _judge_name(task: Task, document: Document, repository: Repository) -> Verdict:
    if task.family == "hook":
        return _judge_hook(task, repository)
    if task.family in ("extra", "group"):
        return _judge_extra(task, document, repository)
    return _judge_listed(task, document, repository)


_LISTS: dict[str, tuple[str, tuple[str, ...], Callable[..., Tasks | None], str]] = {
    "make": ("make-target-missing", tasks.MAKEFILES, tasks.make_tasks, "target"),
    "npm": ("npm-script-missing", ("package.json",), tasks.npm_tasks, "script"),
    "just": ("just-recipe-missing", tasks.JUSTFILES, tasks.just_tasks, "recipe"),
    "task": ("task-missing", tasks.TASKFILES, tasks.task_tasks, "task"),
}


def _judge_listed(task: Task, document: Document, repository: Repository) -> Verdict:
    rule, names, read, what = _LISTS[task.family]
    files = repository.files
    paths = [path for name in names for path in files.by_name.get(name, ())]
    all_read = [(path, read(path, files)) for path in paths]
    for path, each in all_read:
        if each is not None and each.has(task.name):
            return Verdict.holds(f"{path} has the {what} {task.name}")
    folders = run_folders(task.line, document, repository) or []
    if task.folder:
        folders = [os.path.normpath(f"{base}/{task.folder}") for base in folders]
    near = [(p, each) for p, each in all_read if p.rpartition("/")[0] in folders]
    if not near:
        return Verdict.open(f"there is no {names[0]} where it runs")
    for path, each in all_read:
        if each is None or each.why_open:
            return Verdict.open(f"{path} {'cannot be read' if each is None else each.why_open}")
    if task.family == "make" and _may_be_file(task.name, repository):
        return Verdict.open("make may have a rule of its own for it")
    known = sorted({name for _, each in near if each is not None for name in each.names})
    path = near[0][0]
    message = f"`{task.line.words[0].text}` has no {what} {task.name!r}"
    return _unlisted(task, rule, message, f"{path} has {_shown(known)}", known)


def _may_be_file(name: str, repository: Repository) -> bool:
    files = repository.files
    if "/" in name or "." in name or files.has(name):
        return True
    return any(f"{name}{end}" in files.by_name for end in (".c", ".cc", ".cpp", ".o", ".sh", ".f"))


def _judge_hook(task: Task, repository: Repository) -> Verdict:
    hooks = repository.programs.projects.hooks
    if hooks is None:
        return Verdict.open("there is no .pre-commit-config.yaml that can be read")
    if task.name in hooks:
        return Verdict.holds(f".pre-commit-config.yaml has the hook {task.name}")
    message = f"pre-commit has no hook {task.name!r}"
    evidence = f".pre-commit-config.yaml has {_shown(sorted(hooks))}"
    return _unlisted(task, "hook-missing", message, evidence, sorted(hooks))


def _judge_extra(task: Task, document: Document, repository: Repository) -> Verdict:
    programs = repository.programs
    base = task.folder.rstrip("/")
    is_named = task.family == "extra" and base not in ("", ".")
    if is_named and not programs.is_own_name(base) and not repository.files.has(base):
        return Verdict.open(f"{base} is none of this repository's projects")
    projects = programs.projects.all
    around = repository.bases(document.folder)
    if any(each in repository.package_roots and is_scenery(each) for each in around if each):
        return Verdict.open("it stands in a project that is a copy or an example")
    if not projects:
        return Verdict.open("there is no project file")
    name = normal_name(task.name)
    known: set[str] = set()
    for each in projects:
        own = each.extras if task.family == "extra" else each.groups
        if own is None:
            return Verdict.open("its extras are computed")
        known |= {normal_name(one) for one in own}
    if name in known:
        return Verdict.holds(f"a project file has the {task.family} {task.name}")
    if task.family == "group" and name in ("main", "dev", "all", "default"):
        return Verdict.open("it may be a group of the tool's own")
    message = f"there is no {task.family} {task.name!r}"
    path = projects[0].path
    evidence = f"{path} has {_shown(sorted(known))}"
    rule = "pip-extra-missing" if task.family == "extra" else "dependency-group-missing"
    return _unlisted(task, rule, message, evidence, sorted(known))


def _unlisted(task: Task, rule: str, message: str, evidence: str, known: Sequence[str]) -> Verdict:
    near = get_close_matches(task.name, known, n=1, cutoff=0.6)
    fix = None
    if near:
        line = task.line.line_of(task.line.words.index(task.word))
        fix = Fix(line, task.name, near[0], is_safe=False)
    now = f"there is {near[0]}" if near else ""
    return Verdict.fails(rule, message, evidence, now=now, fix=fix)


def _judge_file(task: Task, document: Document, repository: Repository) -> Verdict:
    word = Word(task.name, task.word.line, task.word.column, task.word.is_sure)
    spot = find_file(word, task.line, document, repository, "requirements-missing")
    if spot.verdict is None:
        return Verdict.holds(f"git lists {spot.path}")
    return _here_only(spot.verdict, document)


def _judge_test(task: Task, document: Document, repository: Repository) -> Verdict:
    found = _TEST.match(task.name)
    assert found is not None, "only such words become claims"
    word = Word(found["path"], task.word.line, task.word.column)
    spot = find_file(word, task.line, document, repository, "test-missing")
    if spot.verdict is not None:
        return _here_only(spot.verdict, document)
    parts = [each for each in found["node"].split("::") if each]
    if not parts:
        return Verdict.holds(f"git lists {spot.path}")
    name = ".".join(parts)
    there = repository.python.find_in(spot.path, name)
    if there.exists:
        return Verdict.holds(there.evidence)
    if not there.is_missing or task.line.silence or task.line.example:
        return Verdict.open(task.line.silence or there.evidence or "it may be made while it runs")
    near = there.near.rpartition(".")[2] if there.near else ""
    return Verdict.fails(
        "test-missing",
        f"{task.name!r} names a test that does not exist",
        there.evidence,
        now=f"there is {near}" if near else "",
    )


def _here_only(verdict: Verdict, document: Document) -> Verdict:
    if verdict.state == "false" and not document.is_about_here:
        return Verdict.open("it may be of the reader's repository")
    return verdict


def _shown(names: Sequence[str]) -> str:
    if len(names) > 12:
        return f"{', '.join(names[:12])} and {len(names) - 12} more"
    return ", ".join(names) or "none"


TASKS = Kind("task", find_tasks, judge_task)
