"""From a YAML file and a command line to a checked configuration.

Layers, each winning over those before: dataclass defaults, the preset of ``run.algorithm``, the
YAML file, the overrides of the command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from areal.api.config import experiment, schema, sources
from areal.api.config.presets import preset_overrides
from areal.api.constants import MISSING
from areal.api.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

ConfigT = TypeVar("ConfigT", bound=experiment.BaseExperimentConfig)

_CLASS_OF_TYPE: dict[str, type[experiment.BaseExperimentConfig]] = {
    "dpo": experiment.DPOConfig,
    "rl": experiment.GRPOConfig,
    "rw": experiment.RWConfig,
    "sft": experiment.SFTConfig,
}
# Models beside the actor, whose backend is the actor's unless it is named.
_ON_THE_ACTORS_PROCESSES = ("ref", "critic")
_SECRET_KEYS = ("api_key", "provider_api_key", "wandb_api_key")


def load_expr_config(argv: Sequence[str], cls: type[ConfigT]) -> tuple[ConfigT, str]:
    """Read a run's configuration from the command line.

    Args:
        argv: ``--config x.yaml`` (or ``-c``) and overrides such as ``actor.optimizer.lr=1e-4``,
            whose values are read as YAML.
        cls: The kind of run.

    Returns:
        The configuration, all of its sections dataclass instances, and the path of the file.

    Raises:
        ConfigError: The file cannot be read; a key is unknown or missing, or its value of the
            wrong type or impossible. The message names key, place and what would be right.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    text = _read_argv(argv)
    layers = text.typed_layers(cls)
    try:
        merged = _merge(layers, cls, text.explicit_keys)
        _inherit(merged, root=merged)
        _require(text, merged)
        made = OmegaConf.to_object(merged)
    except (OmegaConfBaseException, TypeError, ValueError) as error:
        raise text.explain(error, cls) from error
    assert isinstance(made, cls)
    return made, text.path


def choose_config_class(argv: Sequence[str]) -> type[experiment.BaseExperimentConfig]:
    """Return the class that a configuration is for, by the type of its training dataset.

    Raises:
        ConfigError: The file cannot be read, or names no known ``train_dataset.type``.
    """
    text = _read_argv(argv)
    kind = text.value("train_dataset.type")
    if kind not in _CLASS_OF_TYPE:
        known = ", ".join(_CLASS_OF_TYPE)
        raise ConfigError(
            f"{text.place('train_dataset.type')}: train_dataset.type decides what is trained; "
            f"found {kind!r}, known: {known}"
        )
    return _CLASS_OF_TYPE[str(kind)]


def apply_preset(
    config: experiment.BaseExperimentConfig, explicit_keys: Sequence[str] = ()
) -> None:
    """Apply the preset of ``config.run.algorithm`` to a configuration made in Python.

    Args:
        config: Is changed.
        explicit_keys: Dotted keys to leave as they are.

    Raises:
        ConfigError: The preset does not fit the configuration's class.
    """
    overrides = preset_overrides(config.run.algorithm, explicit_keys)
    _check_fit(config.run.algorithm, type(config))
    evaluates_alike = isinstance(config, experiment.PPOConfig) and (
        config.eval_gconfig == config.gconfig
    )
    for key, value in overrides.items():
        section: Any = config
        *parents, name = key.split(".")
        for parent in parents:
            section = schema.get_or_make(section, parent)
        setattr(section, name, _look_up(config, value))
    schema.inherit_names(config, config.cluster.fileroot)  # of sections that the preset made
    if evaluates_alike and isinstance(config, experiment.PPOConfig):
        config.eval_gconfig = config.gconfig.new()


