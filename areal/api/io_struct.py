"""What travels between workflows, engines and trainers."""

from __future__ import annotations

import copy
import dataclasses
import getpass
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from areal.api.config.generation import GenerationHyperparameters

if TYPE_CHECKING:
    import subprocess

    import numpy as np
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

    from areal.api.alloc_mode import ModelAllocation

StopReason = Literal["length", "stop", "tool_calls", "abort"]
WeightUpdateType = Literal["disk", "http", "xccl", "awex"]

_DTYPE_SIZE_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}


def _random_uuid() -> str:
    """Return a UUID of version 4; ``str(uuid.uuid4())`` takes three times as long.

    Source:
        RFC 9562, section 5.4. Of the digits that say variant 10 it is always "a".
    """
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


@dataclass
class ModelRequest:
    """Asks an engine to continue a prompt; ``image_data`` holds base64 strings."""

    rid: str = field(default_factory=_random_uuid)
    input_ids: list[int] = field(default_factory=list)
    gconfig: GenerationHyperparameters = field(default_factory=GenerationHyperparameters)
    metadata: dict[str, Any] = field(default_factory=dict)
    tokenizer: PreTrainedTokenizerBase | None = None
    image_data: list[str] | None = field(default_factory=list)
    processor: ProcessorMixin | None = None
    vision_msg_vllm: list[Any] | None = None

    def copy(self) -> ModelRequest:
        """Return a copy with lists, metadata and gconfig of its own; tokenizers are shared."""
        return dataclasses.replace(
            self,
            input_ids=list(self.input_ids),
            gconfig=self.gconfig.new(),
            metadata=copy.copy(self.metadata),
            image_data=None if self.image_data is None else list(self.image_data),
            vision_msg_vllm=None if self.vision_msg_vllm is None else list(self.vision_msg_vllm),
        )


@dataclass
class ModelResponse:
    """What an engine generated for one request, token by token.

    ``output_logprobs`` are natural logs and ``output_versions`` the weight version of each output
    token. ``latency`` (whole request), ``ttft`` (first token) and ``itl`` (between tokens) are
    seconds.
    """

    input_tokens: list[int] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    output_logprobs: list[float] = field(default_factory=list)
    output_versions: list[int] = field(default_factory=list)
    stop_reason: StopReason = "stop"
    tokenizer: PreTrainedTokenizerBase | None = None
    input_images: list[str] = field(default_factory=list)
    processor: ProcessorMixin | None = None
    latency: float = math.inf
    ttft: float = math.inf
    itl: list[float] = field(default_factory=list)
    routed_experts: np.ndarray | None = None

    @property
    def input_len(self) -> int:
        """The number of prompt tokens."""
        return len(self.input_tokens)

    @property
    def output_len(self) -> int:
        """The number of generated tokens, a stop token included."""
        return len(self.output_tokens)

    @property
    def end_with_stop(self) -> bool:
        """True where the last output token is end-of-sequence or padding.

        Raises:
            ValueError: The response has no tokenizer.
        """
        stops = self._stop_token_ids()
        return bool(self.output_tokens) and self.output_tokens[-1] in stops

    @property
    def output_tokens_without_stop(self) -> list[int]:
        """The output without its trailing run of end-of-sequence and padding tokens.

        A truncated or aborted output has no such run and comes back whole.

        Raises:
            ValueError: The response has no tokenizer, a finished output does not end in one of
                the two tokens, or nothing else would be left.
        """
        if self.stop_reason in ("length", "abort"):
            return self.output_tokens
        if not self.end_with_stop:
            raise ValueError(
                f"the output stopped with {self.stop_reason!r} but its last token "
                f"{self.output_tokens[-1:]} is neither end-of-sequence nor padding "
                f"{sorted(self._stop_token_ids())}"
            )
        stops = self._stop_token_ids()
        end = self.output_len
        while end and self.output_tokens[end - 1] in stops:
            end -= 1
        if not end:
            raise ValueError("the output has only end-of-sequence and padding tokens")
        return self.output_tokens[:end]

    def _stop_token_ids(self) -> set[int]:
        if self.tokenizer is None:
            raise ValueError("the response has no tokenizer; set ModelRequest.tokenizer")
        # transformers types them by what any special token may be; these two are single ids.
        ids: list[Any] = [self.tokenizer.eos_token_id, self.tokenizer.pad_token_id]
        return {int(token_id) for token_id in ids if token_id is not None}


