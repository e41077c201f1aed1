"""The configuration of a run: one dataclass for each section, each file one subject.

Import the names from ``areal.api.cli_args``. Plain dataclasses, so that reading them needs nothing
beyond the standard library; OmegaConf comes in when a file is loaded.
"""
