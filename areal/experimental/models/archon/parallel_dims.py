"""How many processes each axis of parallelism has, and the device meshes that follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from areal.api.errors import ConfigError


@dataclass
class ArchonParallelDims:
    """The number of parts that each axis is split into; 1 is no split.

    Experts take their processes from the other axes: with ``etp == 1`` from data, context and
    tensor parallelism, with ``etp == tp`` from data and context, and each expert's matrices are
    then split over tensor parallelism.

    Attributes:
        dp_replicate: Copies of the sharded model, whose gradients are summed (HSDP).
        dp_shard: Processes that share one copy of the parameters (FSDP2); -1 takes what is left.
        cp: Processes that share one row of tokens (Ulysses).
        tp: Processes that share each matrix.
        pp: Groups of processes that share the layers.
        ep: Processes that share the experts of a layer.
        etp: Processes that share each expert's matrices: 1 or ``tp``.
        world_size: All processes.
        device_type: Device of the meshes.

    Raises:
        ConfigError: The sizes do not multiply to ``world_size``, or the experts' do not fit.
    """

    dp_replicate: int = 1
    dp_shard: int = -1
    cp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    etp: int = 1
    world_size: int = 1
    device_type: str = "cuda"
    _named: dict[str, DeviceMesh] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("dp_replicate", "cp", "tp", "pp", "ep", "etp", "world_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}")
        self._take_what_is_left()
        product = self.dp_replicate * self.dp_shard * self.cp * self.tp * self.pp
        if product != self.world_size:
            raise ConfigError(
                f"{self._copies}dp_shard({self.dp_shard}) * cp({self.cp}) * tp({self.tp}) * "
                f"pp({self.pp}) is {product}, not the world size {self.world_size}"
            )
        if self.ep_enabled:
            self._check_experts()
        elif self.etp not in (1, self.tp):
            raise ConfigError(f"etp must be 1 or tp({self.tp}), found {self.etp}")

    def _take_what_is_left(self) -> None:
        if self.dp_shard != -1:
            if self.dp_shard < 1:
                raise ConfigError(f"dp_shard must be -1 or at least 1, found {self.dp_shard}")
            return
        others = self.dp_replicate * self.cp * self.tp * self.pp
        if self.world_size % others:
            raise ConfigError(
                f"{self._copies}cp({self.cp}) * tp({self.tp}) * pp({self.pp}) is {others}, which "
                f"does not divide the world size {self.world_size}"
            )
        self.dp_shard = self.world_size // others

    @property
    def _copies(self) -> str:
        """The factor of copies in a message, where there are any."""
        return f"dp_replicate({self.dp_replicate}) * " if self.dp_replicate > 1 else ""

    def _check_experts(self) -> None:
        if self.etp not in (1, self.tp):
            raise ConfigError(f"etp must be 1 or tp({self.tp}), found {self.etp}")
        inner, words = self._expert_inner
        if self.ep % inner:
            raise ConfigError(f"ep({self.ep}) must be a multiple of {words} = {inner}")
        if self.dp_shard * inner % self.ep:
            raise ConfigError(
                f"ep({self.ep}) does not divide dp_shard({self.dp_shard}) * {words} = "
                f"{self.dp_shard * inner}"
            )

    @property
    def _expert_inner(self) -> tuple[int, str]:
        """Processes of the axes that lie wholly inside an expert group, and how to say it."""
        if self.etp == 1:
            return self.cp * self.tp, f"cp({self.cp}) * tp({self.tp})"
        return self.cp, f"cp({self.cp})"

    @property
    def dp_enabled(self) -> bool:
        """Whether batches are spread over processes."""
        return self.dp_replicate * self.dp_shard > 1

    @property
    def dp_replicate_enabled(self) -> bool:
        """Whether the sharded model has copies."""
        return self.dp_replicate > 1

    @property
    def dp_shard_enabled(self) -> bool:
        """Whether parameters are spread over the processes of one copy."""
        return self.dp_shard > 1

    @property
    def cp_enabled(self) -> bool:
        """Whether rows of tokens are spread over processes."""
        return self.cp > 1

    @property
    def tp_enabled(self) -> bool:
        """Whether matrices are spread over processes."""
        return self.tp > 1

    @property
    def pp_enabled(self) -> bool:
        """Whether layers are spread over processes."""
        return self.pp > 1

    @property
    def ep_enabled(self) -> bool:
        """Whether experts are spread over processes."""
        return self.ep > 1

    @property
    def etp_enabled(self) -> bool:
        """Whether each expert's matrices are spread over processes."""
        return self.ep_enabled and self.etp > 1

    @property
    def fsdp_enabled(self) -> bool:
        """Whether parameters are spread over the processes of data and context parallelism."""
        return self.dp_replicate * self.dp_shard * self.cp > 1

    @property
    def fsdp_gradient_divide_factor(self) -> int:
        """By what summed gradients are divided: every process of data and context has a loss."""
        return self.dp_replicate * self.dp_shard * self.cp

    @property
    def seq_len_divisor(self) -> int:
        """What the number of tokens of a packed row has to be a multiple of."""
        return self.tp * self.cp * 2

    @cached_property
    def world_mesh(self) -> DeviceMesh:
        """The mesh of all processes, made on first use by all of them together."""
        sizes = self._sizes
        mesh = init_device_mesh(
            self.device_type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)
        )
        self._named = {name: mesh[name] for name in sizes}
        for name, axes in self._flattened.items():
            self._named[name] = _flatten(mesh, axes, name)
        if self.etp_enabled:
            # Slicing a flattened axis out of the world mesh is deprecated; this takes meshes.
            self._named["ep_tp"] = DeviceMesh._concatenate([self._named["ep"], self._named["tp"]])
        if self.dp_replicate_enabled:
            # FSDP2 takes two dimensions for copies of shards.
            for name in ("dp_shard_cp", "dp_shard_mod_ep"):
                if name in self._named:
                    both = [self._named["dp_replicate"], self._named[name]]
                    self._named[f"dp_replicate_{name}"] = DeviceMesh._concatenate(both)
        return mesh

    @property
    def _sizes(self) -> dict[str, int]:
        """Axes of the mesh, outermost first; absent when not split, except those FSDP2 needs."""
        axes = {"pp": self.pp, "dp_replicate": self.dp_replicate, "dp_shard": self.dp_shard}
        axes |= {"cp": self.cp, "tp": self.tp}
        kept = {"dp_shard"}
        if self.ep_enabled:
            inside = self.ep // self._expert_inner[0]
            outside = self.dp_shard // inside
            del axes["dp_shard"]
            axes = {
                "pp": self.pp,
                "dp_replicate": self.dp_replicate,
                "dp_shard_mod_ep": outside,
                "dp_shard_in_ep": inside,
                "cp": self.cp,
                "tp": self.tp,
            }
            kept = {"dp_shard_mod_ep", "dp_shard_in_ep"}
        return {name: size for name, size in axes.items() if size > 1 or name in kept}

    @property
    def _flattened(self) -> dict[str, tuple[str, ...]]:
        """Meshes over several axes at once."""
        sizes = self._sizes

        def with_present(*names: str) -> tuple[str, ...]:
            return tuple(name for name in sizes if name in names)

        shards = tuple(name for name in sizes if name.startswith("dp_shard"))
        dp = with_present("dp_replicate", *shards)
        meshes = {
            "dp": dp,
            "dp_shard_cp": with_present(*shards, "cp"),
            "dp_cp": with_present(*dp, "cp"),
            "pp_cp_tp": with_present("pp", "cp", "tp"),
        }
        if self.ep_enabled:
            etp = () if self.etp > 1 else ("tp",)
            meshes["ep"] = with_present("dp_shard_in_ep", "cp", *etp)
        return {name: axes for name, axes in meshes.items() if axes}

    def get_mesh(self, name: str) -> DeviceMesh | None:
        """Return the mesh of that name, or None when the axis is not split.

        "ep_tp" is the two-dimensional mesh of experts and their matrices, where ``etp == tp``;
        "dp_replicate_dp_shard_cp" and "dp_replicate_dp_shard_mod_ep" are those of copies and of
        shards.
        """
        assert self.world_mesh is not None  # Making it fills the table.
        return self._named.get(name)

    def get_group(self, name: str) -> dist.ProcessGroup | None:
        """Return the processes of the mesh of that name, or None when the axis is not split."""
        mesh = self.get_mesh(name)
        return None if mesh is None else mesh.get_group()


def _flatten(mesh: DeviceMesh, axes: tuple[str, ...], name: str) -> DeviceMesh:
    """Return one dimension made of several; of one, that dimension itself under the new name."""
    return mesh[axes]._flatten(name)
