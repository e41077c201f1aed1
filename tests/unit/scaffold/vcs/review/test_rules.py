"""Every rule: a change that it sees, and one that is alike and that it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from scaffold.vcs.dependencies import dependency_changes
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.definition_changes import symbol_changes
from scaffold.vcs.review.rule import Rule
from scaffold.vcs.review.rule_files import built_in_rules
from scaffold.vcs.review.rule_matching import Matcher

from .conftest import changed

RULES: dict[str, Rule] = {rule.id: rule for each in built_in_rules() for rule in each.rules}
FACTS = {"call-broken", "name-gone", "syntax-broken", "untested"}
"""Rules about facts, which have no condition on a file; the integration tests show them."""

TORCH = "import torch\n\n\n"


class Case(NamedTuple):
    """Is a file, what stands in it before, and lines to put in: those seen, and those not."""

    path: str
    seen: str
    quiet: str
    before: str = ""


ADDED: dict[str, Case] = {
    "secret": Case("a.md", "key: AKIA" + "ABCDEFGH12345678", "key: AKIAabc"),
    "secret-assigned": Case("a.py", 'password = "hunter2secret"', 'password = os.environ["P"]'),
    "runs-text": Case("a.py", "x = eval(text)", "x = model.eval()  # eval(x)"),
    "starts-processes": Case("a.py", "import subprocess", "import json"),
    "loads-objects": Case("a.py", "d = yaml.load(f)", "d = yaml.load(f, Loader=yaml.SafeLoader)"),
    "checks-off": Case("a.py", "get(url, verify=False)", "get(url, verify=True)"),
    "query-from-text": Case("a.py", 'db.execute(f"SELECT {x}")', 'db.execute("SELECT ?", x)'),
    "wide-permissions": Case("a.py", "os.chmod(path, 0o777)", "os.chmod(path, 0o700)"),
    "unpacks-archives": Case("a.py", "t.extractall(to)", 't.extractall(to, filter="data")'),
    "workflow-rights": Case(".github/workflows/a.yml", "on: pull_request_target", "on: push"),
    "workflow-text": Case(
        ".github/workflows/a.yml",
        "  run: echo ${{ github.event.issue.title }}",
        "  TITLE: ${{ github.event.issue.title }}",
    ),
    "workflow-unpinned": Case(
        ".github/workflows/a.yml", "- uses: a/b@v4", f"- uses: a/b@{'0123456789' * 4}"
    ),
    "downloads-and-runs": Case("a.sh", "curl -s x.example | sh", "curl -s x.example > file"),
    "sources-of-packages": Case(
        "requirements.txt", "--index-url https://example.org/simple", "click"
    ),
    "error-swallowed": Case(
        "a.py",
        "try:\n    f()\nexcept Exception:  # why\n    pass",
        "try:\n    f()\nexcept Exception:\n    log()\n    raise",
    ),
    "checker-silenced": Case("a.py", "x = f()  # type: ignore", "x = f()  # type: ignore[arg]"),
    "concurrency": Case("a.py", "t = threading.Thread(target=f)", "import threading"),
    "global-state": Case("a.py", 'os.environ["A"] = "1"', 'x = os.environ["A"] == "1"'),
    "waits-forever": Case("a.py", "r = requests.get(url)", "r = requests.get(url, timeout=3)"),
    "deletes-files": Case("a.py", "shutil.rmtree(path)", "path.mkdir()"),
    "test-skipped": Case("tests/test_a.py", "@pytest.mark.skip", "@pytest.mark.slow"),
    "check-weakened": Case("mypy.ini", "ignore_errors = True", "ignore_errors = False"),
    "large": Case("a.py", "x = 1\n" * 500, "x = 1\n" * 400),
    "loss": Case("a.py", "    return x / 2", "    # return x / 2", TORCH + "def policy_loss(x):\n"),
    "loss-new": Case("a.py", "def gae_advantages(r): ...", "def count_rows(r): ...", TORCH),
    "mask": Case("a.py", "x = loss_mask * y", "x = y.sum()", TORCH),
    "logprobs": Case("a.py", "p = x.log_softmax(-1)", "p = x.softmax(-1)", TORCH),
    "collective": Case("a.py", "dist.all_reduce(x)", "dist.get_rank()", TORCH),
    "rank-condition": Case("a.py", "if rank == 0:\n    f()", "if size == 0:\n    f()", TORCH),
    "mesh": Case("a.py", 'init_device_mesh("cpu", (2,))', "mesh.size()", TORCH),
    "checkpoint": Case(
        "a.py", "model.load_state_dict(d)", "AutoTokenizer.from_pretrained(d)", TORCH
    ),
    "weight-sync": Case("a.py", "engine.update_weights(w)", "engine.weights", TORCH),
    "staleness": Case("a.py", "max_staleness = 2", "# max_staleness = 2", TORCH),
    "precision": Case("a.py", "x.to(torch.bfloat16)", "x.dtype == torch.bfloat16", TORCH),
    "seed": Case("a.py", "torch.manual_seed(1)", "x.seed", TORCH),
    "packing": Case("a.py", "position_ids = f(x)", "f(position_ids)", TORCH),
    "memory": Case("a.py", "torch.cuda.empty_cache()", "torch.cuda.synchronize()", TORCH),
    "engine-interface": Case("a.py", 'body = {"max_tokens": 3}', "max_tokens: int", TORCH),
    "optimizer": Case("a.py", "clip_grad_norm_(p, 1)", "norm(p, 1)", TORCH),
}
REMOVED: dict[str, Case] = {
    "check-removed": Case(
        "a.py", '    raise ValueError("x")', "    x = 1", "def f():\n    y = 1\n"
    ),
    "test-removed": Case("tests/test_a.py", "def test_a():\n    f()", "def helper():\n    f()"),
    "gradient-cut-gone": Case("a.py", "y = x.detach()", "y = x.clone()", TORCH),
    "collective-gone": Case("a.py", "dist.barrier()", "dist.get_rank()", TORCH),
}
WHOLE: dict[str, tuple[ChangedFile, ChangedFile]] = {
    "executable": (
        changed("a.txt", "x", "x", new_mode="100755"),
        changed("a.txt", "x", "y"),
    ),
    "link": (
        changed("a", None, None, status="A", new_path="a", new_mode="120000"),
        changed("a", None, "x"),
    ),
    "submodule": (
        changed("a", None, None, status="A", new_path="a", new_mode="160000"),
        changed("a", None, "x"),
    ),
    "binary": (
        changed("a.bin", None, None, status="A", new_path="a.bin", is_binary=True),
        changed("a.bin", None, "x"),
    ),
    "workflow-changed": (changed(".gitlab-ci.yml", "a: 1\n", "a: 2\n"), changed("a.yml", "a", "b")),
    "owners-changed": (changed("CODEOWNERS", "* @a\n", "* @b\n"), changed("OWNERS.md", "a", "b")),
    "dependency-added": (
        changed("requirements.txt", "", "rich\n"),
        changed("requirements.txt", "", "# rich\n"),
    ),
    "dependency-changed": (
        changed("requirements.txt", "rich<3\n", "rich<4\n"),
        changed("requirements.txt", "rich<3\n", "rich <3\n"),
    ),
    "dependency-removed": (
        changed("requirements.txt", "rich\n", ""),
        changed("requirements.txt", "# rich\n", ""),
    ),
    "lock-alone": (changed("uv.lock", "a", "b"), changed("uv.toml", "a", "b")),
    "vendored-changed": (changed("vendor/a.py", "a", "b"), changed("vendors.py", "a", "b")),
    "licence-changed": (changed("LICENSE", "a", "b"), changed("licences.py", "a", "b")),
    "export-removed": (
        changed("pkg/__init__.py", "def f(): ...\n", ""),
        changed("pkg/__init__.py", "def _f(): ...\n", ""),
    ),
    "export-broken": (
        changed("pkg/__init__.py", "def f(): ...\n", "def f(a): ...\n"),
        changed("pkg/__init__.py", "def f(): ...\n", "def f(a=1): ...\n"),
    ),
    "public-removed": (
        changed("pkg/a.py", "def f(): ...\n", ""),
        changed("pkg/a.py", "def _f(): ...\n", ""),
    ),
    "public-broken": (
        changed("pkg/a.py", "def f(a): ...\n", "def f(b): ...\n"),
        changed("pkg/a.py", "def f(a): ...\n", "def f(a: int): ...\n"),
    ),
    "migration": (changed("app/migrations/1.py", None, "x = 1\n"), changed("app/a.py", None, "x")),
    "config-default": (
        changed("a.yaml", "size: 1\n", "size: 2\n"),
        changed("a.yaml", "size: 1\n", "size: 1\nname: x\n"),
    ),
    "test-file-deleted": (
        changed("tests/test_a.py", "x", None),
        changed("tests/data.py", "x", None),
    ),
    "tolerance": (
        changed("tests/test_a.py", "close(a, atol=1e-6)\n", "close(a, atol=1e-2)\n"),
        changed("tests/test_a.py", "close(a)\n", "close(b)\n"),
    ),
    "generated-edited": (
        changed("a_pb2.py", "a = 1\n", "a = 2\n"),
        changed("a.py", "a = 1", "a = 2"),
    ),
    "guidance": (changed("AGENTS.md", "a", "b"), changed("notes.md", "a", "b")),
    "reward": (
        changed("pkg/reward/a.py", "x = 1\n", "x = 2\n"),
        changed("pkg/a.py", "x = 1", "x = 2"),
    ),
    "gradient-flow": (
        changed(
            "a.py",
            f"{TORCH}def step(x):\n    y = x\n",
            f"{TORCH}def step(x):\n    y = x.detach()\n",
        ),
        changed(
            "a.py",
            f"{TORCH}def show(x):\n    y = x\n",
            f"{TORCH}def show(x):\n    y = x.detach()\n",
        ),
    ),
}


def speaks(rule: str, file: ChangedFile) -> bool:
    """Tells whether a rule sees something in a file that changed alone."""
    symbols = symbol_changes([file])
    if file.path.endswith("__init__.py"):
        symbols = tuple(replace(each, is_exported=True) for each in symbols)
    dependencies = list(dependency_changes(file.path, file.old_text, file.new_text))
    return bool(list(Matcher([file], symbols, dependencies).signals([RULES[rule]])))


def test_every_rule_has_a_case() -> None:
    assert {*ADDED, *REMOVED, *WHOLE} | FACTS == set(RULES)


@pytest.mark.parametrize("rule", ADDED)
def test_a_rule_sees_what_is_added(rule: str) -> None:
    path, seen, quiet, before = ADDED[rule]
    assert speaks(rule, changed(path, before, f"{before}{seen}\n"))
    assert not speaks(rule, changed(path, before, f"{before}{quiet}\n"))
    assert not speaks(rule, changed(path, f"{before}{seen}\n", f"{before}{seen}\n# more\n"))


@pytest.mark.parametrize("rule", REMOVED)
def test_a_rule_sees_what_is_removed(rule: str) -> None:
    path, seen, quiet, before = REMOVED[rule]
    assert speaks(rule, changed(path, f"{before}{seen}\n", before))
    assert not speaks(rule, changed(path, f"{before}{quiet}\n", before))


@pytest.mark.parametrize("rule", WHOLE)
def test_a_rule_sees_a_whole_file(rule: str) -> None:
    seen, quiet = WHOLE[rule]
    assert speaks(rule, seen)
    assert not speaks(rule, quiet)


def test_an_aws_key_is_known_by_the_name_before_it() -> None:
    kept = "AWS_SECRET_ACCESS_KEY = os.environ['AWS_SECRET_ACCESS_KEY']\n"
    assert not speaks("secret", changed("a.py", "", kept))
    assert not speaks("secret", changed("a.py", "", f"DIGEST = '{'aB3/' * 10}'\n"))
    assert speaks("secret", changed("a.py", "", f"AWS_SECRET_ACCESS_KEY = '{'aB3/' * 10}'\n"))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"KEY = 'AKIA{'ABCDEFGH' * 2}'", "KEY = 'AKIA…'"),
        ('    password = "hunter2secret"', "pass…"),
        (f"print(AWS_SECRET_ACCESS_KEY='{'aB3/' * 10}')", "print(AWS_…')"),
    ],
)
def test_no_finding_shows_a_secret(line: str, shown: str) -> None:
    matcher = Matcher([changed("a.py", "", f"{line}\n")], (), ())
    lines = [each.text for signal in matcher.signals(list(RULES.values())) for each in signal.lines]
    assert lines
    assert set(lines) == {shown}


def test_a_renamed_test_is_no_removed_one() -> None:
    old, new = ("def test_a():\n    f()\n", "def test_b():\n    f()\n")
    assert not speaks("test-removed", changed("tests/test_a.py", old, new))


def test_what_is_said_is_no_sentence_with_an_end() -> None:
    for rule in RULES.values():
        assert not rule.signal.endswith("."), rule.id
        assert rule.why.endswith("."), rule.id
        assert rule.failures or rule.when.facts, rule.id
