"""Another program, run to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.analysis.process import run_text
from tests.unit.scaffold.verify.test_process import ends


def test_a_program_runs_in_its_folder_with_its_settings_and_no_input(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "print(os.getcwd(), os.environ['SETTING'], 'PATH' in os.environ, sys.stdin.read() == '')\n"
        "sys.exit(3)"
    )
    done = run_text([sys.executable, "-c", code], tmp_path, 60, SETTING="on")
    assert done.stdout.split() == [str(tmp_path.resolve()), "on", "True", "True"]
    assert done.returncode == 3


def test_output_that_is_no_text_is_given_as_far_as_it_is() -> None:
    code = r"import sys; sys.stdout.buffer.write(b'a\xffb')"
    assert run_text([sys.executable, "-c", code], None, 60).stdout == "a\ufffdb"


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_text([sys.executable, "-c", "import threading; threading.Event().wait()"], None, 0.5)


def test_what_a_killed_program_started_ends_too(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        f"open({str(place)!r}, 'w').write(str(child.pid))\n"
        "child.wait()\n"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        run_text([sys.executable, "-c", code], None, 2)
    assert ends(int(place.read_text()))
