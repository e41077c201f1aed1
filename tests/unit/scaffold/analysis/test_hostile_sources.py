"""Sources that cannot be read as Python: an answer, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.analysis.files.files import MAX_BYTES, Files
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.symbols import read_module

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]


@pytest.mark.parametrize(
    "source",
    [
        b"def broken(:\n",
        b"x = 1\x00\n",
        b"\x00" * 100,
        b"\xff\xfe\x00\x01",
        b"x = " + b"(" * 5_000 + b")" * 5_000,
        b"x = " + b"-" * 100_000 + b"1",
        b"x = " + b"a." * 50_000 + b"b",
        b"# coding: no-such-codec\nx = 1\n",
        b"x = '\xe9'\n",
        b"if 1:\n" + b"".join(b" " * depth + b"if 1:\n" for depth in range(1, 200)),
        b"x = 1\r\n  y = 2\r\n",
    ],
    ids=lambda source: repr(source[:24]),
)
def test_a_broken_source_decides_nothing(index_of: IndexOf, source: bytes) -> None:
    index = index_of({"pkg/__init__.py": b"from .broken import *\n", "pkg/broken.py": source})
    found = index.find("pkg.broken.name")
    assert found.kind == "undecided"
    assert "pkg/broken.py" in found.evidence
    assert index.find("pkg.name").kind == "undecided"
    assert index.find("pkg.broken").kind == "module"


@pytest.mark.parametrize(
    "source",
    [
        "# coding: latin-1\nclass Größe: ...\n".encode("latin-1"),
        b"\xef\xbb\xbfclass Gr\xc3\xb6\xc3\x9fe: ...\n",
        b"class Gr\xc3\xb6\xc3\x9fe: ...\r\n",
        b"'\\d'\nclass Gr\xc3\xb6\xc3\x9fe: ...\n",  # an invalid escape warns
    ],
)
def test_an_odd_encoding_is_read(index_of: IndexOf, source: bytes) -> None:
    index = index_of({"mod.py": source})
    assert index.find("mod.Größe").kind == "class"
    assert index.find("mod.Gross").kind == "missing"


def test_a_deep_expression_is_no_trouble(index_of: IndexOf) -> None:
    deep = "def f(x=" + "+".join(["1"] * 3_000) + "): ...\nclass K:\n    y: int = " + "1+" * 3_000
    index = index_of({"mod.py": deep + "1\n"})
    assert index.find("mod.f").kind in ("function", "undecided")
    assert index.find("mod.K.gone").kind in ("missing", "undecided")


def test_a_file_too_long_to_read_decides_nothing(index_of: IndexOf) -> None:
    index = index_of({"mod.py": b"x = 1\n" * (MAX_BYTES // 6 + 1)})
    assert index.find("mod.gone").kind == "undecided"


def test_a_listed_file_that_is_gone_decides_nothing(tmp_path: Path) -> None:
    index = PythonIndex(Files(tmp_path, ["mod.py", "pkg/__init__.py"], has_git=False))
    assert index.find("mod.gone").kind == "undecided"
    assert index.find("pkg.gone").kind == "undecided"


CIRCLES = {
    "imports": {"a.py": "from b import x", "b.py": "from a import x"},
    "stars": {"a.py": "from b import *", "b.py": "from a import *"},
    "itself": {"a.py": "from a import *\nfrom a import x\nx = x"},
    "bases": {
        "a.py": "from b import B\nclass x(B): ...",
        "b.py": "from a import x\nclass B(x): ...",
    },
    "own base": {"a.py": "class x(x): ..."},
    "aliases": {"a.py": "import b\nx = b.y", "b.py": "import a\ny = a.x"},
    "longer and longer": {"a.py": "x = x.y"},
    "decorators": {"a.py": "@x\ndef x(f): return f"},
    "partials": {"a.py": "from functools import partial\nx = partial(x, 1)"},
    "lazy": {"a.py": "T = {'x': 'a'}\ndef __getattr__(n):\n    return T[n]"},
    "metaclass": {"a.py": "class x(metaclass=x): ..."},
}  # fmt: skip


@pytest.mark.parametrize("shape", CIRCLES)
def test_a_circle_ends(index_of: IndexOf, shape: str) -> None:
    index = index_of(CIRCLES[shape])
    for name in ("a.x", "a.x.y", "a.x.y.z"):
        index.find(name)
        index.signature(name)
        index.members(name)
        index.fields(name)
    assert index.find("a.x").kind != "third_party"


def test_a_long_chain_ends(index_of: IndexOf) -> None:
    sources = {f"m{n}.py": f"from m{n + 1} import *\nfrom m{n + 1} import x\n" for n in range(500)}
    index = index_of({**sources, "m500.py": "x = 1\n"})
    assert index.find("m480.x").kind == "constant"
    assert index.find("m0.x").kind in ("constant", "undecided")
    assert index.find("m0.gone").kind in ("missing", "undecided")


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read(source: bytes) -> None:
    table = read_module(source)
    assert table.problem is None or not table.scope.names
