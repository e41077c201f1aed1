from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.errors import ScaffoldError, TargetError
from scaffold.skills.blocks.settings import Plugin, Settings, read_settings

PROJECT = '[project]\nname = "p"\nversion = "1"\ndescription = "d"\nauthors = [{name = "us"}]\n'


def read(folder: Path, text: str) -> Settings:
    (folder / "pyproject.toml").write_text(text)
    return read_settings(list_files(folder))


@pytest.mark.parametrize("text", [PROJECT, "", "tool = 3\n", "broken = [\n", "[tool.scaffold]\n"])
def test_a_repository_that_says_nothing_has_the_usual_settings(tmp_path: Path, text: str) -> None:
    assert read_settings(list_files(tmp_path)) == Settings()
    assert read(tmp_path, text) == Settings()


def test_everything_is_read(tmp_path: Path) -> None:
    text = f"""{PROJECT}
[tool.scaffold.skills]
clients = ["opencode", "claude"]
commands = true
cli = ["docs/cli.json"]
run = ["scaffold list", "make"]
select = ["of the checker"]
[tool.scaffold.skills.plugin]
name = "q"
keywords = ["a"]
[tool.scaffold.skills.opencode]
share = "disabled"
"""
    assert read(tmp_path, text) == Settings(
        True,
        ("claude", "opencode"),
        True,
        (("scaffold", "list"), ("make",)),
        ("docs/cli.json",),
        Plugin("q", "1", "d", "us", "q", {"keywords": ["a"]}),
        {"share": "disabled"},
    )


def test_a_command_is_allowed_by_its_first_words() -> None:
    settings = Settings(run=(("scaffold", "list"), ("make",), ()))
    assert settings.allows(("scaffold", "list", "--json"))
    assert settings.allows(("make", "clean"))
    assert not settings.allows(("scaffold",))
    assert not settings.allows(("makeshift",))
    assert not Settings().allows(("ls",))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("broken = [\n[tool.scaffold.skills]\n", "cannot be read"),
        ("[tool.scaffold.skills]\nclients = 3\n", "must be list"),
        ("[tool.scaffold.skills]\nrun = [3]\n", "strings only"),
        ('[tool.scaffold.skills]\nrun = ["\'"]\n', "No closing quotation"),
        ("[tool.scaffold.skills]\ncommand = true\n", "did you mean 'commands'"),
        ("[tool.scaffold.skills]\nopencode = 3\n", "must be dict"),
        ("[tool.scaffold.skills.plugin]\nname = 'x'\n", "version, description is neither"),
        ("[tool.scaffold.skills.plugin]\nnames = 'x'\n", "unknown key 'names'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(TargetError, match=error) as caught:
        read(tmp_path, text)
    assert caught.value.code == "target_invalid"


def test_an_unknown_client_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError, match="unknown client 'cursor'") as caught:
        read(tmp_path, '[tool.scaffold.skills]\nclients = ["cursor"]\n')
    assert caught.value.code == "client_unknown"


def test_a_project_file_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\0[tool.scaffold.skills]\n")
    with pytest.raises(TargetError, match=r"^pyproject\.toml is not text"):
        read_settings(list_files(tmp_path))
