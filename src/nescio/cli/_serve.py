"""`nescio serve`: opinions over HTTP, and the page."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from nescio.errors import InputError, MissingExtraError
from nescio.serve.limits import MEBIBYTE, Limits

_LIMITS = "Limits"  # headings of options in the help
_ACCESS = "Access"
_LOGS = "Logs"
TOKEN_VARIABLE = "NESCIO_TOKEN"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class OnPlace(str, Enum):
    """Where the processes are."""

    HERE = "here"
    RAY = "ray"


class Runtime(str, Enum):
    """What computes the networks."""

    TORCH = "torch"
    ONNX = "onnx"
    AUTO = "auto"


class LogFormat(str, Enum):
    """How a line of the logs is written."""

    TEXT = "text"
    JSON = "json"


def _limit(help_text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(min=1, help=help_text, rich_help_panel=_LIMITS)
    return option


def _seconds(help_text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(min=0.1, help=help_text, rich_help_panel=_LIMITS)
    return option


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL",
            help="Model files or run folders, each under the name before the equals sign, or else under "
            "that of the file or folder. Default: the pair that comes with the package.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="The number of processes.")] = 1,
    on: Annotated[
        OnPlace, typer.Option("--on", help="Where: here, or on a Ray cluster, by Ray Serve.")
    ] = OnPlace.HERE,
    max_replicas: Annotated[
        int | None,
        typer.Option(min=1, help="On Ray, the most processes there may be; default: --workers."),
    ] = None,
    runtime: Annotated[
        Runtime,
        typer.Option(
            help="What computes the networks: torch, onnx, or auto for the faster one, which is measured at "
            "the start and takes a while."
        ),
    ] = Runtime.TORCH,
    watch: Annotated[
        bool, typer.Option("--watch", help="Read the model files again when they change, as SIGHUP does.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with a token that clients must send, as Authorization: Bearer TOKEN; "
            f"default: what the variable {TOKEN_VARIABLE} says, or none.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host under which it may be asked, without a port; repeat it for more, * alone is any. "
            "Default: localhost "
            "and its addresses where it listens there alone, else any.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(help="The path under which a proxy in front shows it.", rich_help_panel=_ACCESS),
    ] = "",
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request.", rich_help_panel=_LOGS)
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Of the lines on stderr: text or json.", rich_help_panel=_LOGS)
    ] = LogFormat.TEXT,
    max_body: Annotated[int, _limit("MiB of a request's body.")] = Limits.max_body // MEBIBYTE,
    max_total_body: Annotated[
        int, _limit("MiB of the bodies of all requests under way in a process; --max-body or more.")
    ] = Limits.max_total_body // MEBIBYTE,
    max_total_answer: Annotated[
        int, _limit("MiB of all large answers in a process that clients have not taken yet.")
    ] = Limits.max_total_answer // MEBIBYTE,
    max_inputs: Annotated[int, _limit("Inputs in a request.")] = Limits.max_inputs,
    max_pixels: Annotated[
        int, _limit("Pixels of all pictures of a request, before they are scaled.")
    ] = Limits.max_pixels,
    max_values: Annotated[
        int,
        _limit(
            "Numbers that inputs become in memory, for each model, and 16 for each class of an answer: "
            "of a request, and of all requests under way in a process."
        ),
    ] = Limits.max_values,
    max_decoding: Annotated[int, _limit("Requests that wait to be decoded.")] = Limits.max_decoding,
    max_queue: Annotated[int, _limit("Inputs that wait for a model.")] = Limits.max_queue,
    batch_size: Annotated[int, _limit("Inputs that share a forward pass.")] = Limits.batch_size,
    read_timeout: Annotated[
        float, _seconds("Seconds within which a request's body must arrive.")
    ] = Limits.read_timeout,
    answer_timeout: Annotated[
        float, _seconds("Seconds within which a request must be answered once its body is there.")
    ] = Limits.answer_timeout,
    write_timeout: Annotated[
        float, _seconds("Seconds within which a client must take an answer.")
    ] = Limits.write_timeout,
    max_connections: Annotated[int, _limit("Open connections of a process.")] = Limits.max_connections,
) -> None:
    """Serve models over HTTP, with a page to try them on."""
    from nescio.inference._named_paths import named_paths

    try:
        from nescio.serve._access import Access, host_names
        from nescio.serve._process import ServerSettings
        from nescio.serve._server import run_server
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", error.name or "a package") from error

    if max_body > max_total_body:
        raise InputError(
            f"--max-body must be at most --max-total-body, {max_total_body}, got {max_body}: "
            "such a body would never be accepted"
        )
    limits = Limits(
        max_body=max_body * MEBIBYTE,
        max_total_body=max_total_body * MEBIBYTE,
        max_total_answer=max_total_answer * MEBIBYTE,
        max_inputs=max_inputs,
        max_pixels=max_pixels,
        max_values=max_values,
        max_decoding=max_decoding,
        max_queue=max_queue,
        batch_size=batch_size,
        read_timeout=read_timeout,
        answer_timeout=answer_timeout,
        write_timeout=write_timeout,
        max_connections=max_connections,
    )
    hosts = host_names(_allowed_hosts(allowed_host, host))
    access = Access(_token(token_file), hosts, root_path.rstrip("/"))
    settings = ServerSettings(
        limits=limits,
        access=access,
        workers=workers,
        access_log=access_log,
        log_format=log_format.value,
        watches=watch,
        runtime=runtime.value,
    )
    if max_replicas is not None and on is OnPlace.HERE:
        raise InputError("--max-replicas is for --on ray")
    if max_replicas is not None and max_replicas < workers:
        raise InputError(f"--max-replicas must be at least --workers, {workers}, got {max_replicas}")
    run_server(
        named_paths(models or []),
        settings,
        host=host,
        port=port,
        on_ready=_print_address,
        on=on.value,
        max_replicas=max_replicas,
    )


def _token(path: Path | None) -> str | None:
    """From the file, or else from the environment: everybody on a machine sees the words of a command."""
    if path is None:
        if TOKEN_VARIABLE not in os.environ:
            return None
        token = os.environ[TOKEN_VARIABLE].strip()
        if not token:
            raise InputError(f"{TOKEN_VARIABLE} must be a token, got an empty one; unset it to ask for none")
        return token
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file must be a file with a token, got {path}: {error}") from error
    if not token:
        raise InputError(f"--token-file must be a file with a token, got {path}, which is empty")
    return token


def _allowed_hosts(hosts: list[str] | None, address: str) -> Sequence[str]:
    """None for any. Without it, a page of another site could have its own name lead to this machine."""
    if hosts is None:
        return tuple(dict.fromkeys((*_LOOPBACK, address))) if _is_loopback(address) else ()
    return () if "*" in hosts else hosts


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _print_address(address: str, names: list[str]) -> None:
    typer.echo(f"Serving {', '.join(names)} at {address} (the API: {address}/docs). Ctrl+C ends it.")
