"""What runs a model: the embedded engine, servers, and train engines; loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.engine.remote import RemoteLocalEngine
    from areal.engine.sglang_remote import RemoteSGLangEngine, SGLangBackend
    from areal.engine.vllm_remote import RemotevLLMEngine, VLLMBackend

_LAZY_IMPORTS: dict[str, str] = {
    "RemoteLocalEngine": "areal.engine.remote",
    "RemoteSGLangEngine": "areal.engine.sglang_remote",
    "RemotevLLMEngine": "areal.engine.vllm_remote",
    "SGLangBackend": "areal.engine.sglang_remote",
    "VLLMBackend": "areal.engine.vllm_remote",
}

__all__ = [
    "RemoteLocalEngine",
    "RemoteSGLangEngine",
    "RemotevLLMEngine",
    "SGLangBackend",
    "VLLMBackend",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
