"""Further models of a workflow, such as a judge: servers that its OpenAI clients ask."""

from __future__ import annotations

import asyncio
from typing import Any


class AuxiliaryModel:
    """A server with OpenAI's routes.

    Args:
        base_url: Of its API, such as ``http://127.0.0.1:8000/v1``.
        model: How the server calls the model.
        api_key: Where the server asks for one.
    """

    def __init__(self, base_url: str, model: str, api_key: str = "EMPTY") -> None:
        self.base_url = base_url
        self.model_path = model
        self.model_name = model
        self.api_key = api_key
        self._client: Any = None
        self._async_clients: dict[asyncio.AbstractEventLoop, Any] = {}

    def get_openai_client(self) -> Any:
        """Return a synchronous client with ``model_path``; all episodes share it."""
        if self._client is None:
            # Optional, and needed only where there is such a model.
            from openai import OpenAI

            self._client = OpenAI(base_url=self.base_url, api_key=self.api_key)
            self._client.model_path = self.model_path
        return self._client

    def get_openai_async_client(self) -> Any:
        """Return the running loop's asynchronous client with ``model_path``."""
        loop = asyncio.get_running_loop()
        if loop not in self._async_clients:
            # Optional, and needed only where there is such a model.
            from openai import AsyncOpenAI

            client: Any = AsyncOpenAI(base_url=self.base_url, api_key=self.api_key)
            client.model_path = self.model_path
            self._async_clients[loop] = client
        return self._async_clients[loop]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an auxiliary model has no {name} here: its server returns no tokens to make "
            "experiences of; ask self.auxiliary_models[i].chat.completions.create"
        )
