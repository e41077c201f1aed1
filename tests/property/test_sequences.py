"""Any sequence of commands, edits and merges: the registries, the tree and `status` stay true."""

from __future__ import annotations

import ast
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scaffold.cli.units import writer_of
from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import ScaffoldError
from scaffold.report import Report
from scaffold.templating.manifests import catalogue_for, load_kind, load_style
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import Unit, base_path, find_unit
from scaffold.units.maintain import eject_template, uninstall
from scaffold.units.project import new_project
from scaffold.units.remove import remove_unit
from scaffold.units.status import fix_registries, show_status
from scaffold.units.update import update_units
from tests.reports import REPORTS

ROOT = Path(__file__).parents[2]
LAYOUTS = ROOT / "tests" / "fixtures" / "layouts"

Tree = dict[str, bytes | None]
Group = tuple[str, str, str]

KINDS = {"reward": ("exact",), "workflow": ("rlvr",), "dataset": ("rl", "sft")}
SETTINGS = {
    "reward": {"take": ["yours", "last_line", "last_number"]},
    "workflow": {"system_prompt": ["", "Think.", "{{ key }}\n'''"]},
    "dataset": {"question_column": ["question", "asked"]},
}
TEMPLATES = {"reward/exact": "reward.py.jinja", "workflow/rlvr": "workflow.py.jinja"}
NAMES = st.sampled_from(["alpha", "beta_two", "Sums"])
PICK = st.integers(0, 1 << 16)


def tree(root: Path) -> Tree:
    """Returns every path with its bytes, git's own apart; None for a folder."""
    paths = (path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts)
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_bytes() for p in paths}


def _empty_folders(found: Tree) -> list[str]:
    """Returns the folders that hold no file, the inner ones first."""
    files = [path for path, data in found.items() if data is not None]
    held = {str(above) for path in files for above in Path(path).parents}
    return sorted((path for path in found if path not in held | set(files)), reverse=True)


def attempt(call: Callable[[], Report]) -> tuple[Report | None, str]:
    """Returns the report of a call, or the code and message with which it was refused."""
    try:
        return call(), ""
    except ScaffoldError as error:
        return None, f"{error.code}: {error.message}"


def group_of(entry: Entry) -> Group:
    return entry.file, entry.table, entry.shape


def _plain(key: str, shape: str) -> str:
    """Returns a key as any formatter would leave it: a branch is known by its condition."""
    return ast.unparse(ast.parse(key, mode="eval")) if shape == "branch" else key


@dataclass
class Made:
    """Is what the model knows of a unit."""

    unit: Unit
    answers: dict[str, Any]
    states: dict[str, str]
    versions: dict[str, int]
    lost: set[Entry] = field(default_factory=set[Entry])
    differing: set[Entry] = field(default_factory=set[Entry])


