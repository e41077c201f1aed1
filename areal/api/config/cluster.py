"""Where processes run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from areal.api.config.check import at_least, one_of
from areal.api.config.defaults import ours


class SchedulingStrategyType(StrEnum):
    """The ways in which two models share devices, or do not."""

    separation = "separation"
    colocation = "colocation"


@dataclass
class SchedulingStrategy:
    """Whether a model gets devices of its own or shares those of ``target``."""

    type: str = "separation"
    target: str | None = None
    fork: bool = True

    def __post_init__(self) -> None:
        # An Enum member is a str and compares equal to its value.
        one_of(self, "type", [kind.value for kind in SchedulingStrategyType])


@dataclass
class SchedulingSpec:
    """What one worker process gets; ``mem`` is in GiB, ``cpu`` and ``gpu`` are counts."""

    cpu: int = 8
    gpu: int = 0
    mem: int = 32
    port_count: int = 2
    image: str = "/storage/openpsi/images/areal-latest.sif"
    task_type: str = "worker"
    env_vars: dict[str, str] = field(default_factory=dict)
    cmd: str | None = None
    srun_additional_args: str = "--unbuffered --mpi=pmi2 -K --chdir $PWD"
    additional_bash_cmds: list[str] | None = None
    container_type: str = "apptainer"
    mount: str = "/storage:/storage"
    nodelist: str | None = None
    reservation: str | None = None
    exclusive: bool = False
    exclude: str | None = None
    ray_placement_strategy: str | None = None

    def __post_init__(self) -> None:
        at_least(self, 0, "cpu", "gpu", "mem", "port_count")


@dataclass
class NameResolveConfig:
    """Where processes find each other's addresses."""

    type: str = "nfs"
    nfs_record_root: str = "/tmp/areal/name_resolve"
    etcd3_addr: str = "localhost:2379"
    ray_actor_name: str = "ray_kv_store"


@dataclass
class ClusterSpecConfig:
    """Describes the machines; ``fileroot`` is where checkpoints and logs go."""

    name_resolve: NameResolveConfig = field(default_factory=NameResolveConfig)
    cluster_name: str = "local"
    fileroot: str = "/tmp/areal/"
    n_nodes: int = ours("cluster.n_nodes")
    n_gpus_per_node: int = ours("cluster.n_gpus_per_node")

    def __post_init__(self) -> None:
        at_least(self, 1, "n_nodes")
        at_least(self, 0, "n_gpus_per_node")


@dataclass
class SchedulerConfig:
    """Who starts the processes."""

    type: str | None = ours("scheduler.type")
    endpoint: str = "http://localhost:8081"
    deploy_mode: str = "separation"
    functioncall_service_domain: str = "http://localhost:8080"
    reward_functioncall_config: dict[str, Any] = field(default_factory=dict)
    reward_model_path: str = ""
    reward_model_service_url: str = "http://localhost:30000/classify"

    def __post_init__(self) -> None:
        if self.type is not None:
            one_of(self, "type", ("local", "ray", "slurm"))
