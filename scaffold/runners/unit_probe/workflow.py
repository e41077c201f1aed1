"""Run real episodes of a workflow with a tiny model and check every tensor of what comes back.

Request: symbol ("package.module:Class"), rows (dataset rows or null), completions (rows with a text
for each turn), completions_file (where a person may keep them), episode_timeout_s.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import os
from importlib.util import find_spec
from typing import Any

from unit_probe import agent_setting, kit, loop_watch
from unit_probe import trajectory as checks
from unit_probe.episode_setting import TextSetting
from unit_probe.tools_setting import ToolsSetting


class Recorder:
    """An engine that hands requests on and keeps what one episode requested and got."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.turns: list[Any] = []

    def get_version(self) -> int:
        return self.engine.get_version()

    async def agenerate(self, req: Any) -> Any:
        sent = req.copy()  # the workflow may go on to write into its request
        response = await self.engine.agenerate(req)
        self.turns.append(checks.Turn.of(sent, response))
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    workflow_class = kit.load_symbol(findings, request["symbol"])
    if _is_agent(workflow_class) and not agent_setting.has_proxy():
        findings.not_run(
            "episodes",
            "an agent with `run` needs areal.experimental.openai.AgentProxy, which is missing; "
            "only its tests ran it, against a server of their own",
        )
        return
    with findings.guard("engine", "making the tiny model"):
        setting = _setting(workflow_class)
    with setting.engine(findings, is_own=request["engine"] == "own") as engine:
        rows = setting.rows
        if request.get("rows"):
            with findings.guard("data", "reading the rows of --data"):
                rows = setting.read_rows(request["rows"])
        scripts = [row.pop("completions") for row in request["completions"]]
        if scripts:
            with findings.guard("data", "reading the given completions"):
                rows = setting.read_rows([{**rows[0], **row} for row in request["completions"]])
        limit = float(request["episode_timeout_s"])
        trajectories: dict[str, list[Any]] = {}
        for name, judge, temperature in setting.scenarios:
            known = setting.arguments(judge, temperature)
            workflow = _make_workflow(findings, workflow_class, known)
            workflow = setting.wrap(findings, workflow, known)
            engines = [kit.ScriptedEngine(setting.model, setting.tokenizer, x) for x in scripts]
            engines = engines or [engine] * len(rows)
            results = _run_episodes(findings, setting, workflow, engines, rows, name, limit)
            hint = "" if scripts else request["completions_file"]
            trajectories[name] = _check_all(findings, setting, name, results, hint)
            setting.check_scenario(findings, rows)
        # The tiny engine runs single episodes and has no executor.
        if hasattr(engine, "rollout_batch") and not scripts:
            # An episode may have a sequence for each of its answers, as many as there were.
            kept = itertools.chain.from_iterable(trajectories.values())
            is_one = setting.is_one_sequence and all(len(each["rewards"]) == 1 for each in kept)
            _check_executor(findings, engine, workflow, rows, is_one_sequence=is_one)
        setting.close()
    if not findings.failures:
        setting.check_training(findings, workflow_class)
    _check_together(findings, trajectories, setting.deaf)


def _is_agent(workflow_class: Any) -> bool:
    return hasattr(workflow_class, "run") and not hasattr(workflow_class, "arun_episode")


def _setting(workflow_class: Any) -> TextSetting:
    """Return what a workflow is tried in, by its methods and what its constructor asks for."""
    parameters = inspect.signature(workflow_class).parameters
    if _is_agent(workflow_class):
        setting = agent_setting.AgentSetting()
        setting.deaf = setting.deaf if "reward_fn" in parameters else ""
        return setting
    if "processor" in parameters:
        from unit_probe.vision_setting import VisionSetting  # needs pillow

        return VisionSetting()
    if "env" in parameters and "reward_fn" not in parameters and find_spec("gymnasium"):
        from unit_probe.env_setting import EnvSetting  # needs gymnasium

        return EnvSetting(has_own=parameters["env"].default is not inspect.Parameter.empty)
    setting = ToolsSetting() if "tools" in parameters else TextSetting()
    setting.deaf = setting.deaf if "reward_fn" in parameters else ""
    return setting


