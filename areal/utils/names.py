"""The names under which the processes of a run find each other; see ``name_resolve``."""

from __future__ import annotations

import getpass


def trial_root(experiment_name: str, trial_name: str) -> str:
    """Return what all names of a trial begin with."""
    return f"{getpass.getuser()}/{experiment_name}/{trial_name}"


def gen_servers(experiment_name: str, trial_name: str) -> str:
    """Return the subtree with the address of every inference server."""
    return f"{trial_root(experiment_name, trial_name)}/gen_servers"


def update_weights_from_disk(experiment_name: str, trial_name: str, model_version: int) -> str:
    """Return the name that appears when weights of a version lie on disk."""
    root = trial_root(experiment_name, trial_name)
    return f"{root}/update_weights_from_disk/{model_version}"


def workers(experiment_name: str, trial_name: str, role: str, index: int | None = None) -> str:
    """Return the name of a worker's address, or the subtree of all workers of a role."""
    subtree = f"{trial_root(experiment_name, trial_name)}/workers/{role}"
    return subtree if index is None else f"{subtree}/{index}"
