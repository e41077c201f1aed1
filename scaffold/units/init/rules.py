"""The registry lines of a kind: those that most units have, in the block where these are.

A line is known by what it has in common with those of the other units. What no shape can edit is
left to a person, with the lines to look at.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from scaffold.edit.entry import Entry
from scaffold.units.init.family import NOT_LOOKED_AT, Family, Unit, read_text
from scaffold.units.init.learn import PROSE, role_of
from scaffold.units.init.registrations import find_entries, proven_line, without_entry
from scaffold.units.init.spellings import (
    Evidence,
    Lexicon,
    Name,
    as_pattern,
    canon,
    count_same,
    flattened,
    is_most,
    same_name,
    slots,
)

MAX_STEPS = 8
"""How many steps are left to a person; what is more is named once."""

MIN_ALL = 20
"""In a repository with fewer modules, those of the units may be most of them."""

MAX_LINE = 200
"""How long a line may be that a person is told to add its like of."""

MAX_EXAMPLE = 60
"""How much of an example is shown where a new unit is asked for its own."""

_KEYED = ("dict", "import")
"""The shapes whose key may be a question, as their value shows whose they are."""

_BESIDE = ("dict", "list", "import")
"""The shapes in which a new entry joins the block of one that is there."""

_ANSWERED = ("dict", "yaml", "toml", "markdown", "markdown-list", "assignment", "subscript")
"""The shapes whose value may be a question; of the others it is code of several lines."""


@dataclass(frozen=True)
class Question:
    """What a new unit is asked for.

    Args:
        name: What the answer is called.
        help: What it is for.
        example: What the unit that is meant has.
        default: What most have, "" where it differs.
        is_key: Whether the line is known by the answer, so that no two units have the same.
        is_name: Whether that is a name in Python.
    """

    name: str
    help: str
    example: str
    default: str = ""
    is_key: bool = False
    is_name: bool = False


@dataclass(frozen=True)
class Rule:
    """A registry line as the kind's manifest has it, and the line that it was learned from.

    Args:
        entry: The line with variables for the name.
        found: The line itself.
        unit: The unit that it was learned from.
        line: Where that is in the file, from 1.
        count: How many units have it.
        question: What is asked for its value, if anything.
    """

    entry: Entry
    found: Entry
    unit: str
    line: int
    count: int
    question: Question | None = None


@dataclass(frozen=True)
class Step:
    """What a person has to do in a file that no shape can edit.

    ``like`` is the line that the units have there, as a manifest's string.
    """

    file: str
    why: str
    like: str = ""


@dataclass
class Rules:
    """The registry lines of a kind, what is left to a person, and what was left alone."""

    rules: list[Rule] = field(default_factory=list[Rule])
    steps: list[Step] = field(default_factory=list[Step])
    notes: list[str] = field(default_factory=list[str])


def learn_rules(family: Family, files: Mapping[str, bytes], lexicon: Lexicon) -> Rules:
    """Return the registry lines that most units have.

    Args:
        family: The units.
        files: The repository's text files.
        lexicon: How identifiers are spelled; takes in those of the lines.
    """
    units = (family.unit, *family.siblings)
    own = {path for unit in units for path in unit.paths.values()}
    homes = tuple(f"{unit.home}/" for unit in units)
    found = Rules()
    for path in sorted(files):
        if path in own or path.startswith(homes) or NOT_LOOKED_AT.search(path):
            continue
        text = read_text(files, path)
        flat = flattened(text)
        held = [unit for unit in units if unit.name.may_occur_in(flat)]
        named = [unit for unit in held if unit.name.occurs_in(text)]
        if is_most(len(named) - 1, len(family.siblings)) and not _names_all(text, family, files):
            _learn_file(family, path, files[path], named, found, lexicon)
    kept = _with_definitions(found.rules, files, own)
    # A file of tests that names units one by one is no list of them.
    used = _without_bare_imports(kept)
    tests = {rule.entry.file for rule in kept if role_of(rule.entry.file) == "test"}
    by_hand = [each for each in found.rules if each not in used and each.entry.file not in tests]
    found.steps[:0] = _steps_of(family, by_hand, files)
    found.rules = _with_own_questions(used)
    if len(found.steps) > MAX_STEPS:
        rest = sorted({step.file for step in found.steps[MAX_STEPS:]})
        found.notes.append(f"most units are named in {', '.join(rest)} too: look there as well")
        found.steps = found.steps[:MAX_STEPS]
    return found


def _with_own_questions(rules: Iterable[Rule]) -> list[Rule]:
    """Tell questions of one name apart by where their answers go, if those are not the same."""
    found: list[Rule] = []
    asked: dict[str, str] = {}
    for rule in rules:
        question, folders = rule.question, list(PurePosixPath(rule.entry.file).parts)
        if question is not None:
            name = question.name
            while folders and asked.setdefault(name, question.example) != question.example:
                words = re.findall(r"[a-z][a-z0-9]*", folders.pop().partition(".")[0].lower())
                # A page has given its name already.
                name = name if name.split("_")[: len(words)] == words else "_".join([*words, name])
            old, new = f"{{{question.name}}}", f"{{{name}}}"
            entry = rule.entry
            entry = replace(
                entry, key=entry.key.replace(old, new), value=entry.value.replace(old, new)
            )
            rule = replace(rule, entry=entry, question=replace(question, name=name))
        found.append(rule)
    return found


def _names_all(text: str, family: Family, files: Mapping[str, bytes]) -> bool:
    """Return whether a file names most modules of the repository, as a report on all of them does.

    It is no evidence of the units then, and is written by a tool.
    """
    if family.unit.home not in text:
        return False
    paths = [path for path in files if path.endswith(".py") and role_of(path) == "source"]
    return len(paths) >= MIN_ALL and 2 * sum(path in text for path in paths) > len(paths)


def _learn_file(
    family: Family,
    path: str,
    data: bytes,
    named: Sequence[Unit],
    found: Rules,
    lexicon: Lexicon,
) -> None:
    entries = {unit.key: find_entries(path, data, unit.name) for unit in named}
    rest = data
    first = len(found.rules)
    for group in _groups(entries, family):
        if not is_most(len(group) - 1, len(family.siblings)):
            continue
        rule = _rule(family, data, group, lexicon)
        if rule is None or _is_taken(rule, found.rules[first:]):
            continue
        # What is found by its value alone may have been found by its key before.
        if any(
            each.line == rule.line
            and (each.entry.shape, each.entry.value) == (rule.entry.shape, rule.entry.value)
            and (rule.question or each.entry == rule.entry)
            for each in found.rules[first:]
        ):
            continue
        # A unit whose line is like no other's leaves a question where the others leave none.
        same = [each for each in found.rules[first:] if _is_one_line(each, rule)]
        if same and (rule.question or not same[0].question):
            continue
        found.rules = [each for each in found.rules if each not in same]
        found.rules.append(rule)
        if rule.question and rule.entry.key == f"{{{rule.question.name}}}":
            found.rules += _same_names(family, data, entries, group, rule)
        rest = without_entry(rest, group.get(family.unit.key) or next(iter(group.values())))
    base = family.unit if family.unit in named else named[0]
    if not path.endswith(PROSE):
        lines = (rule.found for rule in found.rules[first:] if rule.found.shape != "import")
        used = " ".join(f"{each.key} {each.value}" for each in lines)
        found.steps += _steps(family, path, data, rest, base, used)


def _groups(entries: Mapping[str, Sequence[Entry]], family: Family) -> list[dict[str, Entry]]:
    """Return the entries of different units that are counterparts, by unit."""
    found: dict[tuple[str, ...], dict[str, Entry]] = {}
    for key, rows in entries.items():
        name = family.names[key]
        for entry in rows:
            # One table holds all units, so its address has no name in it.
            if name.occurs_in(entry.table) or re.search(r"\{\w+\}", entry.file):
                continue
            known = canon(name.pieces(entry.key))
            value = canon(name.pieces(entry.value))
            if entry.shape == "import":
                known += f" < {value}"
            elif "\0" not in known:
                # Known by another thing than its name: it is the unit's by its value.
                if "\0" not in value or entry.shape not in _KEYED:
                    continue
                known = f" < {value}"
            found.setdefault((entry.shape, entry.table, known), {}).setdefault(key, entry)
            if entry.shape in _KEYED and "\0" in value:
                group = found.setdefault((entry.shape, entry.table, f" any < {value}"), {})
                # Of several lines for one unit the one that is called like it shows what is meant.
                if key not in group or (
                    same_name(entry.key, key) and not same_name(group[key].key, key)
                ):
                    group[key] = entry
    return list(found.values())


def _same_names(
    family: Family,
    data: bytes,
    entries: Mapping[str, Sequence[Entry]],
    group: Mapping[str, Entry],
    rule: Rule,
) -> list[Rule]:
    """Return the lines of a file that are known by what the units import there."""
    tables = {each.table for rows in entries.values() for each in rows} | {"__all__"}
    found: list[Rule] = []
    for table in sorted(tables):
        own = {key: Entry(entry.file, table, "list", entry.key, "") for key, entry in group.items()}
        lines = {key: proven_line(data, each) for key, each in own.items()}
        count = sum(line is not None for line in lines.values())
        line = lines[rule.unit]
        if line is not None and is_most(count - 1, len(family.siblings)):
            entry = replace(own[rule.unit], key=rule.entry.key)
            found.append(Rule(entry, own[rule.unit], rule.unit, line, count, rule.question))
    return found


def _rule(family: Family, data: bytes, group: Mapping[str, Entry], lexicon: Lexicon) -> Rule | None:
    base = family.unit.key if family.unit.key in group else next(iter(group))
    entry = group[base]
    names = family.names
    lines = {key: proven_line(data, each) for key, each in group.items()}
    line = lines[base]
    if line is None or not is_most(sum(n is not None for n in lines.values()) - 1,
                                   len(family.siblings)):  # fmt: skip
        return None
    key = _part(family, base, group, "key", lexicon)
    value = _part(family, base, group, "value", lexicon)
    question = None
    if key is None:
        if value is None or entry.shape not in _KEYED:
            return None
        name = _question_name(
            replace(entry, key=PurePosixPath(entry.file).parent.name), names[base]
        )
        question = Question(
            f"{name}_name",
            f"what {entry.file} knows it by, such as: {_shown(entry.key)}",
            entry.key,
            is_key=True,
            is_name=entry.shape == "import" and entry.key.isidentifier(),
        )
        key = f"{{{question.name}}}"
    elif value is None:
        if entry.shape not in _ANSWERED:
            return None
        # One word alone may be a variable of all templates, or an option of all commands.
        name = _question_name(entry, names[base])
        question = Question(
            name if "_" in name else f"{name}_value".strip("_"),
            f"what {entry.file} has for it, such as: {_shown(entry.value)}",
            entry.value,
            _default(entry, [each.value for each in group.values()]),
        )
        value = f"{{{question.name}}}"
    near = entry.key if entry.shape in _BESIDE and entry.key != "*" else ""
    made = replace(entry, key=key, value=value, near=near)
    return Rule(made, entry, base, line, len(group), question)


def _part(
    family: Family, base: str, group: Mapping[str, Entry], part: str, lexicon: Lexicon
) -> str | None:
    """Return a part of counterparts as a manifest's string, None where they differ."""
    names = family.names
    text = getattr(group[base], part)
    own = names[base].pieces(text)
    evidence: Evidence = {}
    texts = {key: getattr(entry, part) for key, entry in group.items() if key != base}
    others = ((key, names[key].pieces(each)) for key, each in texts.items())
    if not is_most(count_same(own, others, evidence), len(texts)):
        return None
    entry = group[base]
    is_code = part in entry.code or (part == "value" and entry.shape not in _ANSWERED)
    is_prose = bool(re.search(r"\s", text.strip())) and not is_code
    lexicon.add(text, own, evidence)
    found = slots(text, names[base], names, evidence, is_prose=is_prose, lexicon=lexicon)
    return as_pattern(text, found)


