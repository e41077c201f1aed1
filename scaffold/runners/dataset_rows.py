"""Loads a dataset with its loaders and checks columns, types, tokens and the dataloader.

Request: module ("package.dataset.name"), name, types (["sft", "rl"]), path (a real source, or
null) and, without one, samples (rows of the source).
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import runner_kit as kit

SHORT = 8
"""A length that no row of a chat fits into."""
BATCH_SIZE = 2


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    module = kit.load_symbol(findings, request["module"])
    with findings.guard("engine", "making the tokenizer"):
        tokenizer = kit.make_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        path, split = request.get("path"), request.get("split") or "train"
        if not path:
            path = _write_samples(folder, request["samples"], split)
        os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, "cache")
        for kind in request["types"]:
            before = findings.failures
            _check_type(
                findings,
                module,
                f"get_{request['name']}_{kind}_dataset",
                kind,
                path,
                split,
                tokenizer,
            )
            if findings.failures > before:
                return


def _write_samples(folder: str, samples: list[dict[str, Any]], split: str) -> str:
    path = os.path.join(folder, "source")
    os.mkdir(path)
    with open(os.path.join(path, f"{split}.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(sample) + "\n" for sample in samples)
    return path


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
        findings.failed(kind, f"{module.__name__} has no {loader}; the registry promises it")
        return
    with findings.guard(
        kind,
        f"loading {path} with {loader}",
        "it is called as (path, split, tokenizer, max_length)",
    ):
        rows = load(path=path, split=split, tokenizer=tokenizer, max_length=None)
        count = len(rows)
    if not count:
        findings.failed(kind, f"{loader} gave no rows from {path}")
        return
    findings.stage(f"checking the rows of {loader}")
    message = _COLUMN_CHECKS[kind](rows, tokenizer)
    if message:
        findings.failed(kind, f"{loader}: {message}")
        return
    with findings.guard(kind, f"loading {path} with {loader} and max_length={SHORT}"):
        short = load(path=path, split=split, tokenizer=tokenizer, max_length=SHORT)
        lengths = [len(row["input_ids"]) for row in short] if kind == "sft" else []
    if any(length > SHORT for length in lengths) or (kind == "rl" and len(short) == count):
        findings.failed(
            kind, f"{loader} ignores max_length: rows longer than {SHORT} tokens came through"
        )
        return
    with findings.guard(kind, f"collating the rows of {loader}"):
        message = _check_dataloader(rows, kind)
    if message:
        findings.failed(kind, f"{loader}: {message}")
        return
    findings.passed(kind, f"{count} rows, columns {', '.join(sorted(rows[0]))}")


def _check_sft(rows: Any, tokenizer: Any) -> str:
    """Returns what is wrong with the columns of supervised fine-tuning; empty if nothing is."""
    for i, row in enumerate(rows):
        if set(row) != {"input_ids", "loss_mask"}:
            return f"row {i} has the columns {sorted(row)}, not exactly input_ids and loss_mask"
        ids, mask = row["input_ids"], row["loss_mask"]
        if not isinstance(ids, list) or not ids or not all(type(x) is int for x in ids):
            return f"input_ids of row {i} must be a non-empty list of integers"
        if not all(0 <= x < len(tokenizer) for x in ids):
            return f"input_ids of row {i} holds a token outside the tokenizer's {len(tokenizer)}"
        if not isinstance(mask, list) or len(mask) != len(ids) or not set(mask) <= {0, 1}:
            return f"loss_mask of row {i} must hold 0 or 1 for each of its {len(ids)} tokens"
        if not any(mask):
            return f"loss_mask of row {i} is 0 everywhere: nothing would be learnt"
    return ""


def _check_rl(rows: Any, tokenizer: Any) -> str:
    """Returns what is wrong with the columns of reinforcement learning; empty if nothing is."""
    for i, row in enumerate(rows):
        missing = {"messages", "answer"} - set(row)
        if missing:
            return f"row {i} lacks {', '.join(sorted(missing))}; it has the columns {sorted(row)}"
        messages = row["messages"]
        if not isinstance(messages, list) or not messages:
            return f"messages of row {i} must be a non-empty list"
        for message in messages:
            if not isinstance(message, dict) or not {"role", "content"} <= set(message):
                return f"messages of row {i} need role and content each, found {message!r}"
            if not all(isinstance(message[key], str) for key in ("role", "content")):
                return f"role and content in messages of row {i} must be text"
        if not isinstance(row["answer"], str) or not row["answer"].strip():
            return f"answer of row {i} must be a text that is not empty, found {row['answer']!r}"
    return ""


_COLUMN_CHECKS = {"sft": _check_sft, "rl": _check_rl}


def _check_dataloader(rows: Any, kind: str) -> str:
    """Puts rows through the target's own dataloader; returns what is wrong with the first batch."""
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
        return f"the dataloader gave a {kind} of {len(batch)}, not a list of {size} rows"
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


if __name__ == "__main__":
    kit.main(main)
