"""A unit that exists in, the templates for more of its kind out: pure text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from scaffold.edit.entry import Entry
from scaffold.syntax import parse
from scaffold.templating.render import SUFFIX, toml_literal
from scaffold.templating.request import MANUAL
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.units.init.example import Example, OtherLine, UnitFile
from scaffold.units.init.name_forms import Region, Spelling, as_pattern, as_template
from scaffold.units.todos import find_todos

STYLE = "default"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Rule:
    """A registry line as the kind's manifest has it, and the line that it was made of."""

    entry: Entry
    file: str
    line: int


@dataclass(frozen=True)
class Draft:
    """A kind that is made from one of its units.

    Args:
        example: What was found of the unit.
        tests: The folder of the tests.
        files: The unit's files that templates are made of.
        rules: The registry lines, generalised.
    """

    example: Example
    tests: str
    files: tuple[UnitFile, ...]
    rules: tuple[Rule, ...]

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self.example.kind

    def texts(self) -> dict[str, bytes]:
        """Return the files of the kind and of its one style, by path relative to the root."""
        folder = f"{OWN_TEMPLATES}/{self.kind}"
        found = {
            f"{folder}/kind.toml": self._kind_toml().encode(),
            f"{folder}/{STYLE}/template.toml": self._template_toml().encode(),
        }
        for file, name in zip(self.files, _template_names(self), strict=True):
            found[f"{folder}/{STYLE}/{name}"] = self.template(file)
        return found

    def template(self, file: UnitFile) -> bytes:
        """Return a file's text as a template; the source says what its author has to write."""
        text = file.data.decode("utf-8")
        spelling = self.example.spelling
        body = as_template(text, spelling.hits_in_file(file.path, text))
        if file is self.files[0]:
            body = _marked(body, text, self.example)
        return body.encode("utf-8")

    def destination(self, file: UnitFile) -> str:
        """Return where a file of a new unit goes, as a manifest's string."""
        return path_pattern(file.path, self.example, self.tests)

    def _kind_toml(self) -> str:
        found = self.example
        words = self.kind.replace("-", " ")
        article = "an" if words[:1] in "aeiou" else "a"
        rows = [
            f"# Made by `scaffold init --like {found.files[0].path}`: change it as you like.",
            "schema = 1",
            "version = 1",
            f"title = {toml_literal(words.capitalize())}",
            f"help = {toml_literal(f'Adds {article} {words}, its tests and its registry lines.')}",
            f"command = {toml_literal(f'add-{self.kind}')}",
            f"suffixes = [{', '.join(map(toml_literal, found.suffixes))}]",
        ]
        symbol = self._symbol()
        rows += [f"symbol = {toml_literal(symbol)}"] if symbol else []
        rows += ["", "[style]", f'default = "{STYLE}"', "", "[place]"]
        for role in ("source", "test"):
            file = next((each for each in self.files if each.role == role), None)
            if file is not None:
                rows.append(f"{role} = {toml_literal(self.destination(file))}")
        rows += [row for rule in self.rules for row in _rule_rows(rule.entry)]
        rows += ["", "[verify]", 'contract = ""  # the unit\'s own tests are its contract', ""]
        return "\n".join(rows)

    def _symbol(self) -> str:
        """Return how a unit is imported, as a manifest's string."""
        found = self.example
        parts = PurePosixPath(found.files[0].path).with_suffix("").parts
        # `src/pkg/rewards/a.py` is imported as `pkg.rewards.a`.
        starts = [n for n, part in enumerate(parts) if part in found.spelling.packages]
        if not starts or not found.symbol:
            return ""
        # From the top-level package on, whatever folders are above it.
        inside = parts[starts[0] :]
        module = ".".join(inside[:-1] if inside[-1] == "__init__" else inside)
        text = f"{module}:{found.symbol}"
        return as_pattern(text, found.spelling.hits(text, "code")) or ""

    def _template_toml(self) -> str:
        words = self.kind.replace("-", " ")
        rows = [
            "schema = 1",
            "version = 1",
            'title = "Default"',
            f"help = {toml_literal(f'A {words} like {self.example.spelling.key}.')}",
        ]
        seen: set[str] = set()
        for file, name in zip(self.files, _template_names(self), strict=True):
            to = self.destination(file)
            # The first file of either role goes where [place] has it, which other kinds may refer
            # to.
            if file.role in ("source", "test") and file.role not in seen:
                seen.add(file.role)
                to = f"{{{file.role}}}"
            rows += ["", "[[files]]", f"from = {toml_literal(name)}", f"to = {toml_literal(to)}"]
            rows += [] if file.role == "source" else [f"role = {toml_literal(file.role)}"]
        return "\n".join([*rows, ""])


