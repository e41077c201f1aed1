"""torch's elastic agent, ended by the kernel together with the launcher."""

from __future__ import annotations

import os

from torch.distributed.run import main

from areal.api.reward_pool.worker import die_with
from areal.infra.managed_process import PARENT_VARIABLE

if __name__ == "__main__":
    if PARENT_VARIABLE in os.environ:
        die_with(int(os.environ[PARENT_VARIABLE]))
        # For the ranks this process is the parent, not the launcher.
        os.environ[PARENT_VARIABLE] = str(os.getpid())
    main()
