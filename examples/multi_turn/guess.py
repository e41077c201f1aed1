"""Find a hidden digit in three guesses, with a hint after each: a workflow of several turns."""

from __future__ import annotations

import random
from typing import Any

from areal.api import ModelRequest, RolloutWorkflow
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.workflow.trajectory import Trajectory


def get_guess_rl_dataset(path: str, split: str = "train", size: int = 4096) -> list[dict[str, Any]]:
    """Draw hidden digits from 0 to 6; the prompt is always the same."""
    rng = random.Random(split)
    return [{"prompt": "?", "secret": rng.randrange(7)} for _ in range(size)]


class GuessWorkflow(RolloutWorkflow):
    """Lets the model guess until it finds the digit or has used its turns.

    After a wrong guess it reads "<" (the secret is smaller) or ">". The whole game is one sequence:
    each prompt continues the tokens of the turns before it, and the loss is on the guesses alone.
    """

    def __init__(self, gconfig: Any, tokenizer: Any, max_turns: int = 3) -> None:
        self.gconfig = gconfig.new(n_samples=1)
        self.tokenizer = tokenizer
        self.max_turns = max_turns

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Any]:
        """Play one game; the reward is 1 where the digit was found."""
        game = Trajectory()
        game.add_prompt(self.tokenizer.encode(data["prompt"]))
        reward, turn = 0.0, 0
        for turn in range(self.max_turns):
            request = ModelRequest(input_ids=list(game.input_ids), gconfig=self.gconfig)
            response = await engine.agenerate(request)
            game.add_response(response, turn)
            guess = self.tokenizer.decode(response.output_tokens)
            if guess == str(data["secret"]):
                reward = 1.0
                break
            hint = "?" if not guess.isdecimal() else "<" if data["secret"] < int(guess) else ">"
            game.add_prompt(self.tokenizer.encode(hint))
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward, num_turns=turn + 1)
        return game.to_tensors(reward)
