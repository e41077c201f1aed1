"""Record how processes end: their own end by themselves, that of killed ones by who waits."""

import atexit
import functools
import os
import sys

from rank_recorder import answering, frames, record

MAX_FRAMES = 40


def watch_own_end():
    """Record an exception that ends the program, and an orderly end."""
    shown = sys.excepthook

    @functools.wraps(shown)
    def excepthook(kind, error, trace):
        failed(error, trace)
        shown(kind, error, trace)

    sys.excepthook = excepthook
    atexit.register(_ended)


def failed(error, trace):
    """Record the exception that ends this process."""
    rec = record.known()
    if rec is None:
        return  # no rank: it gets no record for its end alone
    try:
        rec.head(
            kind="exception",
            type=type(error).__name__,
            message=str(error)[:2000],
            frames=frames.traced(trace)[-MAX_FRAMES:],
        )
        _flight(rec)
        watching = sys.modules.get("rank_recorder.watching_modules")
        if watching is not None:  # the program has imported torch's modules
            watching.on_error(error)
    except Exception as fault:
        record.fault("exception", fault)


def _ended():
    rec = record.known()
    if rec is not None:
        _flight(rec)
        rec.head(kind="end")


def _flight(rec):
    if "torch.distributed.distributed_c10d" in sys.modules:
        answering.write_flight(os.path.join(record.folder(), f"{rec.pid}.flight.json"))


def watch_children(module):
    """Record how a child ended that is a process of the job; `module` is subprocess."""
    for name in ("poll", "wait"):
        original = getattr(module.Popen, name)
        setattr(module.Popen, name, _polled(original, lambda self: self.returncode))


def watch_spawned(module):
    """Record ends for multiprocessing, where errors end in the module and not in the hook."""
    process = getattr(module, "BaseProcess", None)
    if process is not None:
        process.run = _caught(process.run)
        process.exitcode = _polled_property(process.exitcode)
    if hasattr(module, "_wrap"):  # torch's spawn keeps errors for the parent
        module._wrap = _unwrapped(module._wrap)


def _polled(original, status_of):
    @functools.wraps(original)
    def poll(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        _child(self.pid, status_of(self))
        return result

    return poll


def _polled_property(original):
    def exitcode(self):
        status = original.fget(self)
        _child(self.pid, status)
        return status

    return property(exitcode, doc=original.__doc__)


_recorded = set()


def _child(pid, status):
    if status is None or pid is None or pid in _recorded:
        return
    try:
        if os.path.exists(os.path.join(record.folder(), f"{pid}.head.jsonl")):
            _recorded.add(pid)
            record.current().head(kind="child", pid=pid, status=status)
    except Exception as error:
        record.fault("child", error)


def _caught(original):
    @functools.wraps(original)
    def run(self):
        try:
            result = original(self)
        except BaseException as error:
            if not isinstance(error, SystemExit):  # an orderly way out
                failed(error, error.__traceback__)
            raise
        _ended()  # a forked child leaves by os._exit, which calls nothing
        return result

    return run


def _unwrapped(original):
    @functools.wraps(original)
    def _wrap(fn, *args, **kwargs):
        @functools.wraps(fn)
        def record_failure(*inner, **named):
            try:
                return fn(*inner, **named)
            except Exception as error:
                failed(error, error.__traceback__)
                raise

        return original(record_failure, *args, **kwargs)

    return _wrap
