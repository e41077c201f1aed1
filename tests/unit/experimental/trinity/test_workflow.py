from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError, TrajectoryError
from areal.experimental.trinity import TrinityWorkflow, as_trinity_workflow
from areal.experimental.trinity.export import EndpointEngine
from areal.experimental.trinity.model import EpisodeModel
from areal.experimental.trinity.package import load_package
from areal.infra import workflow_context
from areal.infra.trajectory import check_trajectory
from areal.reward.arithmetic import arithmetic_reward_fn
from areal.utils import stats_tracker
from areal.workflow import RLVRWorkflow
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+=")
ROW = {"prompt": "12+34=", "response": "46"}
GCONFIG = GenerationHyperparameters(max_new_tokens=8)
PACKAGE = load_package()
ASK = [{"role": "user", "content": "12+34="}]


def ids(text: str) -> list[int]:
    return [*TOKENIZER.encode(text), TOKENIZER.eos_token_id]


def answering(text: str = "46", version: int = 3) -> InstantEngine:
    return InstantEngine(lambda _: ids(text), version)


def run(kind: Any, engine: Any = None, row: dict[str, Any] = ROW, **options: Any) -> Any:
    gconfig = options.pop("gconfig", GCONFIG)
    workflow = TrinityWorkflow(kind, gconfig, TOKENIZER, **options)
    return asyncio.run(workflow.arun_episode(engine or answering(), row))


def plain(trajectory: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() for key, value in trajectory.items()}


class Sync(PACKAGE.Workflow):
    """Asks once, in a thread."""

    def run(self) -> list[Any]:
        answer = self.model.chat(ASK)[0]
        answer.reward = float(answer.response_text == self.task.truth)
        return [answer]


class Async(PACKAGE.Workflow):
    """Asks once, on the loop."""

    is_async = True

    async def run_async(self) -> list[Any]:
        answer = (await self.model.chat_async(ASK))[0]
        answer.reward = float(answer.response_text == self.task.truth)
        return [answer]


class Rebuilding(Sync):
    """Makes a new experience of what an answer said."""

    def run(self) -> list[Any]:
        old = super().run()[0]
        kept = {"tokens": old.tokens, "prompt_length": old.prompt_length, "reward": old.reward}
        return [PACKAGE.Experience(**kept, logprobs=old.logprobs)]


@pytest.mark.parametrize("kind", [Sync, Async, Rebuilding])
def test_a_trinity_workflow_gives_the_trajectory_of_one_of_ours(kind: Any) -> None:
    trajectory = run(kind)
    info = trajectory.pop("info")
    ours = asyncio.run(
        RLVRWorkflow(arithmetic_reward_fn, GCONFIG, TOKENIZER).arun_episode(
            answering(), {"messages": ASK, "answer": "46"}
        )
    )
    assert ours is not None
    check_trajectory(trajectory, "Trinity")
    assert plain(trajectory) == plain(ours)
    assert info == [{}]


def test_a_response_that_no_answer_has_counts_as_of_now_and_as_a_miss() -> None:
    class Editing(Rebuilding):
        def run(self) -> list[Any]:
            made = super().run()[0]
            made.tokens[-2] += 1
            return [made]

    stats_tracker.get("rollout").export(reset=True)
    trajectory = run(Editing, answering(version=7))
    assert trajectory["versions"][0, -3:].tolist() == [7, 7, 7]
    assert stats_tracker.get("rollout").export(reset=True)["rollout/unknown_versions"] == 1


def test_one_run_gives_one_experience_however_often_a_task_repeats() -> None:
    class Guided(Sync):
        """What the package's guide shows: n of rollout_args in every run."""

        def run(self) -> list[Any]:
            answers = self.model.chat(ASK, n=self.task.rollout_args.n)
            for answer in answers:
                answer.reward = 0.0
            return answers

    class Repeating(Guided):
        can_repeat = True

        def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
            self.task.rollout_args.n = repeat_times
            self.seen = (repeat_times, run_id_base)

        def run(self) -> list[Any]:
            assert self.seen == (1, 2)
            return super().run()

    async def grouped(kind: Any) -> Any:
        context = workflow_context.WorkflowContext(task_id=0, sample_idx=2)
        workflow_context.set(context)
        gconfig = GCONFIG.new(n_samples=4)
        return await TrinityWorkflow(kind, gconfig, TOKENIZER).arun_episode(answering(), ROW)

    for kind in (Guided, Repeating):
        assert len(asyncio.run(grouped(kind))["rewards"]) == 1


