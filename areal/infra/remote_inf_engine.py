"""An inference engine whose model runs in servers, and what a kind of server has to say for it."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import logging
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, cast

import torch

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.errors import ConfigError, NoRoomError
from areal.api.io_struct import (
    HttpGenerationResult,
    HttpRequest,
    LocalInfServerInfo,
    ModelRequest,
    ModelResponse,
    ParamSpec,
    StopReason,
    WeightUpdateMeta,
    WeightUpdateRequests,
)
from areal.infra.grouped_rollout import GroupedRolloutWorkflow
from areal.infra.launch import NAMES_VARIABLE, SERVERS_VARIABLE
from areal.infra.remote.fleet import Server, ServerState
from areal.infra.remote.http import (
    HttpClient,
    RequestRefusedError,
    ServerFaultError,
    ServerLostError,
)
from areal.infra.remote.launched import LaunchedServers
from areal.infra.remote.pool import ServerPool, WeightSource
from areal.infra.sampling_seeds import SamplingSeeds
from areal.infra.workflow_executor import WorkflowExecutor
from areal.utils import name_resolve, names

__all__ = ["GroupedRolloutWorkflow", "RemoteInfBackendProtocol", "RemoteInfEngine"]

logger = logging.getLogger("RemoteInfEngine")

# A bucket of weights, or joining a group, waits for the slowest member.
_GROUP_TIMEOUT_S = 120.0
# A request during which so many servers went down is taken for the cause of it.
_MAX_LOST = 10
# How much of an answer shows whether log-probabilities have the temperature, where a token's
# probability is below the second number.
_PROBE_TOKENS, _SURE = 8, 0.9
# A server that aborts without reason is asked again after a pause, which doubles up to a second.
_FIRST_PAUSE_S = 0.02


class RemoteInfBackendProtocol(Protocol):
    """What a kind of server is asked, and what its answers mean; without any input or output.

    A method that a kind of server has no endpoint for raises NotImplementedError.
    """

    def build_generation_request(
        self, req: ModelRequest, with_lora: bool, version: int
    ) -> HttpRequest: ...

    def parse_generation_response(self, response: dict[str, Any]) -> HttpGenerationResult: ...

    def build_score_request(
        self, input_ids: list[int], target_len: int, with_lora: bool, version: int
    ) -> HttpRequest: ...

    def parse_score_response(self, response: dict[str, Any], target_len: int) -> list[float]: ...

    def build_disk_weight_update_requests(self, meta: WeightUpdateMeta) -> WeightUpdateRequests: ...

    def build_pull_weight_update_requests(self, url: str, version: int) -> WeightUpdateRequests: ...

    def build_init_weights_group_request(
        self, addr: str, server_idx: int, meta: WeightUpdateMeta
    ) -> HttpRequest: ...

    def build_distributed_weight_update_requests(
        self, meta: WeightUpdateMeta, param_specs: Sequence[ParamSpec]
    ) -> WeightUpdateRequests: ...

    def get_group_update_start_requests(self) -> list[HttpRequest]: ...

    def get_group_update_end_requests(self, version: int) -> list[HttpRequest]: ...

    def get_pause_requests(self) -> list[HttpRequest]: ...

    def get_resume_request(self) -> HttpRequest: ...

    def get_health_check_request(self) -> HttpRequest: ...

    def get_identity_requests(self) -> list[HttpRequest]: ...

    def parse_identity(self, response: Any) -> tuple[str | None, int | None]: ...

    def get_abort_all_request(self) -> HttpRequest: ...

    def get_offload_request(self, tags: list[str] | None = None) -> HttpRequest: ...

    def get_onload_request(self, tags: list[str] | None = None) -> HttpRequest: ...

    def launch_server(self, server_args: dict[str, Any]) -> subprocess.Popen[Any]: ...


class RemoteInfEngine(InferenceEngine):
    """Generates with servers, any of which may die or join while it runs.

    A request that is interrupted, by an update or by the end of its server, goes on with what it
    has as soon as a server holds the current weights. Requests go to the server with the fewest
    outstanding tokens, whatever ``routing_strategy`` is.

    Args:
        config: Rollout settings.
        backend: What kind of servers they are.
        seed: Of the sampling streams.
        api_key: What the servers ask for; None takes ``config.provider_api_key``.
    """

    def __init__(
        self,
        config: InferenceEngineConfig,
        backend: RemoteInfBackendProtocol,
        seed: int = 1,
        api_key: str | None = None,
    ) -> None:
        self.config = config
        self.backend = backend
        self.api_key = api_key or config.provider_api_key or ""
        self._seeds = SamplingSeeds(seed, config.deterministic_sampling)
        self._pool = ServerPool(
            backend,
            HttpClient(self.api_key),
            config.poll_interval,
            config.request_timeout,
            config.setup_timeout,
            has_labels=not config.use_lora,
        )
        self._launched = LaunchedServers(
            backend.launch_server,
            backend.get_health_check_request().endpoint,
            config.setup_timeout,
        )
        self._executor: WorkflowExecutor | None = None
        self._version = 0
        self._group: list[str] = []  # the servers in the weight group
        self._group_update: tuple[int, set[str]] | None = None  # under way: version, who has it all

    # --- life

    @property
    def initialized(self) -> bool:
        return self._executor is not None

    @property
    def workflow_executor(self) -> WorkflowExecutor:
        if self._executor is None:
            raise RuntimeError("the engine is not running; call initialize() first")
        return self._executor

    def initialize(
        self,
        engine_id: str | None = None,
        addr: str | list[str] | None = None,
        train_data_parallel_size: int | None = None,
        **_: Any,
    ) -> None:
        """Find the servers, wait for them, and start the executor; a second call changes nothing.

        The addresses are those given, else those of the servers launched by this engine, else those
        under the name of ``names.gen_servers``, else those in ``AREAL_LLM_SERVER_ADDRS``, separated
        by commas. Of the named ones those that come later join, and those whose name goes leave.

        Args:
            engine_id: Not used: one engine asks all servers.
            addr: "host:port", or several.
            train_data_parallel_size: Replicas that share the configured sizes.

        Raises:
            RuntimeError: No address is known.
            TimeoutError: No server answers within ``rollout.setup_timeout``.
        """
        if self.initialized:
            return
        addresses = self._find_addresses(addr)
        self._pool.start()
        try:
            self._pool.add(addresses)
            self._await_servers(addresses)
            self._executor = WorkflowExecutor(self.config, self)
            self._executor.initialize(train_data_parallel_size=train_data_parallel_size)
        except BaseException:
            self._executor = None
            self._pool.stop()
            raise

    @property
    def addresses(self) -> list[str]:
        """The servers that answer, each as "host:port"; empty before ``initialize``."""
        return self._pool.reachable()

    def _find_addresses(self, addr: str | list[str] | None) -> list[str]:
        if addr:
            return [addr] if isinstance(addr, str) else list(addr)
        if self._launched.servers:
            return [f"{info.host}:{info.port}" for info in self._launched.servers]
        if found := self._named_servers():
            return found
        listed = os.environ.get(SERVERS_VARIABLE, "")
        found = [part.strip() for part in listed.split(",") if part.strip()]
        if not found:
            raise RuntimeError(
                "no inference server is known: pass addr, launch one with launch_server(), set "
                f"{SERVERS_VARIABLE} to host:port,host:port, or name servers in name_resolve, in "
                "the repository that this process is configured for"
            )
        return found

    def _named_servers(self) -> list[str]:
        """Return the servers that have a name, and follow changes from now on; [] without any."""
        experiment, trial = self.config.experiment_name, self.config.trial_name
        if not experiment or not trial:
            return []
        root = names.gen_servers(experiment, trial)
        wanted = ModelAllocation.from_str(self.config.backend).parallel.dp_size
        give_up_at = time.monotonic() + self.config.setup_timeout
        # Where one has a name the others come; where none has, they may be known in another way.
        at_least = -1 if NAMES_VARIABLE in os.environ else 0
        while at_least < len(found := name_resolve.get_subtree(root)) < wanted:
            if time.monotonic() >= give_up_at:
                logger.warning("%d of %d servers have a name below %s", len(found), wanted, root)
                break
            time.sleep(0.1)
        if found:
            self._pool.follow(lambda: name_resolve.get_subtree(root))
        return found

    def _await_servers(self, addresses: Sequence[str]) -> None:
        """Wait until all answer; after ``setup_timeout`` those that do are enough."""
        give_up_at = time.monotonic() + self.config.setup_timeout
        while len(self._pool.reachable()) < len(set(addresses)):
            if time.monotonic() < give_up_at:
                time.sleep(0.01)
                continue
            if not self._pool.reachable():
                raise TimeoutError(
                    f"no inference server answers after {self.config.setup_timeout:g} s "
                    f"(rollout.setup_timeout): {self._pool.fleet.describe()}"
                )
            logger.warning("going on without some servers: %s", self._pool.fleet.describe())
            return

    def destroy(self) -> None:
        """Stop the executor, fail what waits, and end the servers that this engine launched."""
        if self._executor is not None:
            self._executor.destroy()
            self._executor = None
        self._pool.stop()
        self.teardown_server()

    def launch_server(self, server_args: dict[str, Any]) -> LocalInfServerInfo:
        """Start a server on this machine; see ``LaunchedServers.start``."""
        info = self._launched.start(server_args)
        if self.initialized:
            self.add_server(f"{info.host}:{info.port}")
        return info

    def teardown_server(self) -> None:
        self._launched.stop()

    def add_server(self, address: str) -> None:
        """Take in a server, which serves once it holds the current weights."""
        self._pool.add([address])

    def remove_server(self, address: str) -> None:
        """Ask a server no more; what it works on is resubmitted to others."""
        self._pool.remove(address)

    @property
    def membership_epoch(self) -> int:
        """Grows when a server joins, leaves, dies or restarts; then weight groups are rebuilt."""
        return self._pool.fleet.epoch

    def reachable_servers(self) -> list[str]:
        """Return the servers that can take new weights now."""
        return self._pool.reachable()

    def await_server(self) -> bool:
        """Wait until a server can take new weights, and return whether one can.

        It is given ``rollout.setup_timeout`` seconds.
        """
        give_up_at = time.monotonic() + self.config.setup_timeout
        while not (found := self._pool.reachable()) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        return bool(found)

    def obstacle(self) -> str | None:
        """Return why no request can be sent now, naming each server; None where one can."""
        return self._pool.obstacle()

    # --- generation

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        """Generate one answer, across updates and the loss of servers.

        Raises:
            ValueError: More than one sample is asked for, or the prompt is empty.
            NoRoomError: The prompt leaves no room for an answer.
            RuntimeError: The engine is not running.
            RequestRefusedError: A server refuses the request as wrong.
            ServerFaultError: ``rollout.request_retries`` servers answered with a failure, or no
                server survives the request.
        """
        started = time.perf_counter()
        prompt, room = req.input_ids, self._room(req)
        gconfig = copy.copy(req.gconfig)
        gconfig.seed = self._seeds.of(gconfig.seed)
        attempt = dataclasses.replace(req, gconfig=gconfig)
        tokens: list[int] = []
        logprobs: list[float] = []
        versions: list[int] = []
        reason, pause_s = "abort", _FIRST_PAUSE_S
        result: HttpGenerationResult | None = None
        while reason == "abort" and len(tokens) < room:
            attempt.input_ids = [*prompt, *tokens]
            gconfig.max_new_tokens = room - len(tokens)
            gconfig.min_new_tokens = max(0, req.gconfig.min_new_tokens - len(tokens))
            result, result_versions = await self._generate(attempt)
            reason = result.stop_reason
            # A chat is sent as messages, which cannot end in half an answer.
            is_kept = reason != "abort" or not req.vision_msg_vllm
            if is_kept:
                tokens += result.output_tokens
                logprobs += result.output_logprobs
                versions += result_versions
            if reason == "abort" and not (is_kept and result.output_tokens):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 1.0)
        took_s = time.perf_counter() - started
        stop_reason: Any = "length" if reason == "abort" else reason
        return ModelResponse(
            input_tokens=list(prompt),
            output_tokens=tokens,
            output_logprobs=logprobs,
            output_versions=versions,
            stop_reason=_checked_reason(stop_reason),
            tokenizer=req.tokenizer,
            input_images=list(req.image_data or ()),
            processor=req.processor,
            latency=took_s,
            ttft=took_s,
            routed_experts=result.routed_experts if result is not None else None,
        )

    def _room(self, req: ModelRequest) -> int:
        gconfig, num_prompt = req.gconfig, len(req.input_ids)
        if gconfig.n_samples != 1:
            raise ValueError(
                f"agenerate makes one sample, n_samples is {gconfig.n_samples}; call it for each"
            )
        if not num_prompt:
            raise ValueError("input_ids is empty; an answer needs at least one prompt token")
        room = min(gconfig.max_tokens - num_prompt, gconfig.max_new_tokens)
        if room <= 0:
            raise NoRoomError(
                f"the prompt has {num_prompt} tokens and leaves no room to answer: max_tokens is "
                f"{gconfig.max_tokens}, max_new_tokens {gconfig.max_new_tokens}"
            )
        return room

    async def _generate(self, req: ModelRequest) -> tuple[HttpGenerationResult, list[int]]:
        """Return one answer and the versions of its tokens, from whichever server can give it."""
        tokens = len(req.input_ids) + req.gconfig.max_new_tokens
        num_failed = num_lost = 0
        avoid: str | None = None
        while True:
            server, version = await self._pool.acquire(req.rid, tokens, avoid)
            try:
                result = await self._ask(server, req, version)
            except ServerFaultError as error:
                self._pool.fault(server.address, error)
                num_lost += isinstance(error, ServerLostError)
                num_failed += not isinstance(error, ServerLostError)
                if num_lost >= _MAX_LOST or num_failed >= self.config.request_retries:
                    raise
                self._pool.counts["retries"] += 1
                avoid = server.address
                continue
            finally:
                self._pool.release(server, tokens)
            versions, is_sure = result.output_versions, True
            if versions is None:
                versions = [version] * len(result.output_tokens)
                # Without a name it may have waited until the server had other weights; a LoRA
                # adapter's version is in its name.
                is_sure = self.config.use_lora or (
                    result.stop_reason == "abort" or server.version == version
                )
            if is_sure and self._pool.answered(server, versions, version):
                self._pool.counts[f"tokens/{server.address}"] += len(result.output_tokens)
                return result, versions
            self._pool.counts["stale_answers"] += 1

    async def _ask(self, server: Server, req: ModelRequest, version: int) -> HttpGenerationResult:
        request = self.backend.build_generation_request(req, self.config.use_lora, version)
        answer = await self._pool.ask(server.address, request)
        try:
            result = self.backend.parse_generation_response(answer)
            if len(result.output_tokens) > req.gconfig.max_new_tokens:
                raise ValueError(
                    f"{len(result.output_tokens)} tokens where {req.gconfig.max_new_tokens} were "
                    "asked for"
                )
            _check_tokens(result.output_tokens)
            if result.stop_reason != "abort":
                _checked_reason(result.stop_reason)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Only the kind of a parser's error: its text may quote what was generated.
            text = str(error) if isinstance(error, ValueError) else type(error).__name__
            raise ServerFaultError(
                f"server {server.address}, {request.endpoint}: unreadable answer ({text[:200]})"
            ) from error
        return result

    def choose_server(self) -> str:
        """Return the server that the next new request would go to.

        Raises:
            RuntimeError: No server serves.
        """
        address = self._pool.next_server()
        if address is None:
            raise RuntimeError(self._pool.obstacle() or "no inference server serves")
        return address

    def pause_generation(self) -> None:
        """Interrupt the answers in the making, and return when every living server has stopped."""
        self._wait_for(self._pool.set_paused(True))
        time.sleep(self.config.pause_grace_period)

    def continue_generation(self) -> None:
        """End ``pause_generation``, and a weight update by group with it."""
        self._finish_group_update()
        self._wait_for(self._pool.set_paused(False))

    def abort_all_requests(self) -> None:
        """Have every server end what it generates; the answers are resubmitted."""
        request = self.backend.get_abort_all_request()
        self._wait_for(self._pool.call(self._pool.reachable(), lambda _: [request], counts=False))

    def offload(self, tags: list[str] | None = None) -> None:
        """Have every server give its device's memory back."""
        self._call_all(self.backend.get_offload_request(tags))

    def onload(self, tags: list[str] | None = None) -> None:
        self._call_all(self.backend.get_onload_request(tags))

    def _call_all(self, request: HttpRequest) -> None:
        servers = self._pool.reachable()
        failed = self._wait_for(self._pool.call(servers, lambda _: [request], counts=False))
        if failed:
            raise next(iter(failed.values()))

    # --- weights

    def set_version(self, version: int) -> None:
        self._finish_group_update()
        self._note_version(version)

    def _note_version(self, version: int) -> None:
        self._version = version
        if self._executor is not None:
            self._executor.notify_version_changed()

    def get_version(self) -> int:
        return self._version

    def update_weights_from_disk(self, meta: WeightUpdateMeta) -> Future[None]:
        """Have every server load ``meta.path``; see ``ServerPool.update``.

        The files must stay until there are newer ones: a server that joins or comes back loads
        them. The version is ``meta.version``, else the next one.
        """
        if meta.path is None:
            raise ConfigError("a weight update from disk needs meta.path")
        version = self._next_version(meta)
        meta = dataclasses.replace(meta, version=version)
        requests = self.backend.build_disk_weight_update_requests(meta).requests
        return self._update(WeightSource(version, requests))

    def update_weights_from_url(self, url: str, version: int) -> Future[None]:
        """Have every server fetch safetensors over HTTP; otherwise as from disk."""
        requests = self.backend.build_pull_weight_update_requests(url, version).requests
        return self._update(WeightSource(version, requests))

    def offer_weights(self, meta: WeightUpdateMeta) -> None:
        """Name the folder from which servers that join later load the current version.

        After an update by group there is none; a version that is no longer current is passed over.
        """
        requests = self.backend.build_disk_weight_update_requests(meta).requests
        self._pool.offer(WeightSource(self._next_version(meta), requests))

    def _update(self, source: WeightSource) -> Future[None]:
        async def update() -> None:
            await self._pool.update(source)
            self._note_version(source.version)

        self._group_update = None

        return self._pool.run(update())

    def _next_version(self, meta: WeightUpdateMeta) -> int:
        return self._version + 1 if meta.version is None else meta.version

    def init_weights_update_group(
        self,
        meta: WeightUpdateMeta,
        xccl_group_ranks: list[int] | None = None,
        *,
        servers: Iterable[str] | None = None,
    ) -> Future[None]:
        """Have servers join the process group that carries new weights, each once.

        Args:
            meta: ``gen_allocation`` has as many replicas as there are servers.
            xccl_group_ranks: Not used: the trainer is rank 0, and the servers follow.
            servers: The members in the order of their ranks; None takes ``reachable_servers()``.

        Raises:
            ConfigError: The allocation has another number of replicas.
        """
        group = list(servers) if servers is not None else self._pool.reachable()
        if meta.gen_allocation is None or meta.gen_allocation.parallel.dp_size != len(group):
            found = None if meta.gen_allocation is None else meta.gen_allocation.parallel.dp_size
            raise ConfigError(
                f"meta.gen_allocation has {found} replicas and the weight group "
                f"{len(group)} servers; make it for reachable_servers()"
            )
        ranks = {address: rank for rank, address in enumerate(group)}
        self._group = group

        async def join() -> None:
            failed = await self._pool.call(
                group,
                lambda a: [self.backend.build_init_weights_group_request(a, ranks[a], meta)],
                counts=False,
                timeout_s=_GROUP_TIMEOUT_S,
            )
            if failed:  # the group is complete or useless
                self._group = []
                raise next(iter(failed.values()))

        return self._pool.run(join())

    def update_weights_from_distributed(
        self, meta: WeightUpdateMeta, param_specs: list[ParamSpec]
    ) -> Future[None]:
        """Have the members of the group receive a bucket of parameters, once.

        The first bucket of a version begins an update, which ``continue_generation`` or
        ``set_version`` ends: what took all buckets serves then.

        Raises:
            RuntimeError: There is no group. The future raises it where no member took the bucket.
        """
        if not self._group:
            raise RuntimeError("there is no weight group; call init_weights_update_group() first")
        version = self._next_version(meta)
        is_first = self._group_update is None or self._group_update[0] != version
        if is_first:
            self._group_update = (version, set(self._group))
            self._pool.begin_update(version)
        assert self._group_update is not None
        members = self._group_update[1]
        meta = dataclasses.replace(meta, version=version)
        requests = self.backend.build_distributed_weight_update_requests(meta, param_specs).requests
        if is_first:
            requests = [*self.backend.get_group_update_start_requests(), *requests]

        async def receive() -> None:
            failed = await self._pool.call(
                sorted(members), lambda _: requests, timeout_s=_GROUP_TIMEOUT_S
            )
            members.difference_update(failed)
            if not members:
                raise RuntimeError(
                    "no inference server took the weights: "
                    + "; ".join(str(error) for error in failed.values())
                )

        return self._pool.run(receive())

    def _finish_group_update(self) -> None:
        if self._group_update is None:
            return
        (version, members), self._group_update = self._group_update, None
        requests = self.backend.get_group_update_end_requests(version)
        self._wait_for(self._pool.finish_update(sorted(members), requests, version))

    # --- rollouts: the executor's business

    def submit(
        self,
        *args: Any,
        callback_addr: str | None = None,
        proxy_addr: str | None = None,
        **kwargs: Any,
    ) -> int:
        """Submit a row; see ``WorkflowExecutor.submit``.

        Args:
            *args: Those of the executor.
            callback_addr: Not available: results are taken, not sent.
            proxy_addr: For agents; the proxy that is taken is that of ``agent_wrapper``.
            **kwargs: Those of the executor.

        Raises:
            NotImplementedError: Somebody wants to be called.
            ValueError: A proxy is named, and ``agent_wrapper`` is not set.
        """
        if callback_addr is not None:
            raise NotImplementedError("callback_addr: take results with wait()")
        if proxy_addr is not None and self.workflow_executor.agent_wrapper is None:
            raise ValueError(
                f"proxy_addr={proxy_addr}: start an AgentProxy over this engine, and set "
                "workflow_executor.agent_wrapper to its wrap"
            )
        return self.workflow_executor.submit(*args, **kwargs)

    def wait(self, *args: Any, **kwargs: Any) -> list[dict[str, Any] | None]:
        return self.workflow_executor.wait(*args, **kwargs)

    def wait_for_task(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        return self.workflow_executor.wait_for_task(*args, **kwargs)

    def rollout_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.workflow_executor.rollout_batch(*args, **kwargs)

    def prepare_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.workflow_executor.prepare_batch(*args, **kwargs)

    def pause(self) -> None:
        self.workflow_executor.pause()

    def resume(self) -> None:
        self.workflow_executor.resume()

    # --- numbers

    def check_temperature(self, prompt: list[int], temperature: float) -> None:
        """Refuse servers whose log-probabilities leave the temperature out.

        The trainer would take their tokens for those of another policy. A short answer is scored
        at temperature 1 too: only servers that leave it out find the same both times. Servers that
        score nothing are not checked.

        Raises:
            ConfigError: They leave it out; the message has the remedy.
        """
        if temperature == 1.0:
            return
        gconfig = GenerationHyperparameters(
            temperature=temperature, max_new_tokens=_PROBE_TOKENS, ignore_eos=True, seed=0
        )
        request = ModelRequest(input_ids=prompt, gconfig=gconfig)
        answer: ModelResponse = self._wait_for(self.agenerate(request))
        found = torch.tensor(answer.output_logprobs)
        try:
            plain = self._wait_for(self._scores(prompt + answer.output_tokens, answer.output_len))
        except (NotImplementedError, RequestRefusedError) as error:
            logger.warning("whether log-probabilities have the temperature is not known: %s", error)
            return
        # Where one token is all but certain, its temperature makes no difference.
        is_telling = bool((found.exp() < _SURE).any())
        if is_telling and torch.allclose(found, torch.tensor(plain), rtol=0, atol=1e-4):
            raise ConfigError(
                f"the servers' log-probabilities leave gconfig.temperature {temperature:g} out, so "
                "the trainer would correct for a difference that is none; start vLLM with "
                "--logprobs-mode processed_logprobs, or train at temperature 1"
            )

    def compute_logp(self, data: Any) -> Any:
        """Return log-probabilities of given tokens under the current weights.

        Args:
            data: A trajectory, or several: ``input_ids``, ``attention_mask`` and ``loss_mask``,
                each [B, L].

        Returns:
            float32 [B, L] for each: log-probabilities where ``loss_mask`` is set, else 0.
        """
        if isinstance(data, dict):
            return self.compute_logp([data])[0]

        async def score_all() -> list[list[torch.Tensor]]:
            return [
                await asyncio.gather(
                    *(
                        self._score(ids, kept, wanted)
                        for ids, kept, wanted in zip(
                            one["input_ids"], one["attention_mask"], one["loss_mask"], strict=True
                        )
                    )
                )
                for one in data
            ]

        return [torch.stack(rows) for rows in self._wait_for(score_all())]

    async def _score(
        self, ids: torch.Tensor, kept: torch.Tensor, wanted: torch.Tensor
    ) -> torch.Tensor:
        found = torch.zeros(ids.shape, dtype=torch.float32)
        places = kept.bool().nonzero().flatten()
        is_wanted = wanted.bool()[places]
        if not is_wanted.any():
            return found
        first = int(is_wanted.nonzero()[0])
        tokens, target_len = ids[places].tolist(), len(places) - max(first, 1)
        scores = torch.tensor(await self._scores(tokens, target_len))
        targets = places[-target_len:]
        found[targets] = scores * is_wanted[-target_len:]
        return found

    async def _scores(self, tokens: list[int], target_len: int) -> list[float]:
        num_failed = 0
        while True:
            server, version = await self._pool.acquire(f"score-{id(tokens)}", len(tokens))
            request = self.backend.build_score_request(
                tokens, target_len, self.config.use_lora, version
            )
            try:
                answer = await self._pool.ask(server.address, request)
            except ServerFaultError as error:
                self._pool.fault(server.address, error)
                num_failed += 1
                if num_failed >= max(self.config.request_retries, 1):
                    raise
                continue
            finally:
                self._pool.release(server, len(tokens))
            try:
                return self.backend.parse_score_response(answer, target_len)
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise NotImplementedError(
                    f"server {server.address} gives no log-probabilities of a prompt"
                ) from error

    def export_stats(self) -> dict[str, float]:
        """Return the executor's statistics and those of the servers since the last call.

        ``servers/serving`` and ``servers/known`` are numbers of servers now, ``servers/deaths``
        all so far; ``servers/retries`` and ``servers/stale_answers`` count requests, and
        ``servers/tokens/<address>`` the tokens that a server gave.
        """
        counts, self._pool.counts = self._pool.counts, type(self._pool.counts)()
        fleet = self._pool.fleet
        stats = {f"servers/{name}": float(count) for name, count in counts.items()}
        stats |= {
            "servers/known": float(len(fleet.servers)),
            "servers/serving": float(len(fleet.in_state(ServerState.SERVING))),
            "servers/deaths": float(fleet.num_deaths),
            "servers/retries": float(counts["retries"]),
        }
        return self.workflow_executor.export_stats() | stats

    def clear_batches(self, ids: Any = None) -> None:
        """Do nothing: batches travel with the calls, and none is left on a server."""

    def fetch_buffer_stats(self) -> dict[str, float]:
        """Return nothing, as no batch is buffered on a server."""
        return {}

    def set_proxy_gateway_addr(self, addr: str) -> None:
        """Refuse: the gateway of agents is a controller's.

        Raises:
            NotImplementedError: Always; `RolloutController.start_proxy_gateway` starts one.
        """
        raise NotImplementedError(
            f"no gateway at {addr} is asked by an engine; use RolloutController.start_proxy_gateway"
        )

    def _wait_for(self, coroutine: Any) -> Any:
        return self._pool.run(coroutine).result()


def _checked_reason(reason: str) -> StopReason:
    if reason not in ("length", "stop", "tool_calls"):
        raise ValueError(f"unknown stop reason {reason!r}")
    return cast(StopReason, reason)


def _check_tokens(tokens: list[int]) -> None:
    if tokens and (set(map(type, tokens)) != {int} or min(tokens) < 0):  # a bool is no token
        raise ValueError("an output token is not a whole number from 0")