def _shown(text: str) -> str:
    """Return an example for a line of help."""
    row = " ".join(text.split())
    return row if len(row) <= MAX_EXAMPLE else f"{row[: MAX_EXAMPLE - 4]} ..."


def _default(entry: Entry, values: Sequence[str]) -> str:
    """Return what most units have; of a row in a page, cell by cell, with a mark for the rest."""

    def most(texts: Sequence[str]) -> str:
        common = max(set(texts), key=lambda each: (texts.count(each), each))
        return common if 2 * texts.count(common) > len(texts) else ""

    if not entry.shape.startswith("markdown"):
        return most(values)
    rows = [value.split(" | ") for value in values]
    width = len(entry.value.split(" | "))
    cells = [[row[n] for row in rows if len(row) == width] for n in range(width)]
    return " | ".join(most(cell) or "?" for cell in cells)


def _question_name(entry: Entry, name: Name) -> str:
    """Return what to call an answer: after the page, or the words around the unit's name."""
    text = canon(name.pieces(entry.key)).replace("\0", " ")
    if entry.shape.startswith("markdown"):
        text = PurePosixPath(entry.file).stem
    words = re.findall(r"[a-z][a-z0-9]*", text.lower())
    words = words or re.findall(r"[a-z][a-z0-9]*", entry.table.lower())
    return "_".join(words[-4:])[:48].strip("_")


