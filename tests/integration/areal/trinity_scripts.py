"""What runs in the interpreter that has trinity-rft, and beside it in the one that has not.

    python -m tests.integration.areal.trinity_scripts NAME [ARGUMENT]

Each prints one JSON value as its last line.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import importlib
import json
import os
import sys
import threading
import typing
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.experimental.trinity import TrinityWorkflow, as_trinity_workflow
from areal.experimental.trinity.model import EpisodeModel
from areal.experimental.trinity.package import load_package
from areal.reward.arithmetic import arithmetic_reward_fn
from areal.workflow import RLVRWorkflow
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+-*/=() ?.")
GCONFIG = GenerationHyperparameters(max_new_tokens=8)
REPEATS = 3
MODES = ("sequential", "asynchronous", "multi-threading")
ROWS = [{"prompt": "1+1=", "response": "2"}, {"prompt": "12+34=", "response": "46"}]


def keys() -> dict[str, str]:
    """Returns the kind of every key of the configuration; entries of lists are ``name[]``."""
    config = importlib.import_module("trinity.common.config")
    return dict(_keys(config.Config, "", ()))


def _kind(hint: Any) -> str:
    """Returns the name of the plain type that a field's value is written as."""
    found = next((each for each in typing.get_args(hint) if each is not type(None)), hint)
    if typing.get_origin(hint) in (list, dict):
        found = typing.get_origin(hint)
    if dataclasses.is_dataclass(found):
        return "dict"
    is_choice = isinstance(found, type) and issubclass(found, enum.Enum)
    return "str" if is_choice else getattr(found, "__name__", str(found))


