"""Forms of real pages that name something without an import, a full path or a command of here."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

LOADER = (
    "class DataLoader:\n    def state(self):\n        return {}\n\n"
    "    def load_weights_from(self, module, loader, key_for=None):\n        return module\n"
)
FILES = {
    "pkg/__init__.py": "",
    "pkg/loader.py": LOADER,
    "pkg/steps/__init__.py": "",
    "pkg/executors.py": "class RayActorPoolExecutor:\n    pass\n\n\nclass EmptyTask:\n    pass\n",
    "pkg/config.py": (
        "from pydantic import BaseModel, Field\n\n\nclass EngineConfig(BaseModel):\n"
        "    enforce_eager: bool = False\n    batch_tokens: int = Field(default=8)\n"
    ),
    "pyproject.toml": (
        '[project]\nname = "pkg"\nversion = "1"\ndependencies = ["torch>=2.4,<=2.11"]\n'
        '[project.optional-dependencies]\ngpu = ["torch"]\n'
        '[dependency-groups]\ndev = ["pytest"]\n'
    ),
    "tests/cases/rules/AL01.yml": "a: 1\n",
    "styles/site.css": ".status-badge-red { color: red; }\n",
    ".github/workflows/ci.yml": "jobs:\n  integration-tests-latest-gpu:\n    runs-on: x\n",
}
HERE = (
    "Read `pkg/loader.py`, `pkg/executors.py`, `pkg/config.py`, `tests/cases/rules/`, "
    "`styles/site.css`.\n\n"
)
LISTED = (
    "**Location**: `tests/cases/rules/<category>.yml`\n\n**Categories:**\n- `aliasing.yml`: names\n"
    "- `layout.yml`: blanks\n"
)


@pytest.mark.parametrize(
    "page",
    [
        "```python\nstate = dataloader.state()\nloader.anything(1)\n```",
        "```python\npipeline.run(RayActorPoolExecutor())\n```",
        "```python\npipeline.run(MyExecutor(), OtherRunner())\n```",
        "`self.load_weights_from(module, loader)` and `self.anything_else(a, b)`.",
        "PyTorch is limited to <=2.11 here, and numpy is <3.",
        "Where torch is missing or < 2.4, install it.",
        "The `gpu` extra and the `dev` dependency group; the `test` extra is of others.",
        "```bash\npip install -e .[gpu]\ncat pkg/loader.py > out/copy.py\npytest out/new.py\n```",
        "- `enforce_eager` (bool, default false): slower\n- `batch_tokens` (default: `8`)",
        "`status-badge-red`, `integration-tests-latest-gpu` and `some-other-word`.",
        "```python\n# pkg/new_step.py\nx = 1\n```",
        LISTED.replace("aliasing", "AL01").replace("- `layout.yml`: blanks\n", ""),
    ],
)
def test_what_holds_or_may_be_of_another_place_is_left_alone(checked: Checked, page: str) -> None:
    assert told(checked(HERE + page, FILES)) == []


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "```python\nstate = dataloader.state(consumed)\n```",
            [("argument-surplus", "contradicts", 4)],
        ),
        (
            "`self.load_weights_from(module, key_for, loader)` loads some of them.",
            [("parameter-order", "contradicts", 3)],
        ),
        (
            "```python\npipeline.run(RayActorExecutor())\n```",
            [("symbol-missing", "never here", 4)],
        ),
        ("- **_EmptyTask**: a dummy", [("symbol-missing", "other spelling", 3)]),
        ("PyTorch is limited to <=2.9.1 for video.", [("version-differs", "contradicts", 3)]),
        ("The `dev` extra brings the tools.", [("pip-extra-missing", "contradicts", 3)]),
        (
            "| extra | for |\n|---|---|\n| `dev` | tools |",
            [("pip-extra-missing", "contradicts", 5)],
        ),
        (
            "- `enforce_eager` (bool, default true): slower",
            [("default-differs", "contradicts", 3)],
        ),
        (
            "| option | default |\n|---|---|\n| `--batch-tokens` | `16` |",
            [("default-differs", "contradicts", 5)],
        ),
        ("Badges: `.badge-red`.", [("symbol-missing", "never here", 3)]),
        ("The job `integration-tests-gpu`.", [("symbol-missing", "never here", 3)]),
        (LISTED, [("path-missing", "never here", 6), ("path-missing", "never here", 7)]),
        ("See `pkg/steps.py`.", [("path-missing", "moved", 3)]),
        (
            "```bash\ntox -e py312 -- tests/cases/run_rules.py\n```",
            [("path-missing", "never here", 4)],
        ),
    ],
)
def test_what_the_files_contradict_is_found(
    checked: Checked, page: str, expected: list[tuple[str, str, int]]
) -> None:
    assert told(checked(HERE + page, FILES)) == expected


@pytest.mark.parametrize(
    "page",
    [
        "```python\n# pkg/old_loader.py  (real file)\nx = 1\n```",
        "```bash\ngit diff <prev>..HEAD -- pkg/old_loader.py | grep x\n```",
        "```bash\nwc -l pkg/old_loader.py\n```",
        "Against upstream, look at `pkg/old_loader.py` again.",
    ],
)
def test_a_removed_path_is_found_where_a_block_or_a_command_names_it(
    checked: Checked, page: str
) -> None:
    outcome = checked(HERE + page, FILES, {"pkg/old_loader.py": "y = 1\n"})
    assert [each[:2] for each in told(outcome)] == [("path-missing", "removed")]


def test_a_block_that_is_to_be_written_names_a_removed_path_freely(checked: Checked) -> None:
    page = "Create the loader:\n\n```python\n# pkg/old_loader.py\nx = 1\n```\n"
    assert told(checked(HERE + page, FILES, {"pkg/old_loader.py": "y = 1\n"})) == []


def test_an_extra_of_a_project_beside_is_none_of_this_one(checked: Checked) -> None:
    side = '[project]\nname = "side"\nversion = "1"\n[project.optional-dependencies]\ndev = []\n'
    page = HERE + 'Run `pip install -e ".[dev]"` first.\n'
    outcome = checked(page, {**FILES, "tools/side/pyproject.toml": side})
    assert told(outcome) == [("pip-extra-missing", "contradicts", 3)]


def test_a_name_of_another_language_is_near_one_that_its_sources_define(checked: Checked) -> None:
    source = "package cfg\n\nfunc LoadSettings() int {\n\treturn 1\n}\n"
    page = HERE + "It calls `LoadUserSettings`, and `SomethingElseEntirely` of others.\n"
    outcome = checked(page, {**FILES, "cfg/load.go": source})
    assert told(outcome) == [("symbol-missing", "never here", 3)]
    assert outcome.findings[0].now == "there is LoadSettings"


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("### Drop-in config\n\nMirror `pkg/none.py`, as it stands.\n", [5]),
        ("Refer to the quickstart examples in `pkg/none.py` for more.\n", [3]),
        ("### What was dropped\n\nAll of `pkg/none.py`.\n", []),
        ("Main lost `pkg/none.py`.\n", []),
    ],
)
def test_words_that_take_a_path_back(checked: Checked, page: str, lines: list[int]) -> None:
    assert [each[2] for each in told(checked(HERE + page, FILES))] == lines


def test_the_data_of_a_site_holds_no_class(checked: Checked) -> None:
    before = {"pkg/batch.py": "class AudioBatch:\n    pass\n"}
    site = {
        "fern/versions/v1.yml": "- page: AudioBatch\n",
        "fern/versions/v1/a.mdx": "x\n",
        "fern/versions/v1/b.mdx": "y\n",
    }
    page = HERE + "Task type: `AudioBatch`.\n"
    assert told(checked(page, {**FILES, **site}, before)) == [("symbol-missing", "removed", 3)]


def test_a_package_of_links_is_the_folders_it_leads_to(checked: Checked) -> None:
    page = (
        "Read `backends/tools.py`.\n\n```python\nfrom exe.backends.tools import dump_context\n\n"
        "dump_context('a', out='b')\n```\n\nAnd `.claude/skills/old-skill/SKILL.md`,"
        " `.claude/skills/tidy/SKILL.md`.\n"
    )
    skill = "---\nname: tidy\ndescription: Tidies it. Use when it is untidy.\n---\n\nTidy.\n"
    files = {
        "backends/tools.py": "def dump_context(path):\n    return path\n",
        "pyproject.toml": '[project]\nname = "exe"\nversion = "1"\n',
        "skills/tidy/SKILL.md": skill,
    }
    links = {"src/exe/backends": "../../backends", ".claude/skills": "../skills"}
    assert told(checked(page, files, links=links)) == [
        ("argument-unknown", "contradicts", 6),
        ("path-missing", "never here", 9),
    ]


MORE = {
    **FILES,
    "pkg/steps/annotate.py": "def annotate(tree):\n    return tree\n",
    "pkg/search.py": (
        "def search_notes(query, page, page_size, note_types):\n    return query, page\n"
    ),
    "build.sh": (
        'while [ $# -gt 0 ]; do\n  case "$1" in\n    --clean)\n      shift ;;\n'
        "    -r | --release)\n      shift ;;\n  esac\ndone\n"
    ),
    "wrap.sh": 'case "$1" in\n  --clean)\n    shift ;;\nesac\nexec other "$@"\n',
    "long.py": "x = 1\n" * 900,
    "ruff.toml": "line-length = 100\n",
    "pkg/main.py": (
        "import click\n\n\n@click.group()\ndef main():\n    pass\n\n\n@main.group()\n"
        "def project():\n    pass\n\n\n@project.command()\ndef add():\n    pass\n\n\n"
        '@project.command()\n@click.option("--topic")\ndef move(topic):\n    pass\n'
    ),
    "pyproject.toml": FILES["pyproject.toml"].replace(
        'version = "1"\n', 'version = "1"\nscripts = { notes = "pkg.main:main" }\n', 1
    ),
    "a/tests/one.py": "",
    "a/tests/two.py": "",
    "a/tests/three.py": "",
    "a/tests/four.py": "",
    "a/tests/five.py": "",
    "b/tests/one.py": "",
    "b/tests/two.py": "",
    "b/tests/three.py": "",
    "b/tests/four.py": "",
    "b/tests/six.py": "",
}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "```python\nfrom pkg.steps import annotate\n\nannotate(tree)\n```",
            ("symbol-missing", "contradicts", 6),
        ),
        (
            "`search_notes(query, page, page_size, types)` finds notes.",
            ("parameter-unknown", "contradicts", 3),
        ),
        (
            "The loader (`long.py`, the largest file, ~675 lines).",
            ("count-differs", "contradicts", 3),
        ),
        (
            "Lines of 119 characters (configured in `ruff.toml`).",
            ("count-differs", "contradicts", 3),
        ),
        ("Some (like `project add`, `project sync`) ask.", ("command-unknown", "contradicts", 3)),
        ('Use `notes project copy --topic="search"`.', ("command-unknown", "contradicts", 3)),
        (
            "## uv dependency groups\n\n| Group | For |\n|---|---|\n| `gpu` | tools |",
            ("dependency-group-missing", "contradicts", 7),
        ),
    ],
)
def test_what_is_said_beside_a_name_is_compared_too(
    checked: Checked, page: str, expected: tuple[str, str, int]
) -> None:
    assert told(checked(HERE + page, MORE)) == [expected]


@pytest.mark.parametrize(
    "page",
    [
        "```python\nfrom pkg.steps import annotate\n\nannotate.annotate(tree)\n```",
        "```python\nfrom pkg.steps import annotate\n```\n\nIt:\n\n```python\nannotate(tree)\n```",
        "`search_notes(query, page, page_size, str)` finds notes.",
        "`search_notes(text, number)` and `search_notes(query, page, LIMIT)` find notes.",
        "```bash\nbash build.sh --release\nbash wrap.sh --fast\n```",
        "The loader (`long.py`, ~850 lines), and `long.py` (keep it under 400 lines).",
        "Lines of 100 characters (configured in `ruff.toml`); 4 blanks (set in the editor).",
        "Some (like `project add`, `project move`) ask.",
        'The words `notes project "copy"` of a sentence.',
        "- `one.py`: a\n- `two.py`: b\n- `three.py`: c\n- `four.py`: d",
    ],
)
def test_what_may_be_meant_otherwise_beside_a_name_is_left_alone(
    checked: Checked, page: str
) -> None:
    assert told(checked(HERE + page, MORE)) == []


def test_a_removed_path_counts_as_an_example_in_brackets(checked: Checked) -> None:
    page = HERE + "Sorting introduces circles (e.g. `pkg/old_loader.py`).\n"
    outcome = checked(page, FILES, {"pkg/old_loader.py": "y = 1\n"})
    assert [each[:2] for each in told(outcome)] == [("path-missing", "removed")]


def test_a_skill_may_speak_of_what_lies_above_another_folder(checked: Checked) -> None:
    skill = (
        "---\nname: layers\ndescription: Who may import what, for changes of `pkg/steps`.\n---\n\n"
        "`pkg/steps/` may import `../loader.py` and `../none.py` of `pkg/config.py`.\n"
    )
    outcome = checked(HERE, {**FILES, ".claude/skills/layers/SKILL.md": skill})
    assert "../loader.py" not in {each.claim for each in outcome.findings}


def test_a_field_of_a_skills_own_script_is_no_function_of_a_like_name(checked: Checked) -> None:
    skill = (
        "---\nname: review\ndescription: Reviews changes, round by round, with a script.\n---\n\n"
        "Keep the `content_fingerprint` that `scripts/state.py` prints, see `pkg/loader.py`.\n"
    )
    place = ".claude/skills/review"
    script = 'def _content_fingerprint():\n    return {"content_fingerprint": 1}\n'
    files = {**FILES, f"{place}/SKILL.md": skill, f"{place}/scripts/state.py": script}
    assert told(checked(HERE, files)) == []


TRACE = (
    "// One event of a recording.\nexport type FrameEvent = {\n  type: 'frame', // not a: name\n"
    "  pageId: string,\n  file: string,\n  size: { width: number, height: number },\n};\n\n"
    "export interface Entry<T = any> {\n  time: number;\n  request: T;\n  [key: string]: T;\n}\n\n"
    "export type Wide = FrameEvent & {\n  more: string,\n};\n\n"
    "export class Loader {\n  constructor(private readonly folder: string) {}\n"
    "  load(progress: () => void): void {\n    const inner = { state: 1 };\n  }\n}\n"
)
TYPED = {
    **FILES,
    "src/trace.ts": TRACE,
    "src/versions/trace1.ts": TRACE.replace("file: string", "sha1: string"),
    "long.ts": "let x = 1;\n" * 90,
    "packages/web/src/panel/view.ts": "let x = 1;\n" * 90,
    "packages/web/a/two.ts": "let x = 1;\n" * 90,
    "packages/web/b/two.ts": "let x = 1;\n" * 90,
}


def _typescript(text: str) -> str:
    return f"See `src/trace.ts` and `long.ts`.\n\n```typescript\n{text}\n```\n"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            _typescript(
                "type FrameEvent = {\n  type: 'frame',\n  pageId: string,\n  sha1: string,\n};"
            ),
            ("method-missing", "contradicts", 9),
        ),
        (
            "```\npkg/\n├── steps/\n└── config.py   (40 lines) - all of it\n```",
            ("count-differs", "contradicts", 6),
        ),
        (
            "| File | Size |\n|---|---|\n| `long.ts` | 40 lines |",
            ("count-differs", "contradicts", 5),
        ),
        (
            "| File | Size |\n|---|---|\n| `web/.../view.ts` | 40 lines |",
            ("count-differs", "contradicts", 5),
        ),
        (
            "| File | Size |\n|---|---|\n| `web/…/view.ts` | 40 lines |",
            ("count-differs", "contradicts", 5),
        ),
        (
            "Located: `/home/user/code/site/pkg/none/loader.py`.",
            ("path-missing", "never here", 3),
        ),
        (
            "Located: `/home/user/site/pkg/steps/src/loader.py`.",
            ("path-missing", "never here", 3),
        ),
    ],
)
def test_types_sizes_and_paths_of_a_machine_are_compared(
    checked: Checked, page: str, expected: tuple[str, str, int]
) -> None:
    assert told(checked(HERE + page, TYPED)) == [expected]


@pytest.mark.parametrize(
    "page",
    [
        _typescript("type FrameEvent = {\n  type: 'frame',\n  pageId: string,\n  size: Size,\n};"),
        _typescript("type FrameEvent = {\n  kind: string,\n  words: string,\n  more: number,\n};"),
        _typescript("interface Entry {\n  time: number;\n  request: any;\n  other: string;\n}"),
        _typescript("type Wide = {\n  more: string,\n  pageId: string,\n};"),
        _typescript(
            "class Loader {\n  folder: string;\n  load(progress): void;\n  other(): void;\n}"
        ),
        "```\npkg/\n├── steps/\n└── config.py   (keep under 40 lines)\n```",
        "| File | Size |\n|---|---|\n| `long.ts` | 95 lines |",
        "| File | Size |\n|---|---|\n| `web/.../view.ts` | 95 lines |",
        "| File | Size |\n|---|---|\n| `web/.../two.ts` | 40 lines |",
        "| File | Size |\n|---|---|\n| `web/…/none.ts` | 40 lines |",
        "Located: `/home/user/code/site/pkg/loader.py`, and `/home/user/other/thing.py`.",
        "`/home/user/src/site/pkg/loader.py`, `/home/user/src/site/pkg/none.py`: a name twice.",
        _typescript(
            "type FrameEvent = {\n  type: 'frame',\n  pageId: string,\n  sha1: `${'`'}`,\n"
        ),
    ],
)
def test_types_sizes_and_paths_that_may_be_right_are_left_alone(
    checked: Checked, page: str
) -> None:
    assert told(checked(HERE + page, TYPED)) == []


OLD = {"web/entries.ts": "export type TraceEventInContext = { id: string };\n"}
BLOCK = "```ts\nfailed(): TraceEventInContext;\nnever(): SomethingOfOthers;\n```\n"


def test_a_word_of_code_in_another_language_is_found_where_it_was_removed(checked: Checked) -> None:
    page = HERE + BLOCK
    outcome = checked(page, FILES, {**OLD, "AGENTS.md": page})
    assert told(outcome) == [("symbol-missing", "removed", 4)]


def test_a_word_of_code_that_was_written_after_the_removal_is_the_examples_own(
    checked: Checked,
) -> None:
    own = "```ts\ntype TraceEventInContext = {};\nfailed(): TraceEventInContext;\n```\n"
    assert told(checked(HERE + own, FILES, OLD)) == []


def test_a_word_of_code_on_a_page_that_is_not_mostly_of_here_may_be_anyones(
    checked: Checked,
) -> None:
    page = "Read `pkg/loader.py`.\n\n" + BLOCK
    assert told(checked(page, FILES, {**OLD, "AGENTS.md": page})) == []


def test_what_is_cloned_from_an_address_left_open_is_this_repository(checked: Checked) -> None:
    page = HERE + "```bash\ngit clone {}\ncd Loader\nuv sync --extra cpu\n```\n"
    assert told(checked(page.format("<url>"), FILES)) == [("pip-extra-missing", "contradicts", 6)]


def test_what_is_cloned_from_another_address_is_another_place(checked: Checked) -> None:
    page = "```bash\ngit clone https://example.org/a/b\ncd b\nuv sync --extra cpu\n```\n"
    assert told(checked(HERE + page, FILES)) == []


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("poetry install --extras cpu", "pip-extra-missing"),
        ("poetry install --with docs", "dependency-group-missing"),
    ],
)
def test_what_poetry_installs_is_looked_up(checked: Checked, command: str, rule: str) -> None:
    page = f"{HERE}```bash\npoetry install --extras gpu --with dev\n{command}\n```\n"
    assert told(checked(page, FILES)) == [(rule, "contradicts", 5)]


@pytest.mark.parametrize(
    ("line", "found"),
    [("", ["method-missing"]), ('setattr(DataLoader, "fresh", 1)\n', [])],
)
def test_an_attribute_that_a_block_sets_by_name_is_no_missing_one(
    checked: Checked, line: str, found: list[str]
) -> None:
    block = f"from pkg.loader import DataLoader\n\n{line}print(DataLoader.fresh)\n"
    outcome = checked(f"{HERE}```python\n{block}```\n", FILES)
    assert [rule for rule, _, _ in told(outcome)] == found