def _is_one_line(one: Rule, other: Rule) -> bool:
    """Return whether a file cannot hold both lines of a unit, as they are known by the same."""
    return one.entry.shape in _ANSWERED and (
        (one.entry.shape, one.entry.table, one.entry.key)
        == (other.entry.shape, other.entry.table, other.entry.key)
    )


def _is_taken(rule: Rule, others: Iterable[Rule]) -> bool:
    """Return whether the line is known already, as an entry of another shape."""
    return any(
        other.line == rule.line
        and (other.entry.shape, other.entry.table) != (rule.entry.shape, rule.entry.table)
        and other.entry.key in (rule.entry.key, rule.entry.value)
        for other in others
    )


def _with_definitions(
    rules: Sequence[Rule], files: Mapping[str, bytes], own: AbstractSet[str]
) -> list[Rule]:
    """Leave out imports of names that nobody would define, and the lines that use these.

    Such a name is in a module that all units share: its definition is a person's, and until
    it is there, the import would break whatever imports the file.

    Args:
        rules: The lines.
        files: The repository's files.
        own: Those of the units.
    """

    def is_defined(rule: Rule, above: tuple[Rule, ...] = ()) -> bool:
        if rule.found.shape != "import" or "{" not in rule.entry.key:
            return True
        name, *_ = rule.found.key.split(" as ")
        modules = _modules(rule.found, files)
        folders = [place.removesuffix("__init__.py") for place in modules]
        inside = {f"{each}{name}{end}" for each in folders for end in (".py", "/__init__.py")}
        if not modules or own & {*modules, *inside}:
            return True
        return any(
            re.search(rf"\b{re.escape(name)}\b", f"{each.found.key} {each.found.value}")
            and (each.found.shape != "list")
            and is_defined(each, (*above, rule))
            for each in rules
            if each.entry.file in modules and each not in (*above, rule)
        )

    gone = [rule for rule in rules if not is_defined(rule)]
    names = {(rule.entry.file, rule.found.key.split(" as ")[-1]) for rule in gone}
    return [
        rule
        for rule in rules
        if rule not in gone
        and not any(
            rule.entry.file == file
            and re.search(rf"\b{re.escape(name)}\b", f"{rule.found.key} {rule.found.value}")
            for file, name in names
        )
    ]