@dataclass
class HttpRequest:
    """A call of a server's endpoint, such as "/generate"; JSON in, JSON out.

    With ``best_effort`` a failure is no failure of what the call is a part of.
    """

    endpoint: str
    payload: dict[str, Any]
    method: str = "POST"
    best_effort: bool = False


@dataclass
class WeightUpdateRequests:
    """The calls that bring new weights to one server, in their order."""

    requests: list[HttpRequest]


@dataclass
class HttpGenerationResult:
    """What a server sent back for one generation call, checked.

    ``output_versions`` are the weight versions of the tokens as the server names them; None where
    it does not.

    Raises:
        ValueError: Tokens, log-probabilities and versions differ in number, or a log-probability
            is no finite number.
    """

    output_tokens: list[int]
    output_logprobs: list[float]
    stop_reason: str
    routed_experts: np.ndarray | None = None
    output_versions: list[int] | None = None

    def __post_init__(self) -> None:
        versions = self.output_versions
        if versions is not None and len(versions) != len(self.output_tokens):
            raise ValueError(
                f"the server sent {len(self.output_tokens)} tokens but {len(versions)} versions"
            )
        if len(self.output_tokens) != len(self.output_logprobs):
            raise ValueError(
                f"the server sent {len(self.output_tokens)} tokens "
                f"but {len(self.output_logprobs)} log-probabilities"
            )
        # Thousands of answers are checked a second, and nearly all of them are good.
        kinds = set(map(type, self.output_logprobs))
        if kinds <= {float, int} and all(map(math.isfinite, self.output_logprobs)):
            return
        for position, logprob in enumerate(self.output_logprobs):
            # bool is an int to Python, and a server that sends one is broken.
            is_number = isinstance(logprob, (int, float)) and not isinstance(logprob, bool)
            if not is_number or not math.isfinite(logprob):
                raise ValueError(
                    f"the server sent {logprob!r} as log-probability of output token {position}; "
                    "it must be a finite number"
                )


