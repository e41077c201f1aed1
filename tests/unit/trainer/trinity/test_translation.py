from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from areal.api.cli_args import DPOConfig, PPOConfig, SFTConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.trainer.cli import main
from areal.trainer.ppo.checks import check_ppo_config
from areal.trainer.trinity.algorithms import ALGORITHMS
from areal.trainer.trinity.command import describe, write_config
from areal.trainer.trinity.keys import KEYS, MAPPED, REFUSED
from areal.trainer.trinity.reading import read_yaml
from areal.trainer.trinity.translation import Translation, translate


def content(**sections: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "algorithm": {"algorithm_type": "grpo", "repeat_times": 4},
        "model": {"model_path": "/models/tiny", "max_prompt_tokens": 16, "max_response_tokens": 8},
        "buffer": {
            "batch_size": 8,
            "explorer_input": {"taskset": {"path": "data", "default_workflow_type": "w"}},
        },
    }
    return _merged(base, sections)


def _merged(base: Any, changes: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    found = dict(base)
    for key, value in changes.items():
        found[key] = _merged(base[key], value) if key in base else value
    return found


def ours(**sections: Any) -> dict[str, Any]:
    return translate(content(**sections)).config


def refusal(**sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        translate(content(**sections))
    return str(caught.value)


def _load(translation: Translation, folder: Path, kind: Any) -> Any:
    translation.config["cluster"]["fileroot"] = str(folder)
    return load_expr_config(["--config", str(write_config(translation))], kind)[0]


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"sft", "dpo"}))
def test_every_policy_algorithm_gives_a_configuration_that_a_trainer_takes(
    name: str, tmp_path: Path
) -> None:
    loaded = _load(translate(content(algorithm={"algorithm_type": name})), tmp_path, PPOConfig)
    check_ppo_config(loaded)
    assert loaded.run.algorithm == ALGORITHMS[name].preset
    assert loaded.gconfig.n_samples == 4
    assert loaded.gconfig.max_tokens == 24
    assert (loaded.critic is not None) == (name == "ppo")


@pytest.mark.parametrize(("name", "kind"), [("sft", SFTConfig), ("dpo", DPOConfig)])
def test_answers_and_pairs_are_trained_from_the_experience_buffer(
    name: str, kind: Any, tmp_path: Path
) -> None:
    given = {
        "algorithm": {"algorithm_type": name, "kl_loss_fn": "none"},
        "mode": "train",
        "model": {"model_path": "/models/tiny"},
        "buffer": {
            "train_batch_size": 32,
            "trainer_input": {
                "experience_buffer": {"path": "rows", "format": {"prompt_type": "plaintext"}}
            },
        },
    }
    loaded = _load(translate(given), tmp_path, kind)
    assert (loaded.train_dataset.type, loaded.train_dataset.batch_size) == (name, 32)
    kwargs = loaded.train_dataset.dataset_kwargs
    assert kwargs["name"].endswith(f"get_taskset_{name}_dataset")
    assert kwargs["format_args"] == {"prompt_type": "plaintext"}


def test_defaults_are_those_of_the_package() -> None:
    made = ours()
    assert made["actor"]["optimizer"]["lr"] == 1e-6
    assert (made["actor"]["kl_ctl"], made["actor"]["kl_estimator"]) == (0.001, "k2")
    assert made["run"]["kl_placement"] == "loss"
    assert made["run"]["loss_aggregation"] == "token_mean"
    assert (made["actor"]["eps_clip"], made["actor"]["c_clip"]) == (0.2, 3.0)
    assert made["ref"] == {"path": "/models/tiny"}
    assert made["train_dataset"]["shuffle"] is False
    assert made["rollout"]["max_head_offpolicyness"] == 0


def test_a_run_can_go_on_from_every_model_that_the_package_would_go_on_from() -> None:
    made = ours(trainer={"save_interval": 4})
    assert made["saver"] == {"freq_steps": 4}
    # By the clock too, as without the key: a hundred steps may take a day.
    assert made["recover"] == {"mode": "auto", "freq_steps": 4, "freq_secs": 60}
    assert ours()["recover"] == {"mode": "auto"}


def test_settings_of_the_taskset_win_over_those_of_engine_and_model() -> None:
    taskset = {"rollout_args": {"temperature": 0.7, "top_k": -1}, "format": {"prompt_key": "q"}}
    made = ours(
        model={"temperature": 0.9, "top_k": 5},
        explorer={"rollout_model": {"temperature": 0.8, "max_response_tokens": 4}},
        buffer={"explorer_input": {"taskset": taskset}},
    )
    assert made["gconfig"]["temperature"] == made["actor"]["temperature"] == 0.7
    assert (made["gconfig"]["top_k"], made["gconfig"]["max_new_tokens"]) == (5, 4)
    assert made["run"]["workflow_kwargs"]["format_args"] == {"prompt_key": "q"}


