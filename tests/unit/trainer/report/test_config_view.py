from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from areal.api.cli_args import GRPOConfig
from areal.trainer.report.config_view import (
    HIDDEN,
    changed_leaves,
    find_block,
    leaves,
    plain_config,
)


class Mode(StrEnum):
    FAST = "fast"


@dataclass
class Service:
    mode: Mode = Mode.FAST
    api_key: str = "default-key"
    tags: list[str] = field(default_factory=list)
    env_vars: dict[str, str] = field(default_factory=dict)


@dataclass
class Experiment:
    name: str
    root: Path = Path("runs")
    service: Service = field(default_factory=Service)
    extra: Service | None = None


def test_a_config_becomes_plain_data():
    plain = plain_config(Experiment("e", service=Service(tags=["a"])))
    assert plain == {
        "name": "e",
        "root": "runs",
        "service": {"mode": "fast", "api_key": HIDDEN, "tags": ["a"], "env_vars": {}},
        "extra": None,
    }


@pytest.mark.parametrize(
    "key",
    ["api_key", "wandb_api_key", "admin_api_key", "OPENAI_API_KEY", "HF_TOKEN", "token", "password",
     "client_secret", "DB_PASSWD", "APIKEY"],
)  # fmt: skip
def test_secrets_are_hidden(key: str):
    assert plain_config({"block": {key: "s3cret"}}) == {"block": {key: HIDDEN}}


@pytest.mark.parametrize(
    "key", ["max_new_tokens", "stop_token_ids", "tokenizer_path", "key", "keys"]
)
def test_what_only_sounds_like_a_secret_is_shown(key: str):
    assert plain_config({key: "shown"}) == {key: "shown"}


def test_an_empty_secret_is_no_secret():
    assert plain_config({"api_key": ""}) == {"api_key": ""}


def test_only_what_differs_from_the_defaults_counts_as_changed():
    config = Experiment("e", service=Service(tags=["a"]), extra=Service(api_key="k"))
    assert changed_leaves(config) == {"name": "e", "service.tags": ["a"], "extra.api_key": HIDDEN}


def test_a_block_made_by_a_factory_is_compared_with_what_that_makes():
    @dataclass
    class Outer:
        service: Service = field(default_factory=lambda: Service(tags=["usual"]))

    assert changed_leaves(Outer()) == {}
    assert changed_leaves(Outer(Service())) == {"service.tags": []}


def test_the_training_configuration_is_summed_up_by_what_its_author_wrote():
    config = GRPOConfig(experiment_name="addition", trial_name="t1")
    config.train_dataset.batch_size = 16
    config.saver.experiment_name = "addition"
    config.recover.experiment_name = "another"
    assert changed_leaves(config) == {
        "experiment_name": "addition",
        "trial_name": "t1",
        "train_dataset.batch_size": 16,
        "recover.experiment_name": "another",
    }


def test_of_a_mapping_every_leaf_counts():
    assert changed_leaves({"a": {"b": 1, "c": {}}}) == {"a.b": 1, "a.c": {}}


def test_leaves_of_a_scalar_and_of_nothing():
    assert leaves({}) == {}
    assert leaves(3, "x") == {"x": 3}


@pytest.mark.parametrize("config", [None, 3, {}, Experiment("e")])
def test_a_block_that_is_not_there_is_none(config: object):
    assert find_block(config, "stats_logger") is None
