"""Adding a unit sets the configuration of a run to train with it, and removing takes it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaffold.cli.units import writer_of
from scaffold.errors import ScaffoldError
from scaffold.report import Report
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.units.remove import remove_unit
from scaffold.units.status import show_status
from scaffold.units.update import update_units

CONFIGS = ("sft.yaml", "grpo.yaml", "grpo.run.yaml", "dpo.yaml", "rw.yaml", "sft.run.yaml")


def configs(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in CONFIGS}


def add(root: Path, kind: str, name: str, styles: tuple[str, ...] = (), **more: Any) -> Report:
    return add_unit(load_kind(kind), name, styles, {}, Options(root, with_format=False, **more))


def read(root: Path, name: str) -> Any:
    return yaml.safe_load((root / name).read_text())


@pytest.fixture
def data(project: Path) -> Path:
    folder = project / "data"
    folder.mkdir()
    for name in ("train", "test"):
        rows = [{"question": f"{n}+{n}=", "answer": str(2 * n)} for n in range(4)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_the_reward_just_written_is_the_one_that_trains(project: Path):
    before = configs(project)
    report = add(project, "reward", "sums", ("exact",))
    line = "grpo.run.yaml: run.reward_fn = my_rl.reward.sums.sums_reward_fn"
    assert f"configured {line}\n" in report.to_text()
    assert "train with it" not in report.to_text(), "it does already"
    after = configs(project)
    assert [name for name in CONFIGS if before[name] != after[name]] == ["grpo.run.yaml"]
    assert b"reward_fn: my_rl.reward.sums.sums_reward_fn  # yours" in after["grpo.run.yaml"]
    report = add(project, "workflow", "one_try", ("rlvr",))
    assert read(project, "grpo.run.yaml")["run"]["workflow"].endswith("one_try.OneTryWorkflow")
    assert "edited" not in (show_status(Options(project)).text or "")
    for unit in ("reward/sums", "workflow/one_try"):
        remove_unit(unit, (), Options(project))
    assert configs(project) == before


def test_a_dataset_brings_its_data_and_what_is_held_out(project: Path, data: Path):
    before = configs(project)
    report = add(project, "dataset", "sums", ("rl", "sft"), sample="data")
    grpo = read(project, "grpo.yaml")
    assert grpo["train_dataset"]["path"] == "data"
    assert grpo["train_dataset"]["dataset_kwargs"] == {"name": "my_rl.dataset.sums"}
    assert grpo["valid_dataset"]["path"] == "data/test.jsonl"
    assert grpo["valid_dataset"]["dataset_kwargs"] == {"name": "my_rl.dataset.sums"}
    assert read(project, "sft.yaml")["train_dataset"]["path"] == "data"
    assert read(project, "dpo.yaml")["train_dataset"]["path"] == "arithmetic"
    assert not [step for step in report.next if "set as well" in step.why]
    remove_unit("dataset/sums", (), Options(project))
    assert configs(project) == before


def test_rows_of_an_evaluation_that_nobody_named_are_left_to_the_author(project: Path, data: Path):
    (data / "test.jsonl").unlink()
    report = add(project, "dataset", "sums", ("rl",), sample="data/train.jsonl")
    grpo = read(project, "grpo.yaml")
    assert grpo["train_dataset"]["path"] == "data/train.jsonl"
    assert grpo["valid_dataset"]["path"] == "arithmetic"
    (step,) = [step for step in report.next if "set as well" in step.why]
    line = (project / "grpo.yaml").read_text().splitlines()[step.line - 1]
    assert (step.file, line) == ("grpo.yaml", "  path: arithmetic")


def test_without_data_a_dataset_sets_nothing(project: Path):
    before = configs(project)
    add(project, "dataset", "sums", ("rl",))
    assert configs(project) == before


def test_units_that_were_set_one_over_the_other_can_go_in_any_order(project: Path):
    before = configs(project)
    for name in ("first", "second", "third"):
        add(project, "reward", name, ("exact",))
    for name in ("second", "third", "first"):
        remove_unit(f"reward/{name}", (), Options(project))
    assert configs(project) == before


def test_a_unit_that_was_set_again_over_another_one_can_go_first(project: Path):
    before = configs(project)
    for name in ("first", "second", "first"):
        add(project, "reward", name, ("exact",), use=("grpo.yaml",))
    for name in ("first", "second"):
        remove_unit(f"reward/{name}", (), Options(project))
    assert configs(project) == before


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_value_that_a_person_only_quoted_is_taken_back(project: Path, quote: str):
    add(project, "reward", "sums", ("exact",))
    value = "my_rl.reward.sums.sums_reward_fn"
    text = (project / "grpo.run.yaml").read_text()
    (project / "grpo.run.yaml").write_text(text.replace(value, f"{quote}{value}{quote}"))
    remove_unit("reward/sums", (), Options(project))
    assert read(project, "grpo.run.yaml")["run"]["reward_fn"] == "arithmetic"


def test_a_value_that_a_person_wrote_since_stays(project: Path):
    add(project, "reward", "sums", ("exact",))
    text = (project / "grpo.run.yaml").read_text()
    (project / "grpo.run.yaml").write_text(text.replace("my_rl.reward.sums.sums_reward_fn", "mine"))
    remove_unit("reward/sums", (), Options(project))
    assert read(project, "grpo.run.yaml")["run"]["reward_fn"] == "mine"


def test_an_update_keeps_what_a_removal_needs(project: Path):
    before = configs(project)
    add(project, "reward", "sums", ("exact",))
    update_units(["reward/sums"], ["ignore_case=false"], Options(project), writer_of)
    remove_unit("reward/sums", (), Options(project))
    assert configs(project) == before


@pytest.mark.parametrize("how", [{"use": ()}, {"agree": lambda text: "grpo" not in text}])
def test_who_declines_keeps_the_configuration(project: Path, how: dict[str, Any]):
    before = configs(project)
    add(project, "reward", "sums", ("exact",), **how)
    assert configs(project) == before
    assert not find_unit(project, "reward/sums").settings


def test_a_configuration_by_name_in_any_repository(checkout: Path):
    (checkout / "mine.yaml").write_text("run:\n  algorithm: grpo  # of mine\n")
    add(checkout, "reward", "unused", ("exact",))
    assert "unused" not in (checkout / "mine.yaml").read_text(), "nobody named it"
    add(checkout, "reward", "sums", ("exact",), use=("mine.yaml",))
    wired = "run:\n  algorithm: grpo  # of mine\n  reward_fn: areal.reward.sums.sums_reward_fn\n"
    assert (checkout / "mine.yaml").read_text() == wired


def test_a_unit_that_exists_can_be_used_later(project: Path):
    add(project, "reward", "sums", ("exact",), use=())
    report = add(project, "reward", "sums", ("exact",), use=("grpo.yaml",))
    assert report.configured
    assert read(project, "grpo.run.yaml")["run"]["reward_fn"].endswith("sums_reward_fn")
    remove_unit("reward/sums", (), Options(project))
    assert read(project, "grpo.run.yaml")["run"]["reward_fn"] == "arithmetic"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ("nope.yaml", "no such file"),
        ("../x.yaml", "no such file"),
        ("pyproject.toml", "cannot|none|layout"),
    ],
)
def test_a_file_that_has_no_place_for_it_is_refused_with_everything(
    project: Path, use: str, reason: str
):
    with pytest.raises(ScaffoldError, match=reason):
        add(project, "reward", "sums", ("exact",), use=(use,))
    assert not (project / "my_rl/reward/sums.py").exists()


def test_both_files_of_a_configuration_mean_the_same(project: Path):
    report = add(project, "reward", "sums", ("exact",), use=("grpo.yaml", "grpo.run.yaml"))
    assert len(report.configured) == 1


def test_a_configuration_that_was_broken_since_is_to_be_repaired_first(project: Path):
    add(project, "reward", "sums", ("exact",))
    (project / "grpo.run.yaml").write_text("run:\n\tx: [\n")
    with pytest.raises(ScaffoldError, match="tab") as refusal:
        remove_unit("reward/sums", (), Options(project))
    assert refusal.value.hint == "repair grpo.run.yaml first, then remove again"
    assert (project / "my_rl/reward/sums.py").exists()


def test_a_configuration_that_cannot_be_edited_is_left_to_the_author(project: Path):
    (project / "grpo.run.yaml").write_text("run:\n  reward_fn:\n    - a\n")
    report = add(project, "reward", "sums", ("exact",))
    assert (project / "grpo.run.yaml").read_text() == "run:\n  reward_fn:\n    - a\n"
    assert [step.file for step in report.next if "by hand" in step.why] == ["grpo.yaml"]
