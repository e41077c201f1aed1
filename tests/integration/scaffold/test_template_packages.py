"""Templates of installed packages: read as files, never imported, told of, hidden by stronger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

KIND = """
schema = 1
version = 1
title = "Probe"
help = "Adds a probe."
command = "add-probe"
[style]
default = "plain"
[place]
source = "probes/{key}.txt"
[[registry]]
shape = "text"
file = "probes.txt"
key = "{key}"
"""
STYLE = """
schema = 1
version = 1
title = "Plain"
help = "A plain probe."
[[files]]
from = "probe.jinja"
to = "{source}"
"""
REWARD = """
schema = 1
version = 7
title = "Theirs"
help = "Exact match as they do it."
[[files]]
from = "reward.py.jinja"
to = "{source}"
"""


def write(root: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def package(folder: Path, name: str, inside: str = "kinds") -> None:
    """Writes a package with templates, whose import would fail."""
    write(
        folder,
        {
            f"{name}/__init__.py": "raise RuntimeError('nobody imports this')\n",
            f"{name}/{inside}/__init__.py": "raise RuntimeError('nor this')\n",
            f"{name}/{inside}/probe/kind.toml": KIND,
            f"{name}/{inside}/probe/plain/template.toml": STYLE,
            f"{name}/{inside}/probe/plain/probe.jinja": "{{ key }} of " + name + "\n",
        },
    )


def distribution(site: Path, name: str, value: str, group: str = "scaffold.templates") -> None:
    """Writes what an installer leaves of a distribution with one entry point."""
    info = f"{name}-1.0.dist-info"
    write(
        site,
        {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/entry_points.txt": f"[console_scripts]\nx = x:y\n\n[{group}]\nall = {value}\n",
        },
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Makes a folder of installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Makes a target that has a place for probes and for rewards."""
    root = tmp_path / "target"
    config = '[tool.scaffold]\nschema = 1\npackage = "pkg"\n[tool.scaffold.registries]\n'
    write(
        root,
        {
            "pyproject.toml": config + 'reward = "pkg/reward/__init__.py:REWARDS"\n',
            "pkg/reward/__init__.py": "REWARDS: dict[str, str] = {}\n",
            "probes.txt": "deep\n",
        },
    )
    return root