def test_a_taskset_for_evaluation_becomes_the_validation_set() -> None:
    taskset = {
        "path": "eval",
        "split": "test",
        "repeat_times": 2,
        "rollout_args": {"temperature": 0},
    }
    made = ours(
        buffer={
            "explorer_input": {
                "eval_tasksets": [taskset],
                "default_eval_workflow_type": "other",
            }
        },
        explorer={"eval_interval": 5},
    )
    assert (made["valid_dataset"]["path"], made["valid_dataset"]["split"]) == ("eval", "test")
    assert made["run"]["eval_workflow_kwargs"]["workflow_type"] == "other"
    assert (made["eval_gconfig"]["greedy"], made["eval_gconfig"]["n_samples"]) == (True, 2)
    assert made["evaluator"] == {"freq_steps": 5, "eval_before_train": True}


def test_an_auxiliary_model_is_a_server_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    address = {"base_url_env": "JUDGE_URL", "model_name": "judge"}
    entry = {"engine_type": "external", "external_model_config": address}
    # The package adds the path of the API itself.
    for url in ("http://127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:9/v1"):
        monkeypatch.setenv("JUDGE_URL", url)
        made = ours(explorer={"auxiliary_models": [entry]})
        models = made["run"]["workflow_kwargs"]["auxiliary_models"]
        assert models == [{"base_url": "http://127.0.0.1:9/v1", "model": "judge"}]
    assert "engine_type" in refusal(explorer={"auxiliary_models": [{"model_path": "m"}]})
    monkeypatch.delenv("JUDGE_URL")
    assert "set JUDGE_URL" in refusal(explorer={"auxiliary_models": [entry]})


_TASKSET = ("buffer", "explorer_input", "taskset")


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("buffer", "default_workflow"), "w", "unknown key buffer.default_workflow"),
        (("algoritm",), {"x": 1}, "unknown key algoritm.x; did you mean 'algorithm'"),
        ((*_TASKSET, "rollout_args"), {"n": 4}, "rollout_args.n is 4: a run would make n"),
        ((*_TASKSET, "format"), {"image_key": "i"}, "images and videos are not carried"),
        ((*_TASKSET, "storage_type"), "sql", "storage_type is 'sql': rows are read from files"),
        (("algorithm", "algorithm_type"), "opmd", "opmd needs the loss of policy mirror descent"),
        (("algorithm", "algorithm_type"), "on_policy_distill", "needs a teacher"),
        (("algorithm", "algorithm_type"), "grppo", "did you mean 'grpo'"),
        (("algorithm", "policy_loss_fn"), "opmd", "policy_loss_fn is 'opmd'"),
        (("algorithm", "policy_loss_fn_args"), {"enable_sequence_masking": True}, "nothing for"),
        (("algorithm", "advantage_fn_args"), {"rank_penalty": 0.1}, "rank_penalty is 0.1"),
        (("algorithm", "entropy_loss_fn_args"), {"entropy_coef": 0.1}, "no entropy bonus"),
        (("algorithm", "kl_penalty_fn"), "k1", "both set, and areal has one penalty"),
        (("buffer", "train_batch_size"), 99, "batch_size 8 tasks x repeat_times 4 = 32"),
        (("mode",), "explore", "`areal eval`"),
        (("synchronizer", "sync_interval"), 2, "weights follow every step"),
        (("model", "model_path"), "", "model.model_path is missing"),
        ((*_TASKSET, "path"), None, "taskset.path is missing"),
        (("stages",), [{"stage_name": "s"}], "write a file for each"),
        (("trainer", "trainer_config"), {"x": 1}, "settings of verl"),
        (("model", "max_prompt_tokens"), 0, "max_prompt_tokens is 0; set it to 1 or more"),
        (("buffer", "batch_size"), "eight", "batch_size is 'eight', expected a whole number"),
        (("algorithm", "repeat_times"), 2.5, "repeat_times is 2.5, expected a whole number"),
        (("algorithm", "optimizer"), 5, "algorithm.optimizer is 5, expected keys and values"),
        (("algorithm", "optimizer", "lr"), float("nan"), "lr is nan, expected a number"),
        (("algorithm", "optimizer", "betas"), [0.9], "betas is [0.9], expected two numbers"),
        (("algorithm", "algorithm_type"), ["grpo"], "algorithm_type is ['grpo'], expected a text"),
        (("algorithm", "policy_loss_fn_args"), 3, "is 3, expected keys and values"),
        (("continue_from_checkpoint",), "perhaps", "is 'perhaps', expected true or false"),
        (("buffer", "explorer_input", "eval_tasksets"), {}, "is {}, expected a list"),
        (("buffer", "explorer_input", "eval_tasksets"), ["x"], "eval_tasksets[] is 'x', expected"),
    ],
)
def test_what_would_be_another_run_is_refused_by_its_key(
    path: tuple[str, ...], value: Any, message: str
) -> None:
    assert message in refusal(**nested(path, value))


