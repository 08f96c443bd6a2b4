import json

import pytest
from typer.testing import CliRunner

from nescio.cli.app import app
from nescio.methods import METHODS, OURS, make_method


def test_the_methods_with_cost_and_paper():
    result = CliRunner().invoke(app, ["methods", "--json"])
    assert result.exit_code == 0
    rows = {row["method"]: row for row in json.loads(result.stdout)}
    assert list(rows) == list(METHODS)
    assert {method.name for method in OURS} <= set(rows)
    assert rows["edl"]["passes"] == 1
    assert (rows["ensemble"]["passes"], rows["ensemble"]["trainings"]) == (5, 5)
    assert "Sensoy" in rows["edl"]["paper"]
    for name, row in rows.items():
        assert make_method(name, **row["settings"]) == make_method(name)


@pytest.mark.parametrize("columns", ["60", "140"])
def test_a_table_for_people(columns):
    result = CliRunner().invoke(app, ["methods"], env={"COLUMNS": columns})
    assert result.exit_code == 0
    assert "edl       risk=cross_entropy, evidence=exp, divergence_weight=auto" in result.stdout
    assert "nescio train DATA --out RUN --method NAME" in result.stdout
