"""Let a model call plain functions: read its calls, check them and run them in workers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from areal.api import AsyncRewardWrapper
from areal.utils.hf_utils import apply_chat_template

from .trajectory import next_turn_ids

ANCHOR = "[completion]"
MAX_CALLS = 8
"""How many calls of one completion are run; the others are refused by a text."""

JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drop what this process and those that it starts print."""
    kept = [os.dup(number) for number in (1, 2)]
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
        try:
            yield
        finally:
            for number, each in zip((1, 2), kept, strict=True):
                os.dup2(each, number)
                os.close(each)


def to_number(text: str) -> float:
    """Return a number of a call.

    Raises:
        ValueError: It is NaN or infinite, which JSON has not, or too large.
    """
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number in JSON")
    return number


class Tool:
    """A function as it runs in a worker, which hands its result over as a file.

    What it prints is dropped: many run at once, and the console is the training's.

    Args:
        func: Is in a module, where the worker finds it by its name.
        max_chars: Where a longer result is cut.
    """

    def __init__(self, func: Callable[..., Any], max_chars: int) -> None:
        self.func = func
        self.max_chars = max_chars

    def __call__(self, arguments: dict[str, Any], path: str) -> float:
        """Write what the function returns, or how it fails, as text; return 1.0."""
        Path(path).touch()  # from here on, what ends this process is the tool
        try:
            with contextlib.chdir("."), muted():  # the next call starts where this one did
                value = self.func(**arguments)
            text = value if isinstance(value, str) else JSON.encode(value)
        except BaseException as error:  # of sys.exit too: a tool ends its own call only
            text = f"Error: {type(error).__name__}: {error}"
        if len(text) > self.max_chars:
            text = f"{text[: self.max_chars]} ... (cut, {len(text)} characters)"
        Path(path).write_text(text, encoding="utf-8", errors="replace")
        return 1.0


