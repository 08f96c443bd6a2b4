"""Export of a model for production: prepared inputs to named tensors, as a torch.export program or as ONNX.

A file takes what `model.preprocess.prepare` gives, for any number N of inputs: the pixels of images in
their size and rows as numbers (`preprocess.schema.features` names them), float32; or the ids of tokens,
int64. Scaling is part of the file.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio._files import json_text, write_atomically
from nescio.errors import InputError, MissingExtraError
from nescio.inference._layers import network_inputs
from nescio.methods import METHODS, method_to_dict
from nescio.opinions.opinion import Opinion

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel


def export_program(model: TrainedModel, path: str | Path) -> None:
    """Write a torch.export program that takes inputs (N, *input_shape) as `preprocess.prepare` gives them.

    They are float32, of texts int64, for any N.

    Args:
        model: One whose method does not draw at random.
        path: The file to write, .pt2.

    Raises:
        InputError: If the method draws at random in every prediction.

    Example:
        >>> export_program(model, "model.pt2")  # doctest: +SKIP
    """
    content = io.BytesIO()
    torch.export.save(_program(model), content)
    write_atomically(Path(path), content.getvalue())


def export_onnx(model: TrainedModel, path: str | Path) -> None:
    """Write an ONNX file that takes inputs (N, *input_shape) as `preprocess.prepare` gives them.

    They are float32, of texts int64, for any N. The file's metadata say what the numbers mean, as JSON:
    nescio.classes, nescio.method, nescio.preprocess, and nescio.rule, nescio.sets and nescio.posthoc, which
    are null where the model has none.

    Args:
        model: One whose method does not draw at random.
        path: The file to write, .onnx.

    Raises:
        InputError: If the method draws at random in every prediction.
        MissingExtraError: If onnxscript is not installed.

    Example:
        >>> export_onnx(model, "model.onnx")  # doctest: +SKIP
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("onnx", "onnxscript") from error
    with no_word_of_torchvision():
        program = torch.onnx.export(
            _program(model),
            input_names=["inputs"],
            output_names=list(_whole(model).names),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    _name_batch(proto.graph)
    _describe(proto, model)
    write_atomically(Path(path), proto.SerializeToString())


@contextlib.contextmanager
def no_word_of_torchvision() -> Iterator[None]:
    """Within it, torch.onnx does not warn that it leaves out operators of torchvision: no model has them."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    log.addFilter(_is_of_something_else)
    try:
        yield
    finally:
        log.removeFilter(_is_of_something_else)


def _is_of_something_else(record: logging.LogRecord) -> bool:
    return "torchvision" not in record.getMessage()


def _describe(proto: Any, model: TrainedModel) -> None:
    """Put into the metadata of an ONNX file what its numbers mean, as JSON; the names begin with nescio."""
    described: dict[str, Any] = {
        "classes": list(model.classes),
        "method": method_to_dict(model.method),
        "preprocess": model.preprocess.to_dict(),
        "rule": None if model.rule is None else model.rule.to_dict(),
        "sets": None if model.sets is None else model.sets.to_dict(),
        "posthoc": None if model.posthoc is None else model.posthoc.settings(),
    }
    for name, content in described.items():
        entry = proto.metadata_props.add()
        entry.key = f"nescio.{name}"
        entry.value = json_text(content)


def _program(model: TrainedModel) -> torch.export.ExportedProgram:
    if model.method.is_stochastic:
        exportable = [name for name in METHODS if not METHODS.get(name).is_stochastic]
        raise InputError(
            f"{model.method.name} draws at random in every prediction, which an exported program can't; "
            f"these can be exported: {', '.join(exportable)}"
        )
    batch = torch.export.Dim("batch")
    device = next(model.module.parameters()).device
    example = model.preprocess.example().repeat_interleave(2, 0).to(device)
    with torch.no_grad():
        return torch.export.export(_whole(model).eval(), (example,), dynamic_shapes=({0: batch},))


def _whole(model: TrainedModel) -> _WholeModel:
    return _WholeModel(model)


def _name_batch(graph: Any) -> None:
    """Call the axis of samples "batch" in an ONNX graph, instead of by a generated name."""
    generated = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert generated
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param == generated:
                axis.dim_param = "batch"


class _WholeModel(nn.Module):
    """From prepared inputs to named tensors."""

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.module = model.module
        self.encoder_module = None if model.encoder is None else model.encoder.module
        self.model = model

    @property
    def names(self) -> tuple[str, ...]:
        """Of the outputs."""
        names = ["probabilities", "uncertainty"]
        if isinstance(self.model.method.interpret(torch.zeros(1, 2)), Opinion):
            names = ["probabilities", "belief", "uncertainty"]
        if self.model.posthoc is not None and self.model.posthoc.trust is not None:
            names.append("p_value")
        # Randomized sets are drawn by a digest of the probabilities: rounding elsewhere would draw others.
        if self.model.sets is not None and not self.model.sets.randomized:
            names.append("set")
        return tuple(names)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Probabilities (N, K), uncertainty (N,); where there are such, belief, p-value and set."""
        prepared = network_inputs(self.model, self.model.preprocess(inputs))
        unused = torch.Generator()  # what is exported does not draw
        said = self.model.predict_prepared(prepared, self.model.method.predict, unused)
        outputs: list[Any] = []
        for name in self.names:
            if name == "p_value":
                outputs.append(said.p_values)
            elif name == "set":
                assert self.model.sets is not None
                prediction = said.prediction
                outputs.append(self.model.sets.members(prediction.probabilities, prediction.labels))
            else:
                outputs.append(getattr(said.prediction, name))
        return tuple(outputs)
