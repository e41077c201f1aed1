"""Small environments for workflows that play one: what they pay is known, and they keep a log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gymnasium

from unit_probe import episode_setting, kit

# The step at which the environment cuts an episode off, which gymnasium calls truncated.
MAX_STEPS = 4
ROWS = [{**row, "seed": 11 + i} for i, row in enumerate(episode_setting.ROWS)]


class AnyText(gymnasium.spaces.Text):
    """The space of every text, so that whatever the model writes is an action."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class Notes:
    """A log of what was done to the environments of a scenario."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = self.closed = 0
        self.seeds: set[Any] = set()
        self.threads: set[int] = set()


class TalkEnv(gymnasium.Env[str, str]):
    """Takes any text; some texts end it, and after a few steps it is cut off.

    Args:
        notes: Takes what happens.
        pay: The reward of a step, by its action.
    """

    observation_space = AnyText(100)
    action_space: Any = AnyText(100)

    def __init__(self, notes: Notes, pay: Callable[[str], float]) -> None:
        self.notes, self.pay = notes, pay
        self.is_closed = False
        self._note()
        with notes.lock:
            notes.made += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; its first words depend on the seed."""
        super().reset(seed=seed)
        self._note()
        self.notes.seeds.add(seed)
        self.steps = 0
        return f"Say a word that begins with {self.np_random.integers(26)}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer with odd characters, as the texts of an environment may have them."""
        self._note()
        self.steps += 1
        # One text in three ends the episode, and always the same ones.
        is_end = sum(map(ord, str(action))) % 3 == 0
        text = f"{self.steps}: {{{{ x }}}} \\ '\" \U0001f600\n"
        return text, self.pay(str(action)), is_end, self.steps == MAX_STEPS, {}

    def close(self) -> None:
        with self.notes.lock:
            self.notes.closed += not self.is_closed
        self.is_closed = True

    def _note(self) -> None:  # environments that block belong into a thread
        self.notes.threads.add(threading.get_ident())


class CountEnv(TalkEnv):
    """Takes numbers below ten, which the tiny model rarely writes: most turns name no action."""

    action_space: Any = gymnasium.spaces.Discrete(10)


class EnvSetting(episode_setting.TextSetting):
    """An environment whose observations and actions are text.

    Args:
        has_own: Whether the workflow brings its environment, as the default of `env`.
    """

    rows = ROWS
    scenarios = (
        ("right", (TalkEnv, lambda action: 1.0), 1.0),
        ("wrong", (TalkEnv, lambda action: 0.0), 1.0),
        ("mixed", (CountEnv, lambda action: float(len(action))), 0.7),
    )

    def __init__(self, has_own: bool) -> None:
        super().__init__()
        self.has_own = has_own
        self.deaf = "" if has_own else "whatever the environment returns"
        self.notes = Notes()

    def arguments(self, judge: Any, temperature: float) -> dict[str, Any]:
        """Return what a constructor may ask for; an environment of its own stays."""
        known = super().arguments(None, temperature)
        del known["reward_fn"]
        if not self.has_own:
            self.notes = Notes()
            kind, pay = judge
            known["env"] = kind
            known["env_kwargs"] = {"notes": self.notes, "pay": pay}
        return known

    def hint(self, error: BaseException, row: dict[str, Any]) -> str:
        """Add whose environment it was: the author's prompts may fit no other."""
        text = super().hint(error, row)
        if self.has_own:
            return text
        return f"{text}; verify used its own text environment: give `env` a default to use yours"

    def check_scenario(self, findings: kit.Findings, rows: list[dict[str, Any]]) -> None:
        """Check that environments were closed, seeded, and kept out of the event loop."""
        notes = self.notes
        if self.has_own:
            return
        if not notes.made:
            findings.failed("environment", "the episodes created no environment")
        elif notes.closed != notes.made:
            text = f"{notes.made - notes.closed} of {notes.made} environments were never closed"
            findings.failed("environment", f"{text}; close them in a finally block")
        elif notes.seeds != {row["seed"] for row in rows}:
            text = "reset did not get the row's seed: the samples of a group must play one game"
            findings.failed("environment", text)
        if threading.get_ident() in notes.threads:
            text = "the environment runs on the event loop's thread and blocks all other episodes"
            findings.warned("blocking", f"{text}; await asyncio.to_thread(env.step, action)")
