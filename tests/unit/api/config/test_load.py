"""What the loader does with names, layers and mistakes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from areal.api.cli_args import GRPOConfig, SFTConfig, choose_config_class, load_expr_config
from areal.api.cli_args import save_config as save
from areal.api.errors import ArealError, ConfigError

LAPTOP = """\
experiment_name: add
trial_name: one
seed: 3
train_dataset:
  path: arithmetic
  type: rl
  batch_size: 16
actor:
  optimizer:
    lr: 1e-3
gconfig:
  n_samples: 8
  max_new_tokens: 8
run:
  algorithm: grpo
  reward_fn: arithmetic
  model:
    hidden_size: 64
"""


@pytest.fixture
def yaml_file(tmp_path: Path) -> Path:
    path = tmp_path / "grpo.yaml"
    path.write_text(LAPTOP, encoding="utf-8")
    return path


def load(path: Path, *overrides: str) -> GRPOConfig:
    return load_expr_config(["--config", str(path), *overrides], GRPOConfig)[0]


def error_of(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, *overrides)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ArealError)
    return str(caught.value)


def test_what_a_laptop_needs_fits_in_20_lines(yaml_file: Path) -> None:
    assert len(LAPTOP.splitlines()) <= 20
    config = load(yaml_file)
    assert config.rollout.backend == "local:d1"
    assert config.actor.backend == "fsdp:d1"
    assert config.run.model is not None
    assert config.run.model.hidden_size == 64
    assert config.run.model.num_hidden_layers == 4


def test_sections_without_names_take_those_of_the_run(yaml_file: Path) -> None:
    config = load(
        yaml_file,
        "cluster.fileroot=/data/runs",
        "perf_tracer.enabled=true",
        "ref.path=${actor.path}",
        "saver.trial_name=other",
        "stats_logger.fileroot=/elsewhere",
    )
    assert config.ref is not None
    assert config.perf_tracer is not None
    for section in (config.actor, config.ref, config.rollout, config.evaluator, config.perf_tracer):
        assert (section.experiment_name, section.trial_name) == ("add", "one")
    assert config.saver.trial_name == "other"
    assert config.saver.experiment_name == "add"
    assert config.stats_logger.fileroot == "/elsewhere"
    assert config.saver.fileroot == config.recover.fileroot == "/data/runs"
    assert config.rollout.fileroot == config.perf_tracer.fileroot == "/data/runs"


def test_names_are_inherited_in_python_too() -> None:
    config = SFTConfig(experiment_name="a", trial_name="b")
    assert (config.actor.experiment_name, config.saver.trial_name) == ("a", "b")
    assert config.stats_logger.fileroot == config.cluster.fileroot


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["actr.lr=1"], "override 'actr.lr=1': unknown key 'actr'; did you mean 'actor'?"),
        (["actor.optimizer.lrr=1"], "did you mean 'actor.optimizer.lr'?"),
        (["lr=3"], "unknown key 'lr'; did you mean 'actor.optimizer.lr'?"),
        (["rollout.zzzz=1"], "unknown key 'rollout.zzzz'; known in 'rollout': _version, admin"),
        (["run.model.layers=2"], "unknown key 'run.model.layers'"),
        (["actor.optimizer.lr=abc"], "actor.optimizer.lr must be float, found 'abc'"),
        (["seed=true"], "seed must be int, found True"),
        (["seed=null"], "seed must be int, found None"),
        (["seed="], "seed must be int, found ''"),
        (["seed=1.5"], "seed must be int, found 1.5"),
        (["total_train_steps=many"], "total_train_steps must be int | None, found 'many'"),
        (["actor.gae_lambda=[1]"], "actor.gae_lambda must be float | str, found [1]"),
        (["actor.optimizer=3"], "actor.optimizer must be a mapping, found 3"),
        (["actor.target_modules={a: 1}"], "actor.target_modules must be a list, found {'a': 1}"),
        (["train_dataset.dataset_kwargs=4"], "train_dataset.dataset_kwargs must be a mapping"),
        (["actor.scheduling_spec={gpu: 1}"], "actor.scheduling_spec must be a list, found"),
        (["actor.scheduling_spec=[3]"], "actor.scheduling_spec.0 must be a mapping, found 3"),
        (["actor.scheduling_spec=[{gpux: 1}]"], "did you mean 'actor.scheduling_spec.0.gpu'?"),
        (["actor.scheduling_spec=[{gpu: x}]"], "actor.scheduling_spec.0.gpu must be int, found"),
        (["actor.path=${no.such}"], "actor.path: Interpolation key 'no.such' not found"),
        (["seed=${trial_name}"], "override 'seed=${trial_name}': seed: While dereferencing"),
        (["actor.backend=sglang:d1"], "actor.backend must name a train engine"),
        (["rollout.backend=fsdp:d1"], "rollout.backend must name an inference engine"),
        (["actor.backend=a b"], "override 'actor.backend=a b': actor.backend cannot be read: "),
        (["ref.backend=d2"], "override 'ref.backend=d2': ref.backend cannot be read: "),
        (["rollout.backend=sglnag:d1"], "did you mean 'sglang'?"),
        (["actor.discount=2"], "actor.discount must lie in [0, 1], found 2.0"),
        (["actor.optimizer.warmup_steps=-1"], "actor.optimizer.warmup_steps must be at least 0"),
        (["actor.megatron={tp: 2}"], "actor.megatron must be null: this package has no Megatron"),
        (["actor.fsdp.wrap_policy={x: 1}"], "actor.fsdp.wrap_policy must be null"),
        (["actor.archon.fp8_config={x: 1}"], "actor.archon.fp8_config must be null"),
        (["recover.mode=sometimes"], "recover.mode is 'sometimes', which is unknown"),
        (["actor.behave_imp_weight_cap=5"], "was removed: use rejection_sampling"),
        (["actor.behave_imp_weight_mode=token_mask"], "`action: mask`"),
        (["allocation_mode=sglang:d1+fsdp:d1"], "rollout.backend and actor.backend"),
        (["run.algorithm=grp"], "unknown run.algorithm 'grp'; did you mean 'grpo'?"),
        (["run.algorithm=dpo"], "use DPOConfig (train_dataset.type dpo)"),
        (["run.algorithm=sft"], "run.algorithm 'sft' does not fit GRPOConfig"),
        (["seed"], "cannot read override 'seed'; write key=value"),
        (["~seed=1"], "cannot read override '~seed=1'"),
        (["actor.path=${tokenizer_path}", "tokenizer_path=${actor.path}"], "ecursi"),
        (["actor=[1"], "the value is not valid YAML"),
        (["--sed", "4"], "unknown option '--sed'"),
    ],
)
def test_a_mistake_is_named(yaml_file: Path, overrides: list[str], expected: str) -> None:
    assert expected in error_of(yaml_file, *overrides)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "  optimizer:",
            "  optimzer:",
            ":9: unknown key 'actor.optimzer'; did you mean 'actor.opt",
        ),
        ("    lr: 1e-3", "    lr: fast", ":10: actor.optimizer.lr must be float, found 'fast'"),
        ("  n_samples: 8", "  n_samples: 0", ":12: gconfig.n_samples must be at least 1, found 0"),
        ("trial_name: one\n", "", "required and not set: trial_name"),
        ("  path: arithmetic\n", "", "required and not set: train_dataset.path"),
        ("seed: 3", "seed: [3", ":4:14: no valid YAML: "),
        ("seed: 3", "seed: 3\nseed: 4", ":4:1: no valid YAML: found duplicate key seed"),
        ("seed: 3", "3: seed", ": unknown key '3'"),
    ],
)
def test_a_mistake_in_the_file_has_its_line(
    yaml_file: Path, old: str, new: str, expected: str
) -> None:
    assert old in LAPTOP
    yaml_file.write_text(LAPTOP.replace(old, new), encoding="utf-8")
    message = error_of(yaml_file)
    assert expected in message
    assert message.startswith(str(yaml_file))


def test_the_place_is_that_of_the_layer(yaml_file: Path) -> None:
    yaml_file.write_text(LAPTOP.replace("  optimizer:", "  optimzer:"), encoding="utf-8")
    message = error_of(yaml_file, "actor.path=x", "actor.pth=x")
    places = [line.partition(": unknown key")[0] for line in message.splitlines()]
    assert places == [f"{yaml_file}:9", "override 'actor.pth=x'"]


def test_all_unknown_and_all_missing_keys_are_named_at_once(yaml_file: Path) -> None:
    yaml_file.write_text("traial_name: x\nactor: {pth: y}\n", encoding="utf-8")
    message = error_of(yaml_file)
    assert "'trial_name'" in message
    assert "'actor.path'" in message
    yaml_file.write_text("seed: 1\n", encoding="utf-8")
    missing = "experiment_name, train_dataset.path, train_dataset.type, trial_name"
    assert f"required and not set: {missing}" in error_of(yaml_file)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"- a\n- b\n", "the file is a list"),
        (b"just words\n", "unknown key 'just words'"),
        (b"\xff\xfe\x00\x01", "no valid YAML"),
        (b"a: !!python/object:os.system {}\n", "no valid YAML"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    assert expected in error_of(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no configuration file" in error_of(tmp_path / "no.yaml")
    assert "there is no configuration file" in error_of(tmp_path)
    with pytest.raises(ConfigError, match="pass it as --config"):
        load_expr_config(["seed=1"], GRPOConfig)
    with pytest.raises(ConfigError, match="command line"):
        load_expr_config(["--config"], GRPOConfig)


@pytest.mark.parametrize("form", [["-c", "{}"], ["--config={}"], ["seed=4", "--config", "{}"]])
def test_ways_to_name_the_file(yaml_file: Path, form: list[str]) -> None:
    argv = [part.format(yaml_file) for part in form]
    config, path = load_expr_config(argv, GRPOConfig)
    assert path == str(yaml_file)
    assert config.seed == (4 if "seed=4" in argv else 3)


def test_a_later_override_wins(yaml_file: Path) -> None:
    assert load(yaml_file, "seed=4", "seed=5").seed == 5
    assert load(yaml_file, "actor.path=").actor.path == ""
    assert load(yaml_file, "actor.eps_clip_higher=.inf").actor.eps_clip_higher == math.inf


def test_a_file_beside_it_has_what_areal_would_refuse(yaml_file: Path) -> None:
    shared, own = LAPTOP.split("run:\n")
    yaml_file.write_text(shared, encoding="utf-8")
    beside = yaml_file.with_name("grpo.run.yaml")
    beside.write_text("run:\n" + own, encoding="utf-8")
    config, path = load_expr_config(["--config", str(yaml_file), "run.reward_fn=x"], GRPOConfig)
    assert path == str(yaml_file)
    assert (config.run.algorithm, config.run.reward_fn, config.seed) == ("grpo", "x", 3)
    assert config.actor.reward_norm is not None  # of the preset
    beside.write_text("run:\n  algorithm: grop\n  rewrad_fn: x\n", encoding="utf-8")
    assert error_of(yaml_file, "seed=x").startswith(f"{beside}:3: unknown key 'run.rewrad_fn'")


def test_an_allocation_mode_beside_backends_is_only_kept(yaml_file: Path) -> None:
    config = load(yaml_file, "allocation_mode=old", "actor.backend=fsdp:d2")
    assert config.allocation_mode == "old"


def test_a_dataset_of_no_known_type_has_no_class(yaml_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"override 'train_dataset.type=rlx': .* found 'rlx'"):
        choose_config_class(["-c", str(yaml_file), "train_dataset.type=rlx"])


def test_saving_leaves_api_keys_out_and_replaces_whole_files(
    yaml_file: Path, tmp_path: Path
) -> None:
    config = load(yaml_file, "stats_logger.wandb.wandb_api_key=s3cret", "rollout.api_url=http://x")
    target = tmp_path / "config.yaml"
    target.write_text("old", encoding="utf-8")
    save(config, target)
    assert "s3cret" not in target.read_text(encoding="utf-8")
    assert config.stats_logger.wandb.wandb_api_key == "s3cret"
    assert load(target).rollout.api_url == "http://x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "grpo.yaml"]


@pytest.mark.parametrize("name", ["ref", "critic"])
@pytest.mark.parametrize("written", [None, "", "fsdp:d1"])
def test_a_model_beside_the_actor_has_its_backend_unless_one_is_named(
    yaml_file: Path, name: str, written: str | None
) -> None:
    own = [] if written is None else [f"{name}.backend={written}"]
    config = load(yaml_file, "actor.backend=archon:d2", f"{name}={{path: /m}}", *own)
    assert getattr(config, name).backend == (written or "archon:d2")
    assert config.actor.backend == "archon:d2"
