"""Imports: what the corpus does not show: removal of what others wrote, and wrong input."""

from __future__ import annotations

import pytest

from scaffold.edit.imports import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.ledger import MadeEntry
from scaffold.spec import RegistryError, TemplateError

FILE = "pkg/reward/__init__.py"


def entry(key: str = "k", value: str = ".k", table: str = "") -> MadeEntry:
    return MadeEntry(FILE, table, "import", key, value)


# name: (entry, before, after)
REMOVALS = {
    "first name of a line": (entry("a", ".m"), "from .m import a, b\n", "from .m import b\n"),
    "last name of a grid": (
        entry("b", ".m"),
        "from .m import (a, b,)\n",
        "from .m import (a,)\n",
    ),
    "last name before the bracket": (
        entry("b", ".m"),
        "from .m import (\n    a,\n    b)\n",
        "from .m import (\n    a)\n",
    ),
    "name with its comment": (
        entry("a", ".m"),
        "from .m import (\n    a,  # why\n    b,\n)\n",
        "from .m import (\n    b,\n)\n",
    ),
    "one of two plain modules": (entry("os", ""), "import os, sys\n", "import sys\n"),
    "wrapped statement with its only name": (
        entry("a", ".m"),
        "from .a import x\nfrom .m import (\n    a,\n)\nfrom .z import y\n",
        "from .a import x\nfrom .z import y\n",
    ),
    "name that moved to another module": (
        entry("a", ".old"),
        "from .a import x\nfrom .new import a\n",
        "from .a import x\n",
    ),
    "name of the right one of two modules": (
        entry("a", ".m"),
        "try:\n    from .l import a\nexcept ImportError:\n    pass\nfrom .m import a\n",
        "try:\n    from .l import a\nexcept ImportError:\n    pass\n",
    ),
    "only statement of a block": (
        entry("a", ".m", "TYPE_CHECKING"),
        "if TYPE_CHECKING:\n    from .m import a  # for readers\n",
        "if TYPE_CHECKING:\n    pass  # for readers\n",
    ),
    "renamed name": (entry("a as b", ".m"), "from .m import a, a as b\n", "from .m import a\n"),
    "star import that stays": (entry("a", ".m"), "from .m import *\n", "from .m import *\n"),
    "plain import that is no from": (entry("os", ".os"), "import os\n", "import os\n"),
}


@pytest.mark.parametrize("case", REMOVALS.values(), ids=REMOVALS)
def test_takes_back_by_name(case: tuple[MadeEntry, str, str]):
    made, before, after = case
    assert remove_entry(before.encode(), made).decode() == after


def test_removal_refuses_a_shared_line():
    with pytest.raises(RegistryError, match=r"__init__.py:2: .*shares its line"):
        remove_entry(b"x = 1\nfrom .a import a; from .k import k\n", entry())


def test_reads_names_with_their_modules():
    data = (
        b"import os.path, sys as s\nfrom . import a\nfrom .m import b as c, d\nfrom .n import *\n"
    )
    assert read_entries(data, entry()) == {
        "os.path": "",
        "sys as s": "",
        "a": ".",
        "b as c": ".m",
        "d": ".m",
    }


def test_a_star_import_brings_public_names_only():
    data = b"from .k import *\n"
    assert has_entry(data, entry("k"))
    assert not has_entry(data, entry("_k"))
    assert not has_entry(data, entry("k as l"))
    assert add_entry(data, entry("_k")).data == b"from .k import *\nfrom .k import _k\n"


def test_plain_imports_of_one_package_live_together():
    data = b"import areal.a\nimport areal.z\n"
    assert b"import areal.k\n" in add_entry(data, entry("areal.k", "")).data
    with pytest.raises(RegistryError, match=r":1: 'areal.a' is imported from 'areal.a' here"):
        add_entry(data, entry("areal", ".k"))


@pytest.mark.parametrize(
    "data",
    [
        b"from .a import a\n\nk = None\n",
        b"from .a import a\n\n\nclass k:\n    pass\n",
        b"import k\n",
        b"from .a import other as k\n",
    ],
)
def test_a_name_that_is_taken_is_refused(data: bytes):
    with pytest.raises(RegistryError) as refusal:
        add_entry(data, entry())
    assert refusal.value.code == "registry_differs"
    assert "from .k import k" in refusal.value.hint


def test_a_fallback_below_a_try_does_not_take_the_name():
    data = b"try:\n    from .a import a\nexcept ImportError:\n    k = a = None\n"
    edit = add_entry(data, entry(table="try"))
    assert edit.data.splitlines()[1:3] == [b"    from .a import a", b"    from .k import k"]


@pytest.mark.parametrize(
    ("key", "value"), [("a b", ".m"), ("a;b", ".m"), ("a", "m\nx"), ("", ".m")]
)
def test_what_is_no_name_is_a_fault_of_the_template(key: str, value: str):
    with pytest.raises(TemplateError):
        add_entry(b"", entry(key, value))


def test_an_unknown_block_is_a_fault_of_the_template():
    with pytest.raises(TemplateError, match="no block 'else'"):
        add_entry(b"import os\n", entry(table="else"))


def test_the_text_to_add_is_the_import():
    assert text_to_add(entry()) == "from .k import k"
    assert text_to_add(entry("pkg.spec", "")) == "import pkg.spec"


def test_a_remark_is_taken_over_from_all_siblings_only():
    all_marked = b"from .a import a  # noqa: F401\nfrom .b import b  # noqa: F401\n"
    assert add_entry(all_marked, entry()).data.endswith(b"from .k import k  # noqa: F401\n")
    one_marked = all_marked.replace(b"  # noqa: F401", b"", 1)
    assert add_entry(one_marked, entry()).data.endswith(b"\nfrom .k import k\n")
    of_its_own = b"from .a import a  # noqa: E501\n"
    assert add_entry(of_its_own, entry()).data.endswith(b"\nfrom .k import k\n")
