"""Which tests reach what changed: by using it, or by using what uses it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scaffold.vcs.review.definition_changes import SymbolChange
from scaffold.vcs.review.imports import imported_by_tests
from scaffold.vcs.review.uses import Use, Uses
from scaffold.vcs.review.watched_definitions import Key, Watched


class Reach(NamedTuple):
    """The tests that reach one definition.

    Args:
        direct: The test files that use it.
        through: The test files that use something that uses it, each with that thing.
        imported: A test file that imports its module, directly or through others.
        namesake: A test file that is named after its module; it may reach it in ways unseen.
    """

    direct: tuple[str, ...] = ()
    through: tuple[tuple[str, str], ...] = ()
    imported: str | None = None
    namesake: str | None = None

    @property
    def is_seen(self) -> bool:
        """Whether a test reaches it."""
        return bool(self.direct or self.through)


def reach_of(
    changes: Sequence[SymbolChange],
    found: Sequence[Use],
    uses: Uses,
    is_test: Callable[[str], bool],
) -> dict[Key, Reach]:
    """Return how the tests reach the definitions that changed.

    Args:
        changes: What changed; what is gone needs no test.
        found: Who uses it.
        uses: Finds more users.
        is_test: Tells the tests among the files.
    """
    by_key: dict[Key, list[Use]] = defaultdict(list)
    for use in found:
        # An import alone runs no definition.
        if use.how != "import":
            by_key[use.key].append(use)
    keys = [(each.path, each.name) for each in changes if each.how != "removed"]
    steps = {key: _users(key, by_key[key], is_test) for key in keys}
    wanted = {each for users in steps.values() for each in users}
    # One step further: tests of what uses the definition reach it too.
    second, _ = uses.find([Watched(*each, each[0]) for each in sorted(wanted)], is_test)
    tests: dict[Key, set[str]] = defaultdict(set)
    for use in second:
        if use.how != "import":
            tests[use.key].add(use.path)
    names = _namesakes(uses, is_test)
    reached = {
        key: Reach(
            tuple(sorted({use.path for use in by_key[key] if is_test(use.path)})),
            tuple(sorted((path, user[1]) for user in steps[key] for path in tests[user])),
            None,
            names.get(_stem(key[0])),
        )
        for key in keys
    }
    # Following imports through the whole repository is the slow part.
    if all(each.is_seen for each in reached.values()):
        return reached
    imported = imported_by_tests(uses.files, uses.index.modules, is_test)
    return {key: each._replace(imported=imported.get(key[0])) for key, each in reached.items()}


def _users(key: Key, found: Sequence[Use], is_test: Callable[[str], bool]) -> set[Key]:
    """Return what uses a definition, and the class that a hidden method works for."""
    users = {(use.path, use.inside) for use in found if use.inside and not is_test(use.path)}
    owner, _, last = key[1].rpartition(".")
    # A private method is tested through its class.
    if owner and last.startswith("_"):
        users.add((key[0], owner))
    # A test that makes an object runs its constructor and what that calls.
    above = {(path, name.rpartition(".")[0]) for path, name in users if "._" in name}
    return {each for each in users | above if "__" not in each[1]} - {key}


def _namesakes(uses: Uses, is_test: Callable[[str], bool]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(uses.files.paths):
        if is_test(path):
            name = path.rpartition("/")[2].partition(".")[0]
            found.setdefault(name.removeprefix("test_").removesuffix("_test"), path)
    return found


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]
