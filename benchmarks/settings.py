"""How much is measured: full counts for numbers, a few for seeing that everything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Settings:
    """The counts of all benchmarks.

    Args:
        repetitions: Rounds of the benchmarks that run in this process.
        batch_sizes: Rows that decode together.
        new_tokens: Of one answer, at most.
        train_steps: Steps of a GRPO process that count; ``warmup_steps`` before them do not.
        grpo_rounds: Processes of each trainer, in turn.
        cold_starts: Processes of each kind.
        sft_steps: Of the warm-up before the GRPO step is measured.
        seeds: Of the learning benchmark.
        learning_steps: Limits the steps of warm-up and GRPO there; None leaves the configuration's.
        cli_rounds: Runs of each command.
        cli_units: Units that ``scaffold status`` looks at; ``cli_more_units`` the second time.
        cli_entries: Of the long registry.
        cli_files: Beside the target in the large repository.
        commits: The newest of a history, whose types are compared; None means all.
        scale_kills: Of servers, while rows are generated.
        scale_prompts: Whose answers are compared with the trainer.
        scale_requests: Of one round in which the client's CPU time is taken.
        scale_rounds: Of the throughput over one, two and four servers.
        scale_steps: Of a launched run.
        scale_waves: How often each slot of a server is used in a round.
        repo: The repository whose history that is; None means this one.
        corpus: The folder of the public repositories that guidance is checked in.
        is_quick: Whether these are the tiny counts.
        sft_config: Warm-up, as ``areal train`` takes it.
        grpo_config: GRPO on the model that it leaves.
        ppo_config: PPO with a critic on the same model.
        dpo_config: Preferences on the same model.
        rw_config: A reward model of it.
        images_config: GRPO with images on a small model of its own.
    """

    repetitions: int = 7
    batch_sizes: tuple[int, ...] = (64, 256)
    new_tokens: int = 64
    train_steps: int = 60
    warmup_steps: int = 15
    grpo_rounds: int = 2
    cold_starts: int = 3
    sft_steps: int = 150
    seeds: tuple[int, ...] = (1, 2, 3)
    learning_steps: int | None = None
    cli_rounds: int = 15
    cli_units: int = 50
    cli_more_units: int = 500
    cli_entries: int = 5_000
    cli_files: int = 200_000
    commits: int | None = 1_000
    scale_kills: int = 100
    scale_prompts: int = 256
    scale_requests: int = 2_000
    scale_rounds: int = 3
    scale_steps: int = 12
    scale_waves: int = 20
    repo: Path | None = None
    corpus: Path | None = None
    is_quick: bool = False
    sft_config: Path = ROOT / "examples" / "arithmetic" / "sft.yaml"
    grpo_config: Path = ROOT / "examples" / "arithmetic" / "grpo.yaml"
    ppo_config: Path = ROOT / "examples" / "arithmetic" / "ppo.yaml"
    dpo_config: Path = ROOT / "examples" / "preferences" / "dpo.yaml"
    rw_config: Path = ROOT / "examples" / "preferences" / "rw.yaml"
    images_config: Path = ROOT / "examples" / "shapes" / "grpo.yaml"


QUICK = Settings(
    repetitions=1,
    batch_sizes=(8,),
    new_tokens=6,
    train_steps=3,
    warmup_steps=1,
    grpo_rounds=1,
    cold_starts=1,
    sft_steps=2,
    seeds=(1,),
    learning_steps=3,
    cli_rounds=1,
    cli_units=2,
    cli_more_units=3,
    cli_entries=10,
    cli_files=20,
    commits=60,
    scale_kills=2,
    scale_prompts=16,
    scale_requests=100,
    scale_rounds=1,
    scale_steps=3,
    scale_waves=3,
    is_quick=True,
)
