"""What every method and every encoder must do, as checks to run in the tests of your own.

    import pytest
    from nescio.encoders import MLPSpec
    from nescio.testing import METHOD_CHECKS

    @pytest.mark.parametrize("check", METHOD_CHECKS)
    def test_contract(check):
        check(MyMethod(), MLPSpec(5, 2, hidden=(8,)))

A check ends with an AssertionError whose message says what is not kept.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from nescio.data import Dataset, Table
from nescio.data._folders import RUN_MODEL
from nescio.encoders import Ability, EncoderSpec, InputKind, Layers, features_of, spec_from_dict, spec_to_dict
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import Batch, Method, method_from_dict, method_to_dict
from nescio.opinions.categorical import Prediction
from nescio.training import TrainingSettings

MethodCheck = Callable[[Method, EncoderSpec], None]
EncoderCheck = Callable[[EncoderSpec], None]

LEAST_ACCURACY = 0.9  # on data that any classifier tells apart
_LEAST_VOCABULARY = 20  # tokens that every text encoder has


def check_method(method: Method, encoder: EncoderSpec) -> None:
    """Run all checks of a method with one encoder.

    Args:
        method: A registered method, with few passes for speed.
        encoder: A small one that has what the method requires.

    Raises:
        AssertionError: If a check fails.

    Example:
        >>> from nescio import LeNetSpec, Softmax
        >>> check_method(Softmax(), LeNetSpec(1, 16, 16, num_classes=2, filters=(4, 6), hidden=16))
    """
    for check in METHOD_CHECKS:
        check(method, encoder)


def check_encoder(encoder: EncoderSpec) -> None:
    """Run all checks of an encoder.

    Args:
        encoder: A small one of a registered kind.

    Raises:
        AssertionError: If a check fails.

    Example:
        >>> from nescio import MLPSpec
        >>> check_encoder(MLPSpec(5, num_classes=3, hidden=(8,)))
    """
    for check in ENCODER_CHECKS:
        check(encoder)


def _says_what_it_is(method: Method, encoder: EncoderSpec) -> None:
    """It has a name, a line about it and settings that go through JSON and back."""
    _require(bool(method.name) and bool(method.about), "name and about must not be empty")
    _require(method.passes >= 1 and method.trainings >= 1, "passes and trainings must be 1 or more")
    again = method_from_dict(json.loads(json.dumps(method_to_dict(method))))
    _require(again == method, f"settings must come back from JSON as they were, got {again}")
    hash(method)  # which a frozen dataclass of plain settings can be


def _predicts_a_distribution(method: Method, encoder: EncoderSpec) -> None:
    """Probabilities (N, K) that add up to one, doubt from 0 to 1, and the network left as it was."""
    for count in (1, 4):
        module = _built(method, encoder).eval()
        with torch.no_grad():
            prediction = method.predict(module, _batch_for(encoder, count).inputs, _generator(0))
        _require(isinstance(prediction, Prediction), f"predict must give a Prediction, got {prediction!r}")
        shape = tuple(prediction.probabilities.shape)
        _require(shape == (count, encoder.num_classes), f"probabilities must be (N, K), got {shape}")
        assert_close(prediction.probabilities.sum(1), torch.ones(count))
        doubt = prediction.uncertainty
        _require(bool(((doubt >= 0) & (doubt <= 1)).all()), "uncertainty must be from 0 to 1")
        _require(not any(part.training for part in module.modules()), "predict must leave evaluation mode on")


def _draws_from_its_generator_alone(method: Method, encoder: EncoderSpec) -> None:
    """The same generator gives the same prediction; another one does not where it is stochastic."""
    module = _built(method, encoder).eval()
    inputs = _batch_for(encoder).inputs
    state = torch.random.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        with torch.no_grad():
            found.append(method.predict(module, inputs, _generator(seed)).probabilities)
    _require(torch.equal(found[0], found[1]), "the same generator must give the same prediction")
    differs = not torch.equal(found[0], found[2])
    _require(differs == method.is_stochastic, f"is_stochastic is {method.is_stochastic}, found {differs}")
    untouched = torch.equal(torch.random.get_rng_state(), state)
    _require(untouched, "predict must leave torch's own generator alone")


def _predicts_each_as_if_alone(method: Method, encoder: EncoderSpec) -> None:
    """With predict_each, what is said of an input does not depend on those beside it."""
    module = _built(method, encoder).eval()
    inputs = _batch_for(encoder).inputs
    with torch.no_grad():
        together = method.predict_each(module, inputs, _generator(0)).probabilities
        alone = [
            method.predict_each(module, one, _generator(0)).probabilities for one in torch.split(inputs, 1)
        ]
        usual = method.predict(module, inputs[:1], _generator(0)).probabilities
    assert_close(together, torch.cat(alone))
    assert_close(together[:1], usual)


def _has_a_finite_loss_with_gradients(method: Method, encoder: EncoderSpec) -> None:
    """A loss () and logits (N, K) of each member, and a finite gradient for every weight."""
    for count in (1, 6):
        for member in method.members(_built(method, encoder).train()):
            loss, logits = method.objective(member, _batch_for(encoder, count), 0.5, 100)
            _require(loss.ndim == 0 and bool(loss.isfinite()), f"the loss must be finite and (), got {loss}")
            shape = tuple(logits.shape)
            _require(shape == (count, encoder.num_classes), f"logits must be (N, K), got {shape}")
            torch.autograd.backward(loss)
            for name, weight in member.named_parameters():
                has_one = weight.grad is not None and bool(weight.grad.isfinite().all())
                _require(has_one, f"{name} must have a finite gradient")


def _measures_held_out_samples_alike(method: Method, encoder: EncoderSpec) -> None:
    """In evaluation mode the loss needs no gradient and draws nothing."""
    member = method.members(_built(method, encoder).eval())[0]
    batch = _batch_for(encoder)
    with torch.no_grad():
        first, _ = method.objective(member, batch, 9.0, 100)
        second, _ = method.objective(member, batch, 9.0, 100)
    _require(bool(first == second), f"the loss in evaluation mode must not draw, got {first} and {second}")


def _counts_weights_like_repetition(method: Method, encoder: EncoderSpec) -> None:
    """A sample of weight 2 counts like two samples, one of weight 0 like none."""
    member = method.members(_built(method, encoder).eval())[0]
    batch = _batch_for(encoder)
    weights = torch.arange(6) % 3
    repeated = batch._replace(
        inputs=batch.inputs.repeat_interleave(weights, 0), labels=batch.labels.repeat_interleave(weights)
    )
    with torch.no_grad():
        weighted, _ = method.objective(member, batch._replace(weights=weights.float()), 4.0, 100)
        expected, _ = method.objective(member, repeated, 4.0, 100)
    assert_close(weighted, expected)


def _works_in_bfloat16(method: Method, encoder: EncoderSpec) -> None:
    """Under autocast the loss stays float32, and a prediction a distribution."""
    module = _built(method, encoder)
    batch = _batch_for(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = method.objective(method.members(module.train())[0], batch, 0.5, 100)
        prediction = method.predict(module.eval(), batch.inputs, _generator(0))
    _require(loss.dtype == torch.float32, f"the loss must be float32 under autocast, got {loss.dtype}")
    torch.autograd.backward(loss)
    assert_close(prediction.probabilities.sum(1), torch.ones(6))


def _works_in_float64(method: Method, encoder: EncoderSpec) -> None:
    """A network in float64 has a loss, logits and probabilities in float64."""
    module = _built(method, encoder).double()
    batch = _batch_for(encoder)
    assert batch.input_range is not None
    wide = batch._replace(inputs=_in(torch.float64, batch.inputs), input_range=batch.input_range.double())
    loss, logits = method.objective(method.members(module.train())[0], wide, 0.5, 100)
    with torch.no_grad():
        prediction = method.predict(module.eval(), wide.inputs, _generator(0))
    for name, value in (("loss", loss), ("logits", logits), ("probabilities", prediction.probabilities)):
        _require(value.dtype == torch.float64, f"{name} must stay float64, got {value.dtype}")


def _learns_and_lasts(method: Method, encoder: EncoderSpec) -> None:
    """Trained on easy data its held-out loss falls; saved and loaded it predicts the same."""
    data = _easy_data(encoder)
    settings = TrainingSettings(epochs=12, batch_size=16, learning_rate=5e-3)
    model = TrainedModel.train(data, method, _for_two_classes(encoder), settings, held_out=data)
    losses = []
    for row in model.training["history"]:
        if row.get("member", 1) == 1:
            losses.append(row["held_out_loss"])
    _require(losses[-1] < losses[0], f"the held-out loss must fall, went from {losses[0]} to {losses[-1]}")
    prediction = model.predict(data.inputs)
    accuracy = float((prediction.labels == data.labels).float().mean())
    _require(accuracy > LEAST_ACCURACY, f"easy data must be learned, accuracy is {accuracy:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / RUN_MODEL
        model.save(path)
        again = TrainedModel.load(path, method=type(method))
    _require(again.method == method, f"the loaded method must be the saved one, got {again.method}")
    same = torch.equal(again.predict(data.inputs).probabilities, prediction.probabilities)
    _require(same, "a loaded model must predict what the saved one does")


def _exports_or_says_why_not(method: Method, encoder: EncoderSpec) -> None:
    """A method that does not draw can be exported; one that draws is refused with the reason."""
    data = _easy_data(encoder)
    settings = TrainingSettings(epochs=1, batch_size=32)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Of the exporter about itself; of a training that is too short to learn anything, on purpose.
        warnings.simplefilter("ignore")
        model = TrainedModel.train(data, method, _for_two_classes(encoder), settings)
        path = Path(folder) / "model.pt2"
        if method.is_stochastic:
            try:
                model.export_program(path)
            except InputError as error:
                _require(method.name in str(error), f"the refusal must name the method, got {error}")
                return
            raise AssertionError("a method that draws can't be exported, and must be refused")
        model.export_program(path)
        program = torch.export.load(path).module()
    with torch.no_grad():
        probabilities = program(data.inputs[:5].float())[0]
    assert_close(probabilities, model.predict(data.inputs[:5]).probabilities)


METHOD_CHECKS: tuple[MethodCheck, ...] = (
    _says_what_it_is,
    _predicts_a_distribution,
    _draws_from_its_generator_alone,
    _predicts_each_as_if_alone,
    _has_a_finite_loss_with_gradients,
    _measures_held_out_samples_alike,
    _counts_weights_like_repetition,
    _works_in_bfloat16,
    _works_in_float64,
    _learns_and_lasts,
    _exports_or_says_why_not,
)


def _goes_through_json(encoder: EncoderSpec) -> None:
    """Its fields are plain data, and the data decide as many as they can."""
    again = spec_from_dict(json.loads(json.dumps(spec_to_dict(encoder))))
    _require(again == encoder, f"fields must come back from JSON as they were, got {again}")
    decided = type(encoder).fields_for(encoder.input_shape, encoder.num_classes)
    others = {name: value for name, value in spec_to_dict(encoder).items() if name not in {*decided, "kind"}}
    fitted = type(encoder).for_inputs(encoder.input_shape, encoder.num_classes, **others)
    _require(fitted.input_shape == encoder.input_shape, f"for_inputs gave {fitted.input_shape}")
    _require(fitted.num_classes == encoder.num_classes, f"for_inputs gave {fitted.num_classes} classes")


def _gives_logits(encoder: EncoderSpec) -> None:
    """(N, K) for any N, in float32 and float64, with the same weights from the same seed."""
    first = _seeded(encoder)
    second = _seeded(encoder)
    for name, weight in first.state_dict().items():
        _require(torch.equal(weight, second.state_dict()[name]), f"{name} must follow torch's seed")
    for dtype in (torch.float32, torch.float64):
        for count in (1, 3):
            inputs = _in(dtype, _batch_for(encoder, count).inputs)
            logits = first.to(dtype).eval()(inputs)
            shape = tuple(logits.shape)
            _require(shape == (count, encoder.num_classes), f"logits must be (N, K), got {shape}")
            _require(logits.dtype == dtype, f"logits must be {dtype} like the network, got {logits.dtype}")


def _ignores_what_is_behind_a_text(encoder: EncoderSpec) -> None:
    """What stands behind the end of a text changes nothing, nor do longer texts beside it."""
    if encoder.inputs is not InputKind.TEXTS:
        return
    network = _seeded(encoder).eval()
    ids = _batch_for(encoder).inputs
    with torch.no_grad():
        together = network(ids)
        for place, text in enumerate(ids):
            length = int((text != encoder.text_padding).sum())
            alone = network(text[None, :length])[0]
            assert_close(
                alone, together[place], msg=f"a text must not depend on what is behind it, text {place}"
            )


def _has_the_features_it_declares(encoder: EncoderSpec) -> None:
    """features(inputs) (N, F), and a head that makes the logits of them."""
    if Ability.FEATURES not in encoder.abilities:
        return
    network = _seeded(encoder).eval()
    inputs = _batch_for(encoder).inputs
    features = features_of(network, inputs)
    found = features.shape[1]
    _require(found == encoder.num_features, f"num_features is {encoder.num_features}, found {found}")
    head = network.head
    assert isinstance(head, nn.Module)
    _require(torch.equal(head(features), network(inputs)), "head(features(inputs)) must be the logits")


def _has_the_dropout_it_declares(encoder: EncoderSpec) -> None:
    """Its share can be set; with it a training draws, without it nothing does."""
    if Ability.DROPOUT not in encoder.abilities:
        return
    inputs = _batch_for(encoder).inputs
    for spec, draws in ((encoder.with_dropout(0.5), True), (encoder.without_dropout(), False)):
        network = _seeded(spec).train()
        differs = not torch.equal(network(inputs), network(inputs))
        _require(differs == draws, f"with {spec} a training pass must {'' if draws else 'not '}draw")


def _takes_the_layers_it_declares(encoder: EncoderSpec) -> None:
    """It builds all its dense layers and convolutions from the layers that it is given."""
    if Ability.LAYERS not in encoder.abilities:
        return
    given: list[nn.Module] = []

    def convolution(channels: int, filters: int, size: int, padding: int = 0) -> nn.Module:
        given.append(nn.Conv2d(channels, filters, size, padding=padding))
        return given[-1]

    def linear(inputs: int, outputs: int) -> nn.Module:
        given.append(nn.Linear(inputs, outputs))
        return given[-1]

    network = encoder.build(Layers(convolution, linear))
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            _require(any(layer is one for one in given), f"{layer} must come from the layers that are given")
    _require(len(given) > 0, "an encoder with Ability.LAYERS must build from the layers that are given")


ENCODER_CHECKS: tuple[EncoderCheck, ...] = (
    _goes_through_json,
    _gives_logits,
    _ignores_what_is_behind_a_text,
    _has_the_features_it_declares,
    _has_the_dropout_it_declares,
    _takes_the_layers_it_declares,
)


def _require(kept: bool, message: str) -> None:
    if not kept:
        raise AssertionError(message)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _seeded(encoder: EncoderSpec) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return encoder.build()


def _built(method: Method, encoder: EncoderSpec) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return method.build(encoder)


def _batch_for(encoder: EncoderSpec, count: int = 6) -> Batch:
    if encoder.inputs is InputKind.TEXTS:
        inputs = _tokens(count, encoder.input_shape[0], encoder.text_padding)
    else:
        inputs = torch.rand(count, *encoder.input_shape, generator=_generator(1))
    labels = torch.arange(count) % encoder.num_classes
    return Batch(inputs, labels, None, torch.ones(encoder.input_shape[0]))


def _tokens(count: int, max_length: int, padding: int) -> Tensor:
    """Ids of tokens (N, L) of texts that differ in length, with the padding behind the end of each."""
    ids = torch.randint(1, _LEAST_VOCABULARY, (count, max_length), generator=_generator(1))
    ids = ids.masked_fill(ids == padding, 0 if padding else 1)
    lengths = 1 + torch.arange(count) % max_length
    is_behind_the_end = torch.arange(max_length) >= lengths[:, None]
    return ids.masked_fill(is_behind_the_end, padding)


def _in(dtype: torch.dtype, inputs: Tensor) -> Tensor:
    """Numbers in this dtype; ids of tokens stay whole."""
    if inputs.is_floating_point():
        return inputs.to(dtype)
    return inputs


def _for_two_classes(encoder: EncoderSpec) -> EncoderSpec:
    return dataclasses.replace(encoder, num_classes=2)  # type: ignore[type-var]


def _easy_data(encoder: EncoderSpec) -> Dataset | Table:
    """Two classes that any network tells apart: stripes across and down, or numbers around -1 and 1."""
    labels = torch.arange(96) % 2
    classes = ("first", "second")
    shape = (len(labels), *encoder.input_shape)
    if encoder.inputs is InputKind.ROWS:
        rows: Tensor = 0.3 * torch.randn(shape, generator=_generator(0)) + (2.0 * labels - 1)[:, None]
        return Table(rows, labels, classes, "two clouds")
    images = torch.randint(100, shape, generator=_generator(0), dtype=torch.uint8)
    images[labels == 0, :, ::4] += 150
    images[labels == 1, :, :, ::4] += 150
    return Dataset(images, labels, classes, "stripes")
