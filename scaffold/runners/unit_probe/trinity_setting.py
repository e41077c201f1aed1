"""What workflows of Trinity-RFT are tried in: tasks, rewards, judges and a model of plain text."""

from __future__ import annotations

from typing import Any

from unit_probe import probe_rewards
from unit_probe.episode_setting import TextSetting
from unit_probe.fake_judge import FakeJudge

QUESTIONS = (("2 + 3 = ?", "5"), ("Odd: {{ x }} \\ '\" \U0001f600", "7"), ("12 + 30 = ?", "42"))


class TrinitySetting(TextSetting):
    """Tasks in, experiences out.

    Args:
        answers: Of the unit, which name the columns and how many models judge.
        package: Of ``areal.experimental.trinity``.
    """

    # The conversation of a workflow of several turns is rendered as text.
    is_one_sequence = False
    deaf = ""

    def __init__(self, answers: dict[str, Any], package: Any) -> None:
        super().__init__()
        self.package = package
        question = answers.get("question_column", "question")
        answer = answers.get("answer_column", "answer")
        self.format_args = {"prompt_key": question, "response_key": answer}
        self.rows = [{question: asked, answer: truth} for asked, truth in QUESTIONS]
        _speak_plainly(self.model, self.tokenizer)
        has_reward = bool(answers.get("reward_fn"))
        temperatures = (("right", 1.0), ("wrong", 1.0), ("mixed", 0.7))
        self.scenarios = tuple(
            (name, self._reward(name) if has_reward else None, temperature)
            for name, temperature in temperatures
        )
        self.deaf = "whatever the reward returns" if has_reward else ""
        self.judges = [FakeJudge() for _ in range(int(answers.get("aux", 0)))]
        if self.judges:
            # A proxy of the environment would be asked for this machine's own address.
            self.judges[0].become_the_judge()

    def arguments(self, judge: Any, temperature: float) -> dict[str, Any]:
        known = super().arguments(None, temperature)
        return {
            "gconfig": known["gconfig"],
            "tokenizer": self.tokenizer,
            "format_args": self.format_args,
            "reward_fn_type": judge,
            "auxiliary_models": [
                {"base_url": f"http://127.0.0.1:{judge.server_port}/v1", "model": "stand-in"}
                for judge in self.judges
            ],
        }

    def _reward(self, name: str) -> type[Any]:
        """Return a reward class that answers as a judge of that name does."""
        judge = getattr(probe_rewards, name)

        class Reward(self.package.RewardFn):
            def __init__(self, **kwargs: Any) -> None:
                pass

            def __call__(self, **kwargs: Any) -> dict[str, float]:
                return {"score": float(judge("", kwargs["response"], [], []))}

        return Reward


def _speak_plainly(model: Any, tokenizer: Any) -> None:
    """Keep a model to printable ASCII, whose text has the same tokens again."""
    import torch

    plain = {tokenizer.eos_token_id}
    plain |= {tokenizer.encode(chr(code))[0] for code in range(33, 127)}
    others = [token for token in range(len(tokenizer)) if token not in plain]
    with torch.no_grad():
        # Dimension 0 of what the head reads is a constant above 0.
        model.get_output_embeddings().weight[others, 0] = -40.0
