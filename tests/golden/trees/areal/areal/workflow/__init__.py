WORKFLOWS: dict[str, str] = {
    "plain_agent": "areal.workflow.plain_agent:PlainAgentWorkflow",
    "plain_calls": "areal.workflow.plain_calls:PlainCallsWorkflow",
    "plain_play": "areal.workflow.plain_play:PlainPlayWorkflow",
    "plain_sight": "areal.workflow.plain_sight:PlainSightWorkflow",
    "plain_turn": "areal.workflow.plain_turn:PlainTurnWorkflow",
    "plain_turns": "areal.workflow.plain_turns:PlainTurnsWorkflow",
}
