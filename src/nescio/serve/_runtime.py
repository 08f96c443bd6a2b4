"""What computes a network: torch, or ONNX Runtime where that is faster."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import torch
from torch import Tensor, nn

from nescio._kinds import InputKind
from nescio.errors import InputError, MissingExtraError
from nescio.inference.export import no_word_of_torchvision
from nescio.inference.model import TrainedModel
from nescio.training import as_input

RUNTIMES = ("torch", "onnx", "auto")
_MAX_DIFFERENCE = 1e-4  # of probabilities: more than rounding makes
_BATCH = 32
_REPEATS = 5
_MIN_GAIN = 1.1


class OnnxNetwork(nn.Module):
    """A network from preprocessed inputs (N, ...) to logits (N, K), computed by ONNX Runtime.

    network: the same in torch, whose parameters say type and device. content: the ONNX file.
    """

    def __init__(self, network: nn.Module, content: bytes) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        # Threads that wait by turning in circles would take the core from the rest of the service.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.network = network
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, K)."""
        (logits,) = self._session.run(None, {"inputs": inputs.contiguous().numpy()})
        return torch.from_numpy(logits)


def choose_network(name: str, model: TrainedModel, runtime: str) -> bytes | None:
    """An ONNX file for ONNX Runtime to compute the network from; None for torch.

    runtime: "torch", "onnx", or "auto" for whichever is faster. Raises InputError where it is "onnx" and
    the model can't be computed by it, MissingExtraError where that is not installed.
    """
    if runtime == "torch":
        return None
    try:
        content, other = _network_that_says_the_same(model)
    except InputError as error:
        if runtime == "onnx":
            raise InputError(f"runtime must be torch for the model {name}: {error}") from error
        return None
    if runtime == "onnx":
        return content
    inputs = _inputs_like(model)
    is_faster = _seconds(model, inputs) > _MIN_GAIN * _seconds(other, inputs)
    return content if is_faster else None


def _network_that_says_the_same(model: TrainedModel) -> tuple[bytes, TrainedModel]:
    """What `export_network` gives, and the model with it.

    Raises an InputError with the reason where ONNX Runtime can't compute the model.
    """
    reason = _obstacle(model)
    if reason is not None:
        raise InputError(reason)
    inputs = _inputs_like(model)
    try:
        content = export_network(model)
        other = with_network(model, content)
        said = other.predict(inputs)
    except MissingExtraError:
        raise
    except Exception as error:  # of the exporter, or of a method that asks more of a network
        raise InputError(f"it can't be computed there ({error})") from error
    difference = model.predict(inputs).probabilities - said.probabilities
    if float(difference.abs().max()) > _MAX_DIFFERENCE:
        raise InputError("it says something else there")
    return content, other


def with_network(model: TrainedModel, content: bytes) -> TrainedModel:
    """The same model, its network computed by ONNX Runtime."""
    return replace(model, module=OnnxNetwork(model.module, content))


def runtime_of(model: TrainedModel) -> str:
    """What computes its network."""
    return "onnx" if isinstance(model.module, OnnxNetwork) else "torch"


def export_network(model: TrainedModel) -> bytes:
    """The network alone, from preprocessed inputs to logits, as an ONNX file."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("onnx", error.name or "onnxruntime") from error
    with no_word_of_torchvision():
        program = torch.onnx.export(
            model.module.eval(),
            (as_input(_inputs_like(model)[:2], model.preprocess),),
            input_names=["inputs"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return bytes(program.model_proto.SerializeToString())


def _obstacle(model: TrainedModel) -> str | None:
    """Why ONNX Runtime can't compute a model; None where it can."""
    if model.preprocess.kind == InputKind.TEXTS or model.encoder is not None:
        return "it has an encoder of its own before the network"
    if model.method.is_stochastic or model.method.trainings > 1:
        return f"its method, {model.method.name}, is more than one pass of one network"
    if model.posthoc is not None and model.posthoc.trust is not None:
        return "its trust looks at a layer inside the network"
    if next(model.module.parameters()).dtype != torch.float32:
        return "its weights are not float32"
    return None


def _inputs_like(model: TrainedModel) -> Tensor:
    """Some raw inputs (N, *input_shape)."""
    generator = torch.Generator().manual_seed(0)
    shape = (_BATCH, *model.input_shape)
    if model.preprocess.kind == InputKind.IMAGES:
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    return torch.randn(shape, generator=generator)


def _seconds(model: TrainedModel, inputs: Tensor) -> float:
    """Of processor time, for a batch; the median."""
    model.predict(inputs)
    times = []
    for _ in range(_REPEATS):
        start = time.process_time()
        model.predict(inputs)
        times.append(time.process_time() - start)
    return statistics.median(times)
