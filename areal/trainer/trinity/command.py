"""What ``areal trinity run`` and ``areal trinity debug`` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from areal.api.errors import ConfigError
from areal.experimental.trinity.loading import load_reward_fn, load_workflow
from areal.trainer.report import ReportPaths
from areal.trainer.run import run_training
from areal.trainer.trinity.reading import Decision, read_yaml
from areal.trainer.trinity.translation import Translation, translate

CONFIG_FILE = "areal.yaml"
_USES = ("mapped", "defaulted", "ignored")
_MAX_VALUE_CHARS = 40


def run(path: str, overrides: Sequence[str], plugin_dir: str | None) -> ReportPaths | None:
    """Train what a Trinity-RFT YAML describes.

    The configuration of ours is written into the run's folder, so that ``areal train`` can go on
    with it, and every key is printed with what became of it.

    Returns:
        Where the report lies; None where other processes wrote it.

    Raises:
        ConfigError: The YAML asks for what there is not; nothing was written.
    """
    file = write_config(translated(path, overrides, plugin_dir))
    print(f"the same as: areal train -c {file}")
    return run_training(["--config", str(file)])


def translated(path: str, overrides: Sequence[str], plugin_dir: str | None) -> Translation:
    """Translate a YAML, print what became of its keys, and load what it names.

    Raises:
        ConfigError: The YAML asks for what there is not.
    """
    translation = translate(read_yaml(path, overrides), plugin_dir)
    print(describe(translation.decisions))
    settings = translation.config.get("run", {})
    for key in ("workflow_kwargs", "eval_workflow_kwargs"):
        # The trainer loads them again, behind a model that may take minutes to load.
        if kwargs := settings.get(key):
            load_workflow(kwargs["workflow_type"], plugin_dir)
            load_reward_fn(kwargs.get("reward_fn_type"), plugin_dir)
    return translation


def write_config(translation: Translation) -> Path:
    """Write our configuration into the folder of its run."""
    config = translation.config
    root = Path(config["cluster"]["fileroot"])
    folder = root / config["experiment_name"] / config["trial_name"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / CONFIG_FILE
        file.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise ConfigError(f"checkpoint_root_dir: cannot write to {folder}: {error}") from error
    return file


def describe(decisions: Sequence[Decision]) -> str:
    """Return a table of all keys, those of one use together."""
    rows = sorted(decisions, key=lambda each: (_USES.index(each.use), each.key))
    if not rows:
        return "the file sets nothing"
    key_width = max(len(row.key) for row in rows)
    values = [_shown(row.value) for row in rows]
    value_width = max(map(len, values))
    return "\n".join(
        f"{row.use:<9}  {row.key:<{key_width}}  {value:<{value_width}}  {row.note}"
        for row, value in zip(rows, values, strict=True)
    )


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = text.replace("\n", " ")
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 3]}..."
