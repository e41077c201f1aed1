"""Where imports start from: roots, namespaces, stubs, builds, strangers of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.index import PythonIndex

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]

A = "def a(): ...\n"
PKG = {"pkg/__init__.py": ""}
WRITTEN = {"pyproject.toml": "write_to = 'pkg/_version.py'"}


# One row: the files, the name asked, and its kind.
@pytest.mark.parametrize(
    ("sources", "name", "kind"),
    [
        # several roots
        ({"src/pkg/__init__.py": A}, "pkg.a", "function"),
        ({"src/pkg/__init__.py": A}, "pkg.b", "missing"),
        ({"src/pkg/__init__.py": A}, "src.pkg.a", "function"),
        ({"python/pkg/__init__.py": A}, "pkg.b", "missing"),
        ({"libs/one/pyproject.toml": "", "libs/one/one/__init__.py": A}, "one.a", "function"),
        ({"libs/one/pyproject.toml": "", "libs/one/src/one/__init__.py": A}, "one.b", "missing"),
        ({"libs/one/setup.py": "", "libs/one/mod.py": A}, "mod.a", "function"),
        ({"deep/er/pkg/__init__.py": A}, "pkg.a", "function"),
        ({"single.py": A}, "single.a", "function"),
        ({"single.py": A}, "single.b", "missing"),
        ({"x/pkg/__init__.py": A, "y/pkg/__init__.py": "def b(): ..."}, "pkg.b", "function"),
        ({"x/pkg/__init__.py": A, "y/pkg/__init__.py": "def b(): ..."}, "pkg.c", "missing"),
        ({"__init__.py": A}, "{root}.a", "function"),
        ({"__init__.py": A, "sub.py": A}, "{root}.sub.b", "missing"),
        # scenery: what lies in tests, examples, vendored folders may be a copy of something else
        ({"tests/click/__init__.py": A}, "click.a", "function"),
        ({"tests/click/__init__.py": A}, "click.b", "undecided"),
        ({"tests/__init__.py": "", "tests/fakes.py": A}, "tests.fakes.b", "missing"),
        ({"pkg/_vendor/six/__init__.py": A}, "six.b", "undecided"),
        ({**PKG, "tests/pkg/__init__.py": A}, "pkg.a", "undecided"),
        ({**PKG, "tests/pkg/__init__.py": A}, "pkg.b", "missing"),
        ({"examples/ppo/utils.py": A}, "utils.a", "function"),
        ({"examples/ppo/utils.py": A}, "utils.b", "undecided"),
        # folders without __init__.py
        ({"tools/run.py": A}, "tools.run.a", "function"),
        ({"tools/run.py": A}, "tools.run.b", "missing"),
        ({"tools/run.py": A}, "tools.gone", "undecided"),
        ({"datasets/data.csv": ""}, "datasets.load_dataset", "third_party"),
        ({**PKG, "pkg/ns/mod.py": A}, "pkg.ns.mod.a", "function"),
        ({**PKG, "pkg/ns/mod.py": A}, "pkg.ns.gone", "missing"),
        ({**PKG, "pkg/data/x.txt": ""}, "pkg.data", "undecided"),
        # names of Python itself
        ({"utils/logging.py": A}, "logging.getLogger", "function"),
        ({"logging/__init__.py": A}, "logging.a", "function"),
        ({"logging/__init__.py": A}, "logging.getLogger", "function"),
        # stubs and extensions
        ({**PKG, "pkg/_c.pyi": A}, "pkg._c.a", "function"),
        ({**PKG, "pkg/_c.pyi": A}, "pkg._c.b", "undecided"),
        ({**PKG, "pkg/_c.pyi": "class K: ..."}, "pkg._c.K.x", "undecided"),
        ({**PKG, "pkg/_c.pyi": "x: int"}, "pkg._c.x", "constant"),
        ({**PKG, "pkg/m.py": A, "pkg/m.pyi": "def b(): ..."}, "pkg.m.b", "function"),
        ({**PKG, "pkg/m.py": A, "pkg/m.pyi": A}, "pkg.m.c", "missing"),
        ({**PKG, "pkg/_c.cpython-311-x86_64-linux-gnu.so": ""}, "pkg._c.x", "undecided"),
        ({**PKG, "pkg/fast.pyx": ""}, "pkg.fast.x", "undecided"),
        ({**PKG, "pkg/_c/fast.pyx": ""}, "pkg._set_from_c", "undecided"),
        ({**PKG, "pkg/_c/fast.pyx": ""}, "pkg.public", "missing"),
        # what a build makes
        ({**PKG, "setup.py": "Extension('pkg._C', [])"}, "pkg._C.x", "undecided"),
        ({**PKG, **WRITTEN}, "pkg._version", "undecided"),
        ({**PKG, ".gitignore": "_version.py\n"}, "pkg._version.version", "undecided"),
        ({**PKG, ".gitignore": "/pkg/_v*.py\n"}, "pkg._version", "undecided"),
        ({**PKG, ".gitignore": "pkg/generated/\n"}, "pkg.generated.x", "undecided"),
        ({**PKG, "pkg/.gitignore": "made.py\n"}, "pkg.made", "undecided"),
        ({**PKG, "other/.gitignore": "made.py\n"}, "pkg.made", "missing"),
        ({**PKG, ".gitignore": "# made.py\n*.pyc\n!made.py\n"}, "pkg.made", "missing"),
        (PKG, "pkg.rpc_pb2.Message", "undecided"),
        ({"pkg/__init__.py": "from ._version import version"}, "pkg.version", "undecided"),
    ],
)  # fmt: skip
def test_where_modules_lie(
    index_of: IndexOf, tmp_path: Path, sources: dict[str, str], name: str, kind: str
) -> None:
    found = index_of(sources).find(name.format(root=tmp_path.name))
    assert found.kind == kind, found


def test_a_file_that_git_ignores_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "local.py").write_text(A)
    index = PythonIndex(Files(tmp_path, ["pkg/__init__.py"], has_git=True))
    assert index.find("pkg.local").kind == "undecided"
    assert index.find("pkg.gone").kind == "missing"


def test_roots_are_listed_with_the_surest_first(index_of: IndexOf) -> None:
    index = index_of(
        {
            "src/pkg/__init__.py": "",
            "tests/helpers/__init__.py": "",
            "libs/one/pyproject.toml": "",
            "libs/one/one/__init__.py": "",
        }
    )
    assert index.roots == ("", "libs/one", "src", "tests")


def test_a_script_takes_its_neighbour(index_of: IndexOf) -> None:
    index = index_of(
        {
            "examples/a/train.py": "from common import helper\n",
            "examples/a/common.py": "def helper(x): ...\n",
            "examples/b/common.py": "def other(): ...\n",
        }
    )
    assert str(index.signature("examples.a.train.helper")) == "helper(x)"
