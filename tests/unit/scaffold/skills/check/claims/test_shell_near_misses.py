"""Shell as people write it in skills and docs: none of it is wrong, so nothing may be reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import check_repository
from scaffold.skills.check.rules.shell import SHELL_RULES

FILES = {
    "pyproject.toml": "[project]\nname = 'tidy'\n[project.scripts]\ntidy = 'tidy.cli:main'\n",
    "tidy/__init__.py": "",
    "tidy/cli.py": (
        "import argparse\n\ndef main():\n    parser = argparse.ArgumentParser()\n"
        "    commands = parser.add_subparsers()\n    sort = commands.add_parser('sort')\n"
        "    sort.add_argument('path')\n    sort.add_argument('--style', choices=['a', 'b'])\n"
        "    sort.add_argument('--config')\n    sort.add_argument('--set', action='append')\n"
        "    sort.add_argument('-n', type=int)\n    parser.parse_args()\n"
    ),
    "Makefile": "test:\n\techo\n",
    "package.json": '{"scripts": {"test": "x"}}',
    "tests/test_a.py": "def test_one(): ...\n",
    "tools/run.sh": "echo\n",
    "train.py": "import sys\nprint(sys.argv)\n",
    ".pre-commit-config.yaml": "repos:\n  - hooks:\n      - id: lint\n",
}
SHELL = [
    "tidy sort . --config=$HOME/x.yaml --set a=1 --set b=[1,2] -n -1",
    "tidy sort {src,tests} --style ${STYLE:-a}",
    'tidy sort "$(git rev-parse --show-toplevel)/src" --config <(cat x)',
    "find . -name '*.py' -exec tidy sort {} \\;",
    "git ls-files | xargs -n1 tidy sort --style a",
    "tidy sort src 2>&1 | tee log.txt || true",
    "if tidy sort src; then echo ok; fi",
    "while ! tidy sort src; do sleep 1; done",
    "for d in a b; do (cd $d && make all && npm run build); done",
    "docker run --rm -v $PWD:/x image tidy sort --unknown",
    "ssh host 'tidy sort --unknown'",
    'bash -c "tidy sort --unknown"',
    "tmux new -d 'make nothing'",
    "alias t='tidy sort --unknown'",
    "cd frontend\nnpm run build\nnpm run dev",
    "cd /tmp/x && make all && pytest tests/test_gone.py",
    "git clone https://example.org/x.git\ncd x\npip install -e .[all]\npython setup.py install",
    "pip install -r https://example.org/requirements.txt",
    "pip install 'torch>=2' -e '.[dev]' --extra-index-url https://example.org || true"
    "  # fails without extras",
    "python train.py --anything 3 model.size=4 +x=1",
    "torchrun --nproc_per_node 8 train.py --lr 1e-4",
    "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --config_file x.yaml train.py --lr 1",
    "python -m torch.distributed.run --nnodes=2 train.py",
    "python -m json.tool < x.json",
    "python - <<'PY'\nimport tidy\nprint('it is')\nPY",
    "uv run --with pytest pytest -q tests/test_a.py::test_one",
    "uv run python -c 'import tidy.gone'",
    "uvx tidy@latest sort --unknown-in-the-latest",
    "make test -C elsewhere install",
    "make -j$(nproc) test V=1",
    "make test | grep build",
    "make TARGET=prod deploy  # once you added the target; it does not exist yet",
    "npm run",
    "npm run test:unit --if-present || npm test  # not every project has it",
    "pre-commit run --hook-stage manual lint",
    "pytest tests/test_a.py -k 'one or two' -p no:cacheprovider --durations=5",
    "pytest tests/<module>/test_<name>.py::TestX -x",
    "pytest --pyargs tidy",
    "chmod +x tools/run.sh && ./tools/run.sh",
    "sh tools/run.sh; . tools/run.sh",
    "export PATH=$PATH:~/bin; tidy sort .",
    "curl -sSf https://example.org/install.sh | sh -s -- --yes",
    "python <<EOF\nx = '''it's'''\nEOF\ntidy sort .",
    "echo 'a\nb'\ntidy sort .",
    "tidy sort . --style a \\\n    `# the style` \\\n    --config x",
    "# tidy sort --unknown\ntidy sort .",
    "tidy sort . --style a|b|...",
    "tidy sort PATH [--style STYLE] [--config FILE ...]",
    "usage: tidy sort --unknown",
    "tidy: error: unrecognized arguments: --unknown",
    "$ tidy sort .\nSorted.  Don't panic: tidy sort --unknown\n$ echo done",
    "(.venv) $ tidy sort .\n> tidy sort --unknown",
    "function build() { make $1; }\nbuild x",
    "[[ -f x ]] && ./x --go",
    "./gradlew build",
    "./your-script.sh --go",
    "./path/to/script.py",
    "python path/to/file.py",
    "python examples/my_example.py",
    "python script.py",
    "$SKILL_DIR/$NAME.sh",
    "~/bin/tidy-all --x",
    "/opt/tidy/bin/tidy sort --unknown",
    "tidy sort \"it's a path\" --style 'a'",
    "tidy sort -- --unknown",
    "sed -i 's/make test/make gone/' README.md",
    "grep -rn 'tidy sort --unknown' .",
    "timeout 5m tidy sort . && time tidy sort .",
    "sudo -u me env X=1 nice -n 5 tidy sort .",
    'gh pr create --title "feat: x" --body "$(cat <<\'EOF\'\nit\'s\nEOF\n)"',
    "tidy sort . &\nwait",
    "case $1 in\n  a) make test ;;\nesac",
]
TEXT = [
    "Use `make` or `make -n`. A `make-like` tool, `npm` itself, `tidy` and `tidy sort`.",
    "Write `feat(tidy): sort`. The type is `list[str] | None`, the call `tidy(sort)`.",
    "Set `tidy = true`, `tidy.sort: up`, and read `tidy sort: done` in the log.",
    "The branch `tidy/sort-things` is old; there is no option `tidy sort --unknown`.",
    "Do not run `make all`; avoid `tidy sort --unknown`.",
    "Add a target to the Makefile, for example `make mine`.",
    "Your project may have `npm run build`; if it has a `make lint`, run it.",
    "In SQL, `select x from tidy`; in JS, `const x = 1`; in YAML, `run: make gone`.",
    "Ask `python -m your.module` or `python -m <package>.main`.",
    "Create `tools/new.sh` and run `bash tools/new.sh`.",
    "Give `tidy sort --style` one of two; `tidy sort --config` reads a file.",
    "Run `tests/test_a.py -k one` with pytest.",
    "`uv run` starts it, `uv run pytest` tests it, `uv sync --all-extras` installs it.",
]


@pytest.mark.parametrize("line", SHELL)
def test_shell_of_a_block_is_left_alone(line: str, tmp_path: Path) -> None:
    assert found(f"Run it:\n\n```bash\n{line}\n```\n", tmp_path) == []


@pytest.mark.parametrize("line", TEXT)
def test_inline_code_is_left_alone(line: str, tmp_path: Path) -> None:
    assert found(f"{line}\n", tmp_path) == []


def test_one_text_with_all_of_it_is_left_alone(tmp_path: Path) -> None:
    blocks = "\n".join(f"```sh\n{line}\n```\n" for line in SHELL)
    assert found(blocks + "\n\n".join(TEXT), tmp_path) == []


def test_a_pack_leaves_what_is_of_the_reader_alone(tmp_path: Path) -> None:
    text = "```bash\nmake all\nnpm run build\npytest tests/test_gone.py\npython src/app.py\n```\n"
    assert found(text, tmp_path, "skills/run-it/SKILL.md") == []


def test_the_same_program_is_still_checked(tmp_path: Path) -> None:
    text = "```bash\ntidy sort . --unknown\n```\n"
    assert found(text, tmp_path) == ["option-unknown"]


def found(body: str, root: Path, path: str = ".agents/skills/run-it/SKILL.md") -> list[str]:
    """Returns the rules of shell that a skill of this body breaks."""
    head = "---\nname: run-it\ndescription: Runs it. Use when it is to run.\n---\n\n"
    for name, text in {**FILES, path: head + body}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    outcome = check_repository(Repository(list_files(root)))
    return [each.rule for each in outcome.findings if each.rule in SHELL_RULES]
