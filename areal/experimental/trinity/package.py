"""Trinity-RFT's public names: those of the installed package, else our stand-ins for them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from areal.api.errors import ConfigError
from areal.experimental.trinity.model import EpisodeModel

ROOT = "trinity"
_STANDIN = "areal.experimental.trinity.standin"
_MODEL_MODULE = "trinity.common.models.model"

# Where a name of the package is found in ours; a package of it that holds nothing is "".
_MODULES: dict[str, str] = {
    "trinity": "",
    "trinity.common": "",
    "trinity.common.config": f"{_STANDIN}.config",
    "trinity.common.constants": f"{_STANDIN}.config",
    "trinity.common.experience": f"{_STANDIN}.experience",
    "trinity.common.models": "",
    _MODEL_MODULE: "",
    "trinity.common.rewards": f"{_STANDIN}.rewards",
    "trinity.common.rewards.accuracy_reward": f"{_STANDIN}.rewards",
    "trinity.common.rewards.format_reward": f"{_STANDIN}.rewards",
    "trinity.common.rewards.math_reward": f"{_STANDIN}.rewards",
    "trinity.common.rewards.reward_fn": f"{_STANDIN}.rewards",
    "trinity.common.workflows": f"{_STANDIN}.workflows",
    "trinity.common.workflows.step_wise_workflow": f"{_STANDIN}.step_wise",
    "trinity.common.workflows.workflow": f"{_STANDIN}.workflows",
    "trinity.utils": "",
    "trinity.utils.log": f"{_STANDIN}.log",
    "trinity.utils.registry": f"{_STANDIN}.registry",
}
# Of all that our modules define, what theirs offer to others.
_EXPORTS: dict[str, tuple[str, ...]] = {
    "trinity.common.config": ("FormatConfig", "GenerationConfig", "PromptType"),
    "trinity.common.constants": ("PromptType",),
    "trinity.common.experience": ("EID", "Experience", "group_by"),
    "trinity.common.rewards": ("REWARD_FUNCTIONS", "Registry", "RewardFn"),
    "trinity.common.rewards.accuracy_reward": ("AccuracyReward", "RewardFn"),
    "trinity.common.rewards.format_reward": ("FormatReward", "RewardFn"),
    "trinity.common.rewards.math_reward": (
        "AccuracyReward",
        "FormatReward",
        "MathBoxedRewardFn",
        "MathRewardFn",
        "RewardFn",
    ),
    "trinity.common.rewards.reward_fn": ("RewardFn",),
    "trinity.common.workflows": ("Registry", "Task", "WORKFLOWS", "Workflow"),
    "trinity.common.workflows.step_wise_workflow": (
        "AsyncRewardPropagationWorkflow",
        "AsyncStepWiseRewardWorkflow",
        "Experience",
        "RewardPropagationWorkflow",
        "StepWiseRewardWorkflow",
        "Task",
        "Workflow",
    ),
    "trinity.common.workflows.workflow": (
        "AsyncMathWorkflow",
        "AsyncSimpleWorkflow",
        "BaseSimpleWorkflow",
        "Experience",
        "FormatConfig",
        "GenerationConfig",
        "MathWorkflow",
        "MultiTurnWorkflow",
        "RewardFn",
        "SimpleWorkflow",
        "Task",
        "Workflow",
        "get_logger",
    ),
    "trinity.utils.log": ("get_logger",),
    "trinity.utils.registry": ("Registry",),
}


@dataclass(frozen=True)
class TrinityPackage:
    """The classes that the adapter works with.

    Attributes:
        version: Of the installed package; "" for the stand-ins.
    """

    version: str
    Task: Any
    Workflow: Any
    Experience: Any
    EID: Any
    FormatConfig: Any
    GenerationConfig: Any
    RewardFn: Any
    workflows: Any
    reward_functions: Any


_loaded: TrinityPackage | None = None
_lock = threading.Lock()


def load_package() -> TrinityPackage:
    """Return the installed package's classes, or put the stand-ins in its place for good.

    Raises:
        ConfigError: Another package is called ``trinity``, or the installed one cannot be imported.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> TrinityPackage:
    is_installed = _is_installed()
    if not is_installed:
        _put_standins()
    elif importlib.util.find_spec("vllm") is None:
        # The package's own wrapper needs vllm; workflows that import its name mean ours.
        _add_module(_MODEL_MODULE)
    try:
        workflows, experience, config, rewards = (
            importlib.import_module(f"trinity.common.{name}")
            for name in ("workflows", "experience", "config", "rewards")
        )
    except ImportError as error:
        raise ConfigError(
            f"the package trinity-rft is installed and cannot be imported ({error}): install what "
            "it misses, or uninstall it, and stand-ins take its place"
        ) from error
    return TrinityPackage(
        version=_version() if is_installed else "",
        Task=workflows.Task,
        Workflow=workflows.Workflow,
        Experience=experience.Experience,
        EID=experience.EID,
        FormatConfig=config.FormatConfig,
        GenerationConfig=config.GenerationConfig,
        RewardFn=rewards.RewardFn,
        workflows=workflows.WORKFLOWS,
        reward_functions=rewards.REWARD_FUNCTIONS,
    )


def _is_installed() -> bool:
    spec = importlib.util.find_spec(ROOT)
    if spec is None:
        return False
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if any((place / "common" / "workflows").is_dir() for place in places):
        return True
    # An empty folder of this name beside a script is a namespace package, and no obstacle.
    if spec.origin is None:
        return False
    raise ConfigError(
        f"{spec.origin} is called trinity and is not Trinity-RFT, so its workflows cannot be "
        "loaded here; take it off the path or rename it"
    )


def _version() -> str:
    try:
        return version("trinity-rft")
    except PackageNotFoundError:
        return "a checkout"


# --- the stand-ins


class _StandInModule(ModuleType):
    """A module of the package that offers what we have of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(_EXPORTS.get(self.__name__, ())) or "nothing"
        raise ImportError(
            f"{self.__name__}.{name} is not among the stand-ins for Trinity-RFT, which have "
            f"{known} there; install trinity-rft to use it",
            name=self.__name__,
        )


class _MissingModules:
    """Names what is asked of the package and is not here, where Python would name its parent."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return None for what others may find, and refuse what is of the package."""
        if name.partition(".")[0] != ROOT:
            return None
        raise ModuleNotFoundError(
            f"the module {name} is not among the stand-ins for Trinity-RFT; install trinity-rft to "
            "use it",
            name=name,
        )


def _put_standins() -> None:
    for name in _MODULES:
        _add_module(name)
    sys.meta_path.insert(0, _MissingModules())


def _add_module(name: str) -> None:
    module = _StandInModule(name)
    if any(other.startswith(f"{name}.") for other in _MODULES):
        module.__path__ = []
    if name == _MODEL_MODULE:
        module.ModelWrapper = EpisodeModel
    elif source := _MODULES[name]:
        found = importlib.import_module(source)
        vars(module).update({each: getattr(found, each) for each in _EXPORTS[name]})
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
