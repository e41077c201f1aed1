"""Find the frames of a call: the nearest one outside of torch, and the program's own."""

import os
import sys
import sysconfig

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_kinds = {}  # by file, as every call of a collective looks its frames up


def place(depth=2):
    """Return where the caller was called from.

    Args:
        depth: How many frames belong to the recorder.

    Returns:
        Places as [file, line, function]: the nearest outside of torch and, where that is an
        installed package, the nearest of the program's own; then the function of
        torch.distributed that the program called, or "".
    """
    frame = sys._getframe(depth)
    nearest, own, via, inner = None, None, "", None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == "torch.distributed" and nearest is None:
            name = frame.f_code.co_name
            # The public name of the call, as against those of the decorators around it.
            via = via if name in ("wrapper", "inner", "<lambda>") else name
        elif kind == "torch" and nearest is None:
            inner = inner or _of(frame)
        elif kind in ("package", "program"):
            nearest = nearest or _of(frame)
            if kind == "program":
                own = _of(frame)
                break
        frame = frame.f_back
    nearest = nearest or inner
    return [each for each in (nearest, own if own != nearest else None) if each], via


def traced(trace):
    """Return the frames of a traceback as [file, line, function], the outermost first."""
    rows = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if _kind(code.co_filename) != "recorder":
            rows.append([code.co_filename, trace.tb_lineno, code.co_name])
        trace = trace.tb_next
    return rows


def raised_at(error):
    """Return where an exception comes from: the innermost frame of the program's own."""
    rows = traced(error.__traceback__)
    own = [row for row in rows if _kind(row[0]) == "program"]
    return (own or rows or [None])[-1]


def _of(frame):
    return [frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]


def _kind(file):
    kind = _kinds.get(file)
    if kind is None:
        kind = _kinds[file] = _find_kind(file)
    return kind


def _find_kind(file):
    # Frames of the recorder itself, and of imports that it wraps.
    if file.startswith((_HERE, "<frozen")):
        return "recorder"
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch is not None and file.startswith(os.path.dirname(torch) + os.sep):
        end = file[len(os.path.dirname(torch)) + 1 :].replace(os.sep, "/")
        return "torch.distributed" if end == "distributed/distributed_c10d.py" else "torch"
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return "package"
    return "standard" if file.startswith(_STANDARD) else "program"
