"""The targets, and nothing else: the one place where numbers stand that were not measured.

They are for two CPU cores and, where CPU seconds are meant, for one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """Bounds a measured number or the ratio to the reference.

    Args:
        on: What is bounded.
        op: From which side.
        bound: By how much, in the result's unit.
    """

    on: Literal["measured", "ratio"]
    op: Literal[">=", "<=", "<", ">"]
    bound: float

    def is_met(self, value: float) -> bool:
        """Return whether a value keeps the bound."""
        return {
            ">=": value >= self.bound,
            "<=": value <= self.bound,
            "<": value < self.bound,
            ">": value > self.bound,
        }[self.op]

    def text(self, unit: str) -> str:
        """Return the bound for the table: ">= 1.3x" or "< 10 s"."""
        return f"{self.op} {self.bound:g}" + ("x" if self.on == "ratio" else f" {unit}".rstrip())


TARGETS: dict[str, Target] = {
    # Equal but for the noise of a round.
    "archon.fp32.fill_100.hf_padded": Target("ratio", ">=", 0.95),
    "archon.fp32.fill_30.hf_packed": Target("ratio", ">=", 0.95),
    "archon.fp32.fill_30.hf_padded": Target("ratio", ">=", 3.0),
    "cli.add": Target("measured", "<=", 24),
    "cli.add_files": Target("ratio", ">=", 0.9),
    "cli.help": Target("measured", "<=", 5),
    "cli.noop": Target("measured", "<=", 7),
    "cold_start.grpo": Target("measured", "<", 10),
    "cold_start.sft": Target("measured", "<", 10),
    "commits.type": Target("measured", ">=", 0.9),
    "decode.drift": Target("measured", "<", 1e-5),
    "decode.equal.256": Target("ratio", ">=", 1.5),
    "decode.equal.64": Target("ratio", ">=", 1.3),
    "decode.greedy": Target("measured", ">=", 1.0),
    "decode.uneven.256": Target("ratio", ">=", 2.4),
    "decode.uneven.64": Target("ratio", ">=", 1.6),
    "grpo_step.cpu": Target("measured", "<=", 0.105),
    "grpo_step.memory": Target("measured", "<", 550),
    "grpo_step.memory_share": Target("ratio", ">=", 1.1),
    "kinds.clean": Target("measured", ">=", 1.0),
    "kinds.found": Target("measured", ">=", 0.9),
    "kinds.sound": Target("measured", ">=", 1.0),
    "kinds.wrong": Target("measured", "<=", 0),
    "learning.dpo.end": Target("measured", ">", 0.95),
    "learning.dpo.seeds": Target("measured", ">=", 1.0),
    "learning.dpo.start": Target("measured", "<", 0.8),
    "learning.dpo.time": Target("measured", "<=", 60),
    "learning.grpo.end": Target("measured", ">", 0.95),
    "learning.grpo.seeds": Target("measured", ">=", 1.0),
    "learning.grpo.start": Target("measured", "<", 0.5),
    "learning.grpo.time": Target("measured", "<=", 60),
    "learning.ppo.end": Target("measured", ">", 0.95),
    "learning.ppo.seeds": Target("measured", ">=", 1.0),
    "learning.ppo.start": Target("measured", "<", 0.5),
    "learning.ppo.time": Target("measured", "<=", 60),
    "learning.rw.end": Target("measured", ">", 0.95),
    "learning.rw.seeds": Target("measured", ">=", 1.0),
    "learning.rw.start": Target("measured", "<", 0.8),
    "learning.rw.time": Target("measured", "<=", 60),
    "learning.sft.end": Target("measured", ">", 0.95),
    "learning.sft.seeds": Target("measured", ">=", 1.0),
    "learning.sft.start": Target("measured", "<", 0.5),
    "learning.sft.time": Target("measured", "<=", 60),
    "pairs.dpo.loss": Target("measured", "<=", 1e-6),
    "pairs.rw.loss": Target("measured", "<=", 1e-6),
    # The header of the file is 0.2 % of the benchmark's model.
    "scale.bytes.disk.read": Target("measured", "<=", 1.01),
    "scale.bytes.disk.written": Target("measured", "<=", 1.01),
    "scale.bytes.group.read": Target("measured", "<=", 1.0),
    "scale.bytes.http.read": Target("measured", "<=", 1.01),
    "scale.client_cpu.512": Target("measured", "<=", 0.5),
    "scale.client_cpu.64": Target("measured", "<=", 0.5),
    "scale.drift": Target("measured", "<=", 1e-5),
    "scale.lost": Target("measured", "<=", 0),
    "scale.repeated": Target("measured", "<=", 0),
    "scale.servers.2": Target("ratio", ">=", 1.9),
    "scale.servers.4": Target("ratio", ">=", 3.7),
    "scale.simulation.asynchronous": Target("measured", "<=", 15),
    "scale.simulation.synchronous": Target("measured", "<=", 15),
    "scale.standstill": Target("measured", "<=", 20),
    "skills.large.memory": Target("measured", "<", 500),
    "skills.large.wall": Target("measured", "<", 10),
    "skills.wall.25": Target("measured", "<", 0.5),
    "skills.wall.1000": Target("measured", "<", 5),
    "packing.fill_100": Target("ratio", ">=", 1.1),
    "packing.fill_30": Target("ratio", ">=", 3.0),
}
