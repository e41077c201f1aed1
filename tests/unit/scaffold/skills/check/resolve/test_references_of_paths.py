"""Paths beside sentences: in commands, drawings, listings, and in what code takes in."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

FILES = {
    "web/core/client/types.ts": "export class PageClient {}\n",
    "web/core/server/main.ts": "export const a = 1;\n",
    "web/core/server/button.tsx": "export const b = 1;\n",
    "tests/library/browsercontext-cookies.spec.ts": "x\n",
    "tests/library/browsercontext-events.spec.ts": "x\n",
    "include/core/shape.h": "int x;\n",
    ".claude/commands/build-from-source.md": "Build it.\n",
}
BEFORE = {
    **FILES,
    "web/core/protocol/wire.yml": "a: 1\n",
    "web/core/zodBundle.ts": "export {};\n",
    "web/core/utils.ts": "export {};\n",
    "include/core/circle.h": "int y;\n",
}
HERE = (
    "Read `web/core/client/types.ts`, `web/core/server/main.ts`, `web/core/server/button.tsx`, "
    "`include/core/shape.h`, `tests/library/browsercontext-events.spec.ts`.\n\n"
)
COOKIES = ("path-missing", "other spelling")


@pytest.mark.parametrize(
    ("page", "found"),
    [
        # Of a file that is given to a command, one of the same letters is beside it.
        (
            "```bash\nnpm run test tests/library/browser-context-cookies.spec.ts\n```",
            [(*COOKIES, 4)],
        ),
        ("See `tests/library/browser_context_cookies.spec.ts`.", [(*COOKIES, 3)]),
        ("See `browser-context-cookies.spec.ts`.", [(*COOKIES, 3)]),
        # What a drawing says is generated was here, and git does not ignore it.
        (
            "```\nweb/core/\n  client/    — what users call\n  server/    — the rest\n"
            "  protocol/  — validators (generated)\n```",
            [("tree-missing", "removed", 7)],
        ),
        # A plain block that tells what becomes of a file.
        (
            "```\nweb/core/protocol/wire.yml  (what is sent)\n  → generates → types.ts\n```",
            [("path-missing", "removed", 4)],
        ),
        # Code that takes in what is gone.
        (
            "```typescript\nimport { z } from '../../zodBundle';\nimport { a } from './main';\n```",
            [("import-missing", "removed", 4)],
        ),
        ('```cpp\n#include "core/circle.h"\n```', [("import-missing", "removed", 4)]),
        ("Call it:\n```\n/build-source {branch}\n```", [("skill-unknown", "moved", 5)]),
    ],
)
def test_what_is_not_there_is_found(
    checked: Checked, page: str, found: list[tuple[str, str, int]]
) -> None:
    assert told(checked(HERE + page, FILES, BEFORE)) == found


@pytest.mark.parametrize(
    "page",
    [
        "```bash\nnpx test tests/library/browsercontext-cookies.spec.ts tests/library/new.ts\n```",
        "```\nweb/core/\n  client/ — of users\n  server/ — the rest\n  out/ — generated\n```",
        "```\nFile web/core/server/main.ts:400: an error of web/core/later.ts\n```",
        "```typescript\nimport { u } from './utils';\nimport { b } from './button';\n"
        "import { c } from './myNewTool';\nimport { z } from 'zod';\n```",
        '```cpp\n#include "core/shape.h"\n#include <vector>\n#include "core/square.h"\n```',
        "```\n/build-from-source {branch}\n/other-thing\n/usr-local/bin\n```",
    ],
)
def test_what_is_there_or_was_never_here_is_left_alone(checked: Checked, page: str) -> None:
    assert told(checked(HERE + page, FILES, BEFORE)) == []


def test_a_page_is_missed_where_others_of_its_list_lie_beside(checked: Checked) -> None:
    skill = (
        "---\nname: board\ndescription: Bring up a board.\n---\n\n"
        "Elsewhere:\n\n- Profiling: see `profiling.md`\n- Quantization: `quant.md` / `export.md`\n"
        "\n## Other\n\nWrite `notes.md` beside `quant.md`.\n"
    )
    files = {
        "skills/board/SKILL.md": skill,
        "skills/board/quant.md": "",
        "skills/board/export.md": "",
    }
    outcome = checked("Nothing.", files)
    assert [(each.path, each.line, each.claim) for each in outcome.findings] == [
        ("skills/board/SKILL.md", 8, "profiling.md")
    ]


def test_a_name_without_its_last_part_is_another_thing(checked: Checked) -> None:
    page = (
        f"{HERE}`pkg/parts.py` has `GPTModel`; `GPTModelProvider` and `GPTBigModel`; `get_path`.\n"
    )
    files = {
        **FILES,
        "pkg/__init__.py": "",
        "pkg/parts.py": "class GPTModel:\n    pass\n\n\ndef test_get_path():\n    pass\n",
    }
    outcome = checked(page, files)
    assert [(each.claim, each.now) for each in outcome.findings] == [
        ("GPTBigModel", "there is GPTModel")
    ]


def test_a_name_that_begins_with_an_acronym_is_a_name(checked: Checked) -> None:
    page = "`pkg/servers.py` has `ServerGroup` and `ServerActor`; tests start `VLLMServerGroup`.\n"
    servers = "class ServerGroup:\n    pass\n\n\nclass ServerActor:\n    pass\n"
    outcome = checked(
        page,
        {"pkg/__init__.py": "", "pkg/servers.py": servers},
        {"pkg/servers.py": f"class VLLMServerGroup:\n    pass\n\n\n{servers}"},
    )
    assert told(outcome) == [("symbol-missing", "removed", 1)]


@pytest.mark.parametrize(
    ("inner", "place"),
    [
        (["__init__.py"], "pkg/config/__init__.py"),
        (["__init__.py", "config.py", "other.py"], "pkg/config/config.py"),
    ],
)
def test_a_module_that_became_a_package_is_where_its_name_is(
    checked: Checked, inner: list[str], place: str
) -> None:
    """SkyRL's `FSDPConfig` is in train/config/config.py; the package takes it from there."""
    page = "- **`FSDPConfig`** in `pkg/config.py`.\n- `pkg/run.py` runs it.\n"
    code = "class FSDPConfig:\n    pass\n"
    files = {"pkg/__init__.py": "", "pkg/run.py": "", **{f"pkg/config/{n}": code for n in inner}}
    outcome = checked(page, files)
    assert [(each.claim, each.now) for each in outcome.findings] == [
        ("pkg/config.py", f"it is {place}")
    ]
