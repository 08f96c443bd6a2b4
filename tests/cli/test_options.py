"""Options that several commands have."""

import pytest
from typer.main import get_command

from nescio.cli.app import app

COMMANDS = get_command(app).commands


@pytest.mark.parametrize("option", ["label", "data_dir"])
def test_an_option_says_the_same_in_every_command_that_has_it(option):
    helps = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if parameter.name == option:
                helps[name] = parameter.help
    assert {"train", "evaluate", "calibrate", "threshold", "sets"} <= helps.keys()
    assert len(set(helps.values())) == 1
