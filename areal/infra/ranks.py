"""torch's elastic agent, ended by the kernel together with the launcher."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

from areal.api.reward_pool.worker import die_with
from areal.infra.launch import VERDICT_VARIABLE
from areal.infra.managed_process import PARENT_VARIABLE, read_end
from areal.utils.network import gethostip


def main() -> None:
    """Run the arguments of torchrun; the exit code is that of the first rank that failed."""
    if PARENT_VARIABLE in os.environ:
        die_with(int(os.environ[PARENT_VARIABLE]))
    # For the ranks this process is the parent, not the launcher.
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    arguments = sys.argv[1:]
    if "--local-addr" not in arguments:
        arguments = ["--local-addr", gethostip(), *arguments]
    # One store for all attempts would hand a restarted rank the addresses of those that died:
    # torch 2.13 no longer keeps the keys of attempts apart.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    try:
        run(parse_args(arguments))
    except SignalException as ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would end this in a trace
        sys.exit(128 + ended.sigval)
    except ChildFailedError as error:
        # The rank has said why; where in torch it was noticed helps nobody.
        rank, failure = error.get_first_failure()
        print(f"rank {rank} ended with exit code {failure.exitcode}", file=sys.stderr)
        verdict = os.environ.get(VERDICT_VARIABLE)
        # All but the first rank write to a log beside the launcher's files.
        words = read_end(Path(verdict).with_name(f"rank-{rank}.log")) if verdict and rank else ""
        if words:
            print(f"its log ends with:\n{words}", file=sys.stderr)
        sys.exit(failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode)


if __name__ == "__main__":
    main()
