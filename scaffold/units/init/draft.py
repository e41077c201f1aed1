"""What was learned of a family in, the manifests and templates of a kind out: pure text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from scaffold.edit.entry import Entry
from scaffold.syntax import parse
from scaffold.target.target import key_names
from scaffold.templating.render import SUFFIX, toml_literal
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.units.init.family import Family, prefix_variable
from scaffold.units.init.learn import LearnedFile, is_hollow, used_variables
from scaffold.units.init.rules import Question, Rule, Step
from scaffold.units.init.spellings import CLASS_NAME, CLASS_PREFIX, Name, as_pattern, slots
from scaffold.units.todos import find_todos

STYLE = "default"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Draft:
    """A kind that is made from the units of a folder.

    Args:
        family: The units.
        tests: The folder of the tests.
        roots: The folders that modules are imported from, "" for the repository's own.
        files: What units consist of, the source first; of those without a template, the author
            is told.
        rules: The registry lines.
        steps: What is left to a person.
    """

    family: Family
    tests: str
    roots: tuple[str, ...]
    files: tuple[LearnedFile, ...]
    rules: tuple[Rule, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self.family.kind

    @property
    def made(self) -> tuple[LearnedFile, ...]:
        """The files that there is a template for."""
        return tuple(file for file in self.files if file.template is not None)

    @property
    def questions(self) -> tuple[Question, ...]:
        """What a new unit is asked for, each name once."""
        rows = {rule.question.name: rule.question for rule in self.rules if rule.question}
        return tuple(rows.values())

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """The answers about classes that templates or registry lines use."""
        texts = [
            *(f"{file.template} {file.to}" for file in self.made),
            *(f"{rule.entry.key} {rule.entry.value}" for rule in self.rules),
        ]
        return tuple(each for each in (CLASS_PREFIX, CLASS_NAME) if used_variables(texts, each))

    def texts(self) -> dict[str, bytes]:
        """Return the files of the kind and of its one style, by path relative to the root."""
        folder = f"{OWN_TEMPLATES}/{self.kind}"
        found = {
            f"{folder}/kind.toml": self._kind_toml().encode(),
            f"{folder}/{STYLE}/template.toml": self._template_toml().encode(),
        }
        for file, name in zip(self.made, self._template_names(), strict=True):
            assert file.template is not None
            found[f"{folder}/{STYLE}/{name}"] = file.template.encode("utf-8")
        return found

    def destination(self, file: LearnedFile) -> str:
        """Return where a file of a new unit goes, as a manifest's string."""
        return re.sub(rf"^{re.escape(self.tests)}/", "{tests}/", file.to) if self.tests else file.to

    def answers(self, name: Name, own: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return answers to all questions for a unit: what it has, or what is the default."""
        found = {
            q.name: (own or {}).get(q.name) or q.default or (name.key if q.is_key else q.example)
            for q in self.questions
        }
        spelled = key_names(name.key)
        variable = prefix_variable(self.family.names.values())
        given = {
            CLASS_PREFIX: name.class_prefix or spelled[variable],
            CLASS_NAME: name.class_name or spelled["pascal"],
        }
        return found | {each: given[each] for each in self.asked}

    def _kind_toml(self) -> str:
        family = self.family
        words = self.kind.replace("-", " ")
        article = "an" if words[:1] in "aeiou" else "a"
        learned = ", ".join([family.unit.key, *(each.key for each in family.siblings)])
        rows = [
            f"# Made by `scaffold init --like {family.unit.home}`: change it as you like.",
            *_wrapped(f"Learned from {learned}."),
            "schema = 1",
            "version = 1",
            f"title = {toml_literal(words.capitalize())}",
            f"help = {toml_literal(f'Adds {article} {words}, its tests and its registry lines.')}",
            f"command = {toml_literal(f'add-{self.kind}')}",
            f"suffixes = [{', '.join(map(toml_literal, family.suffixes))}]",
        ]
        symbol = self._symbol()
        rows += [f"symbol = {toml_literal(symbol)}"] if symbol else []
        rows += ["", "[style]", f'default = "{STYLE}"', "", "[place]"]
        for role in ("source", "test"):
            file = next((each for each in self.made if each.role == role), None)
            if file is not None and not _is_answered(file.to):
                rows.append(f"{role} = {toml_literal(self.destination(file))}")
        names = family.names.values()
        if CLASS_PREFIX in self.asked:
            known = ", ".join(each.class_prefix for each in names if each.class_prefix)
            text = f"how the name is written in names of classes: {known}"
            rows += _answer_rows(CLASS_PREFIX, text, default_from=f"name:{prefix_variable(names)}")
        if CLASS_NAME in self.asked:
            known = ", ".join(each.class_name for each in names if each.class_name)
            text = f"what its class is called: {known}"
            rows += _answer_rows(CLASS_NAME, text, default_from="name:pascal")
        for question in self.questions:
            rows += _answer_rows(question.name, question.help, default=question.default)
            rows += ['check = "identifier"'] if question.is_name else []
        rows += [row for rule in self.rules for row in _rule_rows(rule.entry)]
        for file in self.files:
            if file.template is None or (file.kept < 1 and is_hollow(file.text)):
                why = f"write it: the units have nothing in common there; see {file.path}"
                rows += _next_rows(self.destination(file), why)
        for step in self.steps:
            rows += _next_rows(step.file, step.why, step.like)
        rows += ["", "[verify]", 'contract = ""  # the unit\'s own tests are its contract', ""]
        return "\n".join(rows)

    def _symbol(self) -> str:
        """Return how a unit is imported, as a manifest's string."""
        name = self.family.unit.name
        for file in self.made:
            module = module_of(file.path, self.roots)
            if (
                file.role != "source"
                or not module
                or not file.path.startswith(self.family.unit.home)
            ):
                continue
            symbol = main_symbol(file.text, name)
            if symbol:
                text = f"{module}:{symbol}"
                return as_pattern(text, slots(text, name, self.family.names, {})) or ""
        return ""

    def _template_toml(self) -> str:
        rows = [
            "schema = 1",
            "version = 1",
            'title = "Default"',
            f"help = {toml_literal(f'Modelled on {self.family.unit.key}.')}",
        ]
        seen: set[str] = set()
        for file, name in zip(self.made, self._template_names(), strict=True):
            to = self.destination(file)
            # The first file of either role goes where [place] has it, which other kinds may refer
            # to.
            if file.role in ("source", "test") and not {file.role, CLASS_PREFIX in to} & {
                *seen,
                True,
            }:
                seen.add(file.role)
                to = f"{{{file.role}}}"
            rows += ["", "[[files]]", f"from = {toml_literal(name)}", f"to = {toml_literal(to)}"]
            rows += [] if file.role == "source" else [f"role = {toml_literal(file.role)}"]
        return "\n".join([*rows, ""])

    def _template_names(self) -> list[str]:
        found: list[str] = []
        for file in self.made:
            path = PurePosixPath(file.common.replace("\0", "unit"))
            # template.toml is the manifest, and two files may be called alike in two folders.
            name = path.name.lstrip(".") + SUFFIX
            if name in found or name == "template.toml":
                name = f"{path.parent.name}_{name}"
            number = 2
            while name in found:
                name = f"{number}_{path.name}{SUFFIX}"
                number += 1
            found.append(name)
        return found


def _is_answered(to: str) -> bool:
    """Return whether a path has an answer in it, which [place] does not know."""
    return any(f"{{{each}}}" in to for each in (CLASS_PREFIX, CLASS_NAME))


def import_roots(files: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that modules are imported from, those of the whole repository first."""
    known = frozenset(files)
    found = {""}
    for path in known:
        place = PurePosixPath(path)
        if place.name in ("pyproject.toml", "setup.py", "setup.cfg"):
            found.add(_folder(place.parent))
    folders = {str(parent) for path in known for parent in PurePosixPath(path).parents}
    for each in tuple(found):
        found |= {
            inner
            for name in ("src", "lib")
            if (inner := _folder(PurePosixPath(each) / name)) in folders
            and f"{inner}/__init__.py" not in known
        }
    return tuple(sorted(found, key=lambda each: (each.count("/") + bool(each), each)))


def _folder(path: PurePosixPath) -> str:
    return "" if str(path) == "." else str(path)


def module_of(path: str, roots: Iterable[str]) -> str:
    """Return how a file is imported, "" where it is not; the deepest root is the file's own."""
    for root in sorted(roots, key=lambda each: -len(each)):
        if root and not path.startswith(f"{root}/"):
            continue
        parts = PurePosixPath(path[len(root) :].lstrip("/")).with_suffix("").parts
        parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
        is_sound = parts and all(part.isidentifier() for part in parts)
        return ".".join(parts) if is_sound and path.endswith(".py") else ""
    return ""


def main_symbol(text: str, name: Name) -> str:
    """Return the class or function of a source that bears a unit's name, "" where none does."""
    try:
        body = parse(text).body
    except (SyntaxError, ValueError):
        return ""
    defined = [
        node.name
        for node in body
        if isinstance(node, ast.ClassDef | Function)
        and not node.name.startswith("_")
        and name.occurs_in(node.name)
    ]
    return min(defined, key=lambda each: (not each[0].isupper(), len(each)), default="")


# ---- the author's place --------------------------------------------------------------------------


def with_mark(file: LearnedFile, name: Name, why: str) -> LearnedFile:
    """Return a source with a comment that makes a new unit unfinished until it is written.

    A source that differs nowhere from its counterparts has no such comment yet; it goes to the
    function that bears the unit's name, the first method of such a class, or the first definition.
    """
    assert file.template is not None
    if file.template.count("\n") != file.text.count("\n"):
        return file
    where = _mark_line(file.text, main_symbol(file.text, name))
    if where is None:
        return file
    line, indent = where
    mark = f"{indent}# YOURS: {why}"
    rows = file.template.split("\n")
    # The line ends of a file with "\r\n" are written out in its template.
    end = '{{ "\\r" }}' if rows[line - 1].endswith('{{ "\\r" }}') else ""
    rows.insert(line - 1, mark + end)
    return replace(file, template="\n".join(rows))


def _mark_line(text: str, symbol: str) -> tuple[int, str] | None:
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return None
    named = [node for node in tree.body if getattr(node, "name", "") == symbol and symbol]
    others = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    for node in (*named, *(n for n in tree.body if isinstance(n, Function)), *others):
        found = _place_in(node)
        if found is not None and _is_sound(text, found):
            return found
    return None


def _place_in(node: ast.stmt) -> tuple[int, str] | None:
    if isinstance(node, ast.ClassDef):
        methods = [each for each in node.body if isinstance(each, Function)]
        # What is specific to a unit is rarely its constructor.
        plain = [each for each in methods if not each.name.startswith("__")]
        fields = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        for each in (*plain, *methods, *fields):
            return _place_in(each)
        return None
    if not isinstance(node, Function):
        return node.lineno, " " * node.col_offset
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    # `def f(): ...` on one line has no room inside: the comment goes above the definition.
    if not body or body[0].lineno == node.lineno:
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return first, " " * node.col_offset
    first = body[0]
    marks = getattr(first, "decorator_list", [])
    return min([first.lineno, *(each.lineno for each in marks)]), " " * first.col_offset


def _is_sound(text: str, place: tuple[int, str]) -> bool:
    rows = text.split("\n")
    rows.insert(place[0] - 1, f"{place[1]}# YOURS: it")
    try:
        # In a string or behind a backslash the comment would be none.
        return len(find_todos("x.py", "\n".join(rows))) == 1
    except (SyntaxError, ValueError):
        return False


# ---- rows of TOML --------------------------------------------------------------------------------


def _wrapped(text: str) -> list[str]:
    rows, row = list[str](), "#"
    for word in text.split():
        if len(row) + len(word) > 98:
            rows.append(row)
            row = "#"
        row += f" {word}"
    return [*rows, row]


def _answer_rows(name: str, text: str, *, default: str = "", default_from: str = "") -> list[str]:
    rows = ["", f"[answers.{name}]", 'type = "str"', f"help = {toml_literal(text)}"]
    if default_from:
        rows += [f"default_from = {toml_literal(default_from)}", 'pattern = "[A-Z][A-Za-z0-9]*"']
    return [*rows, f"default = {toml_literal(default)}"] if default else rows


def _rule_rows(entry: Entry) -> list[str]:
    rows = ["", "[[registry]]", f"file = {toml_literal(entry.file)}"]
    rows += [f"table = {toml_literal(entry.table)}"] if entry.table else []
    rows += [f'shape = "{entry.shape}"', f"key = {_toml_text(entry.key)}"]
    rows += [f"value = {_toml_text(entry.value)}"] if entry.value else []
    rows += [f"near = {_toml_text(entry.near)}"] if entry.near else []
    codes = ", ".join(f'"{each}"' for each in entry.code)
    return [*rows, f"code = [{codes}]"] if entry.code else rows


def _next_rows(file: str, why: str, like: str = "") -> list[str]:
    rows = ["", "[[next]]", f"file = {toml_literal(file)}", f"why = {toml_literal(why)}"]
    return [*rows, f"like = {toml_literal(like)}"] if like else rows


def _toml_text(text: str) -> str:
    if "\n" not in text:
        return toml_literal(text)
    # Inside of three quotes a single quote needs no escape, and the rows stay readable.
    rows = [toml_literal(row)[1:-1].replace('\\"', '"') for row in text.split("\n")]
    return '"""\n' + "\n".join(rows).replace('"""', '\\"\\"\\"') + '\n"""'


def describe(draft: Draft) -> tuple[str, ...]:
    """Return what was found, as lines with the evidence."""
    family = draft.family
    units = 1 + len(family.siblings)
    rows = [f"{'units':<9} {', '.join([family.unit.key, *(s.key for s in family.siblings)])}"]
    for file in draft.files:
        note = "yours to write" if file.template is None else f"{file.kept:.0%} is the kind's"
        rows.append(f"{file.role:<9} {file.path}  ({note})")
    rows += [
        f"{rule.entry.shape:<9} {rule.entry.file}:{rule.line}  {_shown(rule.entry)}  "
        f"({rule.count} of {units})"
        for rule in draft.rules
    ]
    rows += [f"{'by hand':<9} {step.file}  {step.why}" for step in draft.steps]
    return tuple(rows)


def _shown(entry: Entry) -> str:
    text = f"{entry.key} = {entry.value}" if entry.value else entry.key
    text = " ".join(text.split())
    where = f"{entry.table}: " if entry.table else ""
    return where + (text if len(text) <= 80 else text[:77] + "...")