def _modules(entry: Entry, files: Mapping[str, bytes]) -> set[str]:
    """Return the files that may be the module which an import is from; none of another package."""
    module = entry.value.lstrip(".")
    level = len(entry.value) - len(module)
    inner = module.replace(".", "/")
    if level:
        above = PurePosixPath(entry.file).parents[level - 1 : level]
        bases = {str(each / inner) if inner else str(each) for each in above}
        ends = {end for each in bases for end in (f"{each}.py", f"{each}/__init__.py")}
        return ends & files.keys()
    ends = tuple(f"{inner}{end}" for end in (".py", "/__init__.py")) if inner else ()
    found = {path for path in files if path.endswith(ends) and f"/{path}".endswith(
        tuple(f"/{end}" for end in ends))}  # fmt: skip
    # A repository may be the package itself, whose name is no folder in it.
    return found or {end.partition("/")[2] for end in ends} & files.keys()


def _without_bare_imports(rules: Sequence[Rule]) -> list[Rule]:
    """Leave out imports that no other line would use."""

    def is_used(rule: Rule) -> bool:
        entry = rule.entry
        if entry.shape != "import" or entry.file.endswith("/__init__.py") or entry.table:
            return True
        name = entry.key.split(" as ")[-1].partition(".")[0]
        texts = [
            f"{each.entry.key} {each.entry.value}"
            for each in rules
            if each.entry.file == entry.file and each.entry.shape != "import"
        ]
        return any(name in text for text in texts)

    return [rule for rule in rules if is_used(rule)]


