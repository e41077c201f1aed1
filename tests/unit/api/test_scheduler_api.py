from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from areal.api import Job, Scheduler, Worker
from areal.api.cli_args import SchedulingSpec
from areal.api.errors import ArealError
from areal.infra.scheduler import exceptions

# From the contract: every method with its parameters; * marks positional rest, ** keyword rest.
SIGNATURES = {
    "create_workers": "(self, job, *args, **kwargs)",
    "get_workers": "(self, role, timeout=None)",
    "delete_workers": "(self, role=None, reverse_order=False)",
    "fork_workers": "(self, role, target_role, command=None)",
    "set_worker_env": "(self, worker_id, env)",
    "create_engine": "(self, worker_id, engine, engine_name=None, *args, **kwargs)",
    "call_engine": "(self, worker_id, method, engine_name=None, *args, rpc_meta=None, **kwargs)",
    "async_call_engine": (
        "(self, worker_id, method, engine_name=None, *args, rpc_meta=None, **kwargs)"
    ),
}
COROUTINES = {"set_worker_env", "create_engine", "async_call_engine"}
PLAIN_ERRORS = {
    "WorkerCreationError",
    "WorkerConfigurationError",
    "WorkerNotFoundError",
    "WorkerTimeoutError",
    "EngineCreationError",
    "EngineImportError",
    "PortAllocationError",
    "GPUAllocationError",
    "RPCConnectionError",
}


def test_workers_and_jobs_start_empty() -> None:
    assert Worker("w/0", "127.0.0.1").worker_ports == []
    assert Job("actor").tasks == []
    assert Job("actor").scheduling_strategy.type == "separation"


def test_a_job_begins_with_its_role() -> None:
    assert [field.name for field in fields(Job)] == [
        "role",
        "replicas",
        "tasks",
        "scheduling_strategy",
    ]
    with pytest.raises(TypeError, match="role"):
        Job()  # type: ignore[call-arg]  # that it takes arguments is tested


@pytest.mark.parametrize("num_specs", [0, 1, 3])
def test_a_job_has_one_spec_for_all_or_one_each(num_specs: int) -> None:
    assert len(Job("actor", 3, [SchedulingSpec()] * num_specs).tasks) == num_specs


def test_a_job_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 replicas need one spec for all or one each, found 2"):
        Job("actor", 3, [SchedulingSpec()] * 2)
    with pytest.raises(ValueError, match="replicas must not be negative"):
        Job("actor", -1)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_a_scheduler_has_the_contracts_signatures(name: str) -> None:
    method = getattr(Scheduler, name)
    signature = inspect.signature(method)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    found = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    assert str(found) == SIGNATURES[name]
    assert inspect.iscoroutinefunction(method) == (name in COROUTINES)


def test_a_scheduler_is_an_interface() -> None:
    assert Scheduler.__abstractmethods__ == {*SIGNATURES, "n_gpus_per_node"}
    assert isinstance(Scheduler.n_gpus_per_node, property)
    with pytest.raises(TypeError, match="abstract"):
        Scheduler()  # type: ignore[abstract]


def test_all_that_a_scheduler_raises_can_be_caught_as_one() -> None:
    found = {
        name: kind
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, exceptions.SchedulerError)
    }
    assert set(found) == PLAIN_ERRORS | {"SchedulerError", "WorkerFailedError", "EngineCallError"}
    assert issubclass(exceptions.SchedulerError, ArealError)
    assert str(exceptions.WorkerNotFoundError("no worker actor/3")) == "no worker actor/3"


def test_a_failed_worker_is_named_with_the_end_of_its_log() -> None:
    error = exceptions.WorkerFailedError("actor/1", 137, "out of memory")
    assert (error.worker_id, error.exit_code, error.stderr) == ("actor/1", 137, "out of memory")
    assert str(error) == "worker actor/1 ended with code 137: out of memory"


def test_a_failed_call_is_named_with_its_attempt() -> None:
    error = exceptions.EngineCallError("actor/1", "train_batch", "timed out", 2)
    assert (error.worker_id, error.method, error.reason, error.attempt) == (
        "actor/1",
        "train_batch",
        "timed out",
        2,
    )
    assert str(error) == "train_batch on worker actor/1 failed in attempt 2: timed out"
