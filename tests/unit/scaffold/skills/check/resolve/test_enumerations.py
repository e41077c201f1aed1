"""Lists, drawings and sentences that enumerate: subclasses, members, definitions of a file."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

CLASSES = """from dataclasses import dataclass
from enum import Enum


class BaseLoader:
    pass


class CsvLoader(BaseLoader):
    pass


class JsonLoader(BaseLoader):
    pass


class ArrowLoader(BaseLoader):
    pass


class TextLoader(BaseLoader):
    pass


class WideCsvLoader(CsvLoader):
    pass


class LongCsvLoader(CsvLoader):
    pass


class SortKind(Enum):
    BY_NAME = 1
    BY_SIZE = 2
    BY_DATE = 3
    BY_OWNER = 4


@dataclass
class Record:
    record_id: str
    source: str
    rows: list
    depth: int = 0

    @property
    @abstractmethod
    def num_rows(self) -> int: ...


def read_rows(path):
    return path


def write_rows(path):
    def flatten(rows):
        return rows

    return flatten(path)
"""
FILES = {
    "pkg/__init__.py": "",
    "pkg/loaders.py": CLASSES,
    "pkg/notes.py": 'X = """\nRecord: x\n"""\n',
}
DRAWN = """```text
BaseLoader
├── Columns
│   ├── ArrowLoader
│   └── CsvLoader{}
│       └── WideCsvLoader{}
└── Rows (see below)
    ├── JsonLoader
    └── TextLoader
```
"""
DEEP = "\n│       ├── LongCsvLoader"


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            "Handle these subclasses of `BaseLoader`:\n\n- `CsvLoader`\n- `JsonLoader`\n"
            "- `ArrowLoader`\n- `WideCsvLoader`\n",
            [],  # one is of another class: no list of these
        ),
        (
            "Handle these subclasses of `BaseLoader`/`CsvLoader`:\n\n- `CsvLoader`\n"
            "- `JsonLoader`\n"
            "- `ArrowLoader`\n- `WideCsvLoader`\n",
            [("list-incomplete", 3)],
        ),
        (
            "Handle these subclasses of `BaseLoader`/`CsvLoader`, never `TextLoader` or"
            " `LongCsvLoader`:\n\n- `CsvLoader`\n- `JsonLoader`\n- `ArrowLoader`\n"
            "- `WideCsvLoader`\n",
            [],
        ),
        (DRAWN.format("", ""), [("list-incomplete", 5)]),
        (DRAWN.format(DEEP, ""), []),
        (DRAWN.format("", "\n│       └── LongCsvLoader"), []),
        (
            "- `order(key) -> SortKind`: one of BY_NAME / BY_SIZE / BY_DATE.\n",
            [("list-incomplete", 1)],
        ),
        ("- `order(key) -> SortKind`: such as BY_NAME, BY_SIZE or BY_DATE.\n", []),
        ("- `order(key) -> SortKind`: BY_NAME, BY_SIZE, BY_DATE and BY_OWNER.\n", []),
        (
            "- `pkg/loaders.py` — what reads and writes (`read_rows`, `flatten`, `write_rows`)\n",
            [("symbol-missing", 1)],
        ),
        ("- `pkg/loaders.py` — what it does (`read_rows`, `write_rows`, `Record`)\n", []),
        (
            "## Record attributes\n\nRecords have:\n\n- `record_id`: its name\n"
            "- `source`: from where\n"
            "- `rows`: the data\n- `depth`: how deep\n- `_uuid`: made\n",
            [("method-missing", 9)],
        ),
        (
            "## Record attributes\n\nRecords have:\n\n- `record_id`: its name\n"
            "- `source`: from where\n"
            "- `_key`: no\n- `_uuid`: made\n",
            [],  # half of it is of something else
        ),
        (
            "```python\n@dataclass\nclass Record:\n    source: str\n    rows: list\n\n"
            "    @property\n    @abstractmethod\n    def num_rows(self) -> int: ...\n```\n",
            [],
        ),
        (
            "```python\n@dataclass\nclass Record:\n    uuid: str\n    source: str\n    rows: list\n"
            "    record_id: str\n```\n",
            [("method-missing", 4)],  # a text of notes.py begins a line with the name
        ),
    ],
)
def test_what_a_text_enumerates_is_compared(
    checked: Checked, page: str, found: list[tuple[str, int]]
) -> None:
    page = f"The package is `pkg/loaders.py`, `pkg/__init__.py`.\n\n{page}"
    outcome = checked(page, FILES)
    assert [(rule, line - 2) for rule, _, line in told(outcome)] == found


def test_a_drawing_that_says_much_of_one_folder_lacks_another(checked: Checked) -> None:
    names = ("core", "lexer", "parser", "wheel", "rules", "docs")
    page = (
        "```text\ntools/\n├── core/    # the types, the tables, …\n├── lexer/   # of words\n"
        "├── parser/  # of texts\n├── wheel/   # the rest (a, b, …)\n└── docs/   # generated\n```\n"
    )
    outcome = checked(page, {f"tools/{each}/run.py": "" for each in names})
    # What is drawn as generated is drawn, too.
    assert [(each.rule, each.line, each.now) for each in outcome.findings] == [
        ("list-incomplete", 3, "there is rules, too")
    ]


def test_names_and_their_files_in_a_table_belong_together(checked: Checked) -> None:
    files = {
        "pkg/flags.py": "TRACE_DUMP = 1\nTRACE_ROOT = 2\n",
        "pkg/other.py": "TRACE_APPLY = 3\n",
    }
    page = (
        "| Variable | Default | Read in |\n|---|---|---|\n| `TRACE_DUMP` | `1` | `pkg/flags.py` |\n"
        "| `TRACE_APPLY` | `3` | `pkg/flags.py` |\n"
        "| `TRACE_APPLY` | `3` | `pkg/flags.py`, `pkg/other.py` |\n"
    )
    assert told(checked(page, files)) == [("symbol-missing", "moved", 4)]


def test_what_only_a_docstring_says_is_not_in_the_code(checked: Checked) -> None:
    files = {
        "pkg/trace.py": '"""Set TRACE_DUMP=1 to see TRACE_ROOT."""\nROOT = env("TRACE_ROOT")\n',
        "pkg/dump.py": 'import os\n\nDUMP = os.environ.get("TRACE_DUMP")\n',
    }
    page = (
        "| Variable | Read in |\n|---|---|\n| `TRACE_DUMP` | `pkg/trace.py` |\n"
        "| `TRACE_ROOT` | `pkg/trace.py` |\n| `TRACE_DUMP` | `pkg/dump.py` |\n"
    )
    assert told(checked(page, files)) == [("symbol-missing", "moved", 3)]


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ('import { test, clearRows } from "../fixtures";', [("import-name-missing", 4)]),
        ('import { test, type Page } from "@/e2e/fixtures";', []),
        ('import { clearRows } from "./helpers";', []),  # there is no such file yet
        ('import { clearRows } from "library/fixtures";', []),
    ],
)
def test_what_an_example_takes_from_a_file_of_typescript_is_in_it(
    checked: Checked, taken: str, found: list[tuple[str, int]]
) -> None:
    files = {"web/e2e/fixtures/index.ts": "export const test = 1;\nexport type Page = {};\n"}
    outcome = checked(f"Tests are so:\n\n```typescript\n{taken}\n```\n", files)
    assert [(rule, line) for rule, _, line in told(outcome)] == found


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("Include three sub-tables:\n\n1. **Bases** — `A`\n   - `A`: one\n2. **Others**\n", [1]),
        ("Include two sub-tables:\n\n1. **Bases** — `A`\n   - `A`: one\n2. **Others**\n", []),
        ("There are 3 ways (all tested):\n\n- one\n- two\n\nOr this:\n\n- three\n", [1]),
        ("Two ways:\n\n- one:\n\n  ```sh\n  ls\n  ```\n\n  Or so.\n\n- two\n", []),
        ("Of the three tables, take these rows:\n\n- one\n- two\n", []),
        ("Two rules:\n\n- one\n\nTwo rules:\n\n- one\n- two\n", []),
        ("It takes at least two names:\n\n- one\n- two\n- three\n", []),
        ("For example two names:\n\n- one\n- two\n- three\n", []),
    ],
)
def test_a_number_above_a_list_is_that_of_its_items(
    checked: Checked, page: str, found: list[int]
) -> None:
    outcome = checked(f"{page}\nRead `pkg/loaders.py`.\n", FILES)
    assert [(rule, line) for rule, _, line in told(outcome)] == [
        ("count-differs", line) for line in found
    ]


def test_an_outline_without_branches_is_a_drawing(checked: Checked) -> None:
    page = (
        "```\nweb/app/\n  client/      — what users call\n    types.ts   — generated\n"
        "  server/      — the rest\n  core/old/    — shared\n```\n"
    )
    files = {"web/app/client/types.ts": "x\n", "web/app/server/main.ts": "y\n"}
    outcome = checked(page, files, {**files, "web/app/core/old/a.ts": "z\n"})
    assert told(outcome) == [("tree-missing", "removed", 6)]


def test_the_end_of_a_path_that_was_removed_is_known(checked: Checked) -> None:
    page = "See `server/utils/index.ts` and `server/never/index.ts`; `web/app/main.ts`.\n"
    files = {"web/app/main.ts": "x\n"}
    outcome = checked(page, files, {**files, "web/app/server/utils/index.ts": "z\n"})
    assert told(outcome) == [("path-missing", "removed", 1)]
