"""Write a model as Python from its design: one module here for each part of a model.

Everything is a pure function of the design, the JSON that measuring a model of transformers gives.
"""

from __future__ import annotations

from scaffold.archon.codegen.adapter import adapter_file, in_model_order
from scaffold.archon.codegen.args import args_file
from scaffold.archon.codegen.design_format import check_design
from scaffold.archon.codegen.model import model_file
from scaffold.archon.codegen.names import names_of
from scaffold.archon.codegen.package import package_files, spec_file
from scaffold.archon.codegen.parallelize import parallelize_file
from scaffold.archon.codegen.tests import tests_file
from scaffold.archon.codegen.values import Json, simplified

__all__ = ["write_model"]


def write_model(design: Json) -> dict[str, str]:
    """Return the files of a model: path inside its folder to text, and ``test.py``.

    Args:
        design: What was found out about the model; ``folder``, ``module`` and ``spec_name`` say
            where it is going to stand, if that does not follow from its model_type. See
            ``design_format``.

    Raises:
        TemplateError: The design contradicts itself.
    """
    check_design(design)
    names = names_of(design)
    design = {key: part if key == "args" else simplified(part) for key, part in design.items()}
    model = model_file(design, names)
    # The order is read from the text that was written just before.
    design["weights"] = in_model_order(design.get("weights") or [], model)
    files = {
        **package_files(names),
        "spec.py": spec_file(names),
        "model/args.py": args_file(design, names),
        "model/model.py": model,
        "model/state_dict_adapter.py": adapter_file(design, names),
        "infra/parallelize.py": parallelize_file(design, names),
        "test.py": tests_file(design, names),
    }
    return {path: text for path, text in files.items() if text}
