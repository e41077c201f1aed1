"""Run a workflow of Trinity-RFT in areal, and with the package itself where it is installed.

Request: symbol ("package.module:Class" or "file.py:Class"), name, files (role to path), answers,
is_registered, rows (tasks or null), episode_timeout_s.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unit_probe import kit
from unit_probe import workflow as episodes

MODES = ("sequential", "asynchronous", "multi-threading")
REPEATS = 3
FIRST_RUN = 7


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    package = load_package(findings)
    found = load_class(request, findings)
    from areal.experimental.trinity import TrinityWorkflow
    from unit_probe.trinity_setting import TrinitySetting  # needs the package above

    with findings.guard("engine", "making the tiny model"):
        setting = TrinitySetting(request["answers"], package)
    limit = float(request["episode_timeout_s"])
    with setting.engine(findings, is_own=request["engine"] == "own") as engine:
        rows = request.get("rows") or setting.rows
        trajectories: dict[str, list[Any]] = {}
        for name, judge, temperature in setting.scenarios:
            known = setting.arguments(judge, temperature)
            with findings.guard("constructor", f"loading {found.__name__}"):
                workflow = TrinityWorkflow(found, **known)
            engines = [engine] * len(rows)
            results = episodes._run_episodes(
                findings, setting, _Untold(workflow), engines, rows, name, limit
            )
            trajectories[name] = episodes._check_all(findings, setting, name, results, "")
        if hasattr(engine, "rollout_batch"):
            is_one = setting.is_one_sequence
            episodes._check_executor(findings, engine, workflow, rows, is_one_sequence=is_one)
        episodes._check_together(findings, trajectories, setting.deaf)
        if package.version:
            _check_package(request, findings, package, found, setting, engine, rows[0])


def load_package(findings: kit.Findings) -> Any:
    """Return the classes of Trinity-RFT, or areal's stand-ins for them."""
    if find_spec("areal.experimental") is None or find_spec("areal.experimental.trinity") is None:
        raise findings.hopeless(
            "episodes", "areal.experimental.trinity is missing; install areal-lite"
        )
    with findings.guard("import", "loading Trinity-RFT, or the stand-ins for it"):
        from areal.experimental.trinity.package import load_package as load

        package = load()
    if not package.version:
        findings.warned("package", "trinity-rft itself was not run; areal's stand-ins replaced it")
    return package


def load_class(request: dict[str, Any], findings: kit.Findings) -> Any:
    """Return the class of a unit: of a module, or of a plugin's file."""
    path, _, name = request["symbol"].rpartition(":")
    if not path.endswith(".py"):
        return kit.load_symbol(findings, request["symbol"])
    with findings.guard("import", f"importing {path}"):
        from areal.experimental.trinity.loading import load_file

        return getattr(load_file(Path(path)), name)


class _Untold:
    """Leaves out what a person notes of an episode, which is no tensor."""

    def __init__(self, workflow: Any) -> None:
        self.workflow = workflow

    async def arun_episode(self, engine: Any, data: Any) -> Any:
        found = await self.workflow.arun_episode(engine, data)
        return {key: value for key, value in found.items() if key != "info"}


# --- the package itself


def registered_name(request: dict[str, Any]) -> str:
    """Return by what the package finds a unit: its key, or its dotted path."""
    is_plugin = request["symbol"].rpartition(":")[0].endswith(".py")
    if is_plugin or request["is_registered"]:
        return str(request["name"])
    return str(request["symbol"]).replace(":", ".")


def check_registry(
    request: dict[str, Any], findings: kit.Findings, registry: Any, found: Any
) -> None:
    """Check that the package's registry leads to the class."""
    name = registered_name(request)
    with findings.guard("registry", f"looking up {name} in Trinity-RFT's registry"):
        loaded = registry.get(name)
    if loaded is not found:
        raise findings.fatal("registry", f"{name} resolves to {loaded!r}, which is another class")


