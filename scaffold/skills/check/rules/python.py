"""The rules of Python: imports, names, calls and blocks of code."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

PYTHON_RULES: dict[str, Rule] = {
    "argument-missing": Rule(
        "error",
        "A call gives every argument that its function needs.",
        "Code that is copied from the text raises TypeError.",
    ),
    "argument-unknown": Rule(
        "error",
        "A call names only arguments that its function has.",
        "Code that is copied from the text raises TypeError, or the argument is swallowed.",
    ),
    "argument-surplus": Rule(
        "error",
        "A call gives no more positional arguments than its function takes.",
        "Code that is copied from the text raises TypeError.",
    ),
    "import-missing": Rule(
        "error",
        "A module of this repository that a text imports exists.",
        "The first line of the code that the agent writes fails.",
    ),
    "import-name-missing": Rule(
        "error",
        "A name that a text imports from a module of this repository is there.",
        "The first line of the code that the agent writes fails.",
    ),
    "method-missing": Rule(
        "error",
        "A method or attribute that a text names with its class exists.",
        "The agent overrides or calls what nothing calls or has.",
    ),
    "name-undefined": Rule(
        "error",
        "A complete block of Python defines or imports the names it uses.",
        "The block raises NameError when it is run as it stands.",
    ),
    "parameter-order": Rule(
        "error",
        "A signature in a text has its parameters in the order of the code.",
        "Positional calls that are written after it pass the wrong values, without an error.",
    ),
    "parameter-unknown": Rule(
        "error",
        "A signature in a text has parameters that the code has.",
        "The agent passes what does not exist.",
    ),
    "python-syntax": Rule(
        "error",
        "A block of Python can be parsed.",
        "The agent copies it and gets a SyntaxError, or repairs it by guessing.",
    ),
    "symbol-deleted": Rule(
        "error",
        "A change that takes a definition away takes it out of the guidance, too.",
        "The agent looks for what was there until yesterday.",
    ),
    "symbol-missing": Rule(
        "error",
        "A dotted name of this repository exists.",
        "The agent imports or calls what is not there.",
    ),
}
