"""Programs whose options are the fields of classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.cli.argument_check import Input, fit
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.files.files import list_files
from scaffold.analysis.repository import Repository

CLASSES = """
from dataclasses import dataclass, field
from typing import Literal, Optional


@dataclass
class Optimizer:
    lr: float = 1e-5
    warm_up: bool = True


@dataclass
class Base:
    run_name: str


@dataclass
class Config(Base):
    num_steps: Optional[int] = None
    mode: Literal["fast", "slow"] = "fast"
    push_to_hub: bool = True
    layers: list[int] = field(default_factory=list)
    optimizer: Optimizer = field(default_factory=Optimizer)
    made: int = field(default=0, init=False)
"""
PROGRAMS = {
    "hf": "from transformers import HfArgumentParser\nfrom pkg.config import Config\n"
    "def main():\n    HfArgumentParser((Config,)).parse_args_into_dataclasses()\n",
    "tyro": "import tyro\nfrom pkg.config import Config\ndef main():\n    tyro.cli(Config)\n",
    "tyro_function": "import tyro\nfrom pkg.config import Config, Optimizer\n"
    "def run(run_name: str, optimizer: Optimizer, num_steps: int = 1): ...\n"
    "def main():\n    tyro.cli(run)\n",
    "simple": "import simple_parsing\nfrom pkg.config import Config\n"
    "def main():\n    simple_parsing.parse(Config)\n",
    "pydantic": "from pydantic_settings import BaseSettings, CliApp\n"
    "from pkg.config import Optimizer\nclass Settings(BaseSettings):\n    run_name: str\n"
    "    optimizer: Optimizer\ndef main():\n    CliApp.run(Settings)\n",
    "chz": "import chz\nfrom pkg.config import Config\ndef run(config: Config): ...\n"
    "def main():\n    chz.nested_entrypoint(run)\n",
    "omegaconf": "from omegaconf import OmegaConf\nfrom pkg.config import Config\ndef main():\n"
    "    OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.from_cli())\n",
}


def read(root: Path, files: dict[str, str], name: str) -> Command | None:
    for path, text in {"pkg/__init__.py": "", "pkg/config.py": CLASSES, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Repository(list_files(root)).programs.command_of(name, "main")


@pytest.mark.parametrize(
    ("name", "line", "problems"),
    [
        ("hf", "--run_name x --num-steps 3 --no_push_to_hub --mode slow --layers 1 2", []),
        ("hf", "--num_steps 3", ["option-required"]),
        ("hf", "--run_name x --made 3", ["option-unknown"]),
        ("hf", "--run_name x --mode middling", ["choice-unknown"]),
        ("hf", "--run_name x --num_epochs 3", ["option-unknown"]),
        ("tyro", "--run-name x --optimizer.lr 1e-4 --optimizer.no-warm-up --no-push-to-hub", []),
        ("tyro", "--run_name x --optimizer.lrate 1e-4", ["option-unknown"]),
        ("tyro_function", "--run-name x --optimizer.lr 1 --num-steps 2", []),
        ("tyro_function", "--run-name x --steps 2", ["option-unknown"]),
        ("simple", "--run_name x --lr 1e-4 --optimizer.lr 2", []),
        ("simple", "--run_name x --rate 1e-4", ["option-unknown"]),
        ("pydantic", "--run_name x --optimizer.lr 1e-4", []),
        ("pydantic", "--optimizer.rate 1e-4", ["option-unknown"]),
        ("chz", "run_name=x optimizer.lr=1e-4", []),
        ("chz", "run_name=x optimizer.rate=1e-4", ["option-unknown"]),
        ("omegaconf", "run_name=x optimizer.lr=1e-4 else=where", []),
    ],
)
def test_a_line_fits_the_fields(name: str, line: str, problems: list[str], tmp_path: Path) -> None:
    command = read(tmp_path, {"run.py": PROGRAMS[name]}, "run.py")
    assert command is not None
    assert command.is_open == (name == "omegaconf"), command.why_open
    result = fit(command, [Input(word) for word in line.split()], is_whole=True)
    assert [each.kind for each in result.problems] == problems


TYRO = "import tyro\nfrom dataclasses import dataclass\n"


@pytest.mark.parametrize(
    "text",
    [
        TYRO + "from other import Base\n@dataclass\nclass A(Base):\n    x: int = 1\n"
        "def main():\n    tyro.cli(A)\n",
        TYRO
        + "@dataclass\nclass A:\n    x: int = 1\n@dataclass\nclass B:\n    a: A | None = None\n"
        "def main():\n    tyro.cli(B)\n",
        TYRO + "@dataclass\nclass A:\n    x: tyro.conf.Positional[int] = 1\n"
        "def main():\n    tyro.cli(A)\n",
        TYRO + "@dataclass\nclass A:\n    x: int = 1\n"
        "def main():\n    tyro.cli(A, return_unknown_args=True)\n",
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "from dataclasses import dataclass\n"
        "@dataclass\nclass A(TrainingArguments):\n    x: int = 1\n"
        "def main():\n    HfArgumentParser(A).parse_args_into_dataclasses()\n",
    ],
)
def test_a_class_that_may_take_more_makes_the_command_open(text: str, tmp_path: Path) -> None:
    command = read(tmp_path, {"run.py": text}, "run.py")
    assert command is not None
    assert command.is_open


@pytest.mark.parametrize(
    "text",
    [
        "import tyro\nfrom other import A\ndef main():\n    tyro.cli(A)\n",
        "import tyro\ndef main():\n    tyro.cli(made())\n",
        "from pkg.config import Config\ndef main():\n    Config(run_name='x')\n",
    ],
)
def test_a_class_from_elsewhere_is_not_read(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, {"run.py": text}, "run.py") is None
