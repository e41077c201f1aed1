"""``scaffold deps apply``: rewrite the calls and imports that a new release breaks."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import libcst as cst
from libcst.metadata import CodePosition, CodeRange, MetadataWrapper, PositionProvider

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.audit import audit_tree
from scaffold.deps.use import Judgement
from scaffold.report import Report
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change

COMMAND = "deps apply"

# A new argument has no value yet; what a dropped one did, such as to name a proxy, is undone.
_HALF_DONE = frozenset({"parameter-removed", "parameter-required"})

PLACE = "YOURS"
"""The place of a value that only a person knows: a name that is not defined, so that every check
shows it."""

_CALLS = frozenset({"parameter-removed", "parameter-renamed", "parameter-required"})


def apply(
    root: Path, package: str, old: str, new: str, *, write: bool, python: str | None = None
) -> Report:
    """Rewrite what an audit is certain about; without ``write`` the diff alone is shown.

    Its arguments, and what it raises, are as of `scaffold.deps.audit.audit`.
    """
    if write:
        settle(root, COMMAND)
    files = list_files(root)
    found = audit_tree(files, package, old, new, python)
    broken = [each for each in found.findings if each.level == "breaks"]
    changes: list[Change] = []
    done: list[Judgement] = []
    for path in sorted({each.use.path for each in broken if each.use.path.endswith(".py")}):
        before = files.data(path) or b""
        own = [each for each in broken if each.use.path == path]
        after, finished = rewrite_data(before, own, taken_elsewhere(files, path))
        done += finished
        if after != before:
            changes.append(Change(path, "edited", before, after))
    if write and changes:
        apply_changes(root, changes, COMMAND)
    report = Report(COMMAND, dry_run=not write)
    report.changes = tuple(each.reported for each in changes)
    yours = [each for each in broken if each not in done or each.verdict in _HALF_DONE]
    report.next = tuple(each.step for each in yours)
    report.ok = not yours
    rows = [f"{PLACE:<11}{each.file}:{each.line}  {each.why}\n" for each in report.next]
    told = f"{len(done)} of {len(broken)} places that break are rewritten, {len(yours)} left\n"
    report.text = "".join([*(each.diff for each in report.changes), *rows, told])
    report.extra = {"deps": {"rewritten": len(done), "left": len(yours)}}
    return report


def taken_elsewhere(files: Files, path: str) -> set[str]:
    """Return the names that the other sources of a tree take from one; by its last name alone.

    They are imported, or asked of the module; "*" means all, as ``import *`` takes, or an
    import of the module under another name.
    """
    folder, _, file = path.rpartition("/")
    module = folder.rpartition("/")[2] if file == "__init__.py" else file.partition(".")[0]
    word = re.escape(module)
    pattern = re.compile(
        rf"^[ \t]*from[ \t]+(?:[\w.]*\.)?{word}[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
        rf"|\b{word}\.(\w+)|\b{word}[ \t]+as[ \t]()",
        re.MULTILINE,
    )
    found: set[str] = set()
    for other in files.python:
        text = files.text(other) or ""
        for each in pattern.finditer(text) if other != path and module in text else ():
            names = each[1] or each[2] or "*"
            found.update(re.findall(r"\w+|\*", names))
    return found


def rewrite(
    text: str, findings: Iterable[Judgement], taken: Collection[str] = ()
) -> tuple[str, list[Judgement]]:
    """Return a source with the changes that its findings ask for, and the findings done.

    Keywords are renamed and dropped in the very calls that were judged, and a name in the very
    place; a name that moved is imported from where it is now. An imported name that the source has
    anywhere else, too, or that others take from here, stays bound. Anything else is left to a
    person.

    Args:
        findings: Findings of level "breaks" on this source.
        taken: The names that other sources take from this one; "*" among them means all.
    """
    rows = list(findings)
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    renamed = [each for each in rows if _is_in_place(each)]
    judged = Counter(each.use.parts[-1] for each in renamed)
    imports = {each.use.parts for each in renamed if each.use.kind == "import"}
    kept = {
        parts
        for parts in imports
        if {"*", parts[-1]} & {*taken}
        or len(re.findall(rf"\b{parts[-1]}\b", text)) > judged[parts[-1]]
    }
    bound = [each for each in rows if each.use.kind != "import" and _head(each) in kept]
    names = {parts[-1] for parts in kept}
    writing = _Rewriter(text, [each for each in rows if each not in bound], names)
    done = wrapper.visit(writing)
    imported = {each.use.parts for each in writing.done if each.verdict == "moved"}
    # What follows an import is there again with it.
    follow = [
        each
        for each in rows
        if each.verdict == "moved" and each not in writing.done and each.use.parts in imported
    ]
    return done.code, [*writing.done, *bound, *follow]


def rewrite_data(
    data: bytes, findings: Iterable[Judgement], taken: Collection[str] = ()
) -> tuple[bytes, list[Judgement]]:
    """Do as `rewrite` with the bytes of a source, in the encoding that they name."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text, done = rewrite(data.decode(encoding), findings, taken)
    return text.encode(encoding), done


def _is_in_place(finding: Judgement) -> bool:
    """Return whether what is renamed is the last part of a name, and written there."""
    is_last = finding.argument == finding.use.parts[-1]
    return finding.verdict == "renamed" and is_last and finding.use.at is not None


def _head(finding: Judgement) -> tuple[str, ...]:
    """Return what a use has by its import, where just that is what is gone."""
    head = finding.use.parts[: finding.use.imported]
    return head if head[-1:] == (finding.argument,) else ()


