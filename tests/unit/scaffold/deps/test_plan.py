"""A plan that is written: all manifests or none, whatever ended an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scaffold.deps.plan import plan
from scaffold.errors import RequestError
from scaffold.transaction import disk
from scaffold.transaction.state import has_journal
from tests.deps_places import write
from tests.faulty_disk import Death, FaultyDisk, die

NAMES = ["Dockerfile", "a/requirements.txt", "b/requirements.txt"]
AFTER = dict.fromkeys(NAMES, "RUN pip install toolbox==2.0\n") | dict.fromkeys(
    NAMES[1:], "toolbox==2.0\n"
)
BEFORE = {path: text.replace("2.0", "1.0") for path, text in AFTER.items()}
PINS = ["toolbox==2.0"]


def texts(root: Path) -> dict[str, str]:
    """Returns every file of a tree but the tool's state."""
    files = (path for path in root.rglob("*") if path.is_file())
    named = {path.relative_to(root).as_posix(): path.read_text() for path in files}
    return {path: text for path, text in named.items() if not path.startswith(".scaffold/")}


def steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many steps on the disk it takes to write the plan."""
    counting = FaultyDisk()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "DISK", counting)
        plan(write(folder, BEFORE), PINS, apply=True, resolve=False)
    assert texts(folder) == AFTER
    return len(counting.steps)


def test_a_run_settles_what_one_that_was_killed_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = steps(tmp_path / "whole", monkeypatch)
    assert count > 10
    settled: set[str] = set()
    for at in range(1, count + 1):
        root = write(tmp_path / str(at), BEFORE)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "DISK", FaultyDisk(at, die, is_final=True))
            with pytest.raises(Death):
                plan(root, PINS, apply=True, resolve=False)
        is_left = has_journal(root)
        preview = plan(root, PINS, resolve=False)
        assert has_journal(root) == is_left, "it writes nothing"
        assert bool(preview.warnings) == is_left
        report = plan(root, PINS, apply=True, resolve=False)
        assert texts(root) == AFTER, at
        assert not has_journal(root)
        assert bool(report.warnings) == is_left
        settled |= {word for word in ("finished", "undone") if word in str(report.warnings)}
    assert settled == {"finished", "undone"}


VARIANTS = {
    "pyproject.toml": '[project]\nname = "p"\ndependencies = ["toolbox==1.0"]\n',
    "pyproject.gpu.toml": '[project]\nname = "p"\ndependencies = ["toolbox==1.2"]\n',
    "uv.gpu.lock": '[[package]]\nname = "toolbox"\nversion = "1.2"\n',
    "Dockerfile": "RUN case $V in 1.2*) ;; esac\nRUN pip install toolbox==1.2\n",
    "README.md": "Needs toolbox 1.2, or toolbox==1.0.\n",
}


def planned(root: Path, *pins: str, **more: Any) -> dict[str, Any]:
    report = plan(root, pins, resolve=False, **more).extra["deps"]
    assert isinstance(report, dict)
    return report


def test_variants_that_differ_are_asked_about_or_refused(tmp_path: Path) -> None:
    write(tmp_path, VARIANTS)
    with pytest.raises(RequestError, match=r"==1\.2 in gpu, ==1\.0 in default") as refused:
        planned(tmp_path, "toolbox==2.0")
    assert refused.value.code == "variant_unclear"
    with pytest.raises(
        RequestError, match=r"no variant 'cpu' pins toolbox; those that do: gpu, default"
    ) as no:
        planned(tmp_path, "toolbox==2.0@cpu")
    assert no.value.code == "variant_unclear"
    assert no.value.hint == "name one: toolbox==2.0@gpu|default|all"
    answered = planned(tmp_path, "toolbox==2.0", ask=lambda found, known: known[0])
    assert [each["file"] for each in answered["pins"]] == ["pyproject.gpu.toml"]


def test_a_variant_moves_alone_and_all_that_names_its_release_is_told(tmp_path: Path) -> None:
    write(tmp_path, VARIANTS)
    told = planned(tmp_path, "toolbox==2.0@gpu")
    assert [each["file"] for each in told["pins"]] == ["pyproject.gpu.toml"]
    assert {each["file"] for each in told["unmoved"]} == {"pyproject.toml", "Dockerfile"}
    assert told["mentions"] == [
        {"file": "Dockerfile", "lines": [1, 2]},
        {"file": "README.md", "lines": [1]},
        {"file": "pyproject.toml", "lines": [3]},
    ]
    assert [each["file"] for each in told["locks"]] == ["uv.gpu.lock"]
    assert "with pyproject.gpu.toml as pyproject.toml" in told["locks"][0]["command"]
    both = planned(tmp_path, "toolbox==2.0@all")
    assert len(both["pins"]) == 3
    assert [each["file"] for each in both["mentions"]] == ["Dockerfile", "README.md"]


def test_variants_that_agree_move_together(tmp_path: Path) -> None:
    same = {**VARIANTS, "pyproject.gpu.toml": VARIANTS["pyproject.toml"]}
    write(tmp_path, same)
    assert len(planned(tmp_path, "toolbox==2.0")["pins"]) == 3


UV = """#!/bin/sh
test "$1" = lock || exit 2
grep -q toolbox==2.0 pyproject.toml || exit 3
cat > uv.lock <<'END'
[[package]]
name = "toolbox"
version = "2.0"

[[package]]
name = "fresh"
version = "1"
END
"""


def test_the_lock_of_a_variant_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No uv is installed for the tests: a script writes what uv's lock would be."""
    root = write(tmp_path / "tree", VARIANTS)
    place = tmp_path / "bin" / "uv"
    write(tmp_path, {"bin/uv": UV.encode()})
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(place.parent), prepend=":")
    told = plan(root, ["toolbox==2.0@gpu"]).extra["deps"]
    assert told["changed"] == [
        {"package": "fresh", "old": "", "new": "1"},
        {"package": "toolbox", "old": "1.2", "new": "2.0"},
    ]
    assert [each["group"] for each in told["resolved"]] == ["pyproject.gpu.toml"]
