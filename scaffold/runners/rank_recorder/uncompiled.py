"""Keep torch.compile off the recorder: it would trace what is written, and write nothing."""

import sys

_PACKAGE = __name__.partition(".")[0]


def compiling():
    """Return whether a compiler traces this: nothing happens now, and is recorded then."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    return compiler is not None and compiler.is_compiling()


def keep_off(*functions):
    """Make a compiler go around functions, and around all that the recorder runs in them."""
    for function in functions:
        function._torchdynamo_disable = True
    torch = sys.modules.get("torch")
    dynamo = getattr(getattr(torch, "_C", None), "_dynamo", None)
    skip = getattr(getattr(dynamo, "eval_frame", None), "skip_code", None)
    if skip is not None:
        for code in _codes():
            skip(code)


def _codes():
    # Misses what functools.cache wraps: what a compiler may meet must not be cached that way.
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == _PACKAGE]
    pending = []
    for module in modules:
        for value in list(vars(module).values()):
            members = vars(value).values() if isinstance(value, type) else [value]
            pending += [each.__code__ for each in members if hasattr(each, "__code__")]
    while pending:
        code = pending.pop()
        if f"/{_PACKAGE}/" in code.co_filename.replace("\\", "/"):
            yield code
        pending += [each for each in code.co_consts if hasattr(each, "co_consts")]
