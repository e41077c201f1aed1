from __future__ import annotations

import pytest
from click.testing import CliRunner

from areal.trainer.cli import SHELLS, main


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_a_script_that_completes(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert "_AREAL_COMPLETE" in done.stdout


def test_what_completes_is_the_commands() -> None:
    words = {"_AREAL_COMPLETE": "bash_complete", "COMP_WORDS": "areal ge", "COMP_CWORD": "1"}
    done = CliRunner().invoke(main, env=words, prog_name="areal")
    assert done.stdout.split() == ["plain,generate"]


def test_ctrl_c_is_130_where_a_command_has_no_words_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("areal.trainer.serve.serve", stopped)
    done = CliRunner().invoke(main, ["serve", "model"])
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("command", ["train", "eval", "serve", "trinity run", "trinity debug"])
def test_a_configuration_that_is_not_there_is_one_line(command: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), "-c", "nope.yaml"])
    told = "error: there is no configuration file 'nope.yaml'\n"
    assert (done.exit_code, done.output) == (2, told)


def test_the_hub_is_asked_once_for_what_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(url: str, **options: object) -> None:
        asked.append(url)
        raise OSError("name resolution failed\nand more")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", ask)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    done = CliRunner().invoke(main, ["generate", "nothing", "x"])
    told = "error: there is no folder 'nothing', and the hub: name resolution failed\n"
    assert (done.exit_code, done.output, len(asked)) == (1, told, 1)
    done = CliRunner().invoke(main, ["generate", "not a name", "x"])
    told = "error: there is no folder 'not a name', and no model can be called so\n"
    assert (done.exit_code, done.output, len(asked)) == (1, told, 1)
