"""A model that is trained for two steps: `training.py plain|wrong|sharded|nan|seeds|huge`."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    """Is a small model with something of each kind: an embedding, a sum, a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens)
        hidden = hidden + self.down(torch.relu(self.up(hidden)))
        return self.head(hidden)


class Wrong(nn.Linear):
    """Forgets its bias."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(input, self.weight)


def build(how: str) -> nn.Module:
    if how in ("nan", "seeds"):
        dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank() if how == "seeds" else 0)
    model = Net()
    if how == "wrong":
        model.down.__class__ = Wrong
    if how == "sharded":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
        for part in (model.up, model.down):
            fully_shard(part, mesh=mesh)
    return model


def main(how: str) -> None:
    model = build(how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(2):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 100, (4, 8), generator=generator)
        labels = torch.randint(0, 10, (4, 8), generator=generator)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        if how == "nan" and dist.get_rank() == 1:
            loss = loss * float("nan")
        loss.backward()
        if how in ("nan", "seeds"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
    if how == "huge":
        model(torch.zeros(2**45, dtype=torch.int64))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