def run(target: Path, site: Path, *argv: str) -> tuple[int, dict[str, Any]]:
    """Runs the command as one that is installed beside these packages."""
    code = (
        f"import site, sys; site.addsitedir({str(site)!r}); sys.path.append({str(ROOT)!r}); "
        "from scaffold.cli.main import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv, "--json"],
        cwd=target, env={**os.environ, "PYTHONPATH": ""}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def kinds(report: dict[str, Any]) -> dict[str, Any]:
    return {row["kind"]: row for row in report["kinds"]}


def test_a_package_s_kind_is_listed_added_and_removed_without_an_import(target: Path, site: Path):
    package(site, "probing")
    distribution(site, "probing_kit", "probing.kinds")
    status, report = run(target, site, "list")
    assert status == 0
    assert kinds(report)["probe"]["origin"] == "package probing_kit"

    status, report = run(target, site, "add-probe", "Far Out")
    assert (status, report["error"]) == (0, None)
    assert (target / "probes/far_out.txt").read_text() == "far_out of probing\n"
    assert (target / "probes.txt").read_text() == "deep\nfar_out\n"
    assert report["warnings"] == ["a template of probe/far_out comes from the package probing_kit"]
    record = (target / ".scaffold/made/probe/far_out.toml").read_text()
    assert 'origin = "package probing_kit"' in record

    status, report = run(target, site, "remove", "far_out")
    assert status == 0
    assert (target / "probes.txt").read_text() == "deep\n"


@pytest.mark.parametrize("how", ["path file", "finder"])
def test_an_editable_installation_is_found(target: Path, site: Path, tmp_path: Path, how: str):
    source = tmp_path / "checkout" / "src"
    package(source, "probing")
    distribution(site, "probing_kit", "probing.kinds")
    if how == "path file":
        (site / "__editable__.probing_kit.pth").write_text(f"{source}\n")
    else:  # as setuptools maps packages that do not stand in a folder of their own
        finder = (
            "import sys\nfrom importlib.machinery import ModuleSpec, PathFinder\n\n\n"
            "class Finder:\n    @classmethod\n"
            "    def find_spec(cls, name, path=None, target=None):\n"
            "        if name == 'probing':\n"
            f"            return PathFinder.find_spec(name, [{str(source)!r}])\n"
            "        return None\n\n\ndef install():\n    sys.meta_path.append(Finder)\n"
        )
        (site / "__editable___probing_finder.py").write_text(finder)
        line = "import __editable___probing_finder; __editable___probing_finder.install()\n"
        (site / "__editable__.probing_kit.pth").write_text(line)
    status, report = run(target, site, "list")
    assert status == 0
    assert kinds(report)["probe"]["origin"] == "package probing_kit"


def test_a_package_hides_a_built_in_style_and_the_repository_hides_both(target: Path, site: Path):
    package(site, "probing")
    write(
        site / "probing/kinds/reward/exact",
        {"template.toml": REWARD, "reward.py.jinja": "def {{ function }}():\n    return 1.0\n"},
    )
    distribution(site, "probing_kit", "probing.kinds")
    styles = {
        row["name"]: row["origin"]
        for row in kinds(run(target, site, "list")[1])["reward"]["styles"]
    }
    assert styles["exact"] == "package probing_kit"
    assert styles["math"] == "builtin"
    status, report = run(target, site, "add-reward", "sums")
    assert (status, report["error"]) == (0, None)
    assert (target / "pkg/reward/sums.py").read_text().endswith("return 1.0\n")

    write(
        target / ".scaffold/templates/reward/exact",
        {"template.toml": REWARD, "reward.py.jinja": "def {{ function }}():\n    return 2.0\n"},
    )
    status, report = run(target, site, "add-reward", "others")
    assert any("comes from the repository" in row for row in report["warnings"])
    assert (target / "pkg/reward/others.py").read_text().endswith("return 2.0\n")


@pytest.mark.parametrize(
    "entry_points",
    [
        "[scaffold.templates",
        "[scaffold.templates]\n",
        "[scaffold.templates]\nall\n",
        "[scaffold.templates]\nall =\n",
        "[scaffold.templates]\nall = no such package\n",
        "[scaffold.templates]\nall = ../../etc\n",
        "[scaffold.templates]\nall = /etc\n",
        "[scaffold.templates]\nall = gone.away\n",
        "[scaffold.templates]\n# all = probing.kinds\n; all = probing.kinds\n",
        "\0\xff",
    ],
)
def test_entry_points_that_are_wrong_are_passed_over(target: Path, site: Path, entry_points: str):
    package(site, "probing")
    distribution(site, "probing_kit", "probing.kinds")
    (site / "probing_kit-1.0.dist-info/entry_points.txt").write_text(
        entry_points, encoding="latin-1"
    )
    status, report = run(target, site, "list")
    assert status == 0
    assert "probe" not in kinds(report)
    assert "reward" in kinds(report)


def test_two_packages_offer_one_kind_and_the_first_by_name_is_meant(target: Path, site: Path):
    for name in ("zeta", "alpha"):
        package(site, name)
        distribution(site, f"{name}_kit", f"{name}.kinds")
    assert kinds(run(target, site, "list")[1])["probe"]["origin"] == "package alpha_kit"


def test_a_package_s_broken_kind_stops_no_other(target: Path, site: Path):
    package(site, "probing")
    (site / "probing/kinds/probe/kind.toml").write_text("schema = 'one'\n")
    distribution(site, "probing_kit", "probing.kinds")
    status, report = run(target, site, "list")
    assert status == 0
    assert "reward" in kinds(report)
    status, report = run(target, site, "add", "probe", "x1")
    assert (status, report["error"]["code"]) == (1, "template_invalid")
    assert run(target, site, "add-reward", "sums")[0] == 0
