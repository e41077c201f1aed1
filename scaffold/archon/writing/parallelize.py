"""``infra/parallelize.py``: how a model is spread over devices."""

from __future__ import annotations

from scaffold.archon.writing.names import ModelNames
from scaffold.archon.writing.source import Source, function_text
from scaffold.archon.writing.values import Json


def parallelize_file(design: Json, names: ModelNames) -> str:
    """Returns ``infra/parallelize.py``."""
    source = Source(f"{names.prefix} across devices.", names.first_party)
    source.use("typing", "Any")
    source.use("torch", "nn")
    source.use("areal.api.errors", "ConfigError")
    source.add(
        function_text(
            f"def {names.parallelize}(model: nn.Module, parallel_dims: Any, **kwargs: Any)"
            " -> nn.Module",
            [
                "if parallel_dims is not None and parallel_dims.world_size > 1:",
                f'    raise ConfigError("{names.model_type} runs on one device")',
                "return model",
            ],
            "Applies parallelism in place.\n\n"
            "Raises:\n    ConfigError: More than one device is asked for.",
        )
    )
    return source.text()
