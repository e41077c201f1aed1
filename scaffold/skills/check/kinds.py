"""The kinds of claims, in the order in which they are looked for."""

from __future__ import annotations

from scaffold.skills.check.claims.called_upon import CALLED_UPON
from scaffold.skills.check.claims.calls import CALLS
from scaffold.skills.check.claims.command import COMMANDS
from scaffold.skills.check.claims.compose import SERVICES
from scaffold.skills.check.claims.config_key import CONFIG_KEYS
from scaffold.skills.check.claims.count import COUNTS
from scaffold.skills.check.claims.count_in_file import COUNTS_IN_FILES
from scaffold.skills.check.claims.data_block import DATA_BLOCKS
from scaffold.skills.check.claims.file_key import FILE_KEYS
from scaffold.skills.check.claims.fixtures import FIXTURES
from scaffold.skills.check.claims.generated import GENERATED
from scaffold.skills.check.claims.image import IMAGES
from scaffold.skills.check.claims.imports import IMPORTS, PYTHON_BLOCKS
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.link import LINKS
from scaffold.skills.check.claims.listed import LISTED
from scaffold.skills.check.claims.markers import MARKERS
from scaffold.skills.check.claims.named_in_file import NAMED_IN_FILE
from scaffold.skills.check.claims.names import NAMES
from scaffold.skills.check.claims.option import OPTIONS
from scaffold.skills.check.claims.parameter import PARAMETERS
from scaffold.skills.check.claims.path import PATHS
from scaffold.skills.check.claims.shell_syntax import SHELL_BLOCKS
from scaffold.skills.check.claims.shell_task import TASKS
from scaffold.skills.check.claims.symbols import SYMBOLS
from scaffold.skills.check.claims.tree import TREES
from scaffold.skills.check.claims.version import VERSIONS
from scaffold.skills.check.claims.workflow_job import WORKFLOW_JOBS

KINDS: tuple[Kind, ...] = (
    LINKS,
    PATHS,
    TREES,
    PYTHON_BLOCKS,
    IMPORTS,
    NAMES,
    CALLS,
    SYMBOLS,
    DATA_BLOCKS,
    NAMED_IN_FILE,
    PARAMETERS,
    CALLED_UPON,
    MARKERS,
    FIXTURES,
    COUNTS,
    COUNTS_IN_FILES,
    LISTED,
    VERSIONS,
    IMAGES,
    WORKFLOW_JOBS,
    CONFIG_KEYS,
    FILE_KEYS,
    GENERATED,
    SHELL_BLOCKS,
    COMMANDS,
    OPTIONS,
    TASKS,
    SERVICES,
)
