from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

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
    config = Experiment("e", service=Service(tags=["a"]), extra=Service())
    changed = changed_leaves(config)
    assert changed["name"] == "e"
    assert changed["service.tags"] == ["a"]
    assert "root" not in changed
    assert "service.mode" not in changed
    assert changed["extra.mode"] == "fast"


def test_of_a_mapping_every_leaf_counts():
    assert changed_leaves({"a": {"b": 1, "c": {}}}) == {"a.b": 1, "a.c": {}}


def test_leaves_of_a_scalar_and_of_nothing():
    assert leaves({}) == {}
    assert leaves(3, "x") == {"x": 3}


@pytest.mark.parametrize("config", [None, 3, {}, Experiment("e")])
def test_a_block_that_is_not_there_is_none(config: object):
    assert find_block(config, "stats_logger") is None