_VALUES = (None, True, -1, 0.5, "", "x", "5", [], [1], ["x"], [None], [{}], {}, {"x": 1})


@given(st.sampled_from(sorted(KEYS)), st.sampled_from(_VALUES))
def test_any_value_of_any_key_is_taken_or_refused_in_words(key: str, value: Any) -> None:
    *path, last = key.split(".")
    made: Any = {last.removesuffix("[]"): [value] if last.endswith("[]") else value}
    for name in reversed(path):
        made = {name.removesuffix("[]"): [made] if name.endswith("[]") else made}
    with contextlib.suppress(ConfigError):
        describe(translate(content(**made)).decisions)


def test_an_empty_section_and_numbers_of_the_environment_are_read_as_the_package_does() -> None:
    made = ours(
        cluster=None,
        model={"temperature": "0.5"},
        algorithm={"repeat_times": "2", "bypass_old_logprobs": "false"},
        project=2026,
    )
    assert (made["gconfig"]["n_samples"], made["actor"]["temperature"]) == (2, 0.5)
    assert made["actor"]["recompute_logprob"] is True
    assert made["experiment_name"] == "2026"


def test_all_refusals_come_at_once() -> None:
    text = refusal(algorithm={"sample_strategy": "warmup"}, explorer={"nothing": 1})
    assert "algorithm.sample_strategy" in text
    assert "explorer.nothing" in text


def test_several_tasksets_are_refused_and_one_in_a_list_is_taken() -> None:
    given = content()
    taskset = given["buffer"]["explorer_input"].pop("taskset")
    given["buffer"]["explorer_input"]["tasksets"] = [taskset]
    assert translate(given).config["train_dataset"]["path"] == "data"
    given["buffer"]["explorer_input"]["tasksets"] = [taskset, taskset]
    with pytest.raises(ConfigError, match=r"has 2 entries.*join the files"):
        translate(given)


def test_every_key_of_the_file_is_accounted_for_and_so_are_the_defaults() -> None:
    given = content(
        project="p", monitor={"monitor_type": "wandb"}, model={"critic_model_path": "c"}
    )
    found = {each.key: each for each in translate(given).decisions}
    assert found["project"].use == "mapped"
    assert found["monitor.monitor_type"].use == "ignored"
    assert found["model.critic_model_path"].note == "it has no part in this kind of run"
    assert found["algorithm.optimizer.lr"].use == "defaulted"
    table = describe(list(found.values())).splitlines()
    assert len(table) == len(found)
    assert [line.split()[0] for line in table] == sorted(
        (each.use for each in found.values()), key=["mapped", "defaulted", "ignored"].index
    )


def test_a_mapped_key_names_ours_and_a_refused_one_says_what_to_do() -> None:
    for key, entry in KEYS.items():
        assert entry.note, key
        assert bool(entry.neutral) == (entry.use == REFUSED), key
        assert entry.use in (MAPPED, REFUSED, "ignored"), key


def test_a_file_is_read_with_its_interpolations_and_the_words_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL", "/models/x")
    file = tmp_path / "c.yaml"
    file.write_text("model: {model_path: '${oc.env:MY_MODEL}'}\nname: a\n")
    found = read_yaml(str(file), ["name=b", "buffer.batch_size=4"])
    assert found == {"model": {"model_path": "/models/x"}, "name": "b", "buffer": {"batch_size": 4}}
    with pytest.raises(ConfigError, match="'name' is not of the form key=value"):
        read_yaml(str(file), ["name"])
    file.write_text("a: [")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_yaml(str(file))
    with pytest.raises(ConfigError, match="No such file"):
        read_yaml(str(tmp_path / "missing.yaml"))


def test_the_command_prints_a_refusal_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("stages: [1]\n")
    for command in ("run", "debug"):
        done = CliRunner().invoke(main, ["trinity", command, "-c", str(file)])
        assert done.exit_code == 1
        assert done.stderr == "error: stages is [1]: one stage is one run; write a file for each\n"
