"""Records: what a model says, field by field."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.data import Input, MemorySource, Place, Preprocess, Table
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import InputError
from nescio.inference import records
from nescio.inference.model import TrainedModel
from nescio.inference.records import FIELDS, _as_source, predict_records, records_of, to_csv, to_json_lines
from nescio.methods import EDL, FFGU, FFLU, MNFG, Dropout, Softmax
from nescio.posthoc.conformal import ConformalSets

CLASSES = ("cat", "dog", "owl")


def made(spec, method=None, scale=64.0):
    method = method or EDL()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = method.build(spec).eval()
    size = spec.input_shape[0]
    limits = (0.0, 255.0) if len(spec.input_shape) == 3 else None
    fields = {"input_shape": spec.input_shape, "mean": (0.0,) * size, "scale": (scale,) * size}
    preprocess = Preprocess.from_dict(fields | {"pixel_range": limits})
    return TrainedModel(module, method, CLASSES, preprocess, spec)


@pytest.fixture(scope="module")
def rows():
    return made(MLPSpec(3, 3, hidden=(8,)))


@pytest.fixture(scope="module")
def pictures():
    return made(LeNetSpec(1, 16, 16, num_classes=3, filters=(4, 4), hidden=8))


@pytest.mark.parametrize("method", [EDL(), Softmax()])
def test_every_field(method):
    model = made(MLPSpec(3, 3, hidden=(8,)), method, scale=0.2)
    inputs = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    found = predict_records(model, inputs)
    prediction = model.predict(inputs)
    accepted = model.accepts(prediction)
    assert set(accepted.tolist()) == {True, False}
    for index, record in enumerate(found):
        best = CLASSES[prediction.labels[index]]
        assert list(record) == list(FIELDS)
        assert record["name"] == str(index + 1)
        assert record["best"] == best
        assert record["accepted"] is bool(accepted[index])
        assert record["answer"] == (best if accepted[index] else "I do not know")
        assert record["label"] == (best if accepted[index] else None)
        assert record["probability"] == max(record["probabilities"]) == prediction.max_probability()[index]
        assert record["probabilities"] == prediction.probabilities[index].tolist()
        assert record["belief"] == (prediction.belief[index].tolist() if method == EDL() else None)
        assert record["uncertainty"] == prediction.uncertainty[index]
        assert record["entropy"] == prediction.entropy(normalized=True)[index]
        assert record["set"] is None
        assert record["error"] is None


def test_an_accepted_class_may_have_the_empty_string_as_its_name():
    named = made(MLPSpec(3, 3, hidden=(8,)), scale=0.2)
    model = replace(named, classes=("", "dog", "owl"))
    inputs = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    found = predict_records(model, inputs)
    answers = {(record["answer"], record["label"]) for record in found if record["accepted"]}
    assert ("", "") in answers
    assert answers <= {("", ""), ("dog", "dog"), ("owl", "owl")}


@pytest.mark.parametrize("allow_empty", [False, True])
def test_sets_are_named_the_most_probable_class_first(rows, allow_empty):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(200, 3, generator=generator) * 5
    prediction = rows.predict(inputs)
    drawn = torch.multinomial(prediction.probabilities, 1, generator=generator)[:, 0]
    sets = ConformalSets.fit(prediction, drawn, 0.6, "lac", allow_empty=allow_empty)
    found = predict_records(rows.with_sets(sets), inputs)
    sizes = {len(record["set"]) for record in found}
    assert sizes <= {0, 1, 2, 3}
    assert len(sizes) > 1
    inside = sets.contains(prediction)
    for index, record in enumerate(found):
        expected = {name for place, name in enumerate(CLASSES) if inside[index, place]}
        assert set(record["set"]) == expected
        chances = [record["probabilities"][CLASSES.index(name)] for name in record["set"]]
        assert chances == sorted(chances, reverse=True)


def test_one_that_can_not_be_read_costs_the_others_nothing(rows):
    inputs = [
        Input("a", torch.tensor([1.0, 2, 3])),
        Input("b", None, "is broken"),
        Input("c", torch.tensor([1.0, 2])),
        Input("d", torch.tensor([float("inf"), 0, 0])),
        Input("e", torch.tensor([4, 5, 6])),
    ]
    found = records_of(rows, inputs)
    assert [record["error"] for record in found] == [
        None,
        "is broken",
        "must be 3 numbers, got 2",
        "has a value that is not finite",
        None,
    ]
    expected = rows.predict(torch.tensor([[1.0, 2, 3], [4, 5, 6]])).probabilities.tolist()
    assert [found[0]["probabilities"], found[4]["probabilities"]] == expected
    assert found[1] == dict.fromkeys(FIELDS) | {"name": "b", "error": "is broken"}


def test_bytes_and_other_numbers_side_by_side(pictures):
    image = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    last = image.permute(1, 2, 0)
    found = records_of(
        pictures, [Input("a", image), Input("b", image.float()), Input("c", last), Input("d", image[0])]
    )
    assert {json.dumps(record | {"name": ""}) for record in found} == {json.dumps(found[0] | {"name": ""})}


@pytest.mark.parametrize(("value", "is_good"), [(0, True), (255, True), (255.5, False), (-1, False)])
def test_pixels_have_a_range(pictures, value, is_good):
    (record,) = predict_records(pictures, torch.full((1, 1, 16, 16), float(value)))
    assert (record["error"] is None) is is_good
    assert is_good or record["error"] == "has pixels that are not 0 to 255"


def test_what_the_network_overflows_on_is_found(rows, monkeypatch):
    model = made(MLPSpec(3, 3, hidden=(8,)))
    with torch.no_grad():
        for weights in model.module.parameters():
            weights.mul_(100)
    inputs = torch.randn(9, 3, generator=torch.Generator().manual_seed(3))
    inputs[[2, 7]] = torch.tensor([3.4e38, -3.4e38, 3.4e38])
    found = predict_records(model, inputs)
    assert [index for index, record in enumerate(found) if record["error"]] == [2, 7]
    assert found[2]["error"] == records.TOO_LARGE


def test_another_error_of_a_model_keeps_its_message():
    class Picky(EDL):
        name = "picky"

        def predict(self, module, inputs, generator):
            if bool((inputs[:, 0] > 2).any()):
                raise InputError("the first number must be\nat most 2")
            return super().predict(module, inputs, generator)

    model = made(MLPSpec(3, 3, hidden=(8,)), Picky(), scale=1.0)
    found = predict_records(model, torch.tensor([[0.0, 0, 0], [3, 0, 0], [1, 0, 0]]))
    assert [record["error"] for record in found] == [None, "the first number must be at most 2", None]
    assert found[2]["best"] in CLASSES


def test_chunks_make_no_difference(rows, monkeypatch):
    inputs = torch.randn(25, 3, generator=torch.Generator().manual_seed(2))
    whole = predict_records(rows, inputs)
    monkeypatch.setattr(records, "CHUNK", 10)
    for one, other in zip(predict_records(rows, inputs), whole, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], rel=1e-5)
        assert one["name"] == other["name"]


@pytest.mark.parametrize("method", [Dropout(samples=5), FFGU(samples=3), FFLU(samples=3), MNFG(samples=3)])
def test_what_is_said_of_an_input_does_not_depend_on_its_neighbours(method, monkeypatch):
    model = made(method.default_encoder(MLPSpec(3, 3, hidden=(8,))), method)
    inputs = torch.randn(25, 3, generator=torch.Generator().manual_seed(2))
    together = torch.tensor([record["probabilities"] for record in predict_records(model, inputs)])
    monkeypatch.setattr(records, "CHUNK", 4)
    parted = torch.tensor([record["probabilities"] for record in predict_records(model, inputs)])
    alone = []
    for one in inputs.split(1):
        alone.append(model.predict(one).probabilities)
    torch.testing.assert_close(parted, together)
    torch.testing.assert_close(torch.cat(alone), together)
    in_batches = model.predict(inputs, batch_size=7, independent=True).probabilities
    torch.testing.assert_close(in_batches, together)


def test_whatever_inputs_are(rows, tmp_path):
    values = np.array([[1.0, 2, 3], [4, 5, 6]], np.float32)
    np.save(tmp_path / "a.npy", values)
    tensor = torch.from_numpy(values)
    table = Table(tensor, torch.tensor([0, 1]), ("cat", "dog"), "t")
    kinds = [
        tensor,
        table,
        MemorySource(tensor),
        tmp_path / "a.npy",
        str(tmp_path / "a.npy"),
        [tmp_path / "a.npy"],
        [Place("sent.npy", (tmp_path / "a.npy").read_bytes())],
    ]
    found = [predict_records(rows, kind) for kind in kinds]
    for one in found:
        assert [record["probabilities"] for record in one] == [record["probabilities"] for record in found[0]]
    assert [one[0]["name"] for one in found] == [
        "1",
        "t:1",
        "1",
        *[f"{tmp_path / 'a.npy'}:1"] * 3,
        "sent.npy:1",
    ]
    with pytest.raises(InputError, match="inputs must be a source, tensors or paths, got int"):
        _as_source(3, takes_texts=False)


def test_pictures_of_a_model_for_rows_and_rows_for_pictures(rows, pictures, tmp_path):
    Image.new("L", (9, 9)).save(tmp_path / "a.png")
    (tmp_path / "a.csv").write_text("1,2,3\n")
    (one,) = predict_records(rows, tmp_path / "a.png")
    assert one["error"] == "the model takes rows of 3 numbers, not pictures"
    (other,) = predict_records(pictures, tmp_path / "a.csv")
    assert other["error"] == "the model takes pictures 1 x 16 x 16, not rows of a table"


def test_as_text(rows):
    found = predict_records(rows, torch.tensor([[1.0, 2, 3], [float("nan"), 0, 0]]))
    assert [json.loads(line) for line in to_json_lines(found).splitlines()] == found
    cells = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert list(cells[0]) == list(FIELDS)
    assert json.loads(cells[0]["probabilities"]) == found[0]["probabilities"]
    assert (cells[1]["answer"], cells[1]["error"]) == ("", "has a value that is not finite")
    assert to_csv(found, header=False) == to_csv(found).partition("\n")[2]


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b"])
def test_whatever_a_name_holds_it_is_one_cell(name):
    text = to_csv([{"name": name, "error": None}])
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["name", "error"], [name, ""]]
    assert text.endswith(",\n")
