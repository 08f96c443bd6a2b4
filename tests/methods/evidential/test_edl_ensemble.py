import pytest
import torch
from tests.training.small import blobs
from torch import nn

import nescio as ev
from nescio.encoders import MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, EDLEnsemble

SPEC = MLPSpec(5, 3, hidden=(8,))


def built(method, seed=0):
    torch.manual_seed(seed)
    return method.build(SPEC).eval()


@pytest.mark.parametrize("fusion", ["averaging", "cumulative", "weighted"])
@pytest.mark.parametrize("evidence", ["exp", "softplus", "relu"])
def test_a_prediction_is_the_fused_opinion_of_the_members(fusion, evidence):
    method = EDLEnsemble(num_members=3, fusion=fusion, evidence=evidence)
    module = built(method)
    inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        opinions = [EDL(evidence=evidence).interpret(network(inputs)) for network in module.networks]
        expected = ev.fuse(opinions, fusion)
        found = method.predict(module, inputs, torch.Generator())
        of_logits = method.interpret(module(inputs))
    torch.testing.assert_close(found.evidence, expected.evidence)
    torch.testing.assert_close(of_logits.evidence, expected.evidence, rtol=1e-5, atol=1e-6)
    has_answer = ~expected.is_vacuous
    assert torch.equal(found.labels[has_answer], expected.labels[has_answer])


def test_where_no_member_has_evidence_their_outputs_still_have_an_order():
    method = EDLEnsemble(num_members=2, evidence="relu")
    module = built(method)
    for number, network in enumerate(module.networks):
        nn.init.zeros_(network[-1].weight)
        network[-1].bias.data = torch.tensor([-3.0, -1.0, -2.0 - number])
    opinion = method.predict(module, torch.zeros(1, 5), torch.Generator())
    assert opinion.is_vacuous.tolist() == [True]
    assert opinion.labels.tolist() == [1]


def test_cumulative_is_surer_than_averaging():
    inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    doubts = {}
    for fusion in ("averaging", "cumulative"):
        method = EDLEnsemble(num_members=3, fusion=fusion)
        with torch.no_grad():
            doubts[fusion] = method.predict(built(method), inputs, torch.Generator()).uncertainty
    assert bool((doubts["cumulative"] < doubts["averaging"]).all())


def test_the_members_begin_with_weights_of_their_own_and_cost_a_pass_each():
    method = EDLEnsemble(num_members=3)
    assert (method.passes, method.trainings) == (3, 3)
    first, second, _ = method.members(built(method))
    assert not torch.equal(first[0].weight, second[0].weight)


def test_its_settings_are_those_of_edl_too():
    assert EDLEnsemble(risk="type2").loss_for(3).risk == "type2"
    with pytest.raises(
        ev.InputError, match="fusion must be one of averaging, cumulative, weighted, got 'all'"
    ):
        EDLEnsemble(fusion="all")
    with pytest.raises(ev.InputError, match="num_members"):
        EDLEnsemble(num_members=0)
    with pytest.raises(ev.InputError, match="the method edl-ensemble builds its members itself"):
        EDLEnsemble().check_module(nn.Linear(5, 3))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"num_members": 3}, "num_members=2, and the method has 3"),
        ({"fusion": "cumulative"}, "fusion='averaging', and the method has 'cumulative'"),
        ({"evidence": "relu"}, "evidence='exp', and the method has 'relu'"),
    ],
)
def test_members_of_other_settings_are_refused(other, message):
    module = built(EDLEnsemble(num_members=2))
    assert EDLEnsemble(num_members=2).check_module(module) is module
    with pytest.raises(ev.InputError, match=f"the network was built with {message}"):
        EDLEnsemble(**{"num_members": 2, **other}).check_module(module)


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_it_is_saved_loaded_and_exported(tmp_path):
    import onnxruntime

    rows = blobs()
    table = ev.data.Table(rows.read(), rows.labels, ("a", "b", "c"), "blobs")
    settings = ev.TrainingSettings(epochs=3, batch_size=32, learning_rate=1e-2)
    model = TrainedModel.train(table, EDLEnsemble(num_members=2), MLPSpec(5, 3, hidden=(16,)), settings)
    inputs = torch.cat((rows.read()[:20], 30 * rows.read()[:5]))
    expected = model.predict(inputs)
    model.save(tmp_path / "m.safetensors")
    again = TrainedModel.load(tmp_path / "m.safetensors").predict(inputs)
    assert torch.equal(again.evidence, expected.evidence)
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names == ["probabilities", "belief", "uncertainty"]
    found = session.run(None, {session.get_inputs()[0].name: inputs.float().numpy()})
    for name, value in zip(names, found, strict=True):
        torch.testing.assert_close(torch.from_numpy(value), getattr(expected, name), rtol=0, atol=1e-5)
