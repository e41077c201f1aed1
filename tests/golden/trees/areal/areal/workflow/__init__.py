WORKFLOWS: dict[str, str] = {
    "plain_turn": "areal.workflow.plain_turn:PlainTurnWorkflow",
    "plain_turns": "areal.workflow.plain_turns:PlainTurnsWorkflow",
}
