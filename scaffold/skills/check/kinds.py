"""The kinds of references: what finds them, and what resolves each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.code import find_code
from scaffold.skills.check.references.data import find_data
from scaffold.skills.check.references.generated import find_generated
from scaffold.skills.check.references.links import find_links
from scaffold.skills.check.references.lists import find_lists
from scaffold.skills.check.references.numbers import find_numbers
from scaffold.skills.check.references.python import find_python
from scaffold.skills.check.references.shell import find_shell
from scaffold.skills.check.references.spans import find_shown, find_spans
from scaffold.skills.check.references.trees import find_trees
from scaffold.skills.check.resolve.calls import resolve_call, resolve_import, resolve_python
from scaffold.skills.check.resolve.commands import resolve_command, resolve_option
from scaffold.skills.check.resolve.data import resolve_key
from scaffold.skills.check.resolve.generated import resolve_generated
from scaffold.skills.check.resolve.lines import resolve_line
from scaffold.skills.check.resolve.links import resolve_link, resolve_symlink
from scaffold.skills.check.resolve.lists import resolve_list
from scaffold.skills.check.resolve.names import (
    resolve_label,
    resolve_name,
    resolve_node,
    resolve_skill,
    resolve_value,
    resolve_word,
)
from scaffold.skills.check.resolve.numbers import resolve_count, resolve_version
from scaffold.skills.check.resolve.paths import resolve_path, resolve_source
from scaffold.skills.check.resolve.scope import Scope
from scaffold.skills.check.resolve.shown import resolve_default, resolve_definition
from scaffold.skills.check.resolve.tasks import resolve_extra, resolve_marker, resolve_task
from scaffold.skills.check.resolve.trees import resolve_tree

FINDERS: tuple[Callable[[Document], Iterable[Reference]], ...] = (
    find_links,
    find_spans,
    find_shown,
    find_trees,
    find_lists,
    find_python,
    find_code,
    find_data,
    find_shell,
    find_numbers,
    find_generated,
)

KINDS: dict[str, Callable[[Reference, Scope], Verdict]] = {
    "call": resolve_call,
    "command": resolve_command,
    "count": resolve_count,
    "default": resolve_default,
    "definition": resolve_definition,
    "extra": resolve_extra,
    "generated": resolve_generated,
    "image": resolve_version,
    "import": resolve_import,
    "key": resolve_key,
    "label": resolve_label,
    "line": resolve_line,
    "link": resolve_link,
    "list": resolve_list,
    "marker": resolve_marker,
    "name": resolve_name,
    "node": resolve_node,
    "option": resolve_option,
    "path": resolve_path,
    "python": resolve_python,
    "skill": resolve_skill,
    "source": resolve_source,
    "symlink": resolve_symlink,
    "task": resolve_task,
    "tree": resolve_tree,
    "value": resolve_value,
    "version": resolve_version,
    "word": resolve_word,
}
