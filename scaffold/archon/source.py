"""What a person names: a model_type, a config.json or a checkpoint folder; read as text alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from scaffold.errors import RequestError

CONFIG = "config.json"
HINT = "name a model_type of transformers, a config.json or a checkpoint folder"
MODEL_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class ModelSource:
    """A model that somebody asked for.

    Args:
        model_type: As transformers spells it.
        config: The content of a config.json; None where a model_type alone was named.
        checkpoint: The folder of the config.json; None where a model_type alone was named.
    """

    model_type: str
    config: dict[str, Any] | None = None
    checkpoint: Path | None = None

    @property
    def config_text(self) -> str:
        """The configuration as one line of JSON, "" without one."""
        return "" if self.config is None else json.dumps(self.config, sort_keys=True)


def read_source(typed: str, folder: Path) -> ModelSource:
    """Read what a person named.

    Args:
        typed: A model_type, or a path of a config.json or of a folder that holds one.
        folder: The working folder, for a relative path.

    Raises:
        RequestError: There is no such file, or it describes no model.
    """
    place = folder / typed
    # A folder without a slash in its name counts too, if a config.json is in it.
    is_path = "/" in typed or "\\" in typed or typed.endswith(".json")
    if not is_path and not (place / CONFIG).is_file():
        if not MODEL_TYPE.fullmatch(typed):
            raise RequestError(f"{typed!r} is not a model_type", code="model_unknown", hint=HINT)
        return ModelSource(typed)
    file = place / CONFIG if place.is_dir() else place
    if not file.is_file():
        is_folder = place.is_dir()
        raise RequestError(
            f"{typed} holds no {CONFIG}" if is_folder else f"there is no file or folder {typed}",
            code="config_invalid",
            hint=_hint(typed),
        )
    config = _read_config(file)
    return ModelSource(_model_type(file, config), config, file.parent.resolve())


def source_of(answers: dict[str, Any]) -> ModelSource:
    """Return the model that a unit was made from; its checkpoint is not remembered."""
    text = str(answers.get("config", ""))
    return ModelSource(str(answers["model_type"]), json.loads(text) if text else None)


def _hint(typed: str) -> str:
    # `Qwen/Qwen3-8B` is an id of the hub and no path here.
    if re.fullmatch(r"[\w.-]+/[\w.-]+", typed):
        return f"nothing is downloaded here; `hf download {typed} config.json` prints a path"
    return HINT


def _read_config(file: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RequestError(
            f"{file} cannot be read: {error}", code="config_invalid", hint="repair it"
        ) from error
    if not isinstance(data, dict):
        raise RequestError(f"{file} holds no JSON object", code="config_invalid", hint="repair it")
    return cast("dict[str, Any]", data)


def _model_type(file: Path, config: dict[str, Any]) -> str:
    found = config.get("model_type")
    if not isinstance(found, str) or not MODEL_TYPE.fullmatch(found):
        raise RequestError(
            f"{file} names no model_type, but {found!r}",
            code="config_invalid",
            hint="add the model_type of the model in transformers",
        )
    return found
