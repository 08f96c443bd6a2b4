"""Help and usage errors: plain, complete, and one line."""

import shlex
import sys

import pytest
import typer
from typer.testing import CliRunner

from nescio.cli import app as command_line
from nescio.cli.app import EXAMPLES, app
from nescio.encoders.registry import ENCODERS
from nescio.methods import METHODS
from nescio.opinions import MEASURES


def commands():
    """Path -> command, of all that are shown."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
        else:
            found[name] = command
    return found


COMMANDS = commands()


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_and_argument_is_explained(path):
    shown = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": "100"}).stdout
    assert shown.startswith("Usage: ")
    for odd in ("<bool>", "<str>", "{", "]...]", "\u2500"):
        assert odd not in shown
    for param in COMMANDS[path].params:
        if not param.hidden:
            assert param.help, f"{param.name} of {path} is not explained"
            if param.param_type_name == "option":
                assert param.opts[0] in shown
    for example in EXAMPLES[path.split()[-1]]:
        assert f"  {example}\n" in shown


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_every_example_is_a_command_that_there_is(example):
    words = shlex.split(example)
    assert words[0] == "nescio"
    group = typer.main.get_command(app)
    with group.make_context("nescio", words[1:]) as outer:
        _, command, rest = group.resolve_command(outer, [*outer._protected_args, *outer.args])
        if hasattr(command, "commands"):
            name, *rest = rest
            command = command.commands[name]
        with command.make_context(command.name, list(rest), parent=outer) as inner:
            assert inner.params.keys() >= {param.name for param in command.params if param.required}


def test_help_says_what_methods_and_networks_there_are():
    shown = " ".join(CliRunner().invoke(app, ["train", "--help"]).stdout.split())
    assert f"One of {', '.join(METHODS)}. Default: edl." in shown
    ours = ", ".join(name for name in ENCODERS if not name.startswith("hf-"))
    expected = f"--encoder, --network TEXT One of {ours}, hf:FOLDER_OR_ID, or its fields as JSON"
    assert expected.replace(" ", "") in shown.replace(" ", "")  # a line may end behind a hyphen
    assert "--batch-size N Samples of a batch. Default: 16 to 256, by the size of the data." in shown
    assert "--out PATH The folder of the run: model, metrics, checkpoint. Required." in shown


def test_defaults_are_what_one_would_type():
    shown = " ".join(CliRunner().invoke(app, ["serve", "--help"]).stdout.split())
    assert "Default: here." in shown
    assert "Default: torch." in shown
    assert "Default: ." not in shown


def test_help_says_what_measures_there_are():
    shown = " ".join(CliRunner().invoke(app, ["threshold", "--help"]).stdout.split())
    assert f"that decides. One of {', '.join(MEASURES)}. Default: uncertainty." in shown


def test_options_in_a_group_of_their_own():
    shown = CliRunner().invoke(app, ["serve", "--help"]).stdout
    assert shown.index("--host") < shown.index("\nLimits:\n") < shown.index("--max-body")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train", "DATA is missing; see: nescio train --help"),
        ("train digits", "--out is missing; see: nescio train --help"),
        ("train digits --epochs abc", "--epochs must be a whole number, got 'abc'; see: nescio train --help"),
        ("train digits --learning-rate=x", "--learning-rate must be a number, got 'x'; see: "),
        ("dance", "No such command 'dance'; see: nescio --help"),
        ("data dance", "No such command 'dance'; see: nescio data --help"),
        ("train digits --ot x", "No such option: --ot"),
        ("train digits --out run --batch-size 0", "--batch-size must be a whole number from 1 on, got 0"),
        ("train digits --out run --seed=-1", "--seed must be a whole number from 0 to 4294967295, got -1"),
        ("serve --port 99999", "--port"),
    ],
)
def test_a_usage_error_is_one_line(monkeypatch, capsys, words, said):
    monkeypatch.setattr(sys, "argv", ["nescio", *words.split()])
    monkeypatch.setattr("warnings.showwarning", None)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    out, err = capsys.readouterr()
    assert ended.value.code in (1, 2)
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert len(err.splitlines()) == 1


def test_without_a_command_there_is_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["nescio"])
    with pytest.raises(SystemExit):
        command_line.main()
    assert "Commands:" in capsys.readouterr().out


def test_arguments_in_messages_are_called_as_they_were_typed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["nescio", "train", "--batch-size", "3", "--seed=1", "x"])
    told = command_line._by_option("epochs was 1 and is now 2, batch_size was 4 and is now 3")
    assert told == "epochs was 1 and is now 2, --batch-size was 4 and is now 3"
    assert command_line._by_option("seed must be small") == "--seed must be small"
    assert command_line._by_option("a seed must be small") == "a seed must be small"
