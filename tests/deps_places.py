"""Distributions and trees for the commands of dependencies: wheels made as zips, found offline."""

from __future__ import annotations

import io
import tarfile
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Writes files below a folder and returns it."""
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else _text(content).encode())
    return root


def _text(content: str) -> str:
    return textwrap.dedent(content.removeprefix("\n"))


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
) -> Path:
    """Writes a wheel with sources and requirements."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    info = f"{stem}.dist-info"
    content = {path: _text(text) for path, text in files.items()}
    content[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in content)
    place = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(place, "w") as file:
        for path, text in content.items():
            file.writestr(path, text)
    return place


def make_sdist(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """Writes a source archive whose setup.py must never run."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{name}-{version}.tar.gz"
    boom = {"setup.py": "raise SystemExit('the archive was run')\n", "PKG-INFO": f"Name: {name}\n"}
    with tarfile.open(place, "w:gz") as file:
        for path, text in {**boom, **files}.items():
            data = _text(text).encode()
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return place


def use_index(monkeypatch: pytest.MonkeyPatch, folder: Path, cache: Path) -> None:
    """Makes pip find distributions in a folder alone, and keeps what is unpacked apart."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


OLD = {
    "toolbox/__init__.py": '''
        """Tools."""
        from toolbox.core import Base, Handler, Runner, load, old_name, save
        from toolbox.shapes import Circle
        from toolbox import text
        VERSION = "1"
        ''',
    "toolbox/text.py": """
        def width(value, fill=" "):
            return len(value)
        def upper(value):
            return value.upper()
        """,
    "toolbox/shapes.py": """
        class Shape:
            def area(self): return 0
        class Circle(Shape):
            def __init__(self, radius, colour="red"):
                self.radius = radius
            @property
            def size(self): return self.radius
            def grow(self, by): return self
        """,
    "toolbox/core.py": '''
        class Base:
            def setup(self, path): pass
            def teardown(self): pass
            class Options:
                strict = True
        class Handler:
            def handle(self, event): pass
        class Runner:
            def __init__(self, name, charset=None, **extra):
                if charset is None:
                    charset = "utf-8"
            def run(self, argv, timeout=10, shell=False) -> "Result":
                return Result()
            def start(self): return self
        class Result:
            output = ""
            def check(self): pass
        def load(path, mode="r", strict=False): return path
        def save(data, path): return data
        def old_name(): """Gives it.

            .. deprecated:: 1.5
                Use :func:`new_name` instead.
            """
        def options(name, *, colour=None, **kwargs): return kwargs
        ''',
}

NEW = {
    "toolbox/__init__.py": '''
        """Tools."""
        from toolbox.core import Base, Handler, Runner, load, new_name, save
        from toolbox.geometry import Circle
        from toolbox import text
        ''',
    "toolbox/text.py": '''
        import warnings
        def width(value, fill="-"):
            return len(value)
        def upper(value):
            """Upper.

            .. deprecated:: 2.0
                Use `str.upper` instead.
            """
            return value.upper()
        ''',
    "toolbox/geometry.py": """
        class Figure:
            def area(self): return 0
        class Circle(Figure):
            def __init__(self, radius, colour="red"):
                self.radius = radius
            def size(self): return self.radius
            def grow(self, by, at): return self
        """,
    "toolbox/core.py": """
        import abc
        import warnings
        RENAMED_OPTIONS = {"strict": "is_strict"}
        class Base(abc.ABC):
            def setup(self, path, mode): pass
            @abc.abstractmethod
            def close(self): ...
        class Handler:
            def handle_event(self, event): pass
        class Runner:
            def __init__(self, name, charset="utf-8", **extra):
                quiet = extra.pop("quiet", None)
                if quiet is not None:
                    raise TypeError("`quiet` is removed. use `verbose` instead")
                loud = extra.pop("loud", None)
                if loud is not None:
                    warnings.warn("`loud` is deprecated, use `verbose`", DeprecationWarning)
            def run(self, argv, shell=False, time_out=10) -> "Result":
                return Result()
            def start(self): return self
        class Result:
            output = ""
        def load(path, mode="rb", *, encoding, strict=False): return path
        def save(data, path): return data
        def new_name(): ...
        def options(name, **kwargs): return None
        """,
}

TREE = {
    "app/__init__.py": "",
    "app/models.py": """
        from toolbox import Base
        class Thing(Base):
            class Options:
                strict = False
            def setup(self, path):
                super().setup(path)
            def teardown(self):
                self.own()
            def own(self): ...
        """,
    "app/main.py": """
        import toolbox
        import toolbox.shapes
        from toolbox import Circle, Runner, load, old_name, save, text
        from .models import Thing
        def go(runner: Runner, path):
            runner.run(["a"], 5)
            runner.run(["a"], timeout=5)
            runner.start().run([], shell=True).check()
            load(path)
            save(1, path)
            old_name()
            print(Circle(1).size, Circle(1, colour="blue").grow(2))
            text.upper(path)
            text.width(path)
            text.width(path, fill=".")
            toolbox.core.options("a", colour=1)
            Runner("a", quiet=True)
            Runner("b", loud=True)
            Runner("c")
            Thing().teardown()
            toolbox.VERSION
        def same(path):
            save(data=1, path=path)
            Circle(radius=3)
            Runner("x").start()
            text.width(path, "-")
        """,
    "app/compat.py": """
        try:
            from toolbox import old_name
        except ImportError:
            from toolbox import new_name as old_name
        if hasattr(__import__("toolbox"), "VERSION"):
            import toolbox
            print(toolbox.VERSION)
        """,
    "tests/test_app.py": """
        from unittest import mock
        def test(monkeypatch):
            with mock.patch("toolbox.core.Handler.handle"):
                pass
            monkeypatch.setattr("toolbox.core.load", None)
        """,
    "config.yaml": "target: toolbox.shapes.Circle\nfile: toolbox.yaml\nsite: toolbox.example.com\n",
}
