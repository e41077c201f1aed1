"""References in the forms that guidance of public repositories has them in."""

from __future__ import annotations

import pytest

from scaffold.analysis.near_names import NearNames
from tests.unit.scaffold.skills.check.conftest import Checked, told

TASKS = """from dataclasses import dataclass, field


@dataclass
class Task:
    dataset: str
    rows: list = field(default_factory=list)
    task_id: str = field(init=False, default="")

    def validate(self):
        return True


class Stage:
    name = "stage"

    def __init__(self, name, depth=1):
        self.name = name

    def process(self, task):
        return task


def measure_time(fn, input_args=(), repeat_iters=10):
    return fn
"""
FILES = {
    "pkg/__init__.py": "",
    "pkg/tasks.py": TASKS,
    "pkg/stages/one.py": "",
    "pkg/models/base.py": "class Base:\n    pass\n\n\n"
    + "x = 1\n" * 20
    + "def load_parts():\n    pass\n",
    "tests/conftest.py": "def plain_rows():\n    pass\n",
    "tests/inner/conftest.py": "def small_config():\n    pass\n",
    "pyproject.toml": "[project]\nname = 'pkg'\nrequires-python = '>=3.11,<3.14'\n"
    "[project.optional-dependencies]\ntext_cpu = []\n"
    "[project.urls]\nRepository = 'https://github.com/owner/Boxes'\n",
}


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            "```python\nfrom pkg.tasks import measure_time\n\nmeasure_time(\n    run,\n"
            "    args=(1,),\n    num_iters=3,\n)\n```\n",
            [("argument-unknown", 6), ("argument-unknown", 7)],
        ),
        (
            "```python\nclass Stage:\n    @property\n    def name(self) -> str: ...\n\n"
            "    def __init__(self, depth=1): ...\n\n    def process(self, task): ...\n```\n",
            [("method-missing", 4), ("argument-missing", 6)],
        ),
        (
            "```python\n@dataclass\nclass Task:\n    task_id: str\n    dataset: str\n\n"
            "    def validate(self): ...\n```\n",
            [("parameter-unknown", 4)],
        ),
        (
            "```text\npkg/stages/\n├── one.py\n├── two.py\n└── three.py\n```\n",
            [("tree-missing", 4), ("tree-missing", 5)],
        ),
        ("### Python Version (REQUIRED: 3.10, 3.11, or 3.12)\n", [("version-differs", 1)]),
        ("`load_parts()` fills it (`pkg/models/base.py:8`).\n", [("line-number", 1)]),
        ("It raises in `load_parts` (see `base.py:25, 9`).\n", [("line-number", 1)]),
        (
            "```bash\ngit clone <url>\ncd Boxes\nuv sync --extra text\n```\n",
            [("pip-extra-missing", 4)],
        ),
        (
            "Or say which Python, if needed:\n\n```bash\nuv venv --python 3.10\n```\n",
            [("version-differs", 4)],
        ),
        (
            "```bash\n# Install without the tests\nuv sync --extra text\n```\n",
            [("pip-extra-missing", 3)],
        ),
        (
            "```bash\npython -m unittest tests.test_one.TestOld\n```\n",
            [("symbol-missing", 2)],
        ),
        (
            "Fixtures in `tests/conftest.py`:\n\n- `plain_rows`: rows\n- `small_config`: two\n",
            [("symbol-missing", 4)],
        ),
    ],
)  # fmt: skip
def test_what_is_not_so_is_told_where_it_stands(
    checked: Checked, page: str, found: list[tuple[str, int]]
) -> None:
    files = {**FILES, "tests/__init__.py": "", "tests/test_one.py": "class TestNew:\n    pass\n"}
    outcome = checked(f"Read `pkg/tasks.py`.\n\n{page}", files)
    assert [(rule, line - 2) for rule, _, line in told(outcome)] == found


