"""Whether a path is there, and what became of one that is not."""

from __future__ import annotations

import os
import re
from bisect import bisect_left

from scaffold.analysis.files.files import parents
from scaffold.analysis.files.history import is_code
from scaffold.analysis.lazy_re import lazy_re
from scaffold.findings import Fix
from scaffold.skills.check.intent import intent
from scaffold.skills.check.reference import Asked, Reason, Reference, Verdict
from scaffold.skills.check.references.placeholders import is_invented, is_placeholder
from scaffold.skills.check.resolve.scope import Scope

_WILD = lazy_re(r"<[^<>]+>|\{[^{}]+\}|\*\*/?|\*|\?|\.\.\.|…|\[[^\[\]]+\]")
# Folders that tools make, beside those that git ignores.
_MADE = frozenset(
    {"node_modules", "__pycache__", ".venv", "venv", "dist", "build", "target", "htmlcov", ".git"}
    | {"tmp", "temp", "coverage", ".cache", "logs", "outputs", "output", "results"}
)
_MADE_END = lazy_re(r"\.(?:log|env|local|lock|pyc|tmp|bak)$|(?:^|/)\.env(?:\.[\w.]+)?$")
_FOLDER = lazy_re(r"`([\w.-]+(?:/[\w.-]+)*/)`")
_FILE_END = lazy_re(r"\.[A-Za-z0-9]{1,6}$")
_SHORT = 6
_RULE = "path-missing"
# So long a stem, or one of several words, is nobody's by chance.
_TELLING = lazy_re(r"[a-z0-9]+[_-][a-z0-9]+|[A-Za-z0-9]{8,}")


