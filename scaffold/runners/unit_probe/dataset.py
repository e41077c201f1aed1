"""Load a dataset with its loaders and check columns, types, tokens and the dataloader.

Request: module ("package.dataset.name"), name, types (["sft", "rl", ...]), path (a real source, or
null) and, without one, samples (rows of the source).
"""

from __future__ import annotations

import heapq
import importlib
import json
import os
import tempfile
from importlib.util import find_spec
from typing import Any

from unit_probe import kit

# More than one: a batch of one row cannot mix rows up.
BATCH_SIZE = 2
# Of training: a second step shows what the first one has made of the model.
STEPS, MOST_PAIRS = 2, 4
PAIR = ("chosen_ids", "rejected_ids")
PAIR_MASKS = ("chosen_loss_mask", "rejected_loss_mask")


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    module = kit.load_symbol(findings, request["module"])
    with findings.guard("engine", "making the tokenizer"):
        tokenizer = kit.make_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        path, split = request.get("path"), request.get("split") or "train"
        if not path:
            path = os.path.join(folder, "source")
            os.mkdir(path)
            with open(os.path.join(path, f"{split}.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(sample) + "\n" for sample in request["samples"])
        # Nothing is left in the user's cache.
        os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, "cache")
        for kind in request["types"]:
            before = findings.failures
            loader = f"get_{request['name']}_{kind}_dataset"
            _check_type(findings, module, loader, kind, path, split, tokenizer)
            if findings.failures > before:
                return


def _check_type(
    findings: kit.Findings,
    module: Any,
    loader: str,
    kind: str,
    path: str,
    split: str,
    tokenizer: Any,
) -> None:
    load = getattr(module, loader, None)
    if load is None:
        findings.failed(kind, f"the registry names {loader}, which {module.__name__} lacks")
        return
    with findings.guard(
        kind,
        f"loading {path} with {loader}",
        "it is called with (path, split, tokenizer, max_length)",
    ):
        rows = load(path=path, split=split, tokenizer=tokenizer, max_length=None)
        count = len(rows)
    if not count:
        findings.failed(kind, f"{loader} returned no rows from {path}")
        return
    findings.stage(f"checking the rows of {loader}")
    message = _COLUMN_CHECKS[kind](rows, tokenizer)
    if message:
        findings.failed(kind, f"{loader}: {message}")
        return
    # Some row is longer than the limit; no prompt of a chat fits into one token.
    lengths = [length for row in rows for length in _lengths(row)]
    shortest, longest = min(lengths, default=2), max(lengths, default=2)
    # With rows of one length the limit has to be below it.
    limit = shortest if shortest < longest else shortest - 1
    with findings.guard(kind, f"loading {path} with {loader} and max_length={limit}"):
        try:
            short = load(path=path, split=split, tokenizer=tokenizer, max_length=limit)
        except ValueError:  # a loader may also refuse a limit that leaves no row
            short = []
        lengths = [length for row in short for length in _lengths(row)]
    # Rows of RL have no tokens to count: of those fewer have to come back.
    if any(length > limit for length in lengths) or (kind == "rl" and len(short) == count):
        findings.failed(
            kind, f"{loader} ignores max_length: it returned rows longer than {limit} tokens"
        )
        return
    with findings.guard(kind, f"collating the rows of {loader}"):
        message = _check_dataloader(rows, kind)
    if message:
        findings.failed(kind, f"{loader}: {message}")
        return
    trained = ""
    # Some targets train on pairs in one process, without a GPU.
    trainer = _PAIR_TRAINERS.get(kind, "").partition(":")[0]
    if trainer and kit.has_embedded_engine() and find_spec(trainer) is not None:
        with findings.guard(kind, f"training on the rows of {loader}"):
            trained = f"; {_train_on(rows, kind, tokenizer)}"
    findings.passed(kind, f"{count} rows, columns {', '.join(sorted(rows[0]))}{trained}")


def _lengths(row: dict[str, Any]) -> list[int]:
    return [len(row[key]) for key in row if key.endswith("_ids")]


def _check_sft(rows: Any, tokenizer: Any) -> str:
    """Return what is wrong with the columns of supervised fine-tuning; empty if nothing is."""
    for i, row in enumerate(rows):
        if set(row) != {"input_ids", "loss_mask"}:
            return f"row {i} has columns {sorted(row)}; expected exactly input_ids and loss_mask"
        problem = _tokens(row, "input_ids", i, tokenizer) or _mask(row, "input_ids", "loss_mask", i)
        if problem:
            return problem
    return ""


def _tokens(row: dict[str, Any], column: str, i: int, tokenizer: Any) -> str:
    """Return what is wrong with a column of token ids; empty if nothing is."""
    ids = row[column]
    if not isinstance(ids, list) or not ids or not all(type(x) is int for x in ids):
        return f"{column} of row {i} must be a non-empty list of integers"
    # A loader may have used a tokenizer of its own.
    if not all(0 <= x < len(tokenizer) for x in ids):
        return f"{column} of row {i} holds a token id outside the vocabulary of {len(tokenizer)}"
    return ""


def _mask(row: dict[str, Any], tokens: str, column: str, i: int) -> str:
    """Return what is wrong with a loss mask; empty if nothing is."""
    count, mask = len(row[tokens]), row[column]
    if not isinstance(mask, list) or len(mask) != count or not set(mask) <= {0, 1}:
        return f"{column} of row {i} must hold 0 or 1 for each of its {count} tokens"
    if not any(mask):
        return f"{column} of row {i} is 0 everywhere: nothing would be learnt"
    return ""


def _check_rl(rows: Any, tokenizer: Any) -> str:
    """Return what is wrong with the columns of reinforcement learning; empty if nothing is."""
    for i, row in enumerate(rows):
        missing = {"messages", "answer"} - set(row)
        if missing:
            return f"row {i} lacks {', '.join(sorted(missing))}; it has the columns {sorted(row)}"
        messages = row["messages"]
        if not isinstance(messages, list) or not messages:
            return f"messages of row {i} must be a non-empty list"
        for message in messages:
            if not isinstance(message, dict) or not {"role", "content"} <= set(message):
                return f"each message of row {i} needs role and content, found {message!r}"
            if not all(isinstance(message[key], str) for key in ("role", "content")):
                return f"role and content in messages of row {i} must be strings"
        if not isinstance(row["answer"], str) or not row["answer"].strip():
            return f"answer of row {i} must be a non-empty string, found {row['answer']!r}"
    return ""


def _check_rw(rows: Any, tokenizer: Any) -> str:
    """Return what is wrong with the columns of a reward model's pairs; empty if nothing is."""
    for i, row in enumerate(rows):
        if set(row) != set(PAIR):
            return f"row {i} has columns {sorted(row)}; expected exactly {' and '.join(PAIR)}"
        problem = _tokens(row, PAIR[0], i, tokenizer) or _tokens(row, PAIR[1], i, tokenizer)
        if problem:
            return problem
    if all(row[PAIR[0]] == row[PAIR[1]] for row in rows):
        return "both sides of every pair are identical: there is no preference to learn"
    return ""


def _check_dpo(rows: Any, tokenizer: Any) -> str:
    """Return what is wrong with the columns of preference pairs; empty if nothing is."""
    problem = _check_rw([{k: v for k, v in row.items() if k in PAIR} for row in rows], tokenizer)
    if problem:
        return problem
    for i, row in enumerate(rows):
        if set(row) != {*PAIR, *PAIR_MASKS}:
            names = " and ".join(PAIR_MASKS)
            return f"row {i} has the columns {sorted(row)}; it also needs {names}"
        # A side that is the beginning of the other one, end token included, has no answer.
        for ids, mask in zip(PAIR, PAIR_MASKS, strict=True):
            if problem := _mask(row, ids, mask, i):
                return problem
        pairs = zip(row[PAIR[0]], row[PAIR[1]], strict=False)
        shortest = min(len(row[side]) for side in PAIR)
        shared = next((at for at, (a, b) in enumerate(pairs) if a != b), shortest)
        if any(any(row[mask][:shared]) for mask in PAIR_MASKS):
            text = f"the masks of row {i} are 1 on some of the {shared} tokens"
            return f"{text} that both sides begin with, where there is no preference to learn"
    return ""


_PAIR_TRAINERS = {"dpo": "areal.trainer.dpo:DPOTrainer", "rw": "areal.trainer.rw:RWTrainer"}


def _train_on(rows: Any, kind: str, tokenizer: Any) -> str:
    """Train a tiny model on the shortest pairs, and return a line on how it went.

    Raises:
        ValueError: A loss is not finite, or nothing has changed.
    """
    from areal.api import cli_args

    differing = (row for row in rows if row[PAIR[0]] != row[PAIR[1]])
    few = heapq.nsmallest(MOST_PAIRS, differing, key=lambda row: max(_lengths(row)))
    model = kit.make_model(tokenizer)
    # Its positions are rotations, of which there are as many as a row needs.
    model.config.max_position_embeddings = max(4096, *(max(_lengths(row)) for row in few))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        optimizer = cli_args.OptimizerConfig(lr=1e-3, warmup_steps=0)
        if kind == "dpo":
            actor = cli_args.DPOEngineConfig(path=path, optimizer=optimizer)
            config = cli_args.DPOConfig(actor=actor, ref=cli_args.DPOEngineConfig(path=path))
        else:
            actor = cli_args.TrainEngineConfig(path=path, optimizer=optimizer, is_critic=True)
            config = cli_args.RWConfig(actor=actor)
        config.experiment_name, config.trial_name = "verify", kind
        config.cluster.fileroot = folder
        config.total_train_epochs = config.total_train_steps = STEPS
        config.recover.mode = "disabled"
        config.stats_logger.tensorboard.path = None
        config.train_dataset = cli_args.TrainDatasetConfig(
            path="verify", type=kind, batch_size=min(BATCH_SIZE, len(few)), drop_last=False
        )
        module, _, name = _PAIR_TRAINERS[kind].partition(":")
        with getattr(importlib.import_module(module), name)(config, train_dataset=few) as trainer:
            trainer.train()
        with open(os.path.join(folder, "verify", kind, "stats.jsonl"), encoding="utf-8") as file:
            steps = [row["stats"] for row in map(json.loads, file) if row["kind"] == "train"]
    losses = [step["loss"] for step in steps]
    if len(losses) != STEPS or not all(step["update_successful"] for step in steps):
        raise ValueError(f"{len(losses)} of {STEPS} training steps changed the model: {steps}")
    return f"trained for {STEPS} steps"


_COLUMN_CHECKS = {"sft": _check_sft, "rl": _check_rl, "rw": _check_rw, "dpo": _check_dpo}


def _check_dataloader(rows: Any, kind: str) -> str:
    """Return what is wrong with the first batch of the target's dataloader; empty if nothing is."""
    from areal.api.cli_args import TrainDatasetConfig
    from areal.utils.data import collate_samples_to_list
    from areal.utils.dataloader import create_dataloader

    size = min(BATCH_SIZE, len(rows))
    config = TrainDatasetConfig(
        path="verify", type=kind, batch_size=size, shuffle=False, drop_last=False
    )
    collate = collate_samples_to_list if kind == "sft" else None
    loader = create_dataloader(
        rows, rank=0, world_size=1, dataset_config=config, collate_fn=collate
    )
    batch = next(iter(loader))
    if not isinstance(batch, list) or len(batch) != size:
        kind = type(batch).__name__
        return f"the dataloader returned a {kind} of {len(batch)}, not a list of {size} rows"
    if kind == "sft":
        shapes = [tuple(row["input_ids"].shape) for row in batch]
        expected = [(1, len(rows[i]["input_ids"])) for i in range(size)]
        if shapes != expected or any("attention_mask" not in row for row in batch):
            return (
                f"collated rows have the shapes {shapes}, expected {expected} and an attention_mask"
            )
    elif batch != [rows[i] for i in range(size)]:
        return "the dataloader changed the rows"
    return ""
