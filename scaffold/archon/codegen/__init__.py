"""Write a model as Python from its design: one module here for each part of a model.

Everything is a pure function of the design, the JSON that measuring a model of transformers gives.

A design is JSON. A value in it is a literal, or one of ``{"arg": NAME}``, ``{"layer_arg": NAME}``
(a field with one entry for each layer) and ``{"expr": PYTHON}`` over ``args`` and ``layer_id``. A
part that a model has only under some configs has ``"when": VALUE``; what it never has is left out.

    model_type, class_prefix   what transformers calls the model; what the classes start with
    source                     versions and classes of what was measured
    args                       fields of the arguments: name, type, default, doc and expr, which is
                               Python over hf_config, n_layers and {fields} named in braces
    refusals                   conditions over hf_config that raise, each with its message
    ropes                      name of a field to expr, default, pairing, reverse and layer_type
    embedding                  multiplier, norm, token_types, positions, padding_idx, projection
    block                      modules (name, kind, norm, when) and variants, each a list of steps
    attention                  kind gqa: sizes, biases, clip_qkv, norms, rope, scale, softcap,
                               window, chunk, causal, sinks, alibi, gate, temperature, out_norm;
                               kind mla: ranks
    mixer                      class of transformers that mixes tokens where attention does not,
                               and whether it is built from the number of the layer
    mlp, moe                   the feed-forward; the experts and how tokens choose among them
    encoder                    true where a sequence gets a score; then tokens see later ones
    head                       norm, bias, multiplier, softcap, transform; pooling of an encoder
    weights                    rules from names on the Hub to names of parameters
    unknown                    what could not be decided; it is named in the written files

A step is ``{"out", "call", "in"}`` (a module, or several that exclude each other) or ``{"out",
"sum": [[name, weight], ...]}``; the first input is ``x``.
"""

from __future__ import annotations

from scaffold.archon.codegen.adapter import adapter_file, in_model_order
from scaffold.archon.codegen.args import args_file
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
            where it is going to be, if that does not follow from its model_type.

    Raises:
        TemplateError: What decides the text follows the configuration.
    """
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