def _check_package(
    request: dict[str, Any],
    findings: kit.Findings,
    package: Any,
    found: Any,
    setting: Any,
    engine: Any,
    row: Any,
) -> None:
    check_registry(request, findings, package.workflows, found)
    config = request["files"].get("config")
    if config:
        with findings.guard("config", f"loading {config} with Trinity-RFT's own loader"):
            loader = importlib.import_module("trinity.common.config")
            loader.load_config(config)
    runner = importlib.import_module("trinity.explorer.workflow_runner")
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    judge = setting.scenarios[0][1]
    for mode in MODES:
        with findings.guard("runner", f"running {REPEATS} times in Trinity-RFT's runner, {mode}"):
            ran = _run_in(runner, mode, package, found, setting, engine, row, loop, judge)
        runs = sorted({each.eid.run for each in ran})
        wanted = [FIRST_RUN + i for i in range(REPEATS)]
        steps = {each.eid.step for each in ran}
        if runs != wanted or (len(steps) == 1 and len(ran) != REPEATS):
            text = f"{REPEATS} repeats returned {len(ran)} experiences, of runs {runs}"
            raise findings.fatal("runner", f"{mode}: {text}; expected one for each of {wanted}")
        if any(each.reward is None for each in ran):
            raise findings.fatal("runner", f"{mode}: an experience has no reward")
    text = f"trinity-rft {package.version}: registry, config and runner ({', '.join(MODES)})"
    findings.passed("package", text)


def _run_in(
    runner: Any,
    mode: str,
    package: Any,
    found: Any,
    setting: Any,
    engine: Any,
    row: Any,
    loop: Any,
    judge: Any,
) -> list[Any]:
    """Return the experiences of a task that the package's runner repeats."""
    from areal.experimental.trinity.auxiliary import AuxiliaryModel

    known = setting.arguments(judge, 1.0)
    model = _runner_model(setting, package, engine, loop)
    judges = [AuxiliaryModel(**each) for each in known["auxiliary_models"]]

    class Allocator:
        """Gives the runner this model, where it would look for an actor of Ray."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

        def get_model(self, role: str, *args: Any, **kwargs: Any) -> Any:
            return model

    runner.Allocator = Allocator
    config = importlib.import_module("trinity.common.config").Config()
    config.explorer.concurrent_mode = mode
    # With it each run has a history of its own, as workflows of several steps need.
    config.explorer.rollout_model.enable_history = True
    made = runner.WorkflowRunner(config, 0)
    made.auxiliary_model_wrappers = judges
    task = package.Task(
        workflow=found,
        repeat_times=REPEATS,
        format_args=package.FormatConfig(**setting.format_args),
        rollout_args=package.GenerationConfig(temperature=1.0, max_tokens=8),
        reward_fn=judge,
        raw_task=dict(row),
        batch_id="0",
        task_id="0",
    )
    status, data = asyncio.run(made.run_task(task, "0", REPEATS, FIRST_RUN))
    if status.completed_runs != REPEATS:
        lines = (status.message or "no message").strip().splitlines()
        raise RuntimeError(f"{status.completed_runs} of {REPEATS} runs succeeded: {lines[-1]}")
    return list(package.Experience.deserialize_many(data))


def _runner_model(setting: Any, package: Any, engine: Any, loop: Any) -> Any:
    from areal.experimental.trinity.model import EpisodeModel

    class RunnerModel(EpisodeModel):
        """Serves any thread and any loop, as the runner has several, from one of its own."""

        async def prepare(self) -> None:
            """Do nothing: it is ready."""

        async def clean_workflow_state(self) -> None:
            """Forget what was recorded."""
            self.extract_experience_from_history()

        def call(self, work: Any, name: str, instead: str = "") -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

    def elsewhere(name: str) -> Any:
        async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            work = getattr(EpisodeModel, name)(self, *args, **kwargs)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

        return method

    for name in ("chat", "generate", "convert_messages_to_experience"):

        def blocking(self: Any, *args: Any, _name: str = name, **kwargs: Any) -> Any:
            return self.call(getattr(EpisodeModel, f"{_name}_async")(self, *args, **kwargs), _name)

        setattr(RunnerModel, f"{name}_async", elsewhere(f"{name}_async"))
        setattr(RunnerModel, name, blocking)
    gconfig = setting.arguments(None, 1.0)["gconfig"].new_with_stop_and_pad_token_ids(
        setting.tokenizer
    )
    model = RunnerModel(setting.tokenizer, gconfig, package.Experience)

    async def begin() -> None:
        model.open(engine)

    asyncio.run_coroutine_threadsafe(begin(), loop).result()
    return model
