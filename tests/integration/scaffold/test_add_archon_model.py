"""A real model, from the question to the registry and back: measured, written, proven, mended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ARCHON = "areal/experimental/models/archon"
LAYOUT = Path(__file__).parents[2] / "fixtures/layouts/archon"
MODEL = f"{ARCHON}/tiny_llama"
TEST = "tests/unit/experimental/archon/models/test_tiny_llama.py"
PYTHON = ("--python", sys.executable)
ADD = ("add-archon-model", "config/config.json", "--name", "tiny-llama", *PYTHON, "--json")
VERIFY = ("verify", "archon/tiny_llama", *PYTHON, "--json")
CONFIG = {"model_type": "llama", "hidden_size": 96, "num_attention_heads": 6}
WRONG = '''

def _spoil(cls: type) -> None:
    """Scales the scores of all layers by two per cent too much."""
    build = cls.__init__

    def init(self, *args, **kwargs):
        build(self, *args, **kwargs)
        for layer in self.layers.values():
            layer.attention.core.scale *= 1.02

    cls.__init__ = init


_spoil(TinyLlamaModel)
'''
SPEC = '''"""A spec of the repository's own, in the place of the written one."""

from {{ registry_module }}.model_spec import ModelSpec
from {{ module }}.infra.parallelize import parallelize_{{ key }}
from {{ module }}.model.args import {{ pascal }}ModelArgs
from {{ module }}.model.model import {{ pascal }}Model
from {{ module }}.model.state_dict_adapter import {{ pascal }}StateDictAdapter

