"""Exported programs say what the model says."""

import copy
from dataclasses import replace

import pytest
import torch

from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import InputError
from nescio.inference.export import export_program
from nescio.inference.model import TrainedModel, untrained_model
from nescio.methods import EDL, REDL, Dropout, Softmax
from nescio.posthoc.conformal import ConformalSets
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.training import TrainingSettings


@pytest.fixture(scope="module")
def models(digits):
    spec = LeNetSpec(filters=(4, 8), hidden=32)
    settings = TrainingSettings(epochs=1, batch_size=32)
    return {m.name: TrainedModel.train(digits, m, spec, settings) for m in (EDL(), REDL(), Softmax())}


# One export takes long: the methods and the kinds of sets are gone through together.
EXPORTED = {
    "edl": None,
    "r-edl": {"score": "lac", "allow_empty": True},
    "softmax": {"score": "raps"},
    "edl, sets by class": {"score": "aps", "by_class": True},
    "edl, temperature": None,
    "edl, temperature of large scale": None,
}


@pytest.mark.parametrize("case", EXPORTED)
@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_exported_program_and_onnx_agree_with_torch(models, case, digits, tmp_path):
    import onnxruntime

    model = models[case.partition(",")[0]]
    if case == "edl, temperature":
        model = replace(model, posthoc=Posthoc(Temperature(1.2, class_scale=0.8, class_shift=3.0)))
    if case == "edl, temperature of large scale":
        # Powers of so much evidence are above the largest float32.
        model = replace(with_large_outputs(model, 300), posthoc=Posthoc(Temperature(class_scale=5.0)))
        assert model.predict(digits.images[:7]).evidence.amax() > torch.finfo().max ** (1 / 5)
    if EXPORTED[case] is not None:
        model = with_sets(model, digits, **EXPORTED[case])
        sizes = model.sets.contains(model.predict(digits.images)).sum(1)
        assert len(set(sizes.tolist())) > 1
    model.export_program(tmp_path / "m.pt2")
    model.export_onnx(tmp_path / "m.onnx")
    program = torch.export.load(tmp_path / "m.pt2").module()
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert {value.shape[0] for value in (*session.get_inputs(), *session.get_outputs())} == {"batch"}
    for count in (1, 7):
        inputs = digits.images[:count].float()
        prediction = model.predict(digits.images[:count])
        expected = [_output(model, prediction, name) for name in names]
        with torch.no_grad():
            from_program = program(inputs)
        from_onnx = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})
        for reference, one, two in zip(expected, from_program, from_onnx, strict=True):
            torch.testing.assert_close(one, reference, rtol=0, atol=1e-5)
            torch.testing.assert_close(torch.from_numpy(two), reference, rtol=0, atol=1e-5)
    wanted = {"probabilities", "uncertainty"} | ({"belief"} if model.method.name != "softmax" else set())
    if model.sets is not None:
        wanted.add("set")
    assert set(names) == wanted


def _output(model, prediction, name):
    return model.sets.contains(prediction) if name == "set" else getattr(prediction, name)


def with_sets(model, digits, **options):
    """With outputs that make probabilities differ: among equal ones, rounding decides what is in a set."""
    model = with_large_outputs(model)
    # Not made from the first images, which are asked: one of them may be the threshold to the last digit.
    rest = digits.take(torch.arange(50, len(digits)))
    return model.with_sets(ConformalSets.fit(model.predict(rest.images), rest.labels, 0.6, **options))


def with_large_outputs(model, times=30):
    module = copy.deepcopy(model.module)
    with torch.no_grad():
        module[-1].weight *= times
    return replace(model, module=module)


@pytest.mark.filterwarnings("ignore")
def test_randomized_sets_are_not_exported(models, digits, tmp_path):
    model = with_sets(models["edl"], digits, score="aps", randomized=True)
    model.export_program(tmp_path / "m.pt2")
    assert len(torch.export.load(tmp_path / "m.pt2").module()(digits.images[:2].float())) == 3


def test_a_method_that_draws_can_not_be_exported(tmp_path):
    model = untrained_model(torch.zeros(4, 3), ("a", "b"), Dropout(), MLPSpec(3, 2, dropout=0.5))
    with pytest.raises(
        InputError, match=r"dropout draws at random in every prediction.*can be exported: softmax"
    ):
        export_program(model, tmp_path / "m.pt2")
    assert not (tmp_path / "m.pt2").exists()