@pytest.mark.parametrize(
    "page",
    [
        "```text\npkg/stages/\n├── one.py\n└── [others...]\n\n"
        "tests/\n├── conftest.py\n└── inner/\n```\n",
        "Python 3.11, 3.12 and 3.13 are supported.\n",
        "```bash\n# Do not use the old extra\nuv sync --extra text\n```\n",
        "`load_parts()` fills it (`pkg/models/base.py:26`).\n",
        "```python\nfrom pkg.tasks import Task\n\nclass {Kind}Task(Task):\n    x = 1\n\n"
        "y = # read it\n```\n",
        "```bash\npython -m pkg.stages.foo\npython -m pkg.stages.my_stage\n```\n",
        "Headers of `vendored/include/`:\n\n- `streaming.h` for streams\n",
        "Set `pkg.stages.universal`, a group of entry points.\n",
    ],
)
def test_what_may_be_meant_otherwise_is_left_alone(checked: Checked, page: str) -> None:
    before = {"pkg/old/streaming.h": "int a;\n"}
    files = {**FILES, "setup.cfg": "[options.entry_points]\npkg.stages.universal =\n"}
    assert told(checked(page, files, before)) == []


def test_a_file_and_a_variable_of_the_environment_that_went_are_known_by_their_names(
    checked: Checked,
) -> None:
    before = {
        "pkg/parser_core.py": "x = 1\n",
        "pkg/env.py": "import os\n\nDEPTH = os.environ.get('PKG_TREE_DEPTH')\n",
    }
    page = "`pkg/tasks.py`, `pkg/stages/one.py`, `parser_core.py`.\n\nSet `PKG_TREE_DEPTH`.\n"
    outcome = checked(page, FILES, before)
    assert told(outcome) == [("path-missing", "removed", 1), ("symbol-missing", "removed", 3)]


def test_a_name_of_data_that_programs_make_is_not_gone(checked: Checked) -> None:
    before = {"model_index.json": "{}\n"}
    files = {**FILES, "pkg/save.py": "NAME = 'model_index.json'\n"}
    assert told(checked("It writes `model_index.json`.\n", files, before)) == []


def test_names_of_go_are_those_of_their_package(checked: Checked) -> None:
    before = {"internal/config/config.go": "package config\n\nfunc ResetAll() {}\n"}
    files = {"internal/config/config.go": "package config\n\ntype Store struct{}\n"}
    page = "`config.Store` is kept.\n\n```go\nconfig.ResetAll()\nother.Thing()\n```\n"
    assert told(checked(page, files, before)) == [("symbol-missing", "removed", 4)]


GO = {
    "go.mod": "module example.com/fleet\n\ngo 1.22\n",
    "internal/client/client.go": "package client\n\ntype Pool struct{}\n",
    "internal/log/log.go": "package log\n\nfunc Setup() {}\n",
    "internal/config/config.go": "package config\n\nfunc Load() {}\n",
    "cmd/main.go": (
        'package main\n\nimport (\n\t"log"\n\n\t"example.com/fleet/internal/config"\n)\n\n'
        'func main() {\n\tclient := dial()\n\tclient.Fetch()\n\tlog.Printf("on")\n'
        "\tconfig.Load()\n}\n"
    ),
}
GONE = {
    "internal/client/client.go": "package client\n\nfunc Fetch() {}\n\nfunc Dispatch() {}\n",
    "internal/log/log.go": "package log\n\nfunc Printf() {}\n",
    "internal/config/config.go": "package config\n\nfunc ResetAll() {}\n",
}


@pytest.mark.parametrize(
    "page",
    [
        "`client.Fetch` reads it.\n",
        "```go\nclient := newClient()\nclient.Dispatch()\n```\n",
        "```go\nfunc run(ctx Context, client *Client) {\n\tclient.Dispatch()\n}\n```\n",
        '```go\nimport "log"\n\nlog.Printf("x")\n```\n',
        '```go\nlog.Printf("x")\n```\n',
        '```go\nimport config "github.com/acme/settings/v2"\n\nconfig.ResetAll()\n```\n',
    ],
)
def test_a_variable_of_go_or_another_package_is_not_the_package_of_its_name(
    page: str, checked: Checked
) -> None:
    assert told(checked(f"See `cmd/main.go`.\n\n{page}", {**FILES, **GO}, GONE)) == []


@pytest.mark.parametrize(
    "page",
    [
        "`client.Dispatch` reads it.\n",
        '```go\nimport "example.com/fleet/internal/log"\n\nlog.Printf("x")\n```\n',
        "```go\n// config is read here\nconfig.ResetAll()\n```\n",
    ],
)
def test_what_a_package_of_go_had_is_told(page: str, checked: Checked) -> None:
    (found,) = told(checked(f"See `cmd/main.go`.\n\n{page}", {**FILES, **GO}, GONE))
    assert found[:2] == ("symbol-missing", "removed")


