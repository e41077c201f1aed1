"""Imports: what the corpus does not show: removal of what others wrote, and wrong input."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import RegistryError, TemplateError

FILE = "pkg/reward/__init__.py"


def entry(key: str = "k", value: str = ".k", table: str = "") -> Entry:
    return Entry(FILE, table, "import", key, value)


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
def test_takes_back_by_name(case: tuple[Entry, str, str]):
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


def test_a_statement_of_two_modules_counts_as_its_first():
    data = b"import os, torch\n\nimport numpy\n"
    assert add_entry(data, entry("json", "")).data == b"import json\n" + data


def test_imports_below_definitions_do_not_draw_others_there():
    data = b"import os\n\n\ndef f():\n    return 1\n\n\nfrom .late import z  # noqa: E402\n"
    assert add_entry(data, entry("np", "numpy")).data.startswith(
        b"import os\n\nfrom numpy import np\n"
    )
    assert add_entry(data, entry()).data == data.replace(
        b"from .late", b"from .k import k  # noqa: E402\nfrom .late"
    )


MODULES = ["os", "json", "numpy", "torch", "pkg.api", "pkg.zeta", ".a", ".b2", ".b10", "..up", "."]
NAMES = ["One", "TWO", "fn_a", "fn_b", "fn_c"]


def sorted_file(rng: random.Random) -> str:
    """Returns a file with imports in any order, and code behind them."""
    rows = [
        f"import {module}\n"
        if module[0] != "." and rng.random() < 0.4
        else f"from {module} import {', '.join(rng.sample(NAMES, rng.randint(1, 3)))}\n"
        for module in rng.sample(MODULES, rng.randint(1, 6))
    ]
    future = "from __future__ import annotations\n"
    head = rng.choice(["", '"""Doc."""\n\n', "# Licence.\n\n", '"""Doc."""\n\n' + future])
    return head + "".join(rows) + rng.choice(["", "\nx = 1\n", "\n\ndef f():\n    return 1\n"])


def test_ruff_finds_nothing_to_sort(tmp_path: Path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "ruff.toml").write_text(
        'lint.select = ["I"]\nlint.isort.known-first-party = ["pkg"]\n'
    )
    rng = random.Random(7)
    files = [tmp_path / "pkg" / f"f{n}.py" for n in range(80)]
    for file in files:
        file.write_text(sorted_file(rng))

    def ruff(*arguments: str) -> str:
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--quiet", "."]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert not ruff("check", "--fix")
    assert not ruff("format")
    for file in files:
        module = rng.choice(MODULES)
        is_plain = module[0] != "." and rng.random() < 0.4
        key = f"{module}.deep" if is_plain else rng.choice(["Zed", "NEW", "new_fn", "fn_ab"])
        made = Entry("pkg/f.py", "", "import", key, "" if is_plain else module)
        file.write_bytes(add_entry(file.read_bytes(), made).data)
    assert not ruff("check", "--output-format", "concise")
    assert not ruff("format", "--diff")
