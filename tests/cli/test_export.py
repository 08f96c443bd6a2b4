"""`nescio export`."""

import logging

import pytest


@pytest.mark.filterwarnings("ignore")
def test_export_says_what_it_wrote_and_nothing_else(run, model, tmp_path, caplog):
    onnx, program = tmp_path / "m.onnx", tmp_path / "m.pt2"
    code, out, err = run("export", model, "--onnx", onnx, "--program", program)
    assert (code, out, err) == (0, f"{onnx}: written\n{program}: written\n", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert min(onnx.stat().st_size, program.stat().st_size) > 1000


@pytest.mark.parametrize(("option", "ending"), [("--onnx", ".onnx"), ("--program", ".pt2")])
def test_no_file_of_another_kind_is_overwritten(run, model, tmp_path, option, ending):
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2\n")
    code, _, err = run("export", model, option, rows)
    assert code != 0
    assert f"{option} must name a file that ends in {ending}, got {rows}" in err
    assert rows.read_text() == "1,2\n"
