"""The markers and fixtures of a repository's tests, read from its settings and sources."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.tool_table import inner_table

# Source: the reference of pytest, and the documents of the plugins that are most installed.
_MARKERS = """
parametrize skip skipif xfail usefixtures filterwarnings tryfirst trylast
asyncio anyio trio tornado gen_test aiohttp django_db urls ignore_template_errors celery flask
timeout flaky rerun only_rerun repeat order run first last second dependency depends
benchmark forked xdist_group parallel_threads thread_unsafe iterations random_order randomize
vcr block_network default_cassette freeze_time time_machine httpx_mock respx
allow_hosts disable_socket enable_socket no_cover datafiles limit_memory limit_leaks hypothesis
mpl_image_compare remote_data openfiles array_compare script_launch_mode snapshot subtests
skip_browser only_browser skip_browser_type base_url browser_context_args nondestructive
allure_label allure_link allure_display_name qt_no_exception_capture qt_log_ignore no_qt_log
"""
KNOWN_MARKERS = frozenset(_MARKERS.split())

_TOML_FILES = ("pyproject.toml", "pytest.toml", ".pytest.toml")
_INI_FILES = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")

_MARK = lazy_re(rb"\bmark\.([A-Za-z_]\w*)")
# `config.addinivalue_line("markers", "slow: ...")`; then all such calls, those with a computed name
# or a variable among them.
_LINE = lazy_re(rb"addinivalue_line\(\s*[\"']markers[\"']\s*,\s*(?P<prefix>[rbuRBU]?)[\"'](\w+)")
_ANY_LINE = lazy_re(rb"addinivalue_line\(\s*[\"']markers[\"']|addinivalue_line\(\s*(?![\"'])")
_WORD = lazy_re(rb"[A-Za-z_]\w*")
_TEST = lazy_re(r"(?:^|/)(?:conftest|test_[^/]*|[^/]*_tests?)\.py$|(?:^|/)tests?/.*\.py$")


class PytestNames:
    """The markers and fixtures of a repository's tests.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @cached_property
    def test_files(self) -> tuple[str, ...]:
        """The Python sources that hold tests or what tests share."""
        return tuple(path for path in self._files.python if _TEST.search(path))

    @cached_property
    def registered(self) -> dict[str, str]:
        """The markers that settings or sources register, each with the file that does."""
        found = dict(self.in_settings)
        for path, source in self._registering:
            for match in _LINE.finditer(source):
                found.setdefault(match[2].decode(), path)
        return found

    @cached_property
    def in_settings(self) -> dict[str, str]:
        """The markers that settings register, each with the file that does."""
        found: dict[str, str] = {}
        for path, value in self._setting("markers"):
            rows = value.splitlines() if isinstance(value, str) else value
            for name in filter(None, map(_marker_name, rows)):
                found.setdefault(name, path)
        return found

    @cached_property
    def default_markers(self) -> str:
        """The expression of markers that ``addopts`` gives every run from the root, or empty."""
        for path, value in self._setting("addopts"):
            if "/" not in path:
                return marker_expression(value) or ""
        return ""

    def _setting(self, key: str) -> Iterator[tuple[str, str | list[str]]]:
        """Yield the value of a setting of pytest in each file that has it."""
        for names, read in ((_TOML_FILES, _toml_value), (_INI_FILES, _ini_value)):
            for path in (path for name in names for path in self._files.by_name.get(name, ())):
                if value := read(self._files.text(path) or "", key):
                    yield path, value

    @cached_property
    def is_dynamic(self) -> str:
        """The file that registers markers under names that are computed, or empty."""
        for path, source in self._registering:
            if len(_ANY_LINE.findall(source)) > len(_LINE.findall(source)):
                return path
        return ""

    @cached_property
    def used(self) -> dict[str, str]:
        """The markers that tests carry, each with the first such file."""
        found: dict[str, str] = {}
        for path in self.test_files:
            for name in set(_MARK.findall(self._files.data(path) or b"")):
                found.setdefault(name.decode(), path)
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the tests: what is not among them cannot be asked for by any of them."""
        found: set[bytes] = set()
        for path in self.test_files:
            found.update(_WORD.findall(self._files.data(path) or b""))
        return frozenset(each.decode() for each in found)

    def why_foreign(self, name: str) -> str:
        """Return why a plugin from elsewhere may bring a name, or nothing."""
        # `pytest-my-plugin` and `pytest_my_plugin` are spellings of one plugin.
        stem = re.escape(name).replace("_", "[-_]")
        plugin = re.compile(rf"\bpytest[-_][\w-]*{stem}")
        for file in ("conftest.py", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini"):
            for path in self._files.by_name.get(file, ()):
                text = self._files.text(path) or ""
                if found := plugin.search(text):
                    return f"{path} asks for {found.group()}"
                if each := next(filter(self._is_foreign, _loaded_plugins(text)), ""):
                    return f"{path} loads the plugin {each}"
        return ""

    def _is_foreign(self, dotted: str) -> bool:
        top = dotted.partition(".")[0]
        names = self._files.by_name
        return f"{top}.py" not in names and not any(
            path.endswith(f"/{top}/__init__.py") or path.startswith(f"{top}/")
            for path in names.get("__init__.py", ())
        )

    @cached_property
    def _registering(self) -> tuple[tuple[str, bytes], ...]:
        """The sources that register markers: those of the tests, and plugins of the repository."""
        found: list[tuple[str, bytes]] = []
        for path in self._files.python:
            source = self._files.data(path) or b""
            if b"addinivalue_line" in source:
                found.append((path, source))
        return tuple(found)


def _loaded_plugins(text: str) -> list[str]:
    """Return the modules that ``pytest_plugins`` names."""
    # `pytest_plugins: list[str] = ["a.b", "c"]`, or one name in quotes.
    found = re.search(r"\bpytest_plugins\b[^=]*=\s*([\[(][^\])]*|[\"'][^\"'\n]*[\"'])", text)
    return re.findall(r"[\"']([\w.]+)[\"']", found[1]) if found else []


def marker_expression(arguments: str | list[str]) -> str | None:
    """Return the last expression of markers among the arguments of pytest: ``-m "not slow"``.

    Args:
        arguments: A command line, or its words.

    Returns:
        None without any; an empty one selects all tests.
    """
    words, found = arguments, None
    if isinstance(words, str):
        try:
            words = shlex.split(words)
        except ValueError:
            words = words.split()
    for index, word in enumerate(words):
        if word.startswith("-m"):
            found = word[2:].strip() or "".join(words[index + 1 : index + 2])
    return found


def _toml_value(text: str, key: str) -> str | list[str]:
    try:
        loaded: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ""
    # A pytest.toml has the table at its top, a pyproject.toml below `tool`.
    pytest = inner_table(loaded, *(["tool"] if "tool" in loaded else []), "pytest")
    value: Any = pytest.get(key) or inner_table(pytest, "ini_options").get(key, "")
    return list(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


def _ini_value(text: str, key: str) -> str:
    from configparser import ConfigParser, Error  # few projects have such a file still

    parser = ConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(text)
    except Error:
        return ""
    # setup.cfg has its sections for pytest below `tool:`.
    return parser.get("pytest", key, fallback="") or parser.get("tool:pytest", key, fallback="")


def _marker_name(row: str) -> str:
    found = re.match(r"\s*([A-Za-z_][\w-]*)", row)
    return found[1] if found else ""