def test_n_in_rollout_args_is_refused_because_the_task_repeats() -> None:
    with pytest.raises(ConfigError, match=r"rollout_args\.n is 4.*repeat_times"):
        TrinityWorkflow(Sync, GCONFIG, TOKENIZER, rollout_args={"n": 4})


def test_a_resettable_object_serves_one_episode_after_the_other_with_its_own_task() -> None:
    made: list[Any] = []

    class Forgetful(Sync):
        can_reset = True

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            made.append(self)

        def reset(self, task: Any) -> None:
            """Forgets to set the task, as the reset of release 0.6.0 does."""

    workflow = TrinityWorkflow(Forgetful, GCONFIG, TOKENIZER)

    async def episodes() -> list[float]:
        rewards = []
        for truth in ("46", "47", "46"):
            row = {"prompt": "12+34=", "response": truth}
            found = await workflow.arun_episode(answering(), row)
            rewards.append(float(found["rewards"][0]))
        together = [workflow.arun_episode(answering(), ROW) for _ in range(3)]
        await asyncio.gather(*together)
        return rewards

    assert asyncio.run(episodes()) == [1.0, 0.0, 1.0]
    assert len(made) == 3  # one by one they share an object, at once each has its own


class _Returning(PACKAGE.Workflow):
    is_async = True
    change: Any = None

    async def run_async(self) -> Any:
        answer = (await self.model.chat_async(ASK))[0]
        answer.reward = 1.0
        return type(self).change(answer)


def _with(**changes: Any) -> Any:
    def change(answer: Any) -> list[Any]:
        for name, value in changes.items():
            setattr(answer, name, value)
        return [answer]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [], "returned no experience"),
        (lambda _: None, "returned NoneType, expected a list"),
        (lambda answer: [answer, None], "a list with NoneType in it, expected experiences alone"),
        (_with(reward=None), "whose reward is None"),
        (_with(reward={"right": 1.0}), r"whose reward is \{'right': 1.0\}, expected a number"),
        (_with(action_mask=[True]), r"action_mask has the shape \[1\], and its response 3 tokens"),
        (_with(token_level_reward=[1.0] * 9), r"token_level_reward has the shape \[9\]"),
        (_with(logprobs=None, tokens=[5, 6, 7, 8, 9, 4, 4, 4, 4]), "without logprobs"),
        (_with(teacher_logprobs=[0.0] * 3), "with teacher_logprobs"),
        (_with(multi_modal_inputs={"pixel_values": 1}), "with multi_modal_inputs"),
        (_with(chosen=[1]), "with chosen"),
        (_with(advantages=[1.0] * 3), "with advantages"),
    ],
)
def test_what_cannot_be_trained_on_rejects_the_episode_with_what_to_do(
    change: Any, message: str
) -> None:
    kind = type("Wrong", (_Returning,), {"change": staticmethod(change)})
    with pytest.raises(TrajectoryError, match=f"workflow Wrong .*{message}"):
        run(kind)


def test_a_synchronous_call_on_the_loop_is_refused_with_a_hint() -> None:
    class Blocking(PACKAGE.Workflow):
        is_async = True

        async def run_async(self) -> list[Any]:
            return self.model.chat(ASK)

    with pytest.raises(RuntimeError, match="await chat_async, or let the class be synchronous"):
        run(Blocking)


def test_a_synchronous_client_on_the_loop_is_refused_with_the_one_to_take() -> None:
    class Blocking(PACKAGE.Workflow):
        is_async = True

        async def run_async(self) -> list[Any]:
            client = self.model.get_openai_client()
            return client.chat.completions.create(model="m", messages=ASK)

    with pytest.raises(RuntimeError, match=r"take get_openai_async_client\(\), or let"):
        run(Blocking)


class HomeEngine(InstantEngine):
    """Serves the loop of the episode alone, as a client of HTTP does."""

    home: Any = None

    async def agenerate(self, req: Any) -> Any:
        assert asyncio.get_running_loop() is self.home
        return await super().agenerate(req)


class OwnLoop(Sync):
    """Runs an event loop of its own in its thread, and asks in both ways."""

    def run(self) -> list[Any]:
        async def asked() -> None:
            await asyncio.gather(*(self.model.chat_async(ASK) for _ in range(2)))
            client = self.model.get_openai_async_client()
            await client.chat.completions.create(model=client.model_path, messages=ASK)

        asyncio.run(asked())
        answers = self.model.extract_experience_from_history()
        for answer in answers:
            answer.reward = 1.0
        return list(answers)


