"""Staged models: what they import has to be there, and the proof finds them alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.archon.coverage import shared_digest
from scaffold.archon.staging import check_shared_parts, stage_files
from scaffold.errors import TargetError
from scaffold.templating.render import RenderedFile
from tests.unit.scaffold.archon.conftest import ARCHON

OWN = {f"{ARCHON}/foo/spec.py": b"", f"{ARCHON}/foo/model/model.py": b""}
PACKAGE = "areal.experimental.models.archon"


@pytest.mark.parametrize(
    "line",
    [
        f"from {PACKAGE}.base import BaseArchonModel",
        f"from {PACKAGE}.foo.spec import FOO",
        f"import {PACKAGE}.foo.model.model",
        f"from {PACKAGE} import base",
        "import torch",
        "from transformers import LlamaConfig",
    ],
)
def test_what_is_there_may_be_imported(models: Path, line: str) -> None:
    check_shared_parts(models, "areal", {**OWN, "tests/test_foo.py": line.encode()})


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        (f"from {PACKAGE}.packing import Packing", f"{PACKAGE}.packing.Packing"),
        (f"from {PACKAGE}.base import Nothing", f"{PACKAGE}.base.Nothing"),
        (f"import {PACKAGE}.packing", f"{PACKAGE}.packing"),
    ],
)
def test_what_is_not_there_is_named(models: Path, line: str, missing: str) -> None:
    with pytest.raises(TargetError) as refusal:
        check_shared_parts(models, "areal", {**OWN, "x.py": line.encode()})
    assert refusal.value.code == "target_lacks"
    assert missing in refusal.value.message


def test_files_are_staged_by_their_place_in_the_package(tmp_path: Path) -> None:
    files = [
        RenderedFile(f"{ARCHON}/foo/model/model.py", "source", b"x = 1\n"),
        RenderedFile("tests/unit/models/test_foo.py", "test", b"y = 1\n"),
    ]
    test = stage_files(files, f"{ARCHON}/foo", tmp_path)
    assert (tmp_path / "package/foo/model/model.py").read_bytes() == b"x = 1\n"
    assert test is not None
    assert test.read_bytes() == b"y = 1\n"


def test_a_proof_depends_on_shared_parts_and_on_no_other_model(models: Path) -> None:
    before = shared_digest(models)
    (models / ARCHON / "foo").mkdir()
    (models / ARCHON / "foo/spec.py").write_text("FOO = 1\n")
    assert shared_digest(models) == before
    (models / ARCHON / "moe").mkdir()
    (models / ARCHON / "moe/router.py").write_text("")
    assert shared_digest(models) != before
