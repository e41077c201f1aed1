"""Workflows: one small module each, named in one table."""

from __future__ import annotations

from typing import Any

from areal.api.registry import resolve

WORKFLOWS: dict[str, str] = {
    # "name": "my_rl.workflow.name:NameWorkflow", sorted, one per line
    "fed_back": "my_rl.workflow.fed_back:FedBackWorkflow",
    "frozen_lake": "my_rl.workflow.frozen_lake:FrozenLakeWorkflow",
    "paid_play": "my_rl.workflow.paid_play:PaidPlayWorkflow",
    "plain_agent": "my_rl.workflow.plain_agent:PlainAgentWorkflow",
    "plain_calls": "my_rl.workflow.plain_calls:PlainCallsWorkflow",
    "plain_play": "my_rl.workflow.plain_play:PlainPlayWorkflow",
    "plain_sight": "my_rl.workflow.plain_sight:PlainSightWorkflow",
    "plain_turn": "my_rl.workflow.plain_turn:PlainTurnWorkflow",
    "plain_turns": "my_rl.workflow.plain_turns:PlainTurnsWorkflow",
    "told": "my_rl.workflow.told:ToldWorkflow",
    "told_agent": "my_rl.workflow.told_agent:ToldAgentWorkflow",
    "told_calls": "my_rl.workflow.told_calls:ToldCallsWorkflow",
}


def get_workflow(name: str) -> type[Any]:
    """Returns the workflow class of a name in the table, or of a dotted path.

    Raises:
        areal.api.errors.UnknownNameError: There is none; the message suggests the nearest name.
    """
    return resolve(WORKFLOWS, "workflow", name)
