"""Which pins of odd manifests move, byte for byte, and what is said of the ones that stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from scaffold.analysis.files.files import Files
from scaffold.deps.pins import find_pins
from scaffold.deps.plan import edit_pins
from scaffold.deps.resolver import groups_of
from tests.deps_places import write

VERSION = Version("2.3.4")
MOVES = {
    "a line that goes on, then the release": (
        "requirements.txt",
        "toolbox \\\n  ==1.0 \\\r\n  ; python_version > '3'\n",
        "toolbox \\\n  ==2.3.4 \\\r\n  ; python_version > '3'\n",
    ),
    "a comment does not go on": (
        "requirements.txt",
        "# not joined \\\ntoolbox==1.0\n",
        "# not joined \\\ntoolbox==2.3.4\n",
    ),
    "a byte order mark": ("requirements.txt", "\ufefftoolbox==1.0", "\ufefftoolbox==2.3.4"),
    "a short file name": ("dev-reqs.txt", "toolbox==1.0\n", "toolbox==2.3.4\n"),
    "a list of requirements by what is in it": (
        "req/base.txt",
        "# what it needs\n-r other.txt\nclick\ntoolbox[a]>=1.0,<2 ; python_version > '3'\n",
        "# what it needs\n-r other.txt\nclick\ntoolbox[a]>=2.3,<3 ; python_version > '3'\n",
    ),
    "what a script needs, as of PEP 723": (
        "tools/run.py",
        "# /// script\n# dependencies = [\n#   'toolbox==1.0',\n# ]\n# ///\nX = 'toolbox==1.0'\n",
        "# /// script\n# dependencies = [\n#   'toolbox==2.3.4',\n# ]\n# ///\nX = 'toolbox==1.0'\n",
    ),
    "a variable of make": (
        "Makefile",
        "V := 1.0\nW ?= 1.0\nx:\n\tpip install toolbox==$(V) 'toolbox[a]==${W}'\n",
        "V := 2.3.4\nW ?= 2.3.4\nx:\n\tpip install toolbox==$(V) 'toolbox[a]==${W}'\n",
    ),
    "variables of a Dockerfile": (
        "Dockerfile",
        "ARG V=1.0\nENV W 1.0\nENV A=1 X='1.0'\nRUN pip install \\\n toolbox==$V toolbox==${W} \\\n"
        " toolbox==$X\n",
        "ARG V=2.3.4\nENV W 2.3.4\nENV A=1 X='2.3.4'\nRUN pip install \\\n toolbox==$V"
        " toolbox==${W} \\\n toolbox==$X\n",
    ),
    "a Pipfile": (
        "Pipfile",
        '[packages]\ntoolbox = "==1.0"\n[dev-packages]\ntoolbox = {version = "~=1.0"}\n',
        '[packages]\ntoolbox = "==2.3.4"\n[dev-packages]\ntoolbox = {version = "~=2.3"}\n',
    ),
    "pixi": (
        "pyproject.toml",
        '[tool.pixi.pypi-dependencies]\ntoolbox = ">=1,<2"\n',
        '[tool.pixi.pypi-dependencies]\ntoolbox = ">=2,<3"\n',
    ),
    "tox in a table of the project": (
        "pyproject.toml",
        '[tool.tox.env_run_base]\ndeps = ["toolbox==1.0"]\n[tool.tox.env.lint]\n'
        'deps = ["-r req.txt", "toolbox>=1,<2"]\n',
        '[tool.tox.env_run_base]\ndeps = ["toolbox==2.3.4"]\n[tool.tox.env.lint]\n'
        'deps = ["-r req.txt", "toolbox>=2,<3"]\n',
    ),
    "tox in its own TOML": (
        "tox.toml",
        '[env_run_base]\ndeps = ["toolbox==1.0"]\n[env.lint]\ndeps = ["toolbox>=1,<2"]\n',
        '[env_run_base]\ndeps = ["toolbox==2.3.4"]\n[env.lint]\ndeps = ["toolbox>=2,<3"]\n',
    ),
    "an extra of one text": (
        "setup.py",
        "setup(extras_require={'a': 'toolbox==1.0', 'b': {'toolbox>=1,<2'}})\n",
        "setup(extras_require={'a': 'toolbox==2.3.4', 'b': {'toolbox>=2,<3'}})\n",
    ),
    "a form feed is no end of a line": (
        "setup.py",
        "import os\n\x0c\nsetup(install_requires=['toolbox==1.0'])\n",
        "import os\n\x0c\nsetup(install_requires=['toolbox==2.3.4'])\n",
    ),
}


@pytest.mark.parametrize(
    "text",
    ["toolbox\nclick\n", "We need toolbox>=1.0,<2 and click.\n", "toolbox>=1.0\n1,2,3\n"],
)
def test_a_text_that_only_mentions_a_package_is_no_manifest(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"notes.txt": text})
    assert find_pins(Files(tmp_path, ["notes.txt"], has_git=False), "toolbox") == []


def edited(folder: Path, path: str, text: str) -> tuple[str, list[tuple[int, str]]]:
    """Returns a manifest after the plan, and the line and reason of each pin that stays."""
    write(folder, {path: text.encode()})
    files = Files(folder, [path], has_git=False)
    if not find_pins(files, "toolbox"):
        return text, []
    found = edit_pins(files, {"toolbox": VERSION})
    stays = [(pin.line, why) for pin, why in found.unmoved]
    return (found.files.data(path) or b"").decode(), stays


@pytest.mark.parametrize("case", MOVES)
def test_a_pin_moves_and_every_other_byte_stays(tmp_path: Path, case: str) -> None:
    path, before, after = MOVES[case]
    assert edited(tmp_path, path, before) == (after, [])


STAYS = {
    "a release on the next line": ("requirements.txt", "a==1\ntoolbox==\\\n1.0\n", 2, "two lines"),
    "one sign too few": ("requirements.txt", "toolbox=1.0\n", 1, "cannot be moved"),
    "no release": ("requirements.txt", "toolbox==\n", 1, "cannot be moved"),
    "hashes": ("requirements.txt", "toolbox==1.0 \\\n --hash=sha256:aa\n", 1, "hashes"),
    "an address": ("requirements.txt", "toolbox @ https://x/t.whl\n", 1, "address"),
    "an address of one's own": ("requirements.txt", "toolbox[a]@file:///x\n", 1, "address"),
    "an address with its name behind": (
        "requirements.txt",
        "-e git+https://x/t.git@1.0#egg=toolbox\n",
        1,
        "address",
    ),
    "an address in a list": (
        "pyproject.toml",
        '[project]\ndependencies=["toolbox@file:///x"]\n',
        2,
        "address",
    ),
    "an address in a table": (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ntoolbox = {git = "https://x"}\n',
        2,
        "address",
    ),
    "alternatives": (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ntoolbox = [{version = "1.0"}, {version = "1.1"}]\n',
        2,
        "alternatives",
    ),
    "no TOML": ("pyproject.toml", '[project\ndependencies=["toolbox==1.0"]\n', 2, "not valid TOML"),
    "no Python": ("setup.py", "def (:\nx = ['toolbox==1.0']\n", 2, "does not parse"),
    "a text with a value in it": ("setup.py", "x = [f'toolbox=={V}']\n", 1, "cannot be moved"),
    "a matrix": (".github/workflows/a.yml", "a\nb: toolbox==${{ matrix.v }}\n", 2, "computed"),
    "a default in the command": ("a.sh", "pip install toolbox==${V:-1.0}\n", 1, "computed"),
    "a range of a variable": (
        "Dockerfile",
        'ARG V=1\nRUN pip install "toolbox>=$V"\n',
        2,
        "computed",
    ),
    "quotes within": ("a.sh", "pip install toolbox=='1.0'\n", 1, "computed"),
    "a bound for older Pythons": (
        "requirements.txt",
        "toolbox<1.0 ; python_version<'3.10'\n",
        1,
        "older releases of Python",
    ),
    "the oldest release": ("constraints-oldest.txt", "toolbox==1.0\n", 1, "lower bound"),
    "the least release": ("requirements-min.txt", "toolbox>=1.0\n", 1, "lower bound"),
    "conda's own": ("environment.yml", "dependencies:\n  - toolbox=1.0\n", 2, "conda"),
    "a variable that two share": (
        "Dockerfile",
        "ARG V=1.0\nRUN pip install toolbox==$V other==${V}\n",
        1,
        "other",
    ),
}
"""Manifests with one pin that a person moves: path, text, line, a word of the reason."""


APART = {
    "factors of tox": (
        "tox.ini",
        "[testenv]\ndeps =\n    g10: toolbox>=1.0,<1.1\n    g15: toolbox>=1.5,<1.6\n",
        [3, 4],
    ),
    "groups": (
        "pyproject.toml",
        '[project]\ndependencies = ["toolbox>=2.3.4"]\n[dependency-groups]\n'
        'compat-old = ["toolbox~=1.0"]\ncompat-new = ["toolbox==2.*"]\n',
        [2, 4, 5],
    ),
    "markers": (
        "requirements.txt",
        "toolbox==1.0 ; python_version<'3.9'\ntoolbox==1.5 ; python_version>='3.9'\n",
        [1, 2],
    ),
    "a script in a text, and what is no requirement": (
        "a.py",
        'X = """\n# /// script\n# dependencies = ["toolbox==1.0"]\n# ///\n"""\n'
        '# /// script\n# dependencies = []\n# [tool.x]\n# dependencies = ["toolbox==1.0"]\n# ///\n',
        [],
    ),
}


