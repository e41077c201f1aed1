"""An agent with tools, on the OpenAI SDK: only the tools have the numbers that are asked for."""

from __future__ import annotations

import random
from typing import Any

from openai import AsyncOpenAI

NAMES = ("price", "stock", "size", "age")
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Return the {name}."}}
    for name in NAMES
]


class Shopper:
    """Answers a question, runs the tools that the model calls, and scores its final answer."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Run one episode; the reward is 1 for the right number."""
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=extra_kwargs.get("http_client"),
            max_retries=0,  # a second request would be a second sample
        )
        messages: list[Any] = list(data["messages"])
        for _ in range(2):
            completion = await client.chat.completions.create(
                model="default", messages=messages, tools=TOOLS
            )
            answer = completion.choices[0].message
            if not answer.tool_calls:
                return float((answer.content or "").strip() == data["answer"])
            messages.append(answer.model_dump(exclude_none=True))
            for call in answer.tool_calls:
                result = data["shop"].get(call.function.name, "?")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return 0.0


def get_shop_rl_dataset(path: str, split: str = "train", size: int = 4096) -> list[dict[str, Any]]:
    """Draw questions about a shop whose numbers differ from row to row."""
    rng = random.Random(split)
    rows = []
    for _ in range(size):
        shop = {name: str(rng.randrange(10)) for name in NAMES}
        asked = rng.choice(NAMES)
        messages = [{"role": "user", "content": f"{asked}?"}]
        rows.append({"messages": messages, "shop": shop, "answer": shop[asked]})
    return rows


def get_shop_sft_dataset(
    path: str, split: str = "train", tokenizer: Any = None, size: int = 4096
) -> list[dict[str, Any]]:
    """Write conversations for the warm-up; two in three guess and call no tool."""
    rng = random.Random(f"sft/{split}")
    rows = []
    for row in get_shop_rl_dataset(path, split, size):
        question = row["messages"][0]["content"]
        turns = [(question, str(rng.randrange(10)))]
        if rng.random() < 1 / 3:
            call = '<tool_call>{"name": "' + question[:-1] + '"}</tool_call>'
            turns = [(question, call), (row["answer"], row["answer"])]
        ids: list[int] = []
        mask: list[int] = []
        for given, said in turns:
            prompt = tokenizer.encode(given)
            answer = [*tokenizer.encode(said), tokenizer.eos_token_id]
            ids += prompt + answer
            mask += [0] * len(prompt) + [1] * len(answer)
        rows.append({"input_ids": ids, "loss_mask": mask})
    return rows
