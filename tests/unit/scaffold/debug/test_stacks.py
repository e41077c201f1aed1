"""Stacks, as faulthandler and py-spy write them."""

from __future__ import annotations

from scaffold.debug.records import Place
from scaffold.debug.stacks import own_frames, parse_faulthandler, parse_spy

DUMP = """\
Thread 0x00007f1 [scaffold-debug] (most recent call first):
  File "/x/rank_recorder/answering.py", line 30 in _answer
  File "/lib/python3.11/threading.py", line 975 in run

Thread 0x00007f2 [loader] (most recent call first):
  File "/app/data.py", line 4 in read

Current thread 0x00007f3 (most recent call first):
  File "/x/rank_recorder/collectives.py", line 99 in wait
  File "/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce
  File "/app/train.py", line 12 in step
"""


def test_the_main_thread_comes_first_and_the_recorder_is_left_out() -> None:
    main, loader = parse_faulthandler(DUMP)
    assert main.is_main
    assert [frame.function for frame in main.frames] == ["all_reduce", "step"]
    assert (loader.thread, loader.is_main) == ("loader", False)
    assert own_frames(main.frames) == (Place("/app/train.py", 12, "step"),)


def test_a_signal_that_another_thread_took_leaves_the_last_one_as_main() -> None:
    taken = DUMP.replace("Thread 0x00007f1", "Current thread 0x00007f1")
    taken = taken.replace("Current thread 0x00007f3", "Thread 0x00007f3")
    assert parse_faulthandler(taken)[0].frames[-1].function == "step"


def test_nothing_is_made_of_an_empty_file() -> None:
    assert parse_faulthandler("") == ()


def test_what_py_spy_prints_is_read() -> None:
    text = (
        "Process 42: python train.py\nPython v3.11.7 (/usr/bin/python)\n\n"
        'Thread 43 (idle): "loader"\n    read (data.py:4)\n'
        'Thread 42 (active): "MainThread"\n    ncclAllReduce (libnccl.so.2)\n'
        "    step (train.py:12)\n"
    )
    main, loader = parse_spy(text, 42)
    assert main.is_main
    assert main.frames == (Place("libnccl.so.2", 0, "ncclAllReduce"), Place("train.py", 12, "step"))
    assert loader.thread == "loader"
