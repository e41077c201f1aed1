from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from areal.infra import workflow_context
from areal.infra.workflow_context import WorkflowContext


def test_the_default_is_training() -> None:
    assert workflow_context.get() == WorkflowContext(False, None, None)
    assert workflow_context.stat_scope() == "rollout"


def test_every_task_has_a_context_of_its_own_and_its_children_inherit_it() -> None:
    async def child() -> WorkflowContext:
        await asyncio.sleep(0)
        return workflow_context.get()

    async def episode(task_id: int) -> tuple[WorkflowContext, str]:
        workflow_context.set(WorkflowContext(is_eval=task_id % 2 == 0, task_id=task_id))
        return await asyncio.create_task(child()), workflow_context.stat_scope()

    async def main() -> list[tuple[WorkflowContext, str]]:
        return await asyncio.gather(*map(episode, range(3)))

    assert asyncio.run(main()) == [
        (WorkflowContext(True, 0), "eval-rollout"),
        (WorkflowContext(False, 1), "rollout"),
        (WorkflowContext(True, 2), "eval-rollout"),
    ]


def test_a_context_cannot_be_changed_in_place() -> None:
    assert WorkflowContext.__dataclass_params__.frozen  # type: ignore[attr-defined]


async def _clients() -> list[Any]:
    getters = (workflow_context.get_aiohttp_session, workflow_context.get_httpx_client)
    first = [await get() for get in getters]
    assert first == [await get() for get in getters]
    return first


def test_clients_are_shared_in_a_loop_and_closed_with_it() -> None:
    session, client = asyncio.run(_clients())
    assert session.closed
    assert client.is_closed
    other_session, other_client = asyncio.run(_clients())
    assert other_session is not session
    assert other_client is not client
    assert workflow_context._cleanups == {}


def test_a_closed_client_is_replaced() -> None:
    async def main() -> bool:
        client = await workflow_context.get_httpx_client()
        await client.aclose()
        return (await workflow_context.get_httpx_client()) is client

    assert asyncio.run(main()) is False


def test_threads_do_not_share_clients() -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(asyncio.run(_clients()))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(client) for clients in found for client in clients}) == 4


def test_the_context_is_reachable_in_both_ways_and_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from areal import workflow_context\n"
        "from areal.infra import workflow_context as same\n"
        "assert workflow_context is same\n"
        "print('torch' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
