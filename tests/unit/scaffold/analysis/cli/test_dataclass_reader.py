"""Programs whose options are the fields of classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.cli.argument_check import fit
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.shell_words import Word
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
    "pydantic": "from pydantic_settings import BaseSettings, CliApp\n"
    "from pkg.config import Optimizer\nclass Settings(BaseSettings):\n    run_name: str\n"
    "    optimizer: Optimizer\ndef main():\n    CliApp.run(Settings)\n",
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
        ("hf", "--run_name x --made 3", ["option-unknown"]),
        ("hf", "--run_name x --num_epochs 3", ["option-unknown"]),
        ("tyro", "--run-name x --optimizer.lr 1e-4 --optimizer.no-warm-up --no-push-to-hub", []),
        ("tyro", "--run_name x --optimizer.lrate 1e-4", ["option-unknown"]),
        ("tyro_function", "--run-name x --optimizer.lr 1 --num-steps 2", []),
        ("tyro_function", "--run-name x --steps 2", ["option-unknown"]),
        ("pydantic", "--run_name x --optimizer.lr 1e-4", []),
        ("pydantic", "--optimizer.rate 1e-4", ["option-unknown"]),
        ("omegaconf", "run_name=x optimizer.lr=1e-4 else=where", []),
    ],
)
def test_a_line_fits_the_fields(name: str, line: str, problems: list[str], tmp_path: Path) -> None:
    command = read(tmp_path, {"run.py": PROGRAMS[name]}, "run.py")
    assert command is not None
    assert command.is_open == (name == "omegaconf"), command.why_open
    result = fit(command, [Word(word, 0, 0) for word in line.split()])
    assert [each.kind for each in result.problems.values()] == problems


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


HF = """
from dataclasses import dataclass
from transformers import HfArgumentParser
@dataclass
class Args:
    name: str
    must: bool
    use_fast: bool = True
    num_steps: int = 3
    x: int = 1
def main():
    HfArgumentParser(Args).parse_args_into_dataclasses()
"""
TYRO_NESTED = """
import dataclasses
import tyro
@dataclasses.dataclass
class Optimizer:
    learning_rate: float = 1.0
    nesterov: bool = False
@dataclasses.dataclass
class Config:
    out_dir: str
    must: bool
    optimizer: Optimizer
    on: bool = True
def main():
    tyro.cli(Config)
"""
TYRO_PLACES = """
import tyro
def run(source: str, /, *rest: str, num: int = 1): ...
def main():
    tyro.cli(run)
"""
TYRO_TABLE = """
import dataclasses
import tyro
@dataclasses.dataclass
class Config:
    opts: dict[str, float] = dataclasses.field(default_factory=lambda: {"lr": 1.0})
def main():
    tyro.cli(Config)
"""
PYDANTIC = """
from pydantic import BaseModel
from pydantic_settings import BaseSettings, CliApp
class Sub(BaseModel):
    v: int = 1
class Settings(BaseSettings):
    x: int = 1
    my_foo: bool = False
    sub: Sub = Sub()
def main():
    CliApp.run(Settings)
"""
CHZ = """
import chz
def run(name: str, num_steps: int = 3): ...
def main():
    chz.entrypoint(run)
"""
CHZ_NESTED = """
import chz
@chz.chz
class Base:
    a: int = 1
@chz.chz
class Other(Base):
    b: int = 2
@chz.chz
class Config:
    name: str
    base: Base
def run(config: Config): ...
def main():
    chz.nested_entrypoint(run)
"""
OMEGACONF = """
from dataclasses import dataclass
from omegaconf import OmegaConf
@dataclass
class Config:
    host: str = "x"
def main():
    OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.from_cli())
"""
TAKEN = {
    "hf": (HF, ["--name x", "--name x --must true --no-use-fast", "--name x --no_use_fast"]),
    "tyro": (
        TYRO_NESTED,
        [
            "--out-dir x --must True --optimizer.no-nesterov",
            "--out_dir x --must False --no-on --optimizer.learning_rate 1",
        ],
    ),
    "tyro places": (TYRO_PLACES, ["a", "a --rest b c --num 2"]),
    "tyro table": (TYRO_TABLE, ["--opts.lr 2"]),
    "pydantic": (PYDANTIC, ["-x 2 --sub.v 3 --my_foo true", "--sub {}"]),
    "chz": (CHZ, ["name=x num_steps=3"]),
    "chz nested": (CHZ_NESTED, ["name=x base=Other base.b=3", "name=x ...a=2"]),
    "omegaconf": (OMEGACONF, ["host=y"]),
}
REFUSED = {
    "hf": (HF, ["--name x -y 2", "--name x --steps 3"]),
    "tyro": (
        TYRO_NESTED,
        [
            "--out-dir x --must True --no-optimizer.nesterov",
        ],
    ),
    "pydantic": (PYDANTIC, ["--y 2", "--foo true", "--sub.w 3"]),
    "chz": (CHZ, ["name=x steps=2"]),
}


@pytest.mark.parametrize(
    ("text", "line"), [(text, line) for text, lines in TAKEN.values() for line in lines]
)
def test_a_line_that_the_library_takes_has_no_problem(text: str, line: str, tmp_path: Path) -> None:
    assert problems_of(text, line, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "line"), [(text, line) for text, lines in REFUSED.values() for line in lines]
)
def test_a_line_that_the_library_refuses_has_a_problem(
    text: str, line: str, tmp_path: Path
) -> None:
    assert problems_of(text, line, tmp_path)


def problems_of(text: str, line: str, root: Path) -> list[str]:
    command = read(root, {"run.py": text}, "run.py")
    assert command is not None
    result = fit(command, [Word(word, 0, 0) for word in line.split()])
    return [each.message for each in result.problems.values()]


@pytest.mark.parametrize(
    "text",
    [
        HF.replace("HfArgumentParser(Args).", "p = HfArgumentParser(Args)\n    p.add_argument('-y')"
                   "\n    p."),
        HF.replace("dataclasses()", "dataclasses(args_file_flag='--cfg')"),
        TYRO_NESTED.replace("import tyro", "import tyro as t").replace("tyro.cli", "t.cli"),
        PYDANTIC.replace("run(Settings)", "run(Settings, ['-x', '1'])"),
    ],
)  # fmt: skip
def test_a_parser_that_is_made_in_another_way_is_open(text: str, tmp_path: Path) -> None:
    command = read(tmp_path, {"run.py": text}, "run.py")
    assert command is not None
    assert command.is_open