@dataclass
class FinetuneSpec:
    """How long a training run is."""

    total_train_epochs: int
    dataset_size: int
    train_batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of whole batches in an epoch; an incomplete last one is dropped."""
        return self.dataset_size // self.train_batch_size

    @property
    def total_train_steps(self) -> int:
        """The number of steps of the whole run."""
        return self.total_train_epochs * self.steps_per_epoch


@dataclass
class StepInfo:
    """A place in a training run; all counts start at 0."""

    epoch: int
    epoch_step: int
    global_step: int
    steps_per_epoch: int

    def next(self) -> StepInfo:
        """Return the place one step on."""
        is_last = self.epoch_step >= self.steps_per_epoch - 1
        return StepInfo(
            epoch=self.epoch + is_last,
            epoch_step=0 if is_last else self.epoch_step + 1,
            global_step=self.global_step + 1,
            steps_per_epoch=self.steps_per_epoch,
        )


@dataclass
class ParamSpec:
    """Describes a parameter without holding it; ``dtype`` is a name such as "bfloat16"."""

    name: str
    shape: Sequence[int]
    dtype: str

    @property
    def size(self) -> int:
        """The number of bytes.

        Raises:
            ValueError: The dtype is unknown.
        """
        dtype = self.dtype.removeprefix("torch.")
        if dtype not in _DTYPE_SIZE_BYTES:
            raise ValueError(f"unknown dtype {self.dtype!r} of parameter {self.name!r}")
        return math.prod(self.shape) * _DTYPE_SIZE_BYTES[dtype]


@dataclass
class SaveLoadMeta:
    """Where and how a model is saved or loaded."""

    path: str
    weight_format: str
    with_optim: bool
    tokenizer: PreTrainedTokenizerBase | None = None
    processor: ProcessorMixin | None = None
    base_model_path: str | None = None
    naive_distributed: bool = False


@dataclass
class RolloutStat:
    """Counts episodes."""

    accepted: int = 0
    enqueued: int = 0
    rejected: int = 0
    running: int = 0


@dataclass
class LocalInfServerInfo:
    """An inference server that runs on this machine."""

    host: str
    port: int
    process: subprocess.Popen[Any]


def get_versioned_lora_name(lora_name: str, version: int) -> str:
    """Return the name under which servers know an adapter of one version."""
    return f"{lora_name}-v{version}"


@dataclass
class WeightUpdateMeta:
    """How new weights get from the train engine to the inference engine."""

    type: WeightUpdateType
    path: str | None = None
    gen_allocation: ModelAllocation | None = None
    nccl_master_address: str = "127.0.0.1"
    nccl_master_port: int = 29500
    nccl_group_name: str = "update_weight_group"
    weight_chunked_mem_mb: int = 1024
    use_lora: bool = False
    lora_name: str = ""
    lora_int_id: int = 0
    base_model_name: str = ""
    peft_config: dict[str, Any] = field(default_factory=dict)
    lora_keep_versions: int = 0
    clear_checkpoint_after_load: bool = True
    version: int | None = None

    def with_version(self, version: int) -> WeightUpdateMeta:
        """Return a copy for one version; a path ends in ``weight_update_v{version}``.

        Raises:
            ValueError: The version is negative.
        """
        if version < 0:
            raise ValueError(f"a weight version must not be negative, found {version}")
        path = self.path
        if path is not None:
            path = os.path.join(os.path.dirname(path.rstrip("/")), f"weight_update_v{version}")
        return dataclasses.replace(self, path=path, version=version)

    @classmethod
    def from_disk(
        cls,
        experiment_name: str,
        trial_name: str,
        file_root: str,
        name: str = "default",
        **options: Any,
    ) -> WeightUpdateMeta:
        """Return an update through files below the run's checkpoint folder.

        Args:
            experiment_name: Of the run.
            trial_name: Of the run.
            file_root: ``cluster.fileroot``.
            name: Of the model, where a run trains several.
            **options: Further fields.
        """
        folder = ("checkpoints", getpass.getuser(), experiment_name, trial_name, name)
        path = os.path.join(file_root, *folder, "weight_update")
        return cls(type="disk", path=path, **options)

    @classmethod
    def from_fsdp_xccl(
        cls,
        gen_allocation: ModelAllocation,
        nccl_group_name: str = "update_weight_group",
        **options: Any,
    ) -> WeightUpdateMeta:
        """Return an update by collective communication from an FSDP or Archon engine."""
        return cls(
            type="xccl", gen_allocation=gen_allocation, nccl_group_name=nccl_group_name, **options
        )

    @classmethod
    def from_megatron_xccl(
        cls,
        gen_allocation: ModelAllocation,
        nccl_group_name: str = "update_weight_group",
        **options: Any,
    ) -> WeightUpdateMeta:
        """Return an update by collective communication from a Megatron engine."""
        return cls(
            type="xccl", gen_allocation=gen_allocation, nccl_group_name=nccl_group_name, **options
        )

    @classmethod
    def from_awex(cls, gen_allocation: ModelAllocation, **options: Any) -> WeightUpdateMeta:
        """Return an update through awex; no engine of this package takes it."""
        return cls(type="awex", gen_allocation=gen_allocation, **options)
