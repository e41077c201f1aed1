"""A reward by a regular expression is proven by a case of its own, or it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.heavy
@pytest.mark.parametrize("compare", ["answer", "presence"])
def test_a_pattern_that_cannot_match_fails_and_one_that_can_is_ok(
    scaffold: Callable[..., Any], project: Path, compare: str
) -> None:
    never, tagged = f"never_{compare}", f"tagged_{compare}"
    for name, pattern in ((never, r"Answer\b\d+"), (tagged, "<answer>(.*?)</answer>")):
        options = ("--style=regex", f"--pattern={pattern}", f"--compare={compare}")
        added = scaffold(project, "add-reward", name, *options)
        assert added.status == 0, added.text
    done = scaffold(project, "verify", never, "--json")
    assert (done.status, done.report["verdict"]) == (1, "failed"), done.text
    levels = {level["level"]: level for level in done.report["units"][0]["levels"]}
    assert "test_scores_the_cases" in levels["tests"]["reason"]
    assert [place["file"] for place in done.report["unfinished"]] == [
        f"tests/reward/test_{never}.py"
    ]
    done = scaffold(project, "verify", tagged, "--json")
    assert (done.status, done.report["verdict"]) == (0, "ok"), done.text