def test_a_loop_in_the_thread_of_a_workflow_reaches_the_engine_of_the_episode() -> None:
    engine = HomeEngine(lambda _: ids("46"), 3)

    async def episode() -> Any:
        engine.home = asyncio.get_running_loop()
        return await TrinityWorkflow(OwnLoop, GCONFIG, TOKENIZER).arun_episode(engine, ROW)

    assert asyncio.run(episode())["rewards"].tolist() == [1.0] * 3


def test_what_hangs_is_left_behind_and_can_ask_no_more() -> None:
    may_go_on, ended = threading.Event(), threading.Event()
    refusals: list[BaseException] = []

    class Hanging(Sync):
        def run(self) -> list[Any]:
            may_go_on.wait(30)
            try:
                return super().run()
            except Exception as error:
                refusals.append(error)
                raise
            finally:
                ended.set()

    async def stopped() -> None:
        workflow = TrinityWorkflow(Hanging, GCONFIG, TOKENIZER)
        episode = asyncio.create_task(workflow.arun_episode(answering(), ROW))
        await asyncio.sleep(0)
        episode.cancel()
        await asyncio.wait([episode], timeout=5)
        assert episode.cancelled()
        may_go_on.set()
        await asyncio.to_thread(ended.wait, 30)

    asyncio.run(stopped())
    assert "outside of an episode" in str(refusals[0])


def test_synchronous_episodes_wait_at_the_same_time() -> None:
    count = 64
    all_here = threading.Barrier(count)

    class Meeting(Sync):
        def run(self) -> list[Any]:
            all_here.wait(60)
            return super().run()

    async def episodes() -> list[Any]:
        workflow = TrinityWorkflow(Meeting, GCONFIG, TOKENIZER)
        return await asyncio.gather(
            *(workflow.arun_episode(answering(), ROW) for _ in range(count))
        )

    assert len(asyncio.run(episodes())) == count


class Steps(PACKAGE.Workflow):
    """Two steps, of which the second goes on with the tokens of the first."""

    is_async = True
    rewards = (1.0, 1.0)

    async def run_async(self) -> list[Any]:
        first = (await self.model.chat_async(ASK))[0]
        said = [*ASK, {"role": "assistant", "content": first.response_text}]
        said.append({"role": "user", "content": "1+1="})
        second = (await self.model.chat_async(said))[0]
        for step, each in enumerate((second, first)):
            each.reward, each.eid.step = self.rewards[step], 1 - step
        return [second, first]


def test_steps_become_rows_of_their_own_in_their_order() -> None:
    trajectory = run(Steps)
    check_trajectory(trajectory, "Steps")
    assert trajectory["input_ids"].shape[0] == 2
    assert trajectory["attention_mask"].sum(1).tolist() == [9, 16]


def test_steps_that_go_on_with_each_other_can_become_one_row() -> None:
    trajectory = run(Steps, merges_steps=True)
    assert trajectory["input_ids"].tolist() == [
        TOKENIZER.encode("12+34=") + ids("46") + TOKENIZER.encode("1+1=") + ids("46")
    ]
    assert trajectory["loss_mask"].sum() == 6
    assert sorted(set(trajectory["turn_ids"][0].tolist())) == [-1, 0, 1]
    assert trajectory["rewards"].tolist() == [1.0]  # the reward of the run, not of its steps


def test_merged_steps_of_unequal_rewards_are_paid_where_they_end() -> None:
    kind = type("Unequal", (Steps,), {"rewards": (2.0, 0.5)})
    trajectory = run(kind, merges_steps=True)
    assert trajectory["rewards"].tolist() == [2.5]
    paid = trajectory["token_rewards"][0]
    assert {int(i): float(paid[i]) for i in paid.nonzero()} == {8: 0.5, 15: 2.0}


def test_rewards_of_tokens_are_carried_and_their_sum_is_the_reward() -> None:
    change = _with(token_level_reward=[0.5, 0.0, 1.0])
    trajectory = run(type("PerToken", (_Returning,), {"change": staticmethod(change)}))
    assert trajectory["token_rewards"].tolist() == [[0.0] * 6 + [0.5, 0.0, 1.0]]
    assert trajectory["rewards"].tolist() == [1.5]