class _Rewriter(cst.CSTTransformer):
    """A rewriter of the places that findings name; the imported names that are kept stay bound."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(
        self, text: str, findings: Sequence[Judgement], kept: Collection[str] = ()
    ) -> None:
        super().__init__()
        self._kept = kept
        self._lines = re.split(r"\r\n|\r|\n", text)  # as Python counts lines
        self._calls: dict[tuple[int, int, int, int], list[Judgement]] = {}
        self._names: dict[tuple[int, int], list[Judgement]] = {}
        self._moved: dict[int, Judgement] = {}
        self.done: list[Judgement] = []
        for each in findings:
            call = each.use.call
            # An argument that may only have another name is not dropped.
            is_hint = each.verdict == "parameter-removed" and each.likely
            if each.verdict in _CALLS and call is not None and each.argument and not is_hint:
                end = call.end_lineno or 0, call.end_col_offset or 0
                self._calls.setdefault((call.lineno, call.col_offset, *end), []).append(each)
            elif each.use.at and _is_in_place(each) and each.likely.isidentifier():
                self._names.setdefault(each.use.at, []).append(each)
            elif each.verdict == "moved" and each.use.kind == "import":
                self._moved[each.use.line] = each

    def visit_AsName(self, node: cst.AsName) -> bool:  # noqa: N802 - the name that libcst calls
        """Leave what a name is bound as."""
        return False

    def leave_ImportAlias(  # noqa: N802 - the name that libcst calls
        self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias
    ) -> cst.ImportAlias:
        """Bind a renamed import under its old name where that is still asked for."""
        name = original_node.evaluated_name
        is_renamed = updated_node.evaluated_name != name
        if not is_renamed or name not in self._kept or original_node.asname is not None:
            return updated_node
        blank = cst.SimpleWhitespace(" ")
        return updated_node.with_changes(asname=cst.AsName(cst.Name(name), blank, blank))

    def _range(self, node: cst.CSTNode) -> CodeRange:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange), "the provider has a place for every node"
        return found

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:  # noqa: N802 - the name that libcst calls
        """Rename a name, be it an attribute's, an import's or its own."""
        place = self._range(original_node).start
        rows = self._names.get((place.line, self._column(place)), [])
        if not rows or rows[0].use.parts[-1] != original_node.value:
            return updated_node
        self.done += rows
        return updated_node.with_changes(value=rows[0].likely)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802 - the name that libcst calls
        """Leave the keyword of an argument: it is a name of the callee."""
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_ImportFrom(  # noqa: N802 - the name that libcst calls
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        """Import what moved from where it is now; of several names at once none is moved."""
        found = self._moved.get(self._range(original_node).start.line)
        names = original_node.names
        if found is None or isinstance(names, cst.ImportStar) or len(names) != 1:
            return updated_node
        module, _, last = found.likely.rpartition(".")
        old = found.use.parts
        # `pkg.v1.fields` beside `pkg.fields` is the package's older self, which goes with no other
        # part of the new one.
        is_copy = found.likely.endswith(".".join(("", *old[1:]))) and found.likely.startswith(
            old[0]
        )
        if not module or names[0].evaluated_name != last or is_copy:
            return updated_node
        self.done.append(found)
        path = cst.parse_expression(module)
        assert isinstance(path, (cst.Name, cst.Attribute)), "a module has a dotted name"
        return updated_node.with_changes(module=path, relative=())

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802 - the name that libcst calls
        """Rename, drop and add the keywords of a call that was judged."""
        found = self._calls.get(self._place(original_node), [])
        for each in found:
            args = self._args(updated_node, each)
            if args is not None:
                self.done.append(each)
                updated_node = updated_node.with_changes(args=args)
        return updated_node

    def _place(self, node: cst.Call) -> tuple[int, int, int, int]:
        """Return the place of a call as ast counts it, in bytes."""
        start, end = (span := self._range(node)).start, span.end
        return start.line, self._column(start), end.line, self._column(end)

    def _column(self, place: CodePosition) -> int:
        return len(self._lines[place.line - 1][: place.column].encode())

    def _args(self, call: cst.Call, finding: Judgement) -> list[cst.Arg] | None:
        args = list(call.args)
        names = [each.keyword.value if each.keyword else "" for each in args]
        name = finding.argument
        if finding.verdict == "parameter-required":
            # A generator that is the only argument has no parentheses.
            if (
                len(args) == 1
                and isinstance(one := args[0].value, cst.GeneratorExp)
                and not one.lpar
            ):
                one = one.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
                args = [args[0].with_changes(value=one)]
            none = cst.SimpleWhitespace("")
            added = cst.Arg(cst.Name(PLACE), cst.Name(name), cst.AssignEqual(none, none))
            if not args:
                return [added]
            # It goes on a line of its own where the arguments begin on one.
            before, last = call.whitespace_before_args, args.pop()
            kept = {"comma": last.comma, "whitespace_after_arg": last.whitespace_after_arg}
            gap = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ") if before.empty else before)
            last = last.with_changes(comma=gap, whitespace_after_arg=none)
            return [*args, last, added.with_changes(**kept)]
        if name not in names:
            return None
        at = names.index(name)
        if finding.verdict == "parameter-renamed":
            if not finding.likely.isidentifier() or finding.likely in names:
                return None
            args[at] = args[at].with_changes(keyword=cst.Name(finding.likely))
            return args
        last = at == len(args) - 1
        removed = args.pop(at)
        if last and args:
            # The argument in front becomes the last one, with its comma or without.
            args[-1] = args[-1].with_changes(
                comma=removed.comma, whitespace_after_arg=removed.whitespace_after_arg
            )
        return args
