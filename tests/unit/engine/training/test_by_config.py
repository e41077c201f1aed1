"""The train engines under AReaL's names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import OptimizerConfig, TrainEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model.checkpoint import save_hf_model
from areal.engine.training.by_config import ArchonEngine, FSDPEngine
from tests.tiny_models import random_prompts, tiny_model

SPEC = FinetuneSpec(total_train_epochs=1, dataset_size=10, train_batch_size=1)
NAMES = {
    "areal.engine.fsdp_engine": ("FSDPEngine", FSDPEngine),
    "areal.experimental.engine.archon_engine": ("ArchonEngine", ArchonEngine),
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    save_hf_model(prepare_model(tiny_model(), torch.device("cpu")), tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.parametrize("module", NAMES)
def test_an_engine_is_made_from_its_configuration(checkpoint: str, module: str) -> None:
    name, expected = NAMES[module]
    cls = getattr(import_module(module), name)
    assert cls is expected
    config = TrainEngineConfig(
        path=checkpoint, backend=f"{cls.backend_name}:d1", optimizer=OptimizerConfig(lr=1e-3)
    )
    engine = cls(config)
    engine.create_process_group()
    engine.initialize(None, SPEC)
    reference = tiny_model()
    (ids,) = torch.tensor([random_prompts([9])[0]])
    found = engine.forward_batch(
        {"input_ids": ids[None], "attention_mask": torch.ones(1, 9, dtype=torch.bool)}
    )
    with torch.no_grad():
        logits = reference(input_ids=ids[None], use_cache=False).logits[0]
    picked = logits[:-1].log_softmax(-1).gather(-1, ids[1:, None]).squeeze(-1)
    torch.testing.assert_close(found[0, :-1], picked, rtol=1e-5, atol=1e-5)
    assert engine.is_data_parallel_head()


@pytest.mark.parametrize("cls", [FSDPEngine, ArchonEngine])
def test_an_engine_needs_no_configuration_file(
    checkpoint: str, cls: type[FSDPEngine | ArchonEngine]
) -> None:
    engine = cls.from_pretrained(checkpoint, "e", "t", learning_rate=1e-3)
    engine.initialize(None, SPEC)
    assert engine.config.backend == f"{cls.backend_name}:d1t1"
    engine.set_lr(0.5)
    engine.lr_scheduler_step()
    assert engine.lr_scheduler.base_lrs[0] == 0.5
    assert engine.optimizer is not None
    assert engine.optimizer.param_groups[0]["lr"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("cls", "fields"), [(FSDPEngine, {}), (ArchonEngine, {}), (FSDPEngine, {"use_lora": True})]
)
def test_a_copied_model_is_written_as_it_was(
    checkpoint: str,
    tmp_path: Path,
    cls: type[FSDPEngine | ArchonEngine],
    fields: dict[str, Any],
) -> None:
    backend = f"{cls.backend_name}:d1"
    engine = cls(TrainEngineConfig(path=checkpoint, backend=backend, **fields))
    folders = [tmp_path / name for name in ("at once", "later", "changed")]
    metas = [SaveLoadMeta(path=str(f), weight_format="hf", with_optim=False) for f in folders]
    engine.save(metas[0])
    finish = engine.stage(metas[1])
    assert not folders[1].exists()
    with torch.no_grad():
        for parameter in engine.lm.module.parameters():
            parameter.add_(1)
    finish()
    engine.save(metas[2])
    saved, later, changed = [
        {file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders
    ]
    assert later == saved
    assert changed.keys() == saved.keys()
    assert changed != saved


def test_what_no_engine_has_is_refused(checkpoint: str) -> None:
    with pytest.raises(ConfigError, match="weight_update_mode awex"):
        FSDPEngine(TrainEngineConfig(path=checkpoint, weight_update_mode="awex"))


def test_a_parameter_has_its_name_and_values_on_the_hub(checkpoint: str) -> None:
    found = dict(ArchonEngine.from_pretrained(checkpoint, "e", "t").full_parameters(torch.bfloat16))
    expected = dict(tiny_model().state_dict())
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name].bfloat16()), name
