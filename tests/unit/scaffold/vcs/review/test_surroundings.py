"""What a pull request says of its risks."""

from __future__ import annotations

from pathlib import Path

from scaffold.vcs.changes import changes_between
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.repository import open_repository
from scaffold.vcs.review.domains import surroundings_of
from tests.integration.scaffold.git_places import commit, git, make_repository


def test_risks_of_one_severity_keep_the_order_of_their_files(tmp_path: Path) -> None:
    """They came from a set, so that each run of the same command had another order."""
    folder = make_repository(tmp_path / "r")
    commit(folder, "begin", {"pyproject.toml": "[project]\ndependencies = ['torch']\n"})
    paths = ["a_checkpoint.py", "b_loss.py", "c_launcher.py", "d_rollout.py", "e_weight_update.py",
             "f_attention.py", "g_memory.py"]  # fmt: skip
    commit(folder, "add", dict[str, str | bytes | None].fromkeys(paths, "x = 1\n"))
    old, new = git(folder, "rev-parse", "HEAD~1"), git(folder, "rev-parse", "HEAD")
    with open_repository(folder) as repository:
        changes = changes_between(repository, old, new)
        found = surroundings_of(repository, old, new, changes, KeyChanges())
    grave = [each.paths[0] for each in found.risks if each.severity == "HIGH"]
    assert len(grave) > 4
    assert grave == sorted(grave)
