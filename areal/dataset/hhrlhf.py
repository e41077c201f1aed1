"""HH-RLHF under the names that AReaL gives module and loaders."""

from areal.dataset.hh_rlhf import get_hh_rlhf_dpo_dataset as get_hhrlhf_dpo_dataset
from areal.dataset.hh_rlhf import get_hh_rlhf_rw_dataset as get_hhrlhf_rw_dataset

__all__ = ["get_hhrlhf_dpo_dataset", "get_hhrlhf_rw_dataset"]
