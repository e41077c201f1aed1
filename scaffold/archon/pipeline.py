"""One model on its way: requested, measured, written, staged and proven."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from scaffold.archon.codegen.names import ARCHON
from scaffold.archon.probe import probe
from scaffold.archon.render import with_written
from scaffold.archon.source import ModelSource
from scaffold.archon.staging import check_bases, check_shared_parts, stage_files
from scaffold.edit import shapes
from scaffold.errors import ScaffoldError
from scaffold.target.target import Target
from scaffold.templating.answers import complete_answers
from scaffold.templating.names import canonical_key
from scaffold.templating.request import Request
from scaffold.templating.spec import Kind, all_answers
from scaffold.units.add import file_style_for, rendered_files
from scaffold.units.context import Options
from scaffold.units.prepare import request_for
from scaffold.verify.interpreter import find_interpreter

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile

KIND = "archon-model"
PROVEN, UNPROVEN = "proven", "unproven"
Log = Callable[[str], None]


class ModelOptions(NamedTuple):
    """How a model is to be made.

    Args:
        name: What it is called; None for its model_type.
        python: What ``--python`` named.
        explain: Whether the report has each decision with its evidence.
        keep_unproven: Whether it is registered although its proof fails.
        skip_proof: Whether a dry run does without the proof.
        timeout_s: The limit of the measuring and of the proof, each.
    """

    name: str | None = None
    python: str | None = None
    explain: bool = False
    keep_unproven: bool = False
    skip_proof: bool = False
    timeout_s: float = 1800.0


def model_request(
    target: Target, kind: Kind, source: ModelSource, given: Mapping[str, Any], name: str | None
) -> Request:
    """Return the request for one model: its answers checked and its names derived."""
    styles = target.catalogue.styles(kind, ())
    key = canonical_key(name or source.model_type.replace(".", "_"), kind.suffixes, kind.reserved)
    answers = model_answers(kind, source, given)

    def registered(spelling: str) -> Request:
        return request_for(target, kind, styles, key, answers, {"registered": spelling})

    request = registered(source.model_type)
    is_taken = name is not None and _is_taken(target, request)
    # With a name of its own a second model of the type is found under that name.
    return registered(key) if is_taken else request


def _is_taken(target: Target, request: Request) -> bool:
    """Return whether a registry has the model_type for another model already."""
    for entry in request.edited():
        with suppress(OSError, ScaffoldError):  # the plan reports what is wrong with it
            known = shapes.read_entries((target.root / entry.file).read_bytes(), entry)
            if entry.key in known and known[entry.key] != entry.value:
                return True
    return False


@dataclass(frozen=True)
class Drawn:
    """A design as files, and what the proof of them came to.

    Attributes:
        design: As derived, with the refusals of what the proof found wrong.
        proof: Empty where it was not wanted.
    """

    request: Request
    design: Mapping[str, Any]
    rendered: tuple[RenderedFile, ...]
    warnings: tuple[str, ...]
    proof: Mapping[str, Any]


class ModelWork:
    """One model on its way from the question to the proof.

    Args:
        is_fast: Whether the proof is of few configurations.
        is_split: Whether the model is also split over two processes, in every way.
    """

    def __init__(
        self,
        target: Target,
        how: ModelOptions,
        log: Log,
        *,
        is_fast: bool = False,
        is_split: bool = False,
    ) -> None:
        self.target, self.how, self.log = target, how, log
        self.is_fast, self.is_split = is_fast, is_split
        self.python = find_interpreter(target, how.python)

    def derive(
        self, source: ModelSource, answers: Mapping[str, Any], parts: str = ""
    ) -> dict[str, Any]:
        """Measure the model of transformers, in the target's interpreter.

        Args:
            source: The model.
            answers: To the kind's questions.
            parts: Dotted name of the package of shared parts, where the model is to be written:
                what it will need there is checked first, as measuring takes long.
        """
        asked = _asked(source, answers)
        if parts:
            check_bases(self.target.root, parts)
            # Parts that come along are not there yet, and import the package around them.
            asked["needs"] = f"{ARCHON}.decoder" if parts == ARCHON else ARCHON
        self.log(f"measuring {source.model_type} with {self.python.describe()}")
        found = self._probe("derive", asked)
        return {**cast("dict[str, Any]", found["design"]), "versions": found["versions"]}

    def render(
        self, request: Request, design: Mapping[str, Any], options: Options
    ) -> tuple[Request, tuple[RenderedFile, ...], tuple[str, ...]]:
        """Write the design as the target would write it."""
        own = self.target.catalogue.files(request.kind.name)
        request, sources = with_written(request, design, own)
        file_style = file_style_for(self.target, request)
        rendered, warnings = rendered_files(
            self.target, request, file_style, with_format=options.with_format, sources=sources
        )
        # Checked before the proof, which would only fail on the import.
        texts = {file.path: file.data for file in rendered}
        check_shared_parts(self.target.root, self.target.package, texts)
        return request, rendered, warnings

    def draw(
        self,
        request: Request,
        source: ModelSource,
        design: Mapping[str, Any],
        options: Options,
    ) -> Drawn:
        """Write a design and prove it; where only options are wrong, it is made to refuse them.

        An option that no measurement explains shows in the proof, which names the conditions
        the model would refuse it. So it is written once more with them, and proven once more.
        """
        drawn = Drawn(request, design, (), (), {})
        # At most twice: what the second proof finds wrong is no option that could be refused.
        for _ in range(2):
            made, rendered, warnings = self.render(request, drawn.design, options)
            drawn = replace(drawn, request=made, rendered=rendered, warnings=warnings)
            if self.how.skip_proof:
                break
            proof = self.prove(made, source, rendered, drawn.design)
            drawn = replace(drawn, proof=proof)
            wrong = refusals_found(proof)
            if not wrong:
                break
            self.log(f"{request.key} gets {len(wrong)} options wrong; it will refuse them")
            drawn = replace(drawn, design=with_refusals(drawn.design, wrong))
        return drawn

    def prove(
        self,
        request: Request,
        source: ModelSource,
        rendered: Sequence[RenderedFile],
        design: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Prove the files where nothing of the target has changed yet."""
        self.log(f"proving {request.key} against transformers {design['versions']['transformers']}")
        with tempfile.TemporaryDirectory() as folder:
            test = stage_files(rendered, request.names["inside"], Path(folder))
            asked = {
                **_asked(source, request.answers),
                "spec": request.symbol,
                "design": design,
                "package": request.names["registry_module"],
                "overlay": str(Path(folder) / "package"),
                "test": None if test is None else str(test),
                "fast": self.is_fast,
                "split": self.is_split,
            }
            return self._probe("prove", asked)

    def _probe(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        return probe(name, asked, self.python, self.target.root, self.how.timeout_s, self.log)


def refusals_found(proof: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the conditions under which a model has to refuse what its proof found wrong."""
    return [] if proof.get("ok") else list(proof.get("refusals") or [])


def with_refusals(
    design: Mapping[str, Any], refusals: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Return a design that refuses more configurations; what it refuses already stays once."""
    known = cast("list[Mapping[str, str]]", design.get("refusals") or [])
    said = {row["condition"] for row in known}
    return {**design, "refusals": [*known, *(r for r in refusals if r["condition"] not in said)]}


def _asked(source: ModelSource, answers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_type": source.model_type,
        "config": source.config,
        "checkpoint": None if source.checkpoint is None else str(source.checkpoint),
        "text_only": bool(answers["text_only"]),
        "trust_remote_code": bool(answers["trust_remote_code"]),
    }


def model_answers(kind: Kind, source: ModelSource, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to every question, those that the source answers among them."""
    known = {"model_type": source.model_type, "config": source.config_text}
    # What the source has wins over what was typed.
    return {**complete_answers(all_answers(kind, ()), {**given, **known})}


def measured(request: Request, design: Mapping[str, Any]) -> Request:
    """Return a request that remembers which transformers its design was measured on."""
    version = str(design["versions"].get("transformers", ""))
    return replace(request, answers={**request.answers, "transformers": version})
