"""Inference servers that this process started on its machine."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from areal.api.io_struct import LocalInfServerInfo
from areal.utils.network import find_free_ports

logger = logging.getLogger("LaunchedServers")

_LOOK_EVERY_S = 0.1
_LOG_EVERY_S = 60.0
_TERM_TIMEOUT_S = 10.0


class LaunchedServers:
    """Starts servers, waits until they answer, and ends them with all their processes.

    Args:
        launch: Starts a server; it must lead a process group of its own.
        health_path: Answers 200 once the server is ready.
        setup_timeout: How long that may take, in seconds.
    """

    def __init__(
        self,
        launch: Callable[[dict[str, Any]], subprocess.Popen[Any]],
        health_path: str,
        setup_timeout: float,
    ) -> None:
        self.servers: list[LocalInfServerInfo] = []
        self._launch = launch
        self._health_path = health_path
        self._setup_timeout = setup_timeout

    def start(self, server_args: dict[str, Any]) -> LocalInfServerInfo:
        """Start a server; a missing host is 127.0.0.1, a missing port a free one.

        Raises:
            RuntimeError: The process ended before it answered.
            TimeoutError: It does not answer.
        """
        args = dict(server_args)
        args["host"] = args.get("host") or "127.0.0.1"
        args["port"] = args.get("port") or find_free_ports(1)[0]
        info = LocalInfServerInfo(args["host"], args["port"], self._launch(args))
        self.servers.append(info)
        try:
            self._wait(info)
        except BaseException:
            self.servers.remove(info)
            end_process_group(info.process)
            raise
        return info

    def _wait(self, info: LocalInfServerInfo) -> None:
        started = time.monotonic()
        log_at = started + _LOG_EVERY_S
        where = f"the server on {info.host}:{info.port} (process {info.process.pid})"
        while not self._is_healthy(info):
            code = info.process.poll()
            if code is not None:
                raise RuntimeError(f"{where} ended with code {code} before it was ready")
            waited_s = time.monotonic() - started
            if waited_s >= self._setup_timeout:
                raise TimeoutError(
                    f"{where} is not ready after {waited_s:.0f} s, which is rollout.setup_timeout"
                )
            if time.monotonic() >= log_at:
                log_at += _LOG_EVERY_S
                logger.info("%s is not ready after %.0f s", where, waited_s)
            time.sleep(_LOOK_EVERY_S)

    def _is_healthy(self, info: LocalInfServerInfo) -> bool:
        host = "127.0.0.1" if info.host == "0.0.0.0" else info.host
        url = f"http://{host}:{info.port}{self._health_path}"
        # A web proxy of the environment is not asked for servers of this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self) -> None:
        """End all servers; a second call does nothing."""
        servers, self.servers = self.servers, []
        for info in servers:
            _signal(info.process, signal.SIGTERM)
        for info in servers:
            end_process_group(info.process)


def end_process_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads its group, and all that it started, by force if need be."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_TERM_TIMEOUT_S)
    # The group may outlive its leader.
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[Any], which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, which)