def resolve_path(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a path; one with placeholders holds where anything fits it."""
    path = str(reference.data).removeprefix("./")
    if path.startswith("/"):
        return _on_a_machine(path, scope)
    found = scope.locate(path)
    if found is None and is_placeholder(path):
        return _pattern(path, scope)
    if found is not None:
        return Verdict.holds(f"git lists {found}" if found else "it is the root", found)
    above = path.rpartition("../")[2] if scope.document.kind in ("skill", "reference") else ""
    if path.startswith("../") and above and scope.ending_in(above):
        return Verdict.unknown("it may start from the folder that the text is about")
    if reference.block is not None and reference.line == reference.block.line:
        return _shown_below(reference, path, scope)
    if folder := _folder_above(reference, path, scope) or _pattern_above(reference, path, scope):
        # The list gives the place of its names: there, or in a module that is not listed here.
        base = scope.locate(folder)
        if base is None:
            return Verdict.unknown(f"{folder} is not listed here", "another namespace")
        return missing(f"{base}/{path}", _RULE, scope, before=path)
    return missing(path, _RULE, scope)


def resolve_source(reference: Reference, scope: Scope) -> Verdict:
    """Resolve what code takes in: examples may write it, so only what was here once is told."""
    ends: tuple[str, ...] = reference.data
    for end in ends:
        # A folder of the page or of the author may lie in front.
        if found := scope.ending_in(end):
            return Verdict.holds(f"git lists {found[0]}", found[0])
    verdict = missing(ends[0], "import-missing", scope)
    if verdict.reason != "absent" or verdict.asked is None:
        return Verdict.unknown("it may be a file of the example")
    asked = verdict.asked._replace(otherwise="open")
    return verdict._replace(message=f"{reference.text!r} does not exist", asked=asked)


def _on_a_machine(path: str, scope: Scope) -> Verdict:
    """Resolve `/home/user/project/src/a.py` by its part from a folder of the root on."""
    parts = path.strip("/").split("/")
    tops = {each.partition("/")[0] for each in scope.files.folders if each}
    inner = ["/".join(parts[at:]) for at in range(2, len(parts) - 1) if parts[at] in tops]
    if found := next((each for each in inner if each in scope.files.paths), ""):
        return Verdict.holds(f"git lists {found}", found)
    # The checkout begins where most of the folders below are here.
    depths = [sum(one in scope.files.folders for one in parents(each)) for each in inner]
    if not inner or depths.count(max(depths)) > 1:
        return Verdict.unknown("it is a place on a machine", "another namespace")
    return missing(inner[depths.index(max(depths))], _RULE, scope, before=path)


def _shown_below(reference: Reference, path: str, scope: Scope) -> Verdict:
    """Resolve the path that a block begins with: one that was never here is one to write."""
    verdict = missing(path, _RULE, scope)
    if intent(reference).wide == "makes" or verdict.reason not in ("absent", "moved"):
        return Verdict.unknown("the block shows what is in it", "generated")
    asked = verdict.asked._replace(otherwise="generated") if verdict.asked else None
    return verdict._replace(reason="absent", now="", fix=None, asked=asked)


def _pattern_above(reference: Reference, path: str, scope: Scope) -> str:
    """Return the folder of `folder/<name>.yml`, where a list below it names such files."""
    block = reference.span.block if reference.span is not None else None
    if block is None or "/" in path or block.kind != "item" or "." not in path:
        return ""
    end = path[path.rindex(".") :]
    above = [
        each.text
        for each in scope.document.markdown.codes
        if each.block.headings == block.headings and each.line < block.line
    ]
    near = [each for each in above if is_placeholder(each) and each.endswith(end) and "/" in each]
    folder, _, name = near[-1].rpartition("/") if near else ("", "", "")
    return folder if is_placeholder(name) and not is_placeholder(folder) else ""


def _folder_above(reference: Reference, path: str, scope: Scope) -> str:
    """Return the folder that a bare name lies in by the list or paragraph it is in, or nothing.

    Its introduction names it, or others of the same kind lie beside the page.
    """
    block = reference.span.block if reference.span is not None else None
    if block is None or "/" in path:
        return ""
    found = _FOLDER.findall(block.intros[-1]) if block.kind == "item" and block.intros else []
    if len(found) == 1:
        return found[0]
    beside = scope.listed_beside.get((block.headings, block.intros), ())
    alike = [each for each in beside if each.rpartition(".")[2] == path.rpartition(".")[2]]
    return scope.document.path.rpartition("/")[0] if len(alike) > 1 else ""


def missing(path: str, rule: str, scope: Scope, *, before: str = "") -> Verdict:
    """Return the verdict of a path that nothing in the repository has.

    Args:
        path: As the text names it, without placeholders.
        rule: The rule that is broken.
        scope: Where it is named.
        before: What the text writes, where that is more than the path.
    """
    files, clean = scope.files, path.strip("/")
    places = list(dict.fromkeys(scope.from_bases(clean, scope.wider_bases)))
    anchored = [each for each in places if _is_anchored(each, clean, scope)]
    whole = anchored[0] if anchored else places[0] if places else clean
    if _MADE.intersection(clean.split("/")) or _MADE_END.search(clean):
        return Verdict.unknown("such files are made on each machine", "generated")
    if outer := next((found for each in places if (found := files.outer(each))), ""):
        evidence = f"{outer} is a link or a module of its own, not listed here"
        return Verdict.unknown(evidence, "another namespace")
    # What is asked of the history: a word with a slash in it is often no path at all.
    is_file = "." in clean.rpartition("/")[2] or path.endswith("/")
    places = anchored or ([*places[:1], clean] if is_file else [])
    message = f"{path!r} does not exist"
    deepest = next((part for part in parents(whole) if part in files.folders), "")
    evidence = f"{deepest or 'the root'} has no {whole[len(deepest) :].strip('/')!r}"
    written = before or path
    if same := next((same for each in anchored if (same := files.spelled_like(each))), ""):
        fix = Fix(0, written, _as_written(same, whole, clean, path))
        message = f"{path!r} is spelled differently on disk"
        other = "path-case" if same.lower() in {each.lower() for each in anchored} else rule
        return Verdict("other spelling", f"git lists {same}", other, message, f"it is {same}", fix)
    if "/" not in clean:
        literal = path if path.endswith("/") else clean
        same = files.spelled_like(clean, anywhere=True)
        if len(clean) > _SHORT and same in files.paths:
            now = f"there is {same}"
            fix = Fix(0, written, same.rpartition("/")[2])
            return Verdict("other spelling", f"git lists {same}", rule, message, now, fix)
        is_telling = _TELLING.search(clean.partition(".")[0]) is not None
        is_data = "." in clean and not is_code(clean)
        asked = Asked(
            tuple(places), otherwise="open", file=literal if is_telling or is_data else ""
        )
        return Verdict("absent", evidence, rule, message, asked=asked)
    elsewhere = _package(anchored, scope) or _elsewhere(clean, scope)
    if elsewhere and anchored:
        fix = Fix(0, written, _as_written(elsewhere, whole, clean, path))
        now, asked = f"it is {elsewhere}", Asked(tuple(places))
        return Verdict("moved", evidence, rule, message, now, fix, asked)
    # Without the form of a file it may be a branch, a model or a name in a module.
    is_plain = path.endswith("/") or _FILE_END.search(clean) is not None
    otherwise: Reason = "never here" if anchored and is_plain else "another namespace"
    if is_invented(clean):
        otherwise = "placeholder"
    elif scope.makes(clean):
        otherwise = "generated"
    # A path of several parts that is not anchored here may be the end of one that was.
    is_end = is_plain and not anchored and otherwise == "another namespace"
    asked = Asked(tuple(places), otherwise=otherwise, file=clean if is_end else "")
    place = whole.rpartition("/")[0] if anchored else ""
    return Verdict("absent", evidence, rule, message, asked=asked, place=place)


def _pattern(path: str, scope: Scope) -> Verdict:
    if found := fitting(path, scope):
        return Verdict.holds(f"{found} fits it", found)
    folder = literal_part(path)
    if not folder or scope.locate(folder) is not None:
        return Verdict.unknown("nothing fits its placeholders yet", "placeholder")
    verdict = missing(folder, _RULE, scope)
    if verdict.reason == "absent" and verdict.asked is not None:
        return verdict._replace(asked=verdict.asked._replace(otherwise="placeholder"))
    return verdict


def fitting(pattern: str, scope: Scope) -> str | None:
    """Return a file or folder that a path with placeholders fits, or None."""
    clean = pattern.strip("/")
    expression, certain = _expression(clean), literal_part(clean)
    places = scope.files.sorted_places
    for base in scope.bases:
        lead = f"{base}/" if base else ""
        start = lead + (f"{certain}/" if certain else "")
        # Only what begins with the certain folders can fit; it is adjacent.
        for index in range(bisect_left(places, start), len(places)):
            if not places[index].startswith(start):
                break
            if expression.fullmatch(places[index][len(lead) :]):
                return places[index]
    return None


def literal_part(pattern: str) -> str:
    """Return the folders of a path before its first placeholder, without a slash at the end."""
    parts: list[str] = []
    for part in pattern.split("/")[:-1]:
        if is_placeholder(part):
            break
        parts.append(part)
    return "/".join(parts)


def _expression(pattern: str) -> re.Pattern[str]:
    wild = {"**": ".*", "**/": "(?:.*/)?", "...": ".*", "…": ".*", "?": "[^/]"}
    pieces: list[str] = []
    at = 0
    for found in _WILD.finditer(pattern):
        pieces += [re.escape(pattern[at : found.start()]), wild.get(found.group(), "[^/]+")]
        at = found.end()
    return re.compile("".join([*pieces, re.escape(pattern[at:])]))


def _is_anchored(whole: str, clean: str, scope: Scope) -> bool:
    """Return whether the first part of a path is a folder here, so that the rest is meant here."""
    if clean.startswith("../") or not whole.endswith(clean):
        return True  # from where it is written, or through a link
    inside = "/" in clean
    first = whole.removesuffix(clean) + clean.split("/")[0]
    return inside and first in scope.files.folders


def _elsewhere(clean: str, scope: Scope) -> str:
    """Return the one other place of a file or folder that is known by its name, or nothing."""
    folder, _, name = clean.rpartition("/")
    files = scope.files
    found = [*files.by_name.get(name, ()), *files.folders_by_name.get(name, ())]
    if len(found) != 1:
        return ""
    # Its own folder, or all of its folders, are above it there, too: no other is meant.
    above = found[0].split("/")[:-1]
    folders = [each for each in folder.split("/") if each != ".."]
    if not folders:
        return found[0] if _TELLING.search(name) else ""
    is_kin = folders[-1] in above or (_TELLING.search(name) and set(folders) <= set(above))
    return found[0] if is_kin else ""


def _package(places: list[str], scope: Scope) -> str:
    """Return the file of the package that a module became, or nothing."""
    folders = [each.removesuffix(".py") for each in places if each.endswith(".py")]
    # The file of the same name, if there is one, has what the package only hands on.
    inner = (f"{f}/{name}.py" for f in folders for name in (f.rpartition("/")[2], "__init__"))
    return next((each for each in inner if each in scope.files.paths), "")


def _as_written(same: str, whole: str, clean: str, path: str) -> str:
    """Return a place as the text would write it: from the base that the text writes from."""
    base = whole.removesuffix(clean)
    after = same.removeprefix(base) if same.startswith(base) else os.path.relpath(same, base or ".")
    return after.replace(os.sep, "/") + ("/" if path.endswith("/") else "")