def _make_workflow(findings: kit.Findings, workflow_class: Any, known: dict[str, Any]) -> Any:
    kwargs: dict[str, Any] = {}
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in inspect.signature(workflow_class).parameters.values():
        if parameter.name in known:
            kwargs[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty and parameter.kind not in variadic:
            text = f"verify has no value for the constructor parameter {parameter.name!r}"
            raise findings.fatal(
                "constructor", f"{text}; give it a default (known: {', '.join(known)})"
            )
    with findings.guard("constructor", f"making {workflow_class.__name__}"):
        return workflow_class(**kwargs)


def _run_episodes(
    findings: kit.Findings,
    setting: TextSetting,
    workflow: Any,
    engines: list[Any],
    rows: list[Any],
    name: str,
    limit: float,
) -> list[tuple[Any, Recorder]]:
    """Run one episode per row, all at once, as the executor does, and return what came back."""
    from areal import workflow_context

    async def one(index: int, row: Any) -> tuple[Any, Recorder, Any]:
        # Each coroutine has a context of its own, as tasks of the executor have.
        workflow_context.set(workflow_context.WorkflowContext(is_eval=False, task_id=index))
        recorder, given = Recorder(engines[index]), copy.deepcopy(row)
        try:
            result = await asyncio.wait_for(_episode(workflow, recorder, given), limit)
        except asyncio.TimeoutError as error:  # noqa: UP041  (two classes in Python 3.10)
            waited = f"not finished within {limit:g} s; find out what it waits for"
            result = TimeoutError(waited) if not error.args else error
        except Exception as error:
            result = error
        return result, recorder, given

    async def every() -> list[tuple[Any, Recorder, Any]]:
        with loop_watch.watched(os.getcwd()) as watch:
            done = await asyncio.gather(*(one(i, row) for i, row in enumerate(rows)))
        for check, message in watch.problems():
            findings.failed(check, message)
        return done

    findings.stage(f"running {len(rows)} episodes with every completion judged {name}")
    outcomes = asyncio.run(every())
    for row, (result, _, given) in zip(rows, outcomes, strict=True):
        if isinstance(result, BaseException):
            raise findings.fatal("episode", kit.describe(result) + setting.hint(result, row))
        if given != row:
            text = "the episode modified its row"
            raise findings.fatal(
                "row", f"{text}, which all samples of a group share; copy it first"
            )
    return [(result, recorder) for result, recorder, _ in outcomes]


async def _episode(workflow: Any, recorder: Recorder, row: Any) -> Any:
    try:
        return await workflow.arun_episode(recorder, row)
    except SystemExit as error:  # in a task it would end the event loop
        return error


def _check_all(
    findings: kit.Findings,
    setting: TextSetting,
    name: str,
    results: list[tuple[Any, Recorder]],
    completions_file: str,
) -> list[Any]:
    """Check what the episodes of one scenario returned and give back their tensors."""
    findings.stage(f"checking the trajectories of episodes judged {name}")
    kept: list[Any] = []
    found: dict[tuple[str, str], None] = {}
    for result, recorder in results:
        interactions = list(result.values()) if isinstance(result, dict) else []
        if interactions and all(hasattr(each, "to_tensor_dict") for each in interactions):
            parts = [each.to_tensor_dict() for each in interactions if each.has_tensor_data]
        else:
            parts = [] if result is None else [result]
        for tensors in parts:
            problems = setting.problems(tensors, recorder.turns)
            found.update(dict.fromkeys(problems))
            if not problems:
                kept.append(tensors)
                for check, message in checks.warnings(tensors, recorder.turns):
                    findings.warned(check, message)
    # Other episodes show the same fault with other numbers; one message per check is enough.
    for check, message in dict(reversed(list(found))).items():
        findings.failed(check, message)
    if found:
        raise kit.Stop
    if not kept:
        message = f"every episode was rejected (None), with all completions judged {name}"
        if name != "right":
            findings.warned("episode", message)
        elif not completions_file:
            findings.failed("episode", message)
        else:
            # It may be right to reject what a model of random weights writes.
            hint = f"give completions that it accepts in {completions_file}, or with --completions"
            raise findings.hopeless("episode", f"{message}; {hint} FILE")
    return kept


def _check_executor(
    findings: kit.Findings, engine: Any, workflow: Any, rows: list[Any], *, is_one_sequence: bool
) -> None:
    """Run groups of episodes through the target's own executor, as training does."""
    with findings.guard("executor", "running groups of two episodes through the executor"):
        batch = engine.rollout_batch(rows, workflow, group_size=2)
    sizes = [len(each["rewards"]) for each in batch]
    if len(sizes) != len(rows) or (is_one_sequence and set(sizes) != {2}):
        findings.warned("executor", f"groups of two samples were returned with the sizes {sizes}")


def _check_together(findings: kit.Findings, trajectories: dict[str, list[Any]], deaf: str) -> None:
    """Check what only several trajectories show: that they batch, and that the reward arrives."""
    findings.stage("batching the trajectories")
    every = list(itertools.chain.from_iterable(trajectories.values()))
    for check, message in checks.batch_problems(every):
        findings.failed(check, message)
    rewards = {name: [float(x["rewards"].sum()) for x in xs] for name, xs in trajectories.items()}
    if deaf and rewards["right"] and rewards["right"] == rewards["wrong"]:
        text = f"the rewards are {rewards['right']} {deaf}"
        findings.failed("rewards", text)
    if findings.failures:
        raise kit.Stop
    with findings.guard("batch", "concatenating the trajectories as the trainer does"):
        from areal.utils.data import concat_padded_tensors

        concat_padded_tensors(every)
    findings.passed("trajectories", f"{len(every)} trajectories, every tensor checked")