class Sequences(RuleBasedStateMachine):
    """Runs commands and edits on one target, and keeps a model of what has to be there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.made: dict[str, Made] = {}
        self.rows: dict[Group, set[str]] = {}
        self.mine: dict[str, Path] = {}
        self.leftovers: set[str] = set()
        self.versions: dict[str, int] = {}
        self.is_pointed_elsewhere = False
        self.count = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(layout=st.sampled_from(["my_rl", "today", "older"]))
    def begin(self, layout: str) -> None:
        self.root = Path(self.folder.name).resolve() / layout
        self.layout = layout
        if layout == "my_rl":
            options = Options(self.root.parent)
            kind = load_kind("project")
            new_project(kind, layout, [], {"areal_source": ""}, options)
            shutil.rmtree(self.root / ".scaffold", ignore_errors=True)
        else:
            shutil.copytree(LAYOUTS / layout, self.root)
            (self.root / "areal" / "api").mkdir(exist_ok=True)
            (self.root / "areal" / "api" / "__init__.py").touch()
        (self.root / ".git").mkdir()
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        for style in [f"{kind}/{style}" for kind, styles in KINDS.items() for style in styles]:
            self.versions[style] = load_style(*style.split("/")).version

    # --- running ---

    def options(self, **more: Any) -> Options:
        return Options(self.root, with_format=False, **more)

    def run(self, command: Callable[[Options], Report], *refusals: str) -> Report | None:
        """Runs a command, first dry: that changes nothing, and foretells what the real one does."""
        before = tree(self.root)
        told, refused = attempt(lambda: command(self.options(dry_run=True)))
        if told is None or refused:
            assert refused.partition(":")[0] in refusals, refused
            assert attempt(lambda: command(self.options())) == (None, refused)
            assert tree(self.root) == before
            return None
        assert tree(self.root) == before
        report = command(self.options())
        REPORTS.validate(json.loads(json.dumps(report.to_json())))
        for each in ("ok", "changes", "registered", "next"):
            assert getattr(told, each) == getattr(report, each), each
        after = tree(self.root)
        files = [
            path for path in before.keys() | after.keys() if (before | after)[path] is not None
        ]
        changed = {path for path in files if before.get(path) != after.get(path)}
        assert sorted(change.path for change in report.changes) == sorted(changed)
        return report

    def pick(self, number: int) -> Made:
        return self.made[sorted(self.made)[number % len(self.made)]]

    def pick_file(self, number: int) -> tuple[Made, str]:
        found = [(each, path) for _, each in sorted(self.made.items()) for path in each.states]
        made, path = found[number % len(found)]
        return made, path

    def put(self, path: str, state: str) -> None:
        """Note what became of a file, for every unit that has it: some serve several."""
        for each in self.made.values():
            if path in each.states:
                each.states[path] = state

    def current(self, made: Made) -> dict[str, int]:
        return {key: self.versions.get(key, version) for key, version in made.versions.items()}

    # --- commands ---

    def _add(self, kind: str, name: str, setting: int) -> Made | None:
        ((answer, values),) = SETTINGS[kind].items()
        answers = {answer: values[setting % len(values)]}
        kind_data = catalogue_for(self.root).kind(kind)
        tables = self._tables(kind)
        refusals = ["file_exists"] * bool(self.leftovers)
        report = self.run(
            lambda options: add_unit(kind_data, name, KINDS[kind], answers, options),
            *refusals,
            *["registry_differs"] * self.is_pointed_elsewhere,
        )
        if report is None:
            return None
        unit = find_unit(self.root, f"{kind}/{name.lower()}")
        for entry in unit.entries:
            self.rows.setdefault(group_of(entry), tables[group_of(entry)])
            self.rows[group_of(entry)].add(_plain(entry.key, entry.shape))
        versions = {use.id: use.version for use in unit.templates}
        known = [each for made in self.made.values() for each in made.states.items()]
        edited = {path for path, state in known if state == "edited"}
        states = dict.fromkeys((file.path for file in unit.files), "untouched")
        self.leftovers -= set(states)
        made = self.made[unit.id] = Made(unit, answers, states, versions)
        for path in states:  # a file that another unit lost is there again
            self.put(path, "edited" if path in edited else "untouched")
        return made

    def _tables(self, kind: str) -> dict[Group, set[str]]:
        from scaffold.target.target import registry_rules, target_at

        target = target_at(self.root)
        assert target is not None
        found: dict[Group, set[str]] = {}
        for each in registry_rules(target, target.catalogue.kind(kind)):
            entry = Entry(each.file, each.table, each.shape, "", "")
            found[group_of(entry)] = self._keys(entry)
        return found

    def _keys(self, entry: Entry) -> set[str]:
        found = shapes.read_entries((self.root / entry.file).read_bytes(), entry)
        return {_plain(key, entry.shape) for key in found}

    @rule(kind=st.sampled_from(sorted(KINDS)), name=NAMES, setting=PICK)
    def add(self, kind: str, name: str, setting: int) -> None:
        if f"{kind}/{name.lower()}" not in self.made:
            self._add(kind, name, setting)

    @rule(number=PICK)
    @precondition(lambda self: self.made)
    def add_the_same_again(self, number: int) -> None:
        made = self.pick(number)
        kind = catalogue_for(self.root).kind(made.unit.kind)
        typed = made.unit.name.replace("_", " ").title()
        report = self.run(
            lambda options: add_unit(kind, typed, made.unit.styles, made.answers, options)
        )
        assert report is not None
        assert (report.changes, report.registered) == ((), ())

    @rule(number=PICK, setting=PICK)
    @precondition(lambda self: self.made)
    def add_with_other_answers(self, number: int, setting: int) -> None:
        made = self.pick(number)
        ((answer, values),) = SETTINGS[made.unit.kind].items()
        other = [value for value in values if value != made.answers[answer]]
        answers = {answer: other[setting % len(other)]}
        kind = catalogue_for(self.root).kind(made.unit.kind)
        refused = self.run(
            lambda o: add_unit(kind, made.unit.name, made.unit.styles, answers, o), "answers_differ"
        )
        assert refused is None

    @rule(kind=st.sampled_from(sorted(KINDS)), setting=PICK)
    def add_and_remove(self, kind: str, setting: int) -> None:
        before = tree(self.root)
        for folder in _empty_folders(before):  # a person's deletion left it; git knows of none
            (self.root / folder).rmdir()
            del before[folder]
        left = set(self.leftovers)
        made = self._add(kind, "come_and_go", setting)
        if made is None:
            return
        self.check()
        self.run(lambda options: remove_unit(made.unit.id, (), options))
        self._forget(made)
        shared = {path for each in self.made.values() for path in each.states}
        for path in made.states:
            if path in shared:  # and stays, though it may have been missing
                before[path] = (self.root / path).read_bytes()
            elif path in left:  # as it came: it became the unit's, and went with it
                del before[path]
        assert tree(self.root) == before

    def _forget(self, made: Made) -> None:
        for entry in set(made.unit.entries) - made.lost - made.differing:
            self.rows[group_of(entry)].discard(_plain(entry.key, entry.shape))
        del self.made[made.unit.id]

    @rule(number=PICK, discard=st.booleans())
    @precondition(lambda self: self.made)
    def remove(self, number: int, discard: bool) -> None:
        made = self.pick(number)
        named = [made.unit.id] if discard else []
        report = self.run(lambda options: remove_unit(made.unit.id, named, options))
        assert report is not None
        others = [each for each in self.made.values() if each is not made]
        shared = {path for each in others for path in each.states}
        edited = {path for path in made.states.keys() - shared if made.states[path] == "edited"}
        if edited and discard:
            (text,) = [text for text in report.warnings if "were copied to" in text]
            saved = Path(text.partition("were copied to ")[2].partition(" before")[0])
            places = {self.root / path: saved / path for path in edited}
            self.mine = {mark: places.get(place, place) for mark, place in self.mine.items()}
        self.leftovers |= set() if discard else edited
        for path in made.states.keys() - shared:
            assert (self.root / path).exists() == (path in edited and not discard)
        self._forget(made)

    @rule(number=PICK, setting=st.none() | PICK, every=st.booleans())
    @precondition(lambda self: self.made)
    def update(self, number: int, setting: int | None, every: bool) -> None:
        chosen = [self.pick(number)]
        given: list[str] = []
        if setting is not None:
            ((answer, values),) = SETTINGS[chosen[0].unit.kind].items()
            chosen[0].answers = {answer: values[setting % len(values)]}
            given = [f"{answer}={chosen[0].answers[answer]}"]
        elif every:
            chosen = list(self.made.values())
        ids = [] if every and not given else [made.unit.id for made in chosen]
        report = self.run(lambda options: update_units(ids, given, options, writer_of))
        assert report is not None
        marked = {change.path for change in report.changes if change.action == "conflict"}
        assert marked == {step.file for step in report.next}
        assert report.ok == (not marked)
        for made in chosen:
            made.versions = self.current(made)
            made.unit = find_unit(self.root, made.unit.id)
            assert made.unit.answers.items() >= made.answers.items()

    @rule()
    def fix(self) -> None:
        differing = any(made.differing for made in self.made.values())
        report = self.run(fix_registries)
        assert report is not None
        assert report.ok != differing  # and what can be fixed is
        for made in self.made.values():
            for entry in made.lost:
                self.rows[group_of(entry)].add(_plain(entry.key, entry.shape))
            made.lost = set()

    @rule(style=st.sampled_from(sorted(TEMPLATES)))
    def new_template_version(self, style: str) -> None:
        folder = self.root / ".scaffold" / "templates" / style
        if not folder.exists():
            self.run(lambda options: eject_template(style, options))
            return
        self.run(lambda options: eject_template(style, options), "file_exists")
        manifest, source = folder / "template.toml", folder / TEMPLATES[style]
        was = self.versions[style]
        self.versions[style] = was + 1
        text = manifest.read_text("utf-8")
        manifest.write_text(text.replace(f"\nversion = {was}\n", f"\nversion = {was + 1}\n"))
        source.write_text(source.read_text("utf-8") + f"\nTHEIRS_{was} = {was}\n")

    @rule()
    def uninstall(self) -> None:
        before = tree(self.root)
        self.run(uninstall)
        after = tree(self.root)
        assert after.items() <= before.items()
        gone = before.keys() - after.keys()
        assert all(path.startswith(".scaffold") for path in gone), gone
        for made in self.made.values():
            self.leftovers |= {path for path in made.states if (self.root / path).exists()}
        self.made = {}

    # --- what people do ---

    @rule(number=PICK, where=st.sampled_from(["end", "start", "middle"]))
    @precondition(lambda self: self.made)
    def person_edits(self, number: int, where: str) -> None:
        made, path = self.pick_file(number)
        if made.states[path] == "missing":
            return
        self.count += 1
        mark = f"MINE_{self.count}_"
        line = f"{mark} = {self.count}\n"
        rows = (self.root / path).read_bytes().decode().splitlines(keepends=True)
        if where == "middle" and not any("MINE_" in row for row in rows):
            rows[len(rows) // 2] = line
        else:
            rows.insert(0 if where == "start" else len(rows), line)
        (self.root / path).write_bytes("".join(rows).encode())
        self.put(path, "edited")
        self.mine[mark] = self.root / path

    @rule(number=PICK)
    @precondition(lambda self: self.made)
    def person_takes_edits_back(self, number: int) -> None:
        made, path = self.pick_file(number)
        base = base_path(made.unit.kind, made.unit.name, path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes((self.root / base).read_bytes())
        self.put(path, "untouched")
        self._give_up(path)

    @rule(number=PICK)
    @precondition(lambda self: self.made)
    def person_deletes(self, number: int) -> None:
        _, path = self.pick_file(number)
        (self.root / path).unlink(missing_ok=True)
        self.put(path, "missing")
        self._give_up(path)

    def _give_up(self, path: str) -> None:
        self.mine = {mark: place for mark, place in self.mine.items() if place != self.root / path}

    @rule(number=PICK, crlf=st.booleans())
    @precondition(lambda self: self.made)
    def person_formats(self, number: int, crlf: bool) -> None:
        made, path = self.pick_file(number)
        if made.states[path] != "missing":
            data = (self.root / path).read_bytes()
            rows = data.replace(b"\r\n", b"\n")
            data = rows.replace(b"\n", b"\r\n") if crlf else data + b"\n"
            (self.root / path).write_bytes(data)

    @rule(number=PICK, how=st.sampled_from(["crlf", "comment", "plain", "own row"]))
    @precondition(lambda self: self.rows)
    def person_edits_a_registry(self, number: int, how: str) -> None:
        group = sorted(self.rows)[number % len(self.rows)]
        file, table, shape = group
        place = self.root / file
        data = place.read_bytes()
        if how == "crlf":
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        elif how == "comment":
            data += b"# kept by hand\n"
        elif how == "plain":
            data = (ast.unparse(ast.parse(data)) + "\n").encode()
        elif shape == "dict":
            self.count += 1
            own = Entry(file, table, shape, f"mine_{self.count}", "some.where:thing")
            data = shapes.add_entry(data, own).data
            self.rows[group].add(own.key)
        place.write_bytes(data)

    @rule(number=PICK)
    @precondition(lambda self: self.made)
    def merge_loses_a_line(self, number: int) -> None:
        made = self.pick(number)
        entry = made.unit.entries[number % len(made.unit.entries)]
        if entry in made.lost | made.differing:
            return
        place = self.root / entry.file
        place.write_bytes(shapes.remove_entry(place.read_bytes(), entry))
        self.rows[group_of(entry)].discard(_plain(entry.key, entry.shape))
        made.lost.add(entry)

    @rule(number=PICK)
    @precondition(lambda self: self.made)
    def person_points_a_line_elsewhere(self, number: int) -> None:
        made = self.pick(number)
        entry = made.unit.entries[number % len(made.unit.entries)]
        if entry.shape != "dict" or entry in made.lost | made.differing:
            return
        place = self.root / entry.file
        text = place.read_bytes()
        where = text.index(entry.value.encode(), text.index(entry.key.encode()))
        value = entry.value.encode()
        place.write_bytes(text[:where] + b"their." + value + text[where + len(value) :])
        made.differing.add(entry)
        self.is_pointed_elsewhere = True

    # --- what always holds ---

    @invariant()
    def check(self) -> None:
        self._registries_hold_what_they_should()
        for mark, place in self.mine.items():
            assert mark.encode() in place.read_bytes(), f"{mark} is gone from {place}"
        self._status_agrees()

    def _registries_hold_what_they_should(self) -> None:
        for group, keys in self.rows.items():
            ast.parse((self.root / group[0]).read_bytes())
            assert self._keys(Entry(*group, "", "")) == keys, group

    def _status_agrees(self) -> None:
        report = show_status(self.options())
        REPORTS.validate(json.loads(json.dumps(report.to_json())))
        rows = {row["id"]: row for row in report.extra["units"]}
        assert rows.keys() == self.made.keys()
        for unit_id, made in self.made.items():
            row = rows[unit_id]
            assert {f["path"]: f["state"] for f in row["files"]} == made.states
            gone = {e.key for e in made.lost | made.differing}
            assert {e["key"] for e in row["entries"] if not e["registered"]} == gone
            outdated = any(v > made.versions[key] for key, v in self.current(made).items())
            assert ("outdated" in row["states"]) == outdated
            is_well = set(made.states.values()) == {"untouched"} and not gone and not outdated
            assert (row["states"] == ["untouched"]) == is_well


def test_any_sequence() -> None:
    run_state_machine_as_test(Sequences, settings=settings(max_examples=12, stateful_step_count=16))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_long_sequences() -> None:
    run_state_machine_as_test(
        Sequences, settings=settings(max_examples=300, stateful_step_count=40)
    )
