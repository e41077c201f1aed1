"""Kinds that a repository declares by hand: any files, any registries, and all commands on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main

KIND = '''
schema = 1
version = 1
title = "Loss"
help = "Adds a loss."
command = "add-loss"
suffixes = ["loss"]
[style]
default = "plain"
[names]
class_name = "{pascal}Loss"
constant = "{upper}_WEIGHT"
[place]
source = "src/lib/losses/{key}.py"
test = "{tests}/test_{key}.py"
[[registry]]
file = "src/lib/losses/__init__.py"
table = "LOSSES"
key = "{key}"
value = "{class_name}"
code = ["value"]
[[registry]]
file = "src/lib/losses/__init__.py"
shape = "import"
key = "{class_name}"
value = ".{key}"
[[registry]]
file = "src/lib/losses/__init__.py"
table = "__all__"
shape = "list"
key = "{class_name}"
[[registry]]
file = "src/lib/factory.py"
table = "Factory.make"
shape = "branch"
key = 'name == "{key}"'
value = """
from lib.losses import {class_name}

return {class_name}()
"""
[[registry]]
file = "src/lib/factory.py"
table = "enable"
shape = "call"
key = "{key}"
[[registry]]
file = "src/lib/factory.py"
table = "WEIGHTS"
shape = "subscript"
key = "{key}"
value = "1.0"
code = ["value"]
[[registry]]
file = "pyproject.toml"
table = "tool.lib.losses"
shape = "toml"
key = "{key}"
[[registry]]
file = "mkdocs.yml"
table = "nav/Losses"
shape = "yaml"
key = "{headline}"
value = "losses/{dashed}.md"
[[registry]]
file = "README.md"
table = "Losses"
shape = "markdown-list"
key = "{class_name}"
value = "a {words} loss"
[[registry]]
file = "docs/index.rst"
table = ".. toctree::"
shape = "text"
key = "losses/{dashed}"
[[registry]]
file = "CODEOWNERS"
shape = "owners"
key = "/src/lib/losses/{key}.py"
value = "@maths"
[[registry]]
file = "weights.json"
shape = "manual"
key = '"{key}": 1.0,'
[verify]
contract = ""
'''
STYLE = """
schema = 1
version = 1
title = "Plain"
help = "A plain loss."
[answers.scale]
type = "float"
default = 1.0
help = "A factor."
[[files]]
from = "loss.py.jinja"
to = "{source}"
[[files]]
from = "page.md"
to = "docs/losses/{dashed}.md"
role = "doc"
[[files]]
from = "test_loss.py.jinja"
to = "{test}"
role = "test"
"""
LOSS = '''"""The {{ words }} loss."""


class {{ class_name }}:
    """Scores the {{ words }}."""

    def __call__(self, a: float, b: float) -> float:
        # YOURS: write the loss
        return abs(a - b) * {{ scale }}
'''
TEST = """from lib.factory import Factory
from lib.losses import LOSSES, {{ class_name }}


def test_{{ key }}():
    assert isinstance(Factory().make("{{ key }}"), LOSSES["{{ key }}"])
    assert {{ class_name }}()(1.0, 1.0) == 0.0
"""
FILES = {
    "pyproject.toml": """[tool.lib]
losses = [
    "mean",
    "top",
]

[tool.pytest.ini_options]
pythonpath = ["src"]

