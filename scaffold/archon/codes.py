"""The error codes of models."""

from __future__ import annotations

CODES: dict[str, str] = {
    "checkpoint_invalid": "A checkpoint of a model cannot be read.",
    "config_invalid": "A model's configuration is missing, broken, or refused by transformers.",
    "model_unknown": "transformers has no model of this type.",
    "model_unsuited": "The model is not a text decoder, so it cannot become an Archon model.",
    "probe_failed": "A probe of a model failed, or was killed.",
    "remote_code": "The checkpoint has its own model code, which is not run without permission.",
    "rope_unknown": "The configuration uses a rotary embedding type that is not implemented.",
    "target_lacks": "The target lacks modules that the unit would import.",
}
