"""Repositories with many skills that are true of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

NUM_MODULES = 200
NUM_FUNCTIONS = 10

_MODULE = '''"""Module {module} of the package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings{module}:
    """Settings."""

    depth: int = 1
    name: str = ""

    def checked(self, limit: int) -> bool:
        """Checks them."""
        return self.depth < limit

'''
_FUNCTION = '''
def task_{module}_{number}(rows, *, limit=10, name="x"):
    """Does one thing."""
    return rows[:limit], name

'''
_SKILL = """---
name: {name}
description: Does job {number} of the package. Use when rows of kind {number} have to be changed.
license: Apache-2.0
---

# Job {number}

Jobs of kind {number} take rows and give rows. The code stands in `pkg/{part}/mod_{module}.py`, its
settings in `pkg.{part}.mod_{module}.Settings{module}`.

## When to use it

- Rows of kind {number} come in and have no name yet.
- Not for columns: those are the job of `pkg/{part}/mod_{other}.py`.
- Not for `Settings{other}`, which belongs to another job.

## Steps

1. Read `pkg/{part}/mod_{module}.py` and `docs/guide.md`.
2. Call `task_{module}_1(rows, limit=5)` on a few rows.
3. Compare with `task_{other}_2(rows)`; see [the guide](../../../docs/guide.md#how-to).
4. Run the tests and read what they print.

```python
from pkg.{part}.mod_{module} import Settings{module}, task_{module}_1

settings = Settings{module}(depth=2, name="job")
rows, name = task_{module}_1([1, 2, 3], limit=2, name=settings.name)
print(settings.checked(3), rows, name)
```

```bash
python tools/run.py --job {number} --verbose
pytest tests/test_all.py -q
```

## Decisions

| question | choice |
|---|---|
| Are there more than ten rows? | give `limit=` |
| Is a name needed? | `Settings{module}.name`, else leave it |
| Is the depth known? | `Settings{module}.depth` |
| Which file holds the tests? | `tests/test_all.py` |
| Which one the tool? | `tools/run.py` |

## Contract

- `task_{module}_1` returns two things: the rows and the name.
- `Settings{module}.checked` takes one number and returns a truth value.
- Nothing is written outside of `out/`; a new file goes to `out/{number}.json`.
- The order of the rows stays; a row that is wrong is left out and counted.

## Mistakes

| what is seen | what happened |
|---|---|
| no rows come back | the limit is 0 |
| the name is `x` | the default was not replaced |
| the depth is too large | `Settings{module}.checked` was not called |

Another job may be nearer: look at `pkg/{part}/mod_{other}.py` before you begin, and at the table
above when the rows are not what was expected. Nothing here needs a network or a key.
"""
_TOOL = '''"""Runs a job."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--job", type=int)
parser.add_argument("--verbose", action="store_true")
parser.parse_args()
'''


def make_pack(root: Path, num_skills: int, *, folder: str = ".agents/skills") -> Path:
    """Make a repository with a package, and with skills that speak of it.

    Args:
        root: An empty or missing folder.
        num_skills: How many skills there are.
        folder: Where they stand.
    """
    make_package(root, NUM_MODULES)
    for number in range(num_skills):
        module = number % NUM_MODULES
        name = f"job-{number}"
        text = _SKILL.format(
            name=name,
            number=number,
            module=module,
            other=(module + 10) % NUM_MODULES,
            part=f"part_{module % 10}",
        )
        _write(root / folder / name / "SKILL.md", text)
    _git(root)
    return root


def make_package(root: Path, num_modules: int) -> None:
    """Write a package of ten parts, its tests, its tool and its guide."""
    _write(root / "pkg" / "__init__.py", "")
    for part in range(10):
        _write(root / "pkg" / f"part_{part}" / "__init__.py", "")
    for module in range(num_modules):
        functions = (_FUNCTION.format(module=module, number=n) for n in range(NUM_FUNCTIONS))
        text = _MODULE.format(module=module) + "".join(functions)
        _write(root / "pkg" / f"part_{module % 10}" / f"mod_{module}.py", text)
    _write(root / "tests" / "test_all.py", "def test_it():\n    assert True\n")
    _write(root / "tools" / "run.py", _TOOL)
    _write(root / "docs" / "guide.md", "# Guide\n\n## How to\n\nSlowly.\n")


def make_large(root: Path, num_modules: int, num_files: int, num_skills: int) -> Path:
    """Make a repository of many modules among many more files, with a few skills."""
    make_pack(root, num_skills)
    make_package(root, num_modules)
    for number in range(num_files):
        folder = root / "data" / f"{number // 500:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text("x\n")
    _git(root)
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _git(root: Path) -> None:
    for argv in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *argv], cwd=root, check=True)