{{ upper }}_SPEC = ModelSpec(
    name="{{ key }}",
    model_class={{ pascal }}Model,
    model_args_class={{ pascal }}ModelArgs,
    state_dict_adapter_class={{ pascal }}StateDictAdapter,
    parallelize_fn=parallelize_{{ key }},
    supported_model_types=frozenset({"{{ model_type }}"}),
)
'''


@pytest.fixture
def target(repository: Path) -> Path:
    """Gives a copy of the package, without its models and templates of its own, and a config.json.

    The copy is that of all tests of the module.
    """
    shutil.rmtree(repository / ".scaffold/templates/archon-model", ignore_errors=True)
    for spec in (repository / ARCHON).glob("*/spec.py"):
        shutil.rmtree(spec.parent)
    init = repository / ARCHON / "__init__.py"
    rows = init.read_text().splitlines(keepends=True)
    init.write_text("".join(row for row in rows if ".spec:" not in row))
    (repository / "config").mkdir(exist_ok=True)
    (repository / "config/config.json").write_text(json.dumps(CONFIG))
    return repository


def tree(root: Path) -> dict[str, bytes]:
    paths = [p for p in sorted(root.rglob("*")) if p.is_file() and p.suffix != ".pyc"]
    inside = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {path: data for path, data in inside.items() if ".scaffold/state" not in path}


@pytest.mark.slow
def test_a_spoiled_model_is_registered_once_it_is_mended(target: Path, scaffold: Run) -> None:
    own = target / ".scaffold/templates/archon-model/default/spec.py.jinja"
    assert scaffold(target, "eject", "archon-model/default").status == 0
    own.write_text(SPEC + WRONG)
    before = tree(target)
    added = scaffold(target, *ADD)
    assert (added.status, added.report["registered"]) == (1, []), added.text
    assert "proof" in added.report, added.text
    assert added.report["proof"]["bisection"], "it says where the first difference is"
    assert "dim: int = 96" in (target / MODEL / "model/args.py").read_text()
    assert (target / ARCHON / "__init__.py").read_bytes() == before[f"{ARCHON}/__init__.py"]

    spec = target / MODEL / "spec.py"
    text = spec.read_text()
    spec.write_text(text[: text.index("def _spoil")].rstrip() + "\n")
    verified = scaffold(target, *VERIFY)
    assert (verified.status, verified.report["verdict"]) == (0, "ok"), verified.text
    assert [row["key"] for row in verified.report["registered"]] == ["llama"]
    assert "proof      proven" in scaffold(target, "show", "archon/tiny_llama").text
    again = scaffold(target, *ADD)
    assert (again.status, again.report["changes"]) == (0, [])

    spec.write_text(text)  # as it was written, so that all of it can be taken back
    assert scaffold(target, "remove", "archon/tiny_llama").status == 0
    assert tree(target) == before


@pytest.mark.slow
def test_a_model_is_added_proven_and_taken_back(target: Path, scaffold: Run) -> None:
    before = tree(target)
    shown = scaffold(target, *ADD, "--dry-run")
    assert (shown.status, shown.report["proof"]["ok"]) == (0, True), shown.text
    assert tree(target) == before
    added = scaffold(target, *ADD)
    assert (added.status, added.report["proof"]["ok"]) == (0, True), added.text
    assert added.report["proof"]["test"]["passed"] == 7
    assert [row["key"] for row in added.report["registered"]] == ["llama"]
    assert (target / TEST).is_file()
    assert scaffold(target, *VERIFY).report["verdict"] == "ok"
    assert scaffold(target, "remove", "archon/tiny_llama").status == 0
    assert tree(target) == before


@pytest.mark.heavy
def test_a_model_is_proven_in_a_checkout_of_areal_and_its_test_passes_there(
    tmp_path: Path, scaffold: Run
) -> None:
    root = tmp_path / "areal-checkout"
    shutil.copytree(LAYOUT, root)
    (root / "config").mkdir()
    (root / "config/config.json").write_text(json.dumps(CONFIG))
    before = tree(root)
    added = scaffold(root, *ADD)
    assert (added.status, added.report["proof"]["ok"]) == (0, True), added.text
    assert added.report["proof"]["test"]["failures"] == []
    code = (
        "from areal.experimental.models.archon import get_model_spec\n"
        "from areal.experimental.models.archon.base import BaseModelArgs, BaseStateDictAdapter\n"
        "spec = get_model_spec('llama')\n"
        "assert issubclass(spec.model_args_class, BaseModelArgs)\n"
        "assert issubclass(spec.state_dict_adapter_class, BaseStateDictAdapter)\n"
    )
    for command in (["-c", code], ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert scaffold(root, "remove", "archon/tiny_llama").status == 0
    assert tree(root) == before


@pytest.mark.heavy
def test_a_model_of_a_project_is_proven_there_and_trained_by_its_configuration(
    tmp_path: Path, scaffold: Run
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    root = tmp_path / "my_rl"
    (root / "config").mkdir()
    (root / "config/config.json").write_text(json.dumps({**CONFIG, "model_type": "starcoder2"}))
    added = scaffold(root, "add-archon-model", "config/config.json", *PYTHON, "--json")
    assert (added.status, added.report["proof"]["ok"]) == (0, True), added.text
    assert [row["file"] for row in added.report["registered"]] == ["my_rl/models/__init__.py"]
    train = ["-m", "areal.trainer.cli", "train", "-c", "sft.yaml", "total_train_steps=1"]
    train += ["actor.backend=archon:d1", "run.model.architecture=starcoder2"]
    for command in (train, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=root,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_an_encoder_is_measured_written_and_proven_as_a_reward_model(
    tmp_path: Path, scaffold: Run
) -> None:
    root = tmp_path / "areal-checkout"
    shutil.copytree(LAYOUT, root)
    added = scaffold(root, "add-archon-model", "roberta", *PYTHON, "--json")
    proof = added.report["proof"]
    assert (added.status, proof["ok"]) == (0, True), added.text
    assert proof["counts"] == {"proven": len(proof["variations"]), "refused": 0, "failed": 0}
    assert {"hidden_act", "pad_token_id", "type_vocab_size"} <= set(proof["varied"])
    for rounding in proof["rounding"].values():
        assert rounding["equal"] == rounding["layers"] > 0
    assert proof["test"]["failures"] == []
    assert (root / ARCHON / "common/encoder.py").is_file()
