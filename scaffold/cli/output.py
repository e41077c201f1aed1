"""How a command ends: its report or its error on the streams, and the exit status."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scaffold.errors import ScaffoldError
    from scaffold.report import Report


def mend_streams() -> None:
    """Keep files of the target off the numbers of closed streams, and let any text be printed."""
    for number in range(3):
        try:
            # Fails for a closed stream, whose number the next file that is opened would get.
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for stream in (sys.stdout, sys.stderr):
        # A name of a file may hold bytes that are no UTF-8, which "strict" refuses to print.
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def give_up_printing(error: OSError) -> int:
    """Let go of streams that take no more, which Python would try to flush at its end."""
    with suppress(OSError):
        if not isinstance(error, BrokenPipeError):  # else the reader of a pipe has seen enough
            click.echo(f"error: the report cannot be written: {error.strerror}", err=True)
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return 1


def print_report(report: Report, as_json: bool) -> int:
    """Print a report for people, or as JSON, and return the exit status."""
    if as_json:
        import json

        click.echo(json.dumps(report.to_json()))
    else:
        click.echo(report.to_text(), nl=False)
        for warning in report.warnings:
            click.echo(f"warning: {warning}", err=True)
    if report.error is not None:
        from scaffold.report import error_text

        click.echo(error_text(report.error), err=True, nl=False)
    return 0 if report.ok else 1


def asked_format(words: list[str]) -> str:
    """Return what `--format` asks for, also on a command line that cannot be parsed."""
    # `--format json` and `--format=json`.
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, is_set, value = word.partition("=")
        if name == "--format":
            return value if is_set else after
    return "human"


def print_error(command: str, error: BaseException, form: str) -> int:
    """Print what ended a command, whatever it was, and return the exit status."""
    from scaffold.findings import write_failure
    from scaffold.report import error_text

    # The error's text is the help of the group.
    if _is_bare(error) and form != "json":
        click.echo(str(error), err=True)
        return 2
    known, exit_status = _as_known(error)
    click.echo(write_failure(form, command, known), nl=False)
    click.echo(error_text(known), err=True, nl=False)
    return exit_status


def _is_bare(error: BaseException) -> bool:
    """Return whether a group was called without a command; click has a name for it since 8.2."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _as_known(error: BaseException) -> tuple[ScaffoldError, int]:
    """Return any error as one of ours, with the exit status."""
    from scaffold.errors import ScaffoldError

    if isinstance(error, ScaffoldError):
        return error, error.exit_status
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        hint = f"{ctx.command_path} --help" if ctx else "scaffold --help"
        text = "no command was given" if _is_bare(error) else error.format_message()
        # Messages of click may take several lines; an error is one line.
        return ScaffoldError(" ".join(text.split()), code="usage", hint=hint), 2
    if isinstance(error, click.Abort | KeyboardInterrupt):
        import signal

        # As shells have it: 130 for Ctrl-C. click raises its own error for that of a signal.
        number = getattr(error.__cause__ or error, "number", signal.SIGINT)
        return ScaffoldError("stopped", code="aborted"), 128 + number
    if os.environ.get("SCAFFOLD_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    message = f"scaffold itself failed: {type(error).__name__}: {error}".splitlines()[0]
    return ScaffoldError(message, code="fault", hint="SCAFFOLD_DEBUG=1 shows where"), 3