@pytest.mark.parametrize("case", APART)
def test_what_differs_on_purpose_stays(tmp_path: Path, case: str) -> None:
    path, text, lines = APART[case]
    after, stays = edited(tmp_path, path, text)
    assert (after, [line for line, _ in stays]) == (text, lines)


@pytest.mark.parametrize("case", STAYS)
def test_what_stays_is_told_with_its_line(tmp_path: Path, case: str) -> None:
    path, text, line, word = STAYS[case]
    after, stays = edited(tmp_path, path, text)
    assert after == text
    assert [each[0] for each in stays] == [line]
    assert word in stays[0][1]


IMAGES = {
    "a tag": ("FROM --platform=linux/amd64 org/toolbox-openai:v1.0\n", "v2.3.4", []),
    "a build tag": ("FROM toolbox/toolbox:1.0-cuda12\n", "1.0-cuda12", ["-cuda12"]),
    "a registry with a port": ("FROM host:5000/toolbox:1.0\n", "host:5000/toolbox:2.3.4", []),
    "another image": ("FROM org/other:1.0\nRUN pip install toolbox==1.0\n", "org/other:1.0", []),
    "an argument": ("ARG TOOLBOX_VERSION=1.0\nFROM x/y:${TOOLBOX_VERSION}\n", "VERSION=2.3.4", []),
    "an argument for two": (
        "ARG V=1.0\nRUN pip install toolbox==$V other==${V}\n", "ARG V=1.0", ["takes V too"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IMAGES)
def test_an_image_moves_where_its_tag_is_the_release(tmp_path: Path, case: str) -> None:
    text, kept, whys = IMAGES[case]
    new, stay = edited(tmp_path, "docker/Dockerfile", text)
    assert kept in new
    assert len(stay) == len(whys)
    assert all(part in why for part, (_, why) in zip(whys, stay, strict=True))


def test_the_second_of_two_equal_lines_keeps_its_hashes(tmp_path: Path) -> None:
    text = "toolbox==1.0 \\\n  ; python_version < '3'\ntoolbox==1.0 \\\n  --hash=sha256:aa\n"
    after, stays = edited(tmp_path, "requirements.txt", text)
    assert after == text.replace("1.0", "2.3.4", 1)
    assert [line for line, _ in stays] == [3]


def test_names_that_only_begin_or_end_alike_are_others(tmp_path: Path) -> None:
    text = "toolbox==1.0\ntoolbox-more==1.0\nmy-toolbox==1.0\ntoolbox2==1.0\ntoolbox.a==1.0\n"
    after, stays = edited(tmp_path, "requirements.txt", text)
    assert (after, stays) == (text.replace("1.0", "2.3.4", 1), [])


def test_a_group_is_resolved_with_those_that_it_includes(tmp_path: Path) -> None:
    text = (
        '[project]\ndependencies = ["a"]\n[dependency-groups]\n'
        'test = ["toolbox==1.0", {include-group = "Type.Checks"}]\n'
        'type-checks = ["b<2", {include-group = "test"}]\n'
    )
    files = Files(write(tmp_path, {"pyproject.toml": text}), ["pyproject.toml"], has_git=False)
    groups = groups_of(files, find_pins(files, "toolbox"))
    assert [each.lines for each in groups] == [("a", "toolbox==1.0", "b<2")]


@pytest.mark.parametrize("path", ["tox.toml", "pyproject.toml"])
def test_an_environment_of_tox_is_resolved_without_what_only_tox_reads(
    tmp_path: Path, path: str
) -> None:
    rows = '"-r req.txt", "{tox_root}/local", "./local", {replace = "ref"}'
    table = "env.lint" if path == "tox.toml" else "tool.tox.env.lint"
    text = f'[{table}]\ndeps = ["toolbox==1.0", "a<2", {rows}]\n'
    files = Files(write(tmp_path, {path: text}), [path], has_git=False)
    groups = groups_of(files, find_pins(files, "toolbox"))
    assert [(each.lines, each.left_out) for each in groups] == [
        (
            ("toolbox==1.0", "a<2"),
            (f"{path}: -r req.txt", f"{path}: {{tox_root}}/local", f"{path}: ./local"),
        )
    ]
