"""The benchmark of memory on several processes: what it trains on."""

from benchmarks import processes

from nescio.data import Table, open_source


def test_rows_of_the_size_that_was_asked_for(tmp_path):
    processes.make_rows(tmp_path / "rows.npz", 1)
    table = open_source(tmp_path / "rows.npz").labelled()
    assert isinstance(table, Table)
    assert table.features.shape == (2**20 // (4 * processes.FEATURES), processes.FEATURES)
    assert len(table.classes) == processes.CLASSES