def _keys(kind: Any, prefix: str, above: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        key = f"{prefix}{field.name}"
        yield key, _kind(hints[field.name])
        for part in (hints[field.name], *typing.get_args(hints[field.name])):
            if dataclasses.is_dataclass(part) and part not in above:
                is_list = typing.get_origin(hints[field.name]) is list
                yield from _keys(part, f"{key}{'[]' if is_list else ''}.", (*above, part))


def _workflows(package: Any) -> dict[str, Any]:
    step_wise = importlib.import_module("trinity.common.workflows.step_wise_workflow")
    base = importlib.import_module("trinity.common.workflows.workflow")

    class Steps(step_wise.RewardPropagationWorkflow):
        max_step_num = 3

        def step(self, step_num: int) -> bool:
            asked = [{"role": "user", "content": self.task.raw_task["prompt"]}]
            client = self.client
            answer = client.chat.completions.create(model=client.model_path, messages=asked)
            return answer.choices[0].message.content != "2"

        def reward(self, exps: list[Any]) -> float:
            return len(exps) / 4

    class Turns(base.MultiTurnWorkflow):
        is_async = True

        async def run_async(self) -> list[Any]:
            said = [{"role": "user", "content": self.task.raw_task["prompt"]}]
            for more in ("3+3=", None):
                text = (await self.model.chat_async(said))[0].response_text
                said.append({"role": "assistant", "content": text})
                if more:
                    said.append({"role": "user", "content": more})
            info = {"turns": 2, "note": "x"}
            return [await self.process_messages_to_experience_async(said, 0.5, info)]

    return {
        "math": "math_workflow",
        "async_math": "async_math_workflow",
        "steps": Steps,
        "turns": Turns,
    }


def trajectories() -> dict[str, Any]:
    """Returns what each workflow gives for each row, on an engine that says 2."""
    package = load_package()
    engine = InstantEngine(lambda _: [*TOKENIZER.encode("2"), TOKENIZER.eos_token_id], 3)
    found: dict[str, Any] = {}
    for name, kind in _workflows(package).items():
        workflow = TrinityWorkflow(kind, GCONFIG, TOKENIZER)
        for i, row in enumerate(ROWS):
            tensors = asyncio.run(workflow.arun_episode(engine, dict(row)))
            assert tensors is not None
            found[f"{name}/{i}"] = {
                key: value if key == "info" else value.tolist() for key, value in tensors.items()
            }
    return {"version": package.version, "found": found}


RESPONSES = (
    "4",
    "first 5, then 4",
    "\\boxed{4}",
    "<answer>4",
    "<answer>3</answer> 4",
    "<think>5</think><answer>4</answer>",
    "so: <think>5</think> <answer>the result is \\boxed{4}</answer>\n",
    "<think>\n5\n</think>\n<answer>\n4\n</answer>",
    "<think>\\boxed{5}</think>\\boxed{4}",
    "",
)


def contracts() -> dict[str, Any]:
    """Returns what workflow files rely on: scores, flags, kinds of experience, keywords."""
    package = load_package()
    rewards = importlib.import_module("trinity.common.rewards.math_reward")
    base = importlib.import_module("trinity.common.workflows.workflow")
    step_wise = importlib.import_module("trinity.common.workflows.step_wise_workflow")
    kinds = (base.SimpleWorkflow, base.AsyncSimpleWorkflow, base.MathWorkflow)
    made = {
        "plain": {},
        "masked": {"action_mask": [1, 0]},
        "pair": {"chosen": [4], "rejected": [5]},
        "told": {"reward": 1, "truncate_status": "response_truncated", "tools": [{"x": 1}]},
        "noted": {"info": {"a": [1]}, "messages": [{"role": "user", "content": "?"}]},
    }
    identity = {"batch": "b", "task": "t", "run": 1, "step": 2, "suffix": "s"}
    experiences = [
        package.Experience(eid=dict(identity), tokens=[1, 2, 3], **given) for given in made.values()
    ]
    called: list[list[str]] = []

    class Steps(step_wise.StepWiseRewardWorkflow):
        max_step_num = 1

        def step(self, *args: Any, **kwargs: Any) -> bool:
            called.append([*map(str, args), *kwargs])
            return True

        def reward(self, *args: Any, **kwargs: Any) -> float:
            called.append([str(len(args)), *kwargs])
            return 1.0

    model = EpisodeModel(TOKENIZER, GCONFIG, package.Experience)
    Steps(task=package.Task(raw_task={}), model=model).run()
    prompt_type = type(package.FormatConfig().prompt_type)
    return {
        "scores": {
            kind.__name__: [kind()(response=text, truth="4") for text in RESPONSES]
            for kind in (rewards.MathRewardFn, rewards.MathBoxedRewardFn)
        },
        "form": [rewards.FormatReward()(response=text) for text in RESPONSES],
        "flags": [
            [k.can_reset, k.can_repeat, k.is_async] for k in (*kinds, base.AsyncMathWorkflow)
        ],
        "is_math": issubclass(base.AsyncMathWorkflow, base.MathWorkflow),
        "experiences": [each.to_dict() for each in experiences],
        "again": [
            package.Experience.deserialize(each.serialize()).to_dict() for each in experiences
        ],
        "steps": called,
        "prompt_types": [prompt_type(text).value for text in ("PLAINTEXT", "Messages")],
    }


def squares() -> dict[str, int]:
    """Returns how many experiences the package's runner gets of three repeats of a task.

    "guide" is what its guide shows, n of rollout_args in every run; "ours" leaves n out.
    """
    package = load_package()

    class Guide(package.Workflow):
        def run(self) -> list[Any]:
            asked = [{"role": "user", "content": "1+1="}]
            answers = self.model.chat(asked, n=self.task.rollout_args.n)
            for answer in answers:
                answer.reward = 1.0
            return answers

    class Ours(Guide):
        def run(self) -> list[Any]:
            answers = self.model.chat([{"role": "user", "content": "1+1="}])
            answers[0].reward = 1.0
            return answers

    model = runner_model(package)
    kinds = {"guide": Guide, "ours": Ours}
    ran = {
        name: run_in("sequential", package, kind, model, ROWS[0]) for name, kind in kinds.items()
    }
    return {name: len(experiences) for name, experiences in ran.items()}


def ours_there(model_path: str = "") -> dict[str, Any]:
    """Returns an arithmetic episode of ours, here and in the package's runner, on one server."""
    from openai import AsyncOpenAI  # the interpreter under test has it

    package = load_package()
    row = {"messages": [{"role": "user", "content": "7+8="}], "answer": "15"}
    greedy = GenerationHyperparameters(max_new_tokens=8, greedy=True)

    class Wrapper:
        model_version = 5
        enable_history = True

        def __init__(self, url: str) -> None:
            self.model_path, self.url = model_path, url

        @property
        async def model_version_async(self) -> int:
            return 5

        async def clean_workflow_state(self) -> None:
            """Has none."""

        def clone_with_isolated_history(self) -> Wrapper:
            return self

        def get_openai_async_client(self) -> Any:
            client: Any = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none")
            client.model_path = model_path
            return client

    with _serving(model_path) as (engine, tokenizer, url):
        ours = RLVRWorkflow(arithmetic_reward_fn, greedy, tokenizer)
        here = asyncio.run(ours.arun_episode(engine, dict(row)))
        kind = as_trinity_workflow(RLVRWorkflow, reward_fn=arithmetic_reward_fn)
        there = {
            mode: [
                [each.tokens.tolist(), each.prompt_length, each.reward]
                for each in run_in(mode, package, kind, Wrapper(url), row, temperature=0.0)
            ]
            for mode in MODES
        }
    assert here is not None
    start = int(here["loss_mask"][0].argmax())
    return {
        "here": [here["input_ids"][0].tolist(), start, float(here["rewards"][0])],
        "there": there,
    }


class _NoVllm(ModuleType):
    """Stands where vllm is asked for by name alone: an external engine runs none of it."""

    __path__: ClassVar[list[str]] = []
    __version__ = "0.10.2"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _FindNoVllm:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("vllm") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _NoVllm(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Has nothing to run."""


def external(model_path: str = "") -> dict[str, Any]:
    """Returns what the package's own wrapper of type external gets of our server."""
    # The real wrapper is imported in the place of ours, which is for where vllm is missing.
    sys.meta_path.insert(0, _FindNoVllm())  # type: ignore[arg-type]  # has what import calls
    package = load_package()
    config = importlib.import_module("trinity.common.config")
    allocator = importlib.import_module("trinity.common.models.allocator")
    row = {"messages": [{"role": "user", "content": "7+8="}], "answer": "15"}
    greedy = GenerationHyperparameters(max_new_tokens=8, greedy=True)

    async def asked(wrapper: Any) -> dict[str, Any]:
        await wrapper.prepare()
        client = wrapper.get_openai_async_client()
        words = {"model": client.model_path, "messages": row["messages"]}
        await client.chat.completions.create(**words, temperature=0.0, max_tokens=8)
        (recorded,) = wrapper.extract_experience_from_history()
        kind = as_trinity_workflow(RLVRWorkflow, reward_fn=arithmetic_reward_fn)
        sampling = package.GenerationConfig(temperature=0.0, max_tokens=8)
        task = package.Task(workflow=kind, raw_task=dict(row), rollout_args=sampling)
        (ran,) = await task.to_workflow(wrapper).run_async()
        return {
            "recorded": [recorded.tokens.tolist(), recorded.prompt_length],
            "logprobs": [recorded.logprobs.tolist(), ran.logprobs.tolist()],
            "ran": [ran.tokens.tolist(), ran.prompt_length],
            "reward": ran.reward,
        }

    with _serving(model_path) as (engine, tokenizer, url):
        os.environ["MY_SERVER"] = url
        address = config.ExternalModelConfig(enable=True, base_url_env="MY_SERVER")
        settings = config.InferenceModelConfig(
            model_path=model_path,
            engine_type="external",
            enable_openai_api=True,
            enable_history=True,
            external_model_config=address,
        )

        async def wrapped() -> dict[str, Any]:
            return await asked(await allocator.get_external_model_wrapper(settings))

        found = asyncio.run(wrapped())
        ours = RLVRWorkflow(arithmetic_reward_fn, greedy, tokenizer)
        here = asyncio.run(ours.arun_episode(engine, dict(row)))
    assert here is not None
    start = int(here["loss_mask"][0].argmax())
    return {
        **found,
        "here": [here["input_ids"][0].tolist(), start],
        "here_logprobs": here["logprobs"][0][start:].tolist(),
        "here_reward": float(here["rewards"][0]),
    }


@contextlib.contextmanager
def _serving(model_path: str) -> Iterator[tuple[Any, Any, str]]:
    """Gives the engine of a checkpoint, its tokenizer, and the address where it is served."""
    from areal.engine.local.engine import LocalInferenceEngine
    from areal.engine.local.server import InferenceServer
    from areal.trainer.serve import load_checkpoint
    from areal.utils.hf_utils import load_hf_tokenizer

    tokenizer = load_hf_tokenizer(model_path)
    weights, _, seed = load_checkpoint(model_path, "fsdp:d1")
    engine = LocalInferenceEngine(InferenceEngineConfig(backend="local:d1"), weights, seed)
    engine.initialize()
    server = InferenceServer(engine, tokenizer, model_path)
    try:
        yield engine, tokenizer, server.start()
    finally:
        server.stop()
        engine.destroy()


def on_ray() -> list[int]:
    """Returns the runs that the package's runner makes of a task in an actor of Ray."""
    import ray  # the interpreter under test has it

    @ray.remote
    class Actor:
        def run(self) -> list[int]:
            package = load_package()
            kind = importlib.import_module("trinity.common.workflows.workflow").MathWorkflow
            ran = run_in("asynchronous", package, kind, runner_model(package), ROWS[0])
            return sorted(each.eid.run for each in ran)

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        runs: list[int] = ray.get(Actor.remote().run.remote(), timeout=120)
    finally:
        ray.shutdown()
    return runs


def run_in(
    mode: str, package: Any, kind: Any, model: Any, row: dict[str, Any], temperature: float = 1.0
) -> list[Any]:
    """Returns the experiences of a task that the package's own runner repeats."""
    runner = importlib.import_module("trinity.explorer.workflow_runner")
    config = importlib.import_module("trinity.common.config").Config()
    config.explorer.concurrent_mode = mode
    config.explorer.rollout_model.enable_history = True

    class Allocator:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

        def get_model(self, *args: Any, **kwargs: Any) -> Any:
            return model

    runner.Allocator = Allocator
    sampling = package.GenerationConfig(temperature=temperature, max_tokens=8, n=REPEATS)
    task = package.Task(
        workflow=kind, repeat_times=REPEATS, raw_task=row, rollout_args=sampling, batch_id="0"
    )
    status, data = asyncio.run(runner.WorkflowRunner(config, 0).run_task(task, "0", REPEATS, 0))
    assert status.completed_runs == REPEATS, status.message
    return list(package.Experience.deserialize_many(data))


def runner_model(package: Any) -> Any:
    """Returns a model for the package's runner, which calls from several threads and loops."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    class Model(EpisodeModel):
        async def clean_workflow_state(self) -> None:
            """Has none."""

        def chat(self, messages: Any, **kwargs: Any) -> Any:
            work = EpisodeModel.chat_async(self, messages, **kwargs)
            return asyncio.run_coroutine_threadsafe(work, loop).result()

    gconfig = GCONFIG.new_with_stop_and_pad_token_ids(TOKENIZER)
    model = Model(TOKENIZER, gconfig, package.Experience)
    engine = InstantEngine(lambda _: [*TOKENIZER.encode("2"), TOKENIZER.eos_token_id], 3)

    async def begin() -> None:
        model.open(engine)

    asyncio.run_coroutine_threadsafe(begin(), loop).result()
    return model


SCRIPTS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (keys, trajectories, contracts, squares, ours_there, external, on_ray)
}

if __name__ == "__main__":
    print(json.dumps(SCRIPTS[sys.argv[1]](*sys.argv[2:])))
