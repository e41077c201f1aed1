"""Modules that units need come along where areal-lite is not, as the one source has them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scaffold.templating.manifests import builtin_catalogue
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.maintain import eject_template, uninstall
from scaffold.units.remove import remove_unit
from scaffold.units.update import Writer, update_units

ROOT = Path(__file__).parents[4]
PROJECT = """
[project]
dependencies = ["{needs}"]
[tool.scaffold]
schema = 1
package = "my_rl"
[tool.scaffold.registries]
reward = "src/my_rl/reward/__init__.py:REWARDS"
dataset = "src/my_rl/dataset/__init__.py:DATASETS"
workflow = "src/my_rl/workflow/__init__.py:WORKFLOWS"
"""
CATALOGUE = builtin_catalogue()
STYLES = [
    (kind, style)
    for kind in ("reward", "dataset", "workflow")
    for style in CATALOGUE.style_names(kind)
    if CATALOGUE.kind(kind).support or CATALOGUE.style(kind, style).support
]
MODULES = {
    module
    for kind in CATALOGUE.kind_names()
    for part in (
        CATALOGUE.kind(kind),
        *(CATALOGUE.style(kind, s) for s in CATALOGUE.style_names(kind)),
    )
    for module in part.support
}


def no_writer(name: str) -> Writer:
    raise AssertionError(f"no kind here is written by {name}")


def make_project(root: Path, needs: str) -> Path:
    (root / "pyproject.toml").write_text(PROJECT.format(needs=needs))
    for kind in ("reward", "dataset", "workflow"):
        place = root / "src" / "my_rl" / kind / "__init__.py"
        place.parent.mkdir(parents=True)
        place.write_text(f"{kind.upper()}S: dict[str, str] = {{\n}}\n")
    return root


@pytest.mark.parametrize(("kind", "style"), STYLES)
def test_nothing_comes_along_where_areal_lite_is(kind: str, style: str, tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal-lite>=0.1")
    add_unit(CATALOGUE.kind(kind), "sums", (style,), {}, Options(root))
    assert all("sums" in path.name for path in root.rglob("*.py") if path.name != "__init__.py")
    texts = "".join(path.read_text() for path in root.rglob("*sums.py"))
    # What only another module needs, such as a reader of files, the unit does not name.
    assert sum(f"areal.{each} import" in texts for each in CATALOGUE.style(kind, style).support) > 0
    assert "my_rl.testing" not in texts


@pytest.mark.parametrize(("kind", "style"), STYLES)
def test_copies_of_the_source_come_along_elsewhere(kind: str, style: str, tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal>=1.0")
    options = Options(root, with_format=False)
    add_unit(CATALOGUE.kind(kind), "sums", (style,), {}, options)
    texts = "".join(path.read_text() for path in root.rglob("*sums.py"))
    for module in (*CATALOGUE.kind(kind).support, *CATALOGUE.style(kind, style).support):
        inside = module.replace(".", "/") + ".py"
        made = root / "src" / "my_rl" / inside
        assert made.read_bytes() == (ROOT / "areal" / inside).read_bytes()
        assert f"areal.{module} " not in texts
    assert sum(f"my_rl.{each} import" in texts for each in CATALOGUE.style(kind, style).support) > 0
    # A second unit uses the copies of the first, and the last one takes them away.
    add_unit(CATALOGUE.kind(kind), "more", (style,), {}, options)
    for name in ("sums", "more"):
        remove_unit(f"{kind}/{name}", (), options)
    assert {path.name for path in root.rglob("*.py")} == {"__init__.py"}


def test_a_copy_that_somebody_edited_serves_the_next_unit_too(tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal>=1.0")
    options = Options(root, with_format=False)
    reward = CATALOGUE.kind("reward")
    add_unit(reward, "sums", ("exact",), {}, options)
    copy = root / "src" / "my_rl" / "testing.py"
    edited = copy.read_bytes() + b"# mine"
    copy.write_bytes(edited)
    report = add_unit(reward, "more", ("exact",), {}, options)
    (step,) = [each for each in report.next if each.file == "src/my_rl/testing.py"]
    assert step.why.endswith("scaffold update reward/sums")
    for name in ("sums", "more"):
        remove_unit(f"reward/{name}", (), options)
    assert copy.read_bytes() == edited


def test_a_module_that_was_there_before_is_nobodys_to_take_away(tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal>=1.0")
    options = Options(root, with_format=False)
    reward = CATALOGUE.kind("reward")
    add_unit(reward, "sums", ("exact",), {}, options)
    copy = root / "src" / "my_rl" / "testing.py"
    uninstall(options)
    # The code that stays behind needs the module, whatever becomes of later units.
    add_unit(reward, "more", ("exact",), {}, options)
    remove_unit("reward/more", (), options)
    assert copy.is_file()
    report = add_unit(reward, "sums", ("exact",), {}, options)
    assert "src/my_rl/testing.py" not in {each.path for each in report.changes}
    old = copy.read_bytes().replace(b'"""', b'"""Old. ', 1)
    copy.write_bytes(old)
    report = update_units(["sums"], ["take=last_line"], options, no_writer)
    assert copy.read_bytes() == old
    assert [each for each in report.warnings if "src/my_rl/testing.py differs" in each]


def test_update_deletes_a_shared_module_with_the_last_unit_that_needs_it(tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal>=1.0")
    options = Options(root, with_format=False)
    for name in ("sums", "more"):
        add_unit(CATALOGUE.kind("reward"), name, ("exact",), {}, options)
    copy = root / "src" / "my_rl" / "testing.py"
    eject_template("reward/exact", options)
    manifest = root / ".scaffold" / "templates" / "reward" / "exact" / "template.toml"
    text = manifest.read_text(encoding="utf-8")
    assert 'support = ["testing"]' in text
    manifest.write_text(text.replace('support = ["testing"]', "support = []"), encoding="utf-8")
    update_units(["sums"], [], options, no_writer)
    assert copy.is_file()
    update_units(["more"], [], options, no_writer)
    assert not copy.is_file()


def test_update_of_all_units_deletes_a_shared_module_that_none_needs(tmp_path: Path) -> None:
    root = make_project(tmp_path, "areal>=1.0")
    options = Options(root, with_format=False)
    for name in ("sums", "more"):
        add_unit(CATALOGUE.kind("reward"), name, ("exact",), {}, options)
    eject_template("reward/exact", options)
    manifest = root / ".scaffold" / "templates" / "reward" / "exact" / "template.toml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('support = ["testing"]', "support = []"), encoding="utf-8")
    update_units([], [], options, no_writer)
    assert not (root / "src" / "my_rl" / "testing.py").is_file()


def test_the_wheel_has_every_module() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]
    wanted = {f"/areal/{module.replace('.', '/')}.py" for module in MODULES}
    assert wanted
    for target in ("wheel", "sdist"):
        listed = {each for each in hatch[target]["include"] if each.startswith("/areal/")}
        assert wanted <= listed
        # The rest are the parts of Archon models, whose own test knows which are needed, and the
        # names that no project may have.
        rest = r"/areal/(?:(?:experimental|api|utils)/.*|pyproject\.toml)"
        assert all(re.fullmatch(rest, each) for each in listed - wanted)