def propose(example: Example, tests: str) -> tuple[Draft, tuple[str, ...]]:
    """Make a kind of a unit.

    Args:
        example: What was found of the unit.
        tests: The folder of the tests, relative to the root.

    Returns:
        The draft, and warnings about what is left out of it.
    """
    rules: list[Rule] = []
    warnings: list[str] = []
    for line in example.registrations:
        entry = _generalised(line.entry, example.spelling)
        if entry is None:
            where = f"{line.entry.file}:{line.line}"
            warnings.append(f"{where} names it in a line that is not known by its name; left out")
        else:
            rules.append(Rule(entry, line.entry.file, line.line))
    for other in example.others:
        entry = manual(other, example.spelling)
        if entry is None:
            warnings.append(f"{other.file}:{other.line} names it beside braces; left out")
        else:
            rules.append(Rule(entry, other.file, other.line))
    files, left = _sound_files(example)
    return Draft(example, tests, files, tuple(rules)), (*warnings, *left)


def manual(other: OtherLine, spelling: Spelling) -> Entry | None:
    """Return the rule for a line that a person has to add, None where it cannot be written."""
    text = other.text.strip()
    region: Region = "code" if other.file.endswith(".py") else _region(text)
    key = as_pattern(text, spelling.hits(text, region))
    return None if key is None else Entry(other.file, "", MANUAL, key, "")


def path_pattern(path: str, example: Example, tests: str = "") -> str:
    """Return a path as a manifest's string; folders that the source stands in stay as they are."""
    spelling, home = example.spelling, PurePosixPath(example.files[0].path)
    fixed = set(home.parts[: -2 if home.name == "__init__.py" else -1])
    *folders, name = path.split("/")
    parts = [part if part in fixed else _pattern(part, spelling) for part in folders]
    found = "/".join([*parts, _pattern(name, spelling)])
    return re.sub(rf"^{re.escape(tests)}/", "{tests}/", found) if tests else found


def _pattern(text: str, spelling: Spelling) -> str:
    return as_pattern(text, spelling.hits(text, "data")) or text


def _generalised(entry: Entry, spelling: Spelling) -> Entry | None:
    """Return an entry with variables for the name; its key has to differ from unit to unit."""
    parts: dict[str, str] = {}
    for part in ("key", "value", "table"):
        text = getattr(entry, part)
        found = as_pattern(text, spelling.hits(text, _region_of(entry, part)))
        # One registry holds all units, so its address cannot have a unit's name in it.
        if found is None or (part == "table" and found != text):
            return None
        parts[part] = found
    # Of an import either part may hold the name: `from .gsm8k import reward_fn`.
    if entry.shape == "import":
        is_named = parts["key"] + parts["value"] != entry.key + entry.value
    else:
        is_named = parts["key"] != entry.key
    # A manifest would fill a brace in the file's own name.
    if not is_named or re.search(r"\{\w+\}", entry.file):
        return None
    return Entry(entry.file, parts["table"], entry.shape, parts["key"], parts["value"], entry.code)


def _region_of(entry: Entry, part: str) -> Region:
    is_code = entry.shape in ("branch", "decorator", "import") and part != "table"
    if is_code or (part in entry.code and entry.shape not in ("toml", "yaml")):
        return "code"
    return _region(getattr(entry, part))


def _region(text: str) -> Region:
    return "prose" if re.search(r"\s", text.strip()) else "data"