def save_config(config: Any, path: str | os.PathLike[str]) -> None:
    """Write a configuration as YAML that ``load_expr_config`` reads back, without API keys.

    The file is complete or absent, whatever happens meanwhile.
    """
    from omegaconf import OmegaConf

    # Without types, which a file does not have, it takes a third of the time.
    node = OmegaConf.create(dataclasses.asdict(config))
    for key, section in schema.sections(config):
        for option in dataclasses.fields(section):
            if option.name in _SECRET_KEYS and getattr(section, option.name):
                OmegaConf.update(node, f"{key}.{option.name}", "")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(OmegaConf.to_yaml(node))
        os.chmod(partial, 0o644)  # mkstemp's 0600 would hide the file from a shared log folder
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def _read_argv(argv: Sequence[str]) -> sources.ConfigText:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--config")
    parser.add_argument("overrides", nargs="*")
    try:
        known, rest = parser.parse_known_intermixed_args(list(argv))
    except SystemExit as error:  # argparse prints the usage of a program that is not ours
        raise ConfigError(f"cannot read the command line {list(argv)}") from error
    if rest:
        raise ConfigError(f"unknown option {rest[0]!r}; overrides are written key=value")
    if not known.config:
        raise ConfigError("no configuration file; pass it as --config x.yaml")
    return sources.ConfigText.read(known.config, known.overrides)


@functools.cache
def _defaults(cls: type[experiment.BaseExperimentConfig]) -> DictConfig:
    """Return the defaults of a class, which a merge copies: to build them is half of a load."""
    from omegaconf import OmegaConf

    return OmegaConf.structured(cls)


def _merge(
    layers: list[DictConfig],
    cls: type[experiment.BaseExperimentConfig],
    explicit_keys: frozenset[str],
) -> DictConfig:
    from omegaconf import DictConfig, OmegaConf

    base = _defaults(cls)
    algorithm = OmegaConf.merge(base, *layers).run.algorithm
    overrides = preset_overrides(algorithm, explicit_keys)
    _check_fit(algorithm, cls)
    preset = OmegaConf.create({})
    for key, value in overrides.items():
        OmegaConf.update(preset, key, value)
    merged = OmegaConf.merge(base, preset, *layers)
    assert isinstance(merged, DictConfig)
    for name in _ON_THE_ACTORS_PROCESSES:
        is_own = name in merged and not OmegaConf.is_interpolation(merged, name)
        if not is_own or merged[name] is None:
            continue
        if f"{name}.backend" not in explicit_keys or not merged[name].backend:
            merged[name].backend = "${actor.backend}"
    return merged


def _inherit(section: DictConfig, root: DictConfig) -> None:
    """Point names that a section requires and was not given to those of the run."""
    from omegaconf import DictConfig, OmegaConf

    for key in section:
        if OmegaConf.is_interpolation(section, str(key)):
            continue
        if OmegaConf.is_missing(section, key):
            if section is not root and key in schema.INHERITED_KEYS:
                section[key] = "${cluster.fileroot}" if key == "fileroot" else f"${{{key}}}"
            continue
        child = section[key]
        if isinstance(child, DictConfig) and dataclasses.is_dataclass(OmegaConf.get_type(child)):
            _inherit(child, root)


def _require(text: sources.ConfigText, config: DictConfig) -> None:
    from omegaconf import OmegaConf

    missing = sorted(
        key
        for key in OmegaConf.missing_keys(config)
        # A section's name is missing only because the run's is.
        if key.rpartition(".")[2] not in schema.INHERITED_KEYS or "." not in key
    )
    if missing:
        raise ConfigError(f"required and not set: {', '.join(missing)}")
    has_backend = {"rollout.backend", "actor.backend"} & text.explicit_keys
    if config.allocation_mode and not has_backend:
        raise ConfigError(
            f"allocation_mode is out of date; split {config.allocation_mode!r} into "
            "rollout.backend and actor.backend"
        )


def _check_fit(algorithm: str, cls: type[experiment.BaseExperimentConfig]) -> None:
    if not algorithm:
        return
    # Training on given rows is called as its rows are; all others are policy optimisation.
    kind = algorithm if algorithm in _CLASS_OF_TYPE else "rl"
    wanted = experiment.PPOConfig if kind == "rl" else _CLASS_OF_TYPE[kind]
    if not issubclass(cls, wanted):
        raise ConfigError(
            f"run.algorithm {algorithm!r} does not fit {cls.__name__}; use {wanted.__name__} "
            f"(train_dataset.type {kind}) or another algorithm"
        )


def _look_up(config: Any, value: Any) -> Any:
    """Resolve an interpolation ``${a.b}`` of the presets' table on dataclass instances."""
    if not (isinstance(value, str) and value.startswith("${")):
        return value
    found = config
    for part in value[2:-1].split("."):
        found = getattr(found, part)
    assert found != MISSING, value
    return found