class Toolbox:
    """Functions as the tools of a chat template.

    A tool that hangs or dies costs its own call and its worker. The workers are those of rewards,
    so that such calls count as failures there: training stops if most calls end in this way.

    Args:
        tokenizer: Its chat template takes tools and writes a call as JSON between two marks.
        functions: Have types and a docstring with Args, as the schema of each comes from there.
        timeout_s: What one call may take.
        max_chars: Where a longer result is cut.

    Raises:
        ValueError: A function or the chat template cannot be used.
    """

    def __init__(
        self,
        tokenizer: Any,
        functions: Sequence[Callable[..., Any]],
        timeout_s: float,
        max_chars: int,
    ) -> None:
        from transformers.utils import get_json_schema  # heavy, and no worker needs it

        self.tokenizer, self.timeout_s = tokenizer, timeout_s
        self.functions = {function.__name__: function for function in functions}
        if not functions or any(map(inspect.iscoroutinefunction, functions)):
            raise ValueError(f"tools must be plain functions, at least one; found {functions!r}")
        self.schemas = [get_json_schema(function) for function in functions]
        self.parameters = {
            schema["function"]["name"]: schema["function"]["parameters"] for schema in self.schemas
        }
        self.wrappers = {
            name: AsyncRewardWrapper(Tool(function, max_chars), timeout_s, max_retries=0)
            for name, function in self.functions.items()
        }
        self.marks = self.read_marks()
        special = [str(t) for t in tokenizer.added_tokens_decoder.values() if t.special]
        self.special = re.compile("|".join(map(re.escape, special)) or r"(?!)")

    def read_marks(self) -> tuple[str, str, str]:
        """Read off the chat template what a call begins and ends with, and its arguments' key."""
        call = {"type": "function", "function": {"name": "NAME", "arguments": {"KEY": 1}}}
        chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": ANCHOR}]
        texts = [
            apply_chat_template(self.tokenizer, [*chat[:1], {**chat[1], **calls}], tokenize=False)
            for calls in ({}, {"tool_calls": [call]})
        ]
        end, text = (rendered.partition(ANCHOR)[2] for rendered in texts)
        opening, brace, rest = text.partition("{")
        try:
            found, length = json.JSONDecoder().raw_decode(brace + rest)
            (key,) = (key for key, value in found.items() if value == {"KEY": 1})
        except ValueError:
            found, length, key = {}, 0, ""
        closing = (brace + rest)[length:].removesuffix(end)
        if found.get("name") != "NAME" or not opening.strip() or not closing.strip():
            raise ValueError(
                f"the chat template writes a tool call as {text!r}; it must be a JSON object with "
                "a name between two marks, such as <tool_call> and </tool_call>"
            )
        return opening.strip(), closing.strip(), key

    def read_calls(self, completion: str) -> list[str]:
        """Return the text of each call in a completion, none of those in its reasoning."""
        said = completion.rpartition("</think>")[2].partition("<think>")[0]
        opening, closing = map(re.escape, self.marks[:2])
        return re.findall(rf"{opening}(.*?)(?:{closing}|\Z)", said, re.DOTALL)

    async def run(self, calls: Sequence[str], last_token: int) -> list[int]:
        """Run all calls of a completion at once; return the tokens up to the next completion.

        Args:
            calls: What ``read_calls`` found.
            last_token: What the completion ended in.

        Raises:
            Exception: No worker could run a tool, which is no fault of the model's.
        """
        refused = [f"Error: only {MAX_CALLS} calls at once are run"] * len(calls[MAX_CALLS:])
        done = await asyncio.gather(*map(self.run_one, calls[:MAX_CALLS]))
        texts = [*done, *refused]
        # A result must not forge the end of a turn.
        texts = [self.special.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text) for text in texts]
        replies = [{"role": "tool", "content": text} for text in texts]
        return next_turn_ids(self.tokenizer, replies, last_token)

    async def run_one(self, call: str) -> str:
        """Check and run one call; return its result as text, or what is wrong with it."""
        try:
            found = json.loads(call, parse_constant=to_number, parse_float=to_number)
            name, arguments = found["name"], found.get(self.marks[2], {})
            problem = self.problem(name, arguments)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            problem = f"no call is a JSON object with a name: {type(error).__name__}: {error}"
        if problem:
            return f"Error: {problem}"
        # Making a folder waits for the disk, and the loop serves all episodes.
        folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="tool-")
        try:
            path = Path(folder.name, "result.txt")
            done: float | Exception
            try:
                done = await self.wrappers[name](arguments, str(path))
            except Exception as error:
                done = error
            return await asyncio.to_thread(self.outcome, name, path, done)
        finally:
            await asyncio.to_thread(folder.cleanup)

    def outcome(self, name: str, path: Path, done: float | Exception) -> str:
        """Return what the model reads of a call that ended in a worker."""
        if isinstance(done, Exception):
            if not path.exists():
                raise done  # the tool was never called
            return f"Error: {name} ended without a result"
        if not done:
            return f"Error: {name} took longer than {self.timeout_s:g} s"
        return path.read_text(encoding="utf-8")

    def problem(self, name: Any, arguments: Any) -> str:
        """Return why a call cannot be run, empty if it can."""
        if name not in self.functions:
            return f"no tool is called {name!r}; there are {', '.join(self.functions)}"
        if not isinstance(arguments, dict):
            return f"{self.marks[2]} must be an object"
        try:
            inspect.signature(self.functions[name]).bind(**arguments)
        except TypeError as error:
            return f"{name}: {error}"
        properties = self.parameters[name]["properties"]
        found = (
            type_problem(value, properties.get(key, {}), key) for key, value in arguments.items()
        )
        return next((f"{name}: {text}" for text in found if text), "")


def type_problem(value: Any, schema: dict[str, Any], where: str) -> str:
    """Return what is wrong with a value by its JSON schema, empty if nothing is."""
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if value is None and schema.get("nullable"):
        return ""
    is_typed = any(
        isinstance(value, TYPES[each]) and (each == "boolean" or not isinstance(value, bool))
        for each in wanted
    )
    if wanted and not is_typed:
        return f"{where} must be of type {' or '.join(wanted)}, not {type(value).__name__}"
    if value not in schema.get("enum", [value]):
        return f"{where} must be one of {schema['enum']}"
    parts: list[tuple[Any, dict[str, Any], str]] = []
    if isinstance(value, list) and "items" in schema:
        parts = [(each, schema["items"], f"{where}[{i}]") for i, each in enumerate(value)]
    elif isinstance(value, dict) and "additionalProperties" in schema:
        each_schema = schema["additionalProperties"]
        parts = [(each, each_schema, f"{where}.{key}") for key, each in value.items()]
    return next((text for text in (type_problem(*part) for part in parts) if text), "")