def test_a_link_of_the_file_system_leads_where_it_is_said_to_lead(checked: Checked) -> None:
    page = "- `pkg/tasks.py` is a symlink to `pkg/stages/one.py`.\n"
    assert told(checked(page, FILES)) == []  # a file of its own: no link to judge


def test_fixtures_and_forms_of_skills_are_not_compared(checked: Checked) -> None:
    skill = "---\nname: other\n---\nSee [it](gone.md).\n"
    files = {
        **FILES,
        "tests/cases/skills/one/SKILL.md": skill,
        "vendor-docs/skills/two/SKILL.md": skill.replace("other", "two"),
        ".gitattributes": "vendor-docs/** linguist-vendored\n",
    }
    outcome = checked("Read `pkg/tasks.py`.\n", files)
    assert {each.path for each in outcome.findings} <= {"vendor-docs/skills/two/SKILL.md"}
    assert {*outcome.uncompared} == {
        "tests/cases/skills/one/SKILL.md",
        "vendor-docs/skills/two/SKILL.md",
    }


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("materialize_big_module", "materialize_module"),
        ("RayActorExecutor", "RayActorPoolExecutor"),
        ("_EmptyTask", "EmptyTask"),
        ("never_ran_pipeline", "never_ran_pipline"),
        ("keepAlive", ""),
        ("get_rows", ""),
    ],
)
def test_a_name_differs_in_one_part(name: str, near: str) -> None:
    names = ["materialize_module", "RayActorPoolExecutor", "EmptyTask", "never_ran_pipline"]
    assert NearNames([*names, "_keep_rows_alive", "get_all_columns"]).of(name) == near


def test_a_file_that_is_copied_is_known_by_its_signs(checked: Checked) -> None:
    files = {"app/config_example.py": "x = 1\n", "app/main.py": ""}
    page = (
        "- **`config.py` not found** — copy `config.example.py` to `config.py`; run"
        " `app/main.py`.\n\n"
        "```bash\ncp app/config.example.py app/config.py\ncp app/my_example.py app/config.py\n```\n"
    )
    assert told(checked(page, files)) == [
        ("path-missing", "other spelling", 1),
        ("path-missing", "other spelling", 4),
    ]


def test_what_the_brackets_ask_for_is_not_what_is_wrong(checked: Checked) -> None:
    page = "Open `pkg/tasks.py`.\n\n1. **No match** - wrong Python version (need 3.10-3.12)\n"
    assert told(checked(page, FILES)) == [("version-differs", "contradicts", 3)]


def test_an_attribute_that_code_set_on_another_object_was_here(checked: Checked) -> None:
    before = {"pkg/parse.py": "def run(result):\n    result._rs_node = 1\n"}
    page = (
        "Read `pkg/tasks.py`, `pkg/stages/one.py`, `pkg/models/base.py`, `tests/conftest.py` and\n"
        "`tests/inner/conftest.py`. The node tree (`_rs_node`) is built.\n"
    )
    assert told(checked(page, FILES, before)) == [("symbol-missing", "removed", 2)]


CLIENT = """from dataclasses import dataclass

from pkg.constants import DEFAULT_TEMP_DIR


@dataclass
class Client:
    temp_dir: str = DEFAULT_TEMP_DIR
    log_depth: int = 1


def add_metrics(temp_dir: str, metrics_dir: str | None = None):
    return temp_dir
"""


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("Set it by `Client(temp_dir=...)`; the default is `~/.ray`.", [3]),
        ("Set it by `Client(temp_dir=...)`; the default is `/tmp/ray`.", []),
        (
            "| Goal | By | Default / scope |\n|---|---|---|\n"
            "| Logs | `Client(temp_dir=PATH)` | `~/.ray` |\n"
            "| Rows | `Client(temp_dir=PATH)` | `/tmp/ray` |\n",
            [5],
        ),
    ],
)
def test_a_default_is_that_of_the_one_argument_of_a_call(
    checked: Checked, page: str, found: list[int]
) -> None:
    constants = 'DEFAULT_TEMP_DIR = "/tmp/ray"  # where logs are\n'
    files = {**FILES, "pkg/client.py": CLIENT, "pkg/constants.py": constants}
    outcome = checked(f"Read `pkg/client.py`.\n\n{page}\n", files)
    assert [(rule, line) for rule, _, line in told(outcome)] == [
        ("default-differs", line) for line in found
    ]
