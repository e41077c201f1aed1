from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def short_runs() -> Iterator[None]:
    """Leaves out what takes most of the time of a run of three steps and none of a real one's.

    No curve is drawn, no page written, and the collector does not look at all of the tests' objects
    at the start of each run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("areal.trainer.report.run_log.draw_curve", lambda *_: False)
        patch.setattr("areal.trainer.report.run_log.write_page", lambda *_: None)
        nothing = SimpleNamespace(collect=int, freeze=int, unfreeze=int)
        patch.setattr("areal.trainer.base.gc", nothing)
        yield
