"""What is saved and evaluated when, under AReaL's names."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Callable
from typing import Any

import pytest

from areal.api.cli_args import EvaluatorConfig, SaverConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.utils.evaluator import Evaluator
from areal.utils.saver import Saver

SPEC = FinetuneSpec(total_train_epochs=2, dataset_size=20, train_batch_size=4)
TRIAL = {"experiment_name": "e", "trial_name": "t", "fileroot": "/f"}


class Engine:
    """Notes where it is saved."""

    def __init__(self) -> None:
        self.metas: list[SaveLoadMeta] = []

    def save(self, meta: SaveLoadMeta) -> None:
        self.metas.append(meta)


class StagingEngine(Engine):
    """Writes copies when it may."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.staged = 0
        self.written: list[str] = []
        self.may_write = threading.Event()
        self.fails = fails

    def stage(self, meta: SaveLoadMeta) -> Callable[[], None]:
        self.staged += 1

        def write() -> None:
            assert self.may_write.wait(10)
            if self.fails:
                raise OSError("disk is full")
            self.written.append(meta.path)

        return write


def config(**fields: Any) -> SaverConfig:
    return SaverConfig(**TRIAL, **fields)


def test_folders_are_the_contracts() -> None:
    root = f"/f/checkpoints/{getpass.getuser()}/e/t"
    assert Saver.get_save_root("e", "t", "/f") == root
    assert Saver.get_model_save_root("e", "t", "/f", name="critic") == f"{root}/critic"
    assert (
        Saver.get_model_save_path("e", "t", "/f", 1, 2, 7, name="actor")
        == f"{root}/actor/epoch1epochstep2globalstep7"
    )
    assert Saver.get_recover_checkpoint_path("e", "t", "/f") == f"{root}/default/recover_checkpoint"


@pytest.mark.parametrize("period", [2, 3, 4])
def test_every_model_of_a_step_is_saved(period: int) -> None:
    saver, actor, critic = Saver(config(freq_steps=period), SPEC), Engine(), Engine()
    for step in range(12):
        place = (step // 5, step % 5, step)
        saver.save(actor, *place, name="actor")
        saver.save(critic, *place, name="critic", base_model_path="b")
    due = [step for step in range(12) if (step + 1) % period == 0]
    for engine, name in ((actor, "actor"), (critic, "critic")):
        paths = [
            Saver.get_model_save_path("e", "t", "/f", step // 5, step % 5, step, name)
            for step in due
        ]
        assert [meta.path for meta in engine.metas] == paths
        assert {(meta.weight_format, meta.with_optim) for meta in engine.metas} == {("hf", False)}
    assert critic.metas[0].base_model_path == "b"


def test_a_saver_goes_on_where_it_was() -> None:
    first, second, engine = Saver(config(freq_steps=3), SPEC), None, Engine()
    for step in range(4):
        first.save(engine, 0, step, step)
    second = Saver(config(freq_steps=3), SPEC)
    second.load_state_dict(first.state_dict())
    found = [second.save(engine, 0, step, step) is not None for step in (4, 5, 6)]
    assert found == [False, True, False]


@pytest.mark.parametrize("mode", ["auto", "sync"])
def test_a_save_is_over_when_it_returns(mode: str) -> None:
    saver, engine = Saver(config(freq_steps=1, mode=mode), SPEC), StagingEngine()
    saver.save(engine, 0, 0, 0)
    assert not saver.is_async
    assert (len(engine.metas), engine.written) == (1, [])


def test_an_asynchronous_save_returns_before_the_model_is_written() -> None:
    saver, engine = Saver(config(freq_steps=1, mode="async"), SPEC), StagingEngine()
    assert saver.is_async
    saver.save(engine, 0, 0, 0)
    saver.maybe_wait_for_staging()
    assert (engine.staged, engine.written) == (1, [])
    engine.may_write.set()
    # One copy at a time: the next save waits for this one.
    path = saver.save(engine, 0, 1, 1)
    assert engine.written[:1] == [Saver.get_model_save_path("e", "t", "/f", 0, 0, 0)]
    saver.finalize()
    assert engine.written[1:] == [path]


def test_a_model_that_could_not_be_written_is_an_error_of_the_next_save() -> None:
    saver, engine = Saver(config(freq_steps=1, mode="async"), SPEC), StagingEngine(fails=True)
    engine.may_write.set()
    saver.save(engine, 0, 0, 0)
    with pytest.raises(OSError, match="disk is full"):
        saver.save(engine, 0, 1, 1)
    saver.finalize()  # told once


def test_an_engine_that_cannot_copy_its_model_is_refused() -> None:
    saver = Saver(config(freq_steps=1, mode="async"), SPEC)
    with pytest.raises(ConfigError, match=r"saver\.mode=async: Engine cannot"):
        saver.save(Engine(), 0, 0, 0)


@pytest.mark.parametrize("before", [False, True])
def test_an_evaluation_is_due_by_steps_and_at_the_start(before: bool) -> None:
    evaluator = Evaluator(EvaluatorConfig(**TRIAL, freq_epochs=1, eval_before_train=before), SPEC)
    called: list[int] = []
    for step in range(11):
        evaluator.evaluate(lambda step=step: called.append(step), step // 5, step % 5, step)
        if step == 6:
            later = Evaluator(
                EvaluatorConfig(**TRIAL, freq_epochs=1, eval_before_train=before), SPEC
            )
            later.load_state_dict(evaluator.state_dict())
            evaluator = later
    assert called == [0, 4, 9] if before else [4, 9]
