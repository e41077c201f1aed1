"""Record how a process joins the job and makes groups: all ranks have to do that, in one order."""

import functools
import os

from rank_recorder import answering, collectives, frames, record

SET_UP = "set-up"


def patch(c10d):
    """Wrap the functions that make groups and that leave them."""
    for name, details in (
        ("init_process_group", _init_details),
        ("new_group", _group_details),
        ("split_group", lambda _, named: {"set": {"split": repr(named.get("split_ranks"))[:200]}}),
    ):
        original = getattr(c10d, name, None)
        if original is not None:
            setattr(c10d, name, _wrapped(c10d, original, name, details))
    c10d.destroy_process_group = _wrapped_end(c10d.destroy_process_group)


def _wrapped(c10d, original, name, details):
    @functools.wraps(original)
    def call(*args, **kwargs):
        number = _begin(name, details, args, kwargs)
        result = collectives.recorded(number, "W", original, *args, **kwargs)
        if name == "init_process_group":
            world = c10d.get_world_size()
            record.current().head(kind="joined", rank=c10d.get_rank(), world=world)
            answering.start()
        return result

    return call


def _begin(name, details, args, kwargs):
    try:
        rec = record.current()
        number = next(rec.numbers)
        agreed = details(args, kwargs)
        # The other ranks take no part in a local call, so its number in the order is not theirs.
        local = bool(kwargs.get("use_local_synchronization")) or name == "split_group"
        fields = {"e": "+", "i": number, "g": SET_UP, "op": name, "in": [], **agreed}
        if not local:
            fields["n"] = collectives.next_number(SET_UP)
        fields["at"], _ = frames.place(3)
        return collectives.write_begin(rec, fields)
    except Exception as error:
        record.fault(f"{name} is not recorded", error)
        return 0


def _init_details(args, kwargs):
    rank, world = kwargs.get("rank", -1), kwargs.get("world_size", -1)
    # As torch reads them: what is not given comes from the environment.
    rank = int(os.environ.get("RANK", -1)) if rank is None or rank < 0 else rank
    world = int(os.environ.get("WORLD_SIZE", -1)) if world is None or world < 0 else world
    record.current().head(kind="joining", rank=rank, world=world)
    method = kwargs.get("init_method") or (args[1] if len(args) > 1 else None) or "env://"
    backend = kwargs.get("backend") or (args[0] if args else None)
    address = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    at = address if method == "env://" else str(method)
    return {"set": {"world": world, "backend": str(backend), "at": at}, "rank": rank}


def _group_details(args, kwargs):
    ranks = kwargs.get("ranks", args[0] if args else None)
    # An iterator can be read but once, and by the program.
    known = isinstance(ranks, (list, tuple, range, set))
    return {"set": {"ranks": sorted(int(each) for each in ranks) if known else None}}


def _wrapped_end(original):
    @functools.wraps(original)
    def destroy_process_group(group=None, *args, **kwargs):
        result = original(group, *args, **kwargs)
        # Without a group the process leaves all of them, and the job.
        if group is None:
            record.current().head(kind="left")
            collectives.leave_groups()
        return result

    return destroy_process_group
