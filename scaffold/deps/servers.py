"""The programs and routes of a release: what its command lines take, what its servers answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import PathDistribution

from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.programs import Programs
from scaffold.deps.import_names import scripts_of
from scaffold.deps.judgement import Judgement
from scaffold.deps.release import Release
from scaffold.deps.use import Use

# `@app.post("/v1/x")`, `app.add_api_route("/x"`, `web.get("/x"`, `Route("/x"`.
_ROUTE = re.compile(
    r"(?:@[\w.]+\.(?P<method>get|post|put|delete|patch|head|options|route|api_route|websocket)"
    r"|\.add_(?:api_)?(?P<added>get|post|put|delete|patch|route|websocket_route|view)"
    r"|\b(?:web|Route|Mount)(?:\.(?P<web>get|post|put|delete))?)"
    r"\(\s*(?:['\"](?:GET|POST|PUT|DELETE)['\"],\s*)?[rf]?['\"](?P<path>/[^'\"\n]*)['\"]"
)


class Server:
    """The programs and routes of a release, read from its text.

    Args:
        release: The release.
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self.version = release.version
        self._programs = Programs(release.files, release.index)

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The console scripts with the function that each one calls."""
        found: dict[str, str] = {}
        for info in self._release.root.glob("*.dist-info"):
            found |= {each.name: each.value for each in scripts_of(PathDistribution(info))}
        return found

    @cached_property
    def routes(self) -> dict[str, tuple[str, str]]:
        """The served paths, with the method and the place of each."""
        found: dict[str, tuple[str, str]] = {}
        for path in self._release.files.python:
            data = self._release.files.data(path) or b""
            # "oute" is in route, Route and router alike.
            if b"oute" not in data and b"@app." not in data and b"web." not in data:
                continue
            text = data.decode("utf-8", "replace")
            for each in _ROUTE.finditer(text):
                method = (each["method"] or each["added"] or each["web"] or "any").upper()
                line = text.count("\n", 0, each.start()) + 1
                found.setdefault(_shape(each["path"]), (method, f"{path}:{line}"))
        return found

    def command(self, name: str) -> tuple[bool, Command | None]:
        """Return whether a program exists, and what it takes where that can be read."""
        words = name.split()
        # `python -m pkg.server`; below, a script with its target, such as `pkg.cli:main`.
        if words[:2] == ["python", "-m"]:
            module, rest = words[2], words[3:]
            program = self._programs.module(module)
            found = None if program is None else program.command
            is_there = program is not None and not program.fault
        else:
            target = self.scripts.get(words[0], "")
            module, _, function = target.partition("[")[0].strip().partition(":")
            rest, is_there, found = words[1:], bool(target), None
            place = self._release.index.find(module).path if target else None
            if place:
                found = self._programs.command_of(place, function)
        while found is not None and rest and found.commands is not None:
            # One step for each word of `pkg serve run`.
            inner = found.commands.get(rest.pop(0))
            if inner is None:
                return is_there, found if found.is_open else None
            found = inner
        return is_there, found


def _shape(path: str) -> str:
    # `/models/{id}` and `/models/<name>` are one route.
    return re.sub(r"\{[^}]*\}|<[^>]*>", "{}", path).rstrip("/")


class ServerJudge:
    """A comparison of what a tree asks of the programs and servers of two releases.

    Args:
        old: The old release's programs and routes.
        new: The new release's.
    """

    def __init__(self, old: Server, new: Server) -> None:
        self._old = old
        self._new = new

    def flag(self, use: Use) -> Iterator[Judgement]:
        """Yield the findings on a program or on an option given to it."""
        name, option = use.parts[0], use.parts[1] if len(use.parts) > 1 else ""
        was_there, before = self._old.command(name)
        is_there, after = self._new.command(name)
        if not was_there:
            return
        if not is_there:
            if not option:
                why = f"{self._new.version} has no {name}"
                yield Judgement(use, "program-removed", "breaks", why, "", why)
            return
        # An option that the old release did not know either is not lost.
        if not option or (before is not None and before.option(option) is None):
            return
        if after is None or before is None or after.is_open:
            side = self._new if after is None or after.is_open else self._old
            told = (after.why_open if after is not None else "") or "its parser cannot be followed"
            yield Judgement(use, "undecided", "undecided", f"{side.version}: {told}")
            return
        if after.option(option) is None:
            known = list(after.option_names())
            near = difflib.get_close_matches(option, known, 1, 0.75)
            why = f"{name} takes no {option}"
            old, new = f"{before.place} {option}", after.place
            verdict = "option-removed"
            yield Judgement(use, verdict, "breaks", why, old, new, near[0] if near else "")

    def endpoint(self, use: Use) -> Iterator[Judgement]:
        """Yield the findings on a path that is requested."""
        path = _shape(use.parts[1])
        if path not in self._old.routes or path in self._new.routes:
            return
        near = difflib.get_close_matches(path, list(self._new.routes), 1, 0.75)
        why = f"{self._new.version} serves no {path}"
        old = " ".join(self._old.routes[path][::-1])
        verdict, likely = "endpoint-removed", near[0] if near else ""
        yield Judgement(use, verdict, "breaks", why, old, why, likely)

    def is_served(self, use: Use) -> bool:
        """Return whether either release answers a path."""
        path = _shape(use.parts[1])
        return path in self._old.routes or path in self._new.routes