# ---- what no shape can edit ----------------------------------------------------------------------


def _steps(
    family: Family, path: str, data: bytes, rest: bytes, base: Unit, used: str
) -> list[Step]:
    """Return the blocks of lines whose like most units have, in what is left of a file.

    Args:
        family: The units.
        path: The file.
        data: Its bytes.
        rest: What of them no rule has.
        base: The unit whose lines are looked at.
        used: What the rules of the file write there.
    """
    text = data.decode("utf-8-sig", "replace")
    left = set(rest.decode("utf-8-sig", "replace").splitlines())
    rows = text.splitlines()
    spoken = _spoken_lines(text) if path.endswith((".py", ".pyi")) else frozenset[int]()
    forms = {
        unit.key: {
            canon(pieces).removesuffix(" ,")
            for row in rows
            if len(row) <= MAX_LINE and unit.name.occurs_in(row)
            for pieces in [unit.name.pieces(row)]
        }
        for unit in (family.unit, *family.siblings)
    }
    hits: list[int] = []
    for number, row in enumerate(rows, 1):
        if number in spoken or len(row) > MAX_LINE or row not in left:
            continue
        if row.lstrip().startswith(("#", "//", ";")) or not base.name.occurs_in(row):
            continue
        # The last line of a list has no comma.
        form = canon(base.name.pieces(row)).removesuffix(" ,")
        count = sum(form in known for key, known in forms.items() if key != base.key)
        # An import is only a line for a person where the file is the list, or uses what it binds.
        is_import = re.match(r"\s*(from|import)\b", row)
        bound = set(re.findall(r"\w+", row.rpartition("import")[2] if is_import else ""))
        is_step = not is_import or bound & set(re.findall(r"\w+", used))
        if is_step and is_most(count, len(family.siblings)):
            hits.append(number)
    blocks: list[list[int]] = []
    for number in hits:
        if blocks and number - blocks[-1][-1] <= 3:
            blocks[-1].append(number)
        else:
            blocks.append([number])
    found: dict[str, Step] = {}
    for block in blocks:
        step = _step(family, path, rows[block[0] - 1], base, len(block))
        found.setdefault(step.like or step.why, step)
    return list(found.values())


def _step(family: Family, path: str, row: str, base: Unit, count: int = 1) -> Step:
    """Return what a person has to do where a unit has some lines, of which one is given."""
    text, last = "", 0
    for slot in slots(row.strip(), base.name, family.names, {}):
        text, last = f"{text}{row.strip()[last : slot.start]}{{{slot.variable}}}", slot.end
    like = text + row.strip()[last:]
    # In a manifest's string a name in braces would be a variable.
    shown = re.sub(r"\{(\w+)\}", r"{ \1 }", " ".join(row.split()))
    what = f"{count} lines from" if count > 1 else "line"
    return Step(path, f"add the like of {base.key}'s {what} `{shown}`", like)


def _steps_of(family: Family, rules: Iterable[Rule], files: Mapping[str, bytes]) -> list[Step]:
    """Return registry lines as steps for a person, each once."""
    units = {each.key: each for each in (family.unit, *family.siblings)}
    steps = [
        _step(family, rule.entry.file, row, units[rule.unit])
        for rule in rules
        for row in read_text(files, rule.entry.file).splitlines()[rule.line - 1 : rule.line]
    ]
    return list(dict.fromkeys(steps))


def _spoken_lines(text: str) -> frozenset[int]:
    """Return the lines of a Python text inside of strings of several lines."""
    found: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING and token.end[0] > token.start[0]:
                found.update(range(token.start[0], token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        return frozenset()
    return frozenset(found)
