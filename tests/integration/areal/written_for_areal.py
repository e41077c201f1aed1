"""A workflow, its reward and its training script, written for AReaL against its public names alone.

Nothing here knows this repository: no registry, no trainer internals, no helper of the tests.
"""

import asyncio
import sys
import uuid

import torch

from areal import PPOTrainer, workflow_context
from areal.api import (
    AsyncRewardWrapper,
    InferenceEngine,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
)
from areal.api.cli_args import GenerationHyperparameters, GRPOConfig, load_expr_config
from areal.dataset import get_custom_dataset
from areal.utils import logging, stats_tracker
from areal.utils.data import concat_padded_tensors, pad_sequences_to_tensors
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.utils.perf_tracer import atrace_session_phase, session_context, trace_session

logger = logging.getLogger("CountSevensWorkflow")


def get_digits_rl_dataset(path, split, tokenizer, max_length=None):
    rows = [{"messages": [{"role": "user", "content": f"{i}="}], "answer": "7"} for i in range(10)]
    return rows * 4 if split == "train" else rows[:3]


def count_sevens_reward_fn(prompt, completions, prompt_ids, completion_ids, answer, **kwargs):
    return completions.count(answer) / max(len(completion_ids), 1)


def short_enough(trajectory):
    return trajectory["attention_mask"].sum(1).max().item() <= 24


class CountSevensWorkflow(RolloutWorkflow):
    """Answers, looks at the reward, and may try once more."""

    def __init__(
        self,
        reward_fn,
        gconfig: GenerationHyperparameters,
        tokenizer,
        max_turns: int,
        turn_discount: float = 0.9,
    ):
        self.reward_fn = reward_fn
        if isinstance(self.reward_fn, str):
            self.reward_fn = import_from_string(self.reward_fn)
        self.tokenizer = tokenizer
        if isinstance(self.tokenizer, str):
            self.tokenizer = load_hf_tokenizer(self.tokenizer)
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.max_turns = max_turns
        self.turn_discount = turn_discount
        self.async_reward_fn = AsyncRewardWrapper(self.reward_fn, timeout_seconds=10)

    @trace_session("reward")
    async def _compute_reward(self, response: ModelResponse, prompt: str, data: dict) -> float:
        completion = self.tokenizer.decode(response.output_tokens)
        return await self.async_reward_fn(
            prompt, completion, response.input_tokens, response.output_tokens, **data
        )

    @session_context()
    async def arun_episode(self, engine: InferenceEngine, data: dict) -> dict | None:
        prompt = self.tokenizer.apply_chat_template(
            data["messages"], tokenize=False, add_generation_prompt=True
        )
        seq = apply_chat_template(self.tokenizer, data["messages"], add_generation_prompt=True)
        logprobs = [0.0] * len(seq)
        loss_mask = [0] * len(seq)
        versions = [-1] * len(seq)
        discount, reward, turn = 1.0, 0.0, 0
        for turn in range(self.max_turns):
            req = ModelRequest(
                rid=uuid.uuid4().hex,
                input_ids=seq,
                gconfig=self.gconfig,
                tokenizer=self.tokenizer,
                metadata={"turn": turn},
            )
            async with atrace_session_phase("generate"):
                resp = await engine.agenerate(req.copy())
            assert resp.input_tokens == seq
            assert resp.stop_reason in ("stop", "length")
            seq = seq + resp.output_tokens
            logprobs += resp.output_logprobs
            loss_mask += [1] * resp.output_len
            versions += resp.output_versions
            reward = await self._compute_reward(resp, prompt, data)
            if reward > 0 or turn + 1 == self.max_turns:
                break
            feedback = self.tokenizer.encode("=", add_special_tokens=False)
            seq = seq + feedback
            logprobs += [0.0] * len(feedback)
            loss_mask += [0] * len(feedback)
            versions += [-1] * len(feedback)
            discount *= self.turn_discount
            await asyncio.sleep(0)
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward, num_turns=turn + 1)
        assert workflow_context.get().task_id is not None
        res = pad_sequences_to_tensors(
            [
                {
                    "input_ids": torch.tensor(seq, dtype=torch.int32),
                    "loss_mask": torch.tensor(loss_mask, dtype=torch.int32),
                    "logprobs": torch.tensor(logprobs, dtype=torch.float32),
                    "versions": torch.tensor(versions, dtype=torch.int32),
                }
            ]
        )
        res["rewards"] = torch.tensor([float(reward * discount)], dtype=torch.float32)
        return concat_padded_tensors([res])


def main(args):
    config, _ = load_expr_config(args, GRPOConfig)
    config: GRPOConfig
    tokenizer = load_hf_tokenizer(config.tokenizer_path)

    train_dataset = get_custom_dataset(
        split="train", dataset_config=config.train_dataset, tokenizer=tokenizer
    )
    valid_dataset = get_custom_dataset(
        split="test", dataset_config=config.valid_dataset, tokenizer=tokenizer
    )

    workflow_kwargs = {
        "reward_fn": f"{__name__}.count_sevens_reward_fn",
        "gconfig": config.gconfig,
        "tokenizer": config.tokenizer_path,
        "max_turns": 2,
    }
    eval_workflow_kwargs = workflow_kwargs.copy()
    eval_workflow_kwargs["gconfig"] = config.gconfig.new(temperature=0.6)

    with PPOTrainer(config, train_dataset=train_dataset, valid_dataset=valid_dataset) as trainer:
        trainer.train(
            workflow=f"{__name__}.CountSevensWorkflow",
            workflow_kwargs=workflow_kwargs,
            eval_workflow=f"{__name__}.CountSevensWorkflow",
            eval_workflow_kwargs=eval_workflow_kwargs,
            dynamic_filter_fn=f"{__name__}.short_enough",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