def test_metrics_go_to_the_statistics_and_info_to_the_row() -> None:
    change = _with(metrics={"accuracy": 1.0}, info={"note": "well done"})
    stats_tracker.get("rollout").export(reset=True)
    trajectory = run(type("Noting", (_Returning,), {"change": staticmethod(change)}))
    assert stats_tracker.get("rollout").export(reset=True)["rollout/accuracy"] == 1.0
    assert trajectory["info"] == [{"note": "well done"}]


def test_a_row_may_choose_its_workflow_and_its_reward(tmp_path: Path) -> None:
    row = {**ROW, "w": "math_workflow", "r": "accuracy_reward"}
    keys = {"workflow_key": "w", "reward_fn_key": "r"}
    trajectory = run(Sync, answering("46"), row, format_args=keys)
    assert trajectory["rewards"].tolist() == [0.0]  # nothing is boxed


def test_a_row_that_names_nothing_rejects_its_own_episode() -> None:
    for key in ("workflow_key", "reward_fn_key"):
        with pytest.raises(
            TrajectoryError, match=r"a row of Sync: .*'nothing' is not a registered"
        ):
            run(Sync, row={**ROW, "w": "nothing"}, format_args={key: "w"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format_args": {"promt_key": "q"}}, "did you mean 'prompt_key'"),
        ({"format_args": {"image_key": "i"}}, "images and videos are not carried"),
        ({"format_args": {"prompt_type": "chat"}}, "prompt_type is 'chat'; known: messages, plain"),
        ({"format_args": ["prompt_key"]}, "format_args is .*, expected keys and values"),
        ({"auxiliary_models": [{"url": "x"}]}, "auxiliary_models has no 'url'"),
        ({"auxiliary_models": [{"base_url": "x"}]}, "auxiliary_models: model is missing"),
        ({"rollout_args": {"beams": 4}}, "rollout_args has no 'beams'"),
        ({"reward_fn_type": "nothing"}, "reward_fn_type 'nothing' is not a registered key"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrinityWorkflow(Sync, GCONFIG, TOKENIZER, **options)


def test_a_workflow_of_ours_comes_back_from_trinity_as_it_went() -> None:
    row = {"messages": ASK, "answer": "46"}
    kind = as_trinity_workflow(RLVRWorkflow, reward_fn=arithmetic_reward_fn)
    there = run(kind, row=row)
    there.pop("info")
    ours = RLVRWorkflow(arithmetic_reward_fn, GCONFIG, TOKENIZER)
    here = asyncio.run(ours.arun_episode(answering(), row))
    assert here is not None
    assert plain(there) == plain(here)


def test_an_external_engine_has_no_version_to_ask_for() -> None:
    class External(EpisodeModel):
        """Is what Trinity makes for a server of somebody else: there is no actor behind it."""

        model = None

        @property
        async def model_version_async(self) -> int:
            raise AttributeError("'NoneType' object has no attribute 'get_model_version'")

    engine = EndpointEngine(External(TOKENIZER, GCONFIG, PACKAGE.Experience))
    asyncio.run(engine.begin())
    assert engine.get_version() == 0


def test_an_episode_that_ours_rejects_is_an_error_for_trinity() -> None:
    class Rejecting(RLVRWorkflow):
        async def arun_episode(self, engine: Any, data: Any) -> None:
            return None

    kind = as_trinity_workflow(Rejecting, reward_fn=arithmetic_reward_fn)
    with pytest.raises(TrajectoryError, match="workflow Rejecting rejected this episode"):
        run(kind, row={"messages": ASK, "answer": "46"})


def test_evaluation_samples_at_any_temperature_and_training_at_its_own() -> None:
    class Cool(Sync):
        can_reset = True

        def reset(self, task: Any) -> None:
            self.task = task

        def run(self) -> list[Any]:
            answer = self.model.chat(ASK, temperature=0.5)[0]
            answer.reward = 1.0
            return [answer]

    engine = answering()
    workflow = TrinityWorkflow(Cool, GCONFIG, TOKENIZER)

    async def episodes() -> None:
        for is_eval in (False, True, False):
            workflow_context.set(workflow_context.WorkflowContext(is_eval=is_eval))
            await workflow.arun_episode(engine, ROW)

    asyncio.run(episodes())
    assert [request.gconfig.temperature for request in engine.requests] == [1.0, 0.5, 1.0]
