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