[tool.scaffold]
schema = 1
package = "lib"
""",
    "src/lib/__init__.py": "",
    "src/lib/losses/__init__.py": '''"""Losses."""

from .mean import MeanLoss
from .top import TopLoss

__all__ = ["LOSSES", "MeanLoss", "TopLoss"]

LOSSES = {
    "mean": MeanLoss,
    "top": TopLoss,
}
''',
    "src/lib/losses/mean.py": "class MeanLoss:\n    pass\n",
    "src/lib/losses/top.py": "class TopLoss:\n    pass\n",
    "src/lib/factory.py": '''"""Makes losses."""

WEIGHTS = {}
ENABLED = []


def enable(name):
    ENABLED.append(name)


class Factory:
    def make(self, name):
        if name == "mean":
            from lib.losses import MeanLoss

            return MeanLoss()
        elif name == "top":
            from lib.losses import TopLoss

            return TopLoss()
        raise ValueError(name)


enable("mean")
enable("top")

WEIGHTS["mean"] = 1.0
WEIGHTS["top"] = 1.0
''',
    "mkdocs.yml": "nav:\n  - Losses:\n      - Mean: losses/mean.md\n      - Top: losses/top.md\n",
    "README.md": "# Lib\n\n## Losses\n\n- MeanLoss: a mean loss\n- TopLoss: a top loss\n",
    "docs/index.rst": "Lib\n===\n\n.. toctree::\n\n   losses/mean\n   losses/top\n",
    "CODEOWNERS": "/src/lib/losses/mean.py @maths\n/src/lib/losses/top.py @maths\n",
    "weights.json": '{\n  "mean": 1.0\n}\n',
    ".scaffold/templates/loss/kind.toml": KIND,
    ".scaffold/templates/loss/plain/template.toml": STYLE,
    ".scaffold/templates/loss/plain/loss.py.jinja": LOSS,
    ".scaffold/templates/loss/plain/page.md": "# {{ it is copied }}\n",
    ".scaffold/templates/loss/plain/test_loss.py.jinja": TEST,
}
LINES = {
    "pyproject.toml": '    "new_one",',
    "mkdocs.yml": "      - New One: losses/new-one.md",
    "README.md": "- NewOneLoss: a new one loss",
    "docs/index.rst": "   losses/new-one",
    "CODEOWNERS": "/src/lib/losses/new_one.py @maths",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a repository with a kind of its own in a src/ layout."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, [*argv, "--json"])
    return result.exit_code, json.loads(result.stdout)


def tree(root: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    found = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    apart = (".scaffold/state/", ".scaffold/.gitattributes")
    return {path: data for path, data in found.items() if not path.startswith(apart)}


def test_a_kind_with_every_shape_is_added_kept_up_and_removed(root: Path):
    before = tree(root)
    status, report = run("add-loss", "New One", "--scale", "2.0")
    assert (status, report["error"]) == (0, None)
    assert len(report["registered"]) == 11
    assert {"file": "weights.json", "line": 2, "why": 'add by hand: "new_one": 1.0,'} in report[
        "next"
    ]
    for file, line in LINES.items():
        assert line in (root / file).read_text().splitlines(), file
    factory = (root / "src/lib/factory.py").read_text()
    assert 'elif name == "new_one":\n            from lib.losses import NewOneLoss\n' in factory
    assert 'enable("mean")\nenable("new_one")\nenable("top")' in factory
    assert 'WEIGHTS["new_one"] = 1.0' in factory
    assert (root / "docs/losses/new-one.md").read_text() == "# {{ it is copied }}\n"

    assert run("status")[1]["units"][0]["states"] == ["untouched"]
    entries = run("show", "new_one")[1]["unit"]["entries"]
    assert len(entries) == 11
    assert all(entry["registered"] for entry in entries)

    (root / "mkdocs.yml").write_text(FILES["mkdocs.yml"])
    assert run("status")[1]["units"][0]["states"] == ["unregistered"]
    assert run("status", "--fix")[1]["registered"][0]["file"] == "mkdocs.yml"
    assert run("update", "new_one", "--set", "scale=3.0")[0] == 0
    assert "abs(a - b) * 3.0" in (root / "src/lib/losses/new_one.py").read_text()

    status, report = run("remove", "loss/new_one")
    assert status == 0
    assert tree(root) == before


def test_a_kind_without_a_contract_is_verified_by_its_tests(root: Path):
    assert run("add", "loss", "new one")[0] == 0
    status, report = run("verify", "new_one")
    assert (status, report["verdict"]) == (1, "unfinished")
    levels = {row["level"]: row["status"] for row in report["units"][0]["levels"]}
    assert levels == {"static": "passed", "tests": "passed", "episodes": "skipped"}
    source = root / "src/lib/losses/new_one.py"
    source.write_text(source.read_text().replace("abs(a - b)", "(a - b) ** 2"))
    assert run("verify", "new_one")[1]["verdict"] == "ok"
    source.write_text(source.read_text().replace("return", "return 1 +"))
    assert run("verify", "new_one")[1]["verdict"] == "failed"


def test_a_registry_of_another_format_is_named_in_the_configuration(root: Path):
    kind = root / ".scaffold/templates/loss/kind.toml"
    head = KIND.partition("[[registry]]")[0]
    kind.write_text(f'{head}[[registry]]\nshape = "markdown-list"\nkey = "{{class_name}}"\n')
    pyproject = root / "pyproject.toml"
    text = pyproject.read_text() + '[tool.scaffold.registries]\nloss = "README.md:Losses"\n'
    pyproject.write_text(text)
    status, report = run("add", "loss", "new one")
    assert (status, report["error"]) == (0, None)
    assert "- NewOneLoss" in (root / "README.md").read_text().splitlines()


@pytest.mark.parametrize("line", ["README.md:", "README.md", ":LOSSES", "lib/x.py:not a name"])
def test_a_registry_without_an_address_is_refused(root: Path, line: str):
    pyproject = root / "pyproject.toml"
    pyproject.write_text(f'{pyproject.read_text()}[tool.scaffold.registries]\nloss = "{line}"\n')
    status, report = run("add", "loss", "new one")
    assert (status, report["error"]["code"]) == (1, "target_invalid")
    assert "must read" in report["error"]["message"]