def _rule_rows(entry: Entry) -> list[str]:
    rows = ["", "[[registry]]", f"file = {toml_literal(entry.file)}"]
    rows += [f"table = {toml_literal(entry.table)}"] if entry.table else []
    rows += [f'shape = "{entry.shape}"', f"key = {_toml_text(entry.key)}"]
    rows += [f"value = {_toml_text(entry.value)}"] if entry.value else []
    codes = ", ".join(f'"{each}"' for each in entry.code)
    return [*rows, f"code = [{codes}]"] if entry.code else rows


def _toml_text(text: str) -> str:
    if "\n" not in text:
        return toml_literal(text)
    # Inside of three quotes a single quote needs no escape, and the rows stay readable.
    rows = [toml_literal(row)[1:-1].replace('\\"', '"') for row in text.split("\n")]
    return '"""\n' + "\n".join(rows).replace('"""', '\\"\\"\\"') + '\n"""'


def _sound_files(example: Example) -> tuple[tuple[UnitFile, ...], list[str]]:
    """Return the files whose names differ from unit to unit."""
    files: list[UnitFile] = []
    warnings: list[str] = []
    for file in example.files:
        pattern = path_pattern(file.path, example)
        if pattern == file.path:
            warnings.append(f"{file.path} would be the same file for every unit; left out")
        else:
            files.append(file)
    return tuple(files), warnings


def _template_names(draft: Draft) -> list[str]:
    found: list[str] = []
    for file in draft.files:
        path = PurePosixPath(file.path)
        hits = draft.example.spelling.hits(path.name, "data")
        name = path.name
        for hit in reversed(hits):
            name = f"{name[: hit.start]}unit{name[hit.end :]}"
        # Two files of a unit may be called alike in different folders, and template.toml is the
        # manifest.
        name = name.lstrip(".") + SUFFIX
        while name in found or name == "template.toml":
            name = f"{path.parent.name}_{name}" if found.count(name) < 2 else f"more_{name}"
        found.append(name)
    return found


# ---- the author's place --------------------------------------------------------------------------


def _marked(body: str, text: str, example: Example) -> str:
    """Return a template with the comment that makes a new unit unfinished until it is written."""
    where = mark_line(text, example.symbol)
    if where is None:
        return body
    line, indent = where
    rows = body.split("\n")
    # The line ends of a file with "\r\n" are written out in its template.
    end = '{{ "\\r" }}' if rows[line - 1].endswith('{{ "\\r" }}') else ""
    rows.insert(line - 1, f"{indent}{mark_text(example.spelling.key)}{end}")
    return "\n".join(rows)


def mark_text(key: str) -> str:
    """Return the comment at the place that is the author's."""
    return f"# YOURS: replace what is specific to {key}"


def mark_line(text: str, symbol: str) -> tuple[int, str] | None:
    """Return the line in front of which the comment goes, and its indentation.

    It is the first statement of the function that bears the unit's name, or of the class's first
    method that is no dunder; else the first definition or assignment of the module.
    """
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
    rows.insert(place[0] - 1, f"{place[1]}{mark_text('it')}")
    try:
        # In a string or behind a backslash the comment would be none.
        return len(find_todos("x.py", "\n".join(rows))) == 1
    except (SyntaxError, ValueError):
        return False


def without_mark(data: bytes, key: str) -> bytes:
    """Return a rendered file without the comment, as its example stands there."""
    rows = data.split(b"\n")
    mark = mark_text(key).encode()
    return b"\n".join(row for row in rows if row.strip() != mark)


def describe(files: Iterable[UnitFile], rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return what was found, as lines with the evidence."""
    rows = [f"{file.role:<9} {file.path}" for file in files]
    rows += [
        f"{rule.entry.shape:<9} {rule.file}:{rule.line}  {_shown(rule.entry)}" for rule in rules
    ]
    return tuple(rows)


def _shown(entry: Entry) -> str:
    text = f"{entry.key} = {entry.value}" if entry.value else entry.key
    text = " ".join(text.split())
    where = f"{entry.table}: " if entry.table else ""
    return where + (text if len(text) <= 80 else text[:77] + "...")
