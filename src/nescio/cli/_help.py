"""How commands explain themselves: help in plain text, usage errors in one line."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from typer.core import TyperCommand, TyperGroup

# What stands for an option's value, by its type; a flag has none.
_VALUE_NAMES = {"int": "N", "float": "X", "Path": "PATH", "str": "TEXT", "list[str]": "TEXT"}
_WHAT_IS_EXPECTED = {"int": "a whole number", "float": "a number"}


class Command(TyperCommand):
    """A command with plain help: usage, arguments, options, and examples from its epilog."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; only here are methods, encoders and measures looked up, which waits for torch."""
        usage = ["[OPTIONS]"]
        rows: list[tuple[str, str]] = []
        options: list[Any] = []
        for param in self.get_params(ctx):
            if param.param_type_name == "option":
                options.append(param)
                continue
            name = _argument_name(param)
            usage.append(name)
            rows.append((name, getattr(param, "help", None) or ""))
        formatter.write_usage(ctx.command_path, " ".join(usage))
        _write_paragraphs(formatter, self.help or "")
        _write_section(formatter, "Arguments", rows)
        for title, members in _by_panel(options).items():
            _write_section(formatter, title, [_option_row(option) for option in members])
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Group(TyperGroup):
    """Commands with plain help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: what commands there are, and the options before them."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] COMMAND ...")
        _write_paragraphs(formatter, self.help or "")
        rows = []
        for name, command in self.commands.items():
            if not command.hidden:
                rows.append((name, command.get_short_help_str(limit=200)))
        _write_section(formatter, "Commands", rows)
        _write_section(formatter, "Options", [_option_row(option) for option in self.get_params(ctx)])
        formatter.write_paragraph()
        formatter.write_text(f"Help on a command, with examples: {ctx.command_path} COMMAND --help")


def usage_message(error: Any, words: list[str]) -> str:
    """A usage error in one line; words: what the user typed."""
    command = "nescio"
    if error.ctx is not None:
        command = error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    param = getattr(error, "param", None)
    if param is not None and message.startswith("Missing"):
        name = param.opts[0]
        if param.param_type_name == "argument":
            name = _argument_name(param)
        message = f"{name} is missing"
    elif param is not None:
        expected = _WHAT_IS_EXPECTED.get(_type_name(param))
        value = _value_after(param.opts, words)
        if expected is not None and value is not None and not _is_number(value):
            message = f"{param.opts[0]} must be {expected}, got {value!r}"
    return f"{message}; see: {command} --help"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _value_after(names: Iterable[str], words: list[str]) -> str | None:
    """What was typed as the value of an option: --name VALUE, or --name=VALUE."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            if equals:
                return value
            following = words[place + 1 : place + 2]
            return following[0] if following else None
    return None


def _write_paragraphs(formatter: Any, text: str) -> None:
    for paragraph in text.split("\n\n"):
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _by_panel(options: Iterable[Any]) -> dict[str, list[Any]]:
    """Options that are shown, by the title under which they stand."""
    panels: dict[str, list[Any]] = {"Options": []}
    for option in options:
        if not option.hidden:
            title = getattr(option, "rich_help_panel", None) or "Options"
            panels.setdefault(title, []).append(option)
    return panels


def _argument_name(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    if argument.nargs == -1 and not name.endswith("..."):
        name += "..."
    if not argument.required:
        name = f"[{name}]"
    return name


def _option_row(option: Any) -> tuple[str, str]:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if not option.is_flag:
        names += f" {option.metavar or _VALUE_NAMES.get(_type_name(option), 'TEXT')}"
    text = _help_of(option)
    if option.required:
        text += " Required."
    elif option.default not in (None, "") and not option.is_flag and "Default:" not in text:
        default = option.default.value if isinstance(option.default, Enum) else option.default
        text += f" Default: {default}."
    return names, text.strip()


def _help_of(option: Any) -> str:
    if option.name == "method":
        from nescio.methods import METHODS

        return f"One of {', '.join(METHODS)}."
    if option.name == "network":
        from nescio.encoders import ENCODERS

        ours = [name for name in ENCODERS if not name.startswith("hf-")]
        return (
            f"One of {', '.join(ours)}, hf:FOLDER_OR_ID, or its fields as JSON or a JSON file. "
            "Default: what fits the data, said in one line."
        )
    if option.name == "measure":
        from nescio.opinions import MEASURES

        return f"{option.help} One of {', '.join(MEASURES)}."
    return option.help or ""


def _type_name(param: Any) -> str:
    """The name of a parameter's type; older typers keep it elsewhere."""
    if hasattr(param, "bare_type"):
        return str(param.bare_type())
    names = {"integer": "int", "float": "float", "path": "Path", "text": "str"}
    return names.get(getattr(param.type, "name", ""), "str")
