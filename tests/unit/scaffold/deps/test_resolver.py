"""What resolvers answer, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.deps.groups import Group
from scaffold.deps.resolver import Want, resolve_with_lock, resolve_with_pip
from tests.deps_places import make_wheel, use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels that pip finds."""
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    return tmp_path / "index"


def test_what_pip_finds_is_named_as_indexes_compare_names(index: Path) -> None:
    make_wheel(index, "ruamel.yaml", "0.18", {"ruamel_yaml.py": ""})
    answer = resolve_with_pip(Group("all", ("Ruamel_YAML",), {}), None)
    assert answer.versions == {"ruamel-yaml": "0.18"}


def test_pip_names_who_wants_what_with_extras_too(index: Path) -> None:
    make_wheel(index, "click", "7.1.2", {"click.py": ""})
    make_wheel(index, "click", "8.1.0", {"click.py": ""})
    make_wheel(index, "black", "24.1.0", {"black.py": ""}, requires=["click>=8.0.0,!=8.0.1"])
    answer = resolve_with_pip(Group("all", ("black[d]==24.1.0", "click<8"), {}), None)
    assert answer.wants == [
        Want("the manifest", "click<8"),
        Want("black[d] 24.1.0", "click!=8.0.1 and >=8.0.0"),
    ]


# What poetry 2.5.1 and uv 0.13.9 print of such requirements.
POETRY_ONE = """
Because thing depends on black[jupyter] (24.2.0) which depends on click (>=8.0.0,!=8.0.1), click
 is required.
So, because thing depends on click (7.1.2), version solving failed.
"""
POETRY_MANY = """
Because no versions of black match >24.1,<24.2
 and black (24.1.0) depends on click (>=8.0.0), black (>=24.1,<24.2) requires click (>=8.0.0).
So, because thing depends on both black (>=24.1,<24.2) and click (<8), version solving failed.
"""
UV = """
error: No solution found when resolving dependencies
  cause: Because ruamel-yaml>=1.6 depends on click==8.1.0 and your project depends on click<8, we
         can conclude that ruamel-yaml>=1.6 and your project are incompatible.
         And because black==24.* depends on click>=8.0.0,<9 we can conclude that nothing goes.
"""


@pytest.mark.parametrize(
    ("resolver", "said", "wants"),
    [
        (
            "poetry",
            POETRY_ONE,
            [
                Want("thing", "black[jupyter]==24.2.0"),
                Want("black==24.2.0", "click>=8.0.0,!=8.0.1"),
                Want("thing", "click==7.1.2"),
            ],
        ),
        ("poetry", POETRY_MANY, [Want("black==24.1.0", "click>=8.0.0")]),
        (
            "uv",
            UV,
            [
                Want("ruamel-yaml>=1.6", "click==8.1.0"),
                Want("project", "click<8"),
                Want("black==24.*", "click>=8.0.0,<9"),
            ],
        ),
    ],
)
def test_who_wants_what_is_read_from_the_sentences_of_a_resolver(
    resolver: str, said: str, wants: list[Want], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / resolver
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = resolve_with_lock(resolver, {"pyproject.toml": ""}, ["click"], "pyproject.toml")
    assert answer is not None
    assert answer.wants == wants
