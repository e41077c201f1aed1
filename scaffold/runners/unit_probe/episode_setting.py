"""The setting that episodes run in: rows, constructor arguments, an engine, and checks.

A workflow of text gets this setting; others derive from it, in a module of their own each.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from unit_probe import kit, probe_rewards
from unit_probe import trajectory as checks

# As many as `kit.make_model` is made for: two completions in three end by themselves within these.
MAX_NEW_TOKENS = 12
MAX_TURNS = 3
TURN_DISCOUNT = 0.5
ROWS = [
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "answer": "5"},
    {
        "messages": [{"role": "user", "content": "Odd: {{ x }} \\ '\" \x00 \U0001f600\n"}],
        "answer": "",
    },
    {
        "messages": [
            {"role": "system", "content": "Answer with a number."},
            {"role": "user", "content": "How much is 12 + 30?"},
            {"role": "assistant", "content": "41"},
            {"role": "user", "content": "Look again."},
        ],
        "answer": "42",
    },
]
Scenario = tuple[str, Any, float]
"""A name, what judges the completions, and a temperature, which shows in log-probabilities."""


class TextSetting:
    """Messages in, text out, and a reward function."""

    rows: list[dict[str, Any]] = ROWS
    # Each probe sends the episodes through another branch.
    scenarios: tuple[Scenario, ...] = (
        ("right", probe_rewards.right, 1.0),
        ("wrong", probe_rewards.wrong, 1.0),
        ("mixed", probe_rewards.mixed, 0.7),
    )
    # Where judges that disagree make no difference; empty where nothing can be concluded.
    deaf = "whatever reward_fn returns"
    # Whether an episode is one sequence.
    is_one_sequence = True

    def __init__(self) -> None:
        self.tokenizer = kit.make_tokenizer()
        self.model = kit.make_model(self.tokenizer)

    def engine(self, findings: kit.Findings, is_own: bool) -> AbstractContextManager[Any]:
        """Return the engine, of the target or of the runner, as a context."""
        return kit.engine(findings, self.model, self.tokenizer, is_own)

    def arguments(self, judge: Any, temperature: float) -> dict[str, Any]:
        """Return what a constructor may ask for, by the name of the parameter."""
        from areal.api.cli_args import GenerationHyperparameters

        return {
            "reward_fn": judge,
            "gconfig": GenerationHyperparameters(
                max_new_tokens=MAX_NEW_TOKENS, max_tokens=2048, temperature=temperature
            ),
            "tokenizer": self.tokenizer,
            "enable_thinking": False,
            "max_turns": MAX_TURNS,
            "turn_discount": TURN_DISCOUNT,
        }

    def wrap(self, findings: kit.Findings, workflow: Any, known: dict[str, Any]) -> Any:
        """Return what has `arun_episode`: the workflow, or something around it.

        Args:
            findings: Take what is wrong with it.
            workflow: As its constructor made it.
            known: What `arguments` gave.
        """
        return workflow

    def close(self) -> None:
        """Stop what `wrap` started."""

    def read_rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a person's own rows, read from JSON, as a dataset would give them."""
        return rows

    def problems(self, tensors: Any, turns: list[checks.Turn]) -> list[checks.Problem]:
        """Return what is wrong with what an episode returned."""
        return checks.problems(tensors, turns, self.model)

    def hint(self, error: BaseException, row: dict[str, Any]) -> str:
        """Return what an episode's exception may come from."""
        if not isinstance(error, KeyError):
            return ""
        return f"; the row has the columns {', '.join(row)}; give your own rows with --data FILE"

    def check_training(self, findings: kit.Findings, workflow_class: Any) -> None:
        """Train on episodes where they alone do not show that the trainer can."""

    def check_scenario(self, findings: kit.Findings, rows: list[dict[str, Any]]) -> None:
        """Check what the episodes of a scenario left behind."""
