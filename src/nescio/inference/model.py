"""TrainedModel: a network with all that is needed to use it, in memory and as one file."""

from __future__ import annotations

import importlib.metadata
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio._checks import require_whole
from nescio._files import digest, read_tensors, write_atomically, write_tensors
from nescio.data import Dataset, Table
from nescio.data.preprocess import Standardize
from nescio.encoders import EncoderSpec, make_encoder, spec_from_dict, spec_to_dict
from nescio.errors import DataError, InputError, MissingExtraError, ModelFileError, NescioError
from nescio.methods import EDL, METHODS, Method, make_method, method_from_dict, method_to_dict
from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.opinion import Opinion
from nescio.posthoc.abstention import AbstentionRule
from nescio.training import Run, Samples, TrainingSettings, as_input, fit

FORMAT = 1
HALF = 0.5
UNKNOWN = "I do not know"  # what is said where a model does not stand by its answer
VERSIONS_OF = ("nescio", "torch", "safetensors")


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained network, its method, classes and preprocessing, and a rule for when to abstain.

    network: what the module was built from; None for a module of the user's own, which must then be given
    again when the file is loaded. training: a summary of how it was trained, plain data.
    """

    module: nn.Module
    method: Method
    classes: tuple[str, ...]
    standardize: Standardize
    input_shape: tuple[int, ...]
    network: EncoderSpec | None = None
    rule: AbstentionRule | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def train(
        cls,
        data: Dataset | Table,
        method: Method | str | None = None,
        network: EncoderSpec | nn.Module | None = None,
        settings: TrainingSettings | None = None,
        *,
        held_out: Dataset | Table | None = None,
        run_dir: str | Path | None = None,
        report: Callable[[dict[str, float]], None] | None = None,
    ) -> TrainedModel:
        """Train on a data set: EDL and the paper's LeNet, or a perceptron for tables, unless told otherwise.

        method: with its settings, or a name for the usual ones. network: a spec, or a module of your own.
        run_dir: a folder for progress and checkpoints; called again with it, a training goes on.
        """
        method = make_method(method) if isinstance(method, str) else method or EDL()
        settings = settings or TrainingSettings()
        require_classes(data)
        spec = (
            None
            if isinstance(network, nn.Module)
            else network or method.default_encoder(default_network(data))
        )
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            module = method.build(spec) if spec is not None else method.check_module(network)  # type: ignore[arg-type]
        standardize = Standardize.fit(raw_inputs(data))
        if isinstance(data, Table) and (settings.shift or settings.flip):
            raise InputError("shift and flip are for images, not for rows of numbers")
        require_network(module, spec, as_input(raw_inputs(data)[:1], standardize), len(data.classes))
        if held_out is not None and raw_inputs(held_out).shape[1:] != raw_inputs(data).shape[1:]:
            shapes = [tuple(raw_inputs(each).shape[1:]) for each in (data, held_out)]
            raise DataError(f"held_out must have inputs {shapes[0]} like the training data, got {shapes[1]}")
        description = {
            "method": method_to_dict(method),
            "network": repr(module) if spec is None else spec_to_dict(spec),
            "settings": settings.to_dict(),
            "data": {"name": data.name, "samples": len(data), "classes": list(data.classes)},
            "sha256": {"train": digest_of(data), "held_out": held_out and digest_of(held_out)},
        }
        history = fit(
            method,
            module,
            standardize,
            samples_of(data, data.classes),
            settings,
            held_out=None if held_out is None else samples_of(held_out, data.classes),
            run=None if run_dir is None else Run(run_dir, description),
            report=report,
        )
        training = {**description, "last": history[-1], "history": history}
        if settings.patience is not None and method.trainings == 1:
            training["best"] = min(history, key=lambda metrics: metrics["held_out_loss"])
        shape = tuple(raw_inputs(data).shape[1:])
        return cls(module, method, data.classes, standardize, shape, spec, None, training)

    def labels_of(self, data: Dataset | Table) -> Tensor:
        """The labels of a data set (N,) as this model counts its classes."""
        return labels_among(self.classes, data)

    def predict(
        self, inputs: Tensor, *, batch_size: int = 1024, generator: torch.Generator | None = None
    ) -> Prediction:
        """The prediction for raw inputs (N, ...) of the shape it was trained on, in batches.

        generator: for methods that draw; without one they draw the same every time.
        """
        self._require_inputs(inputs)
        require_whole("batch_size", batch_size)
        generator = generator or torch.Generator().manual_seed(0)
        like = next(self.module.parameters())
        self.module.eval()
        with torch.inference_mode():
            parts = [
                self.method.predict(
                    self.module, as_input(part.to(like.device), self.standardize).to(like.dtype), generator
                )
                for part in torch.split(inputs, batch_size)
            ]
        return concatenate(parts)

    def accepts(self, prediction: Prediction) -> Tensor:
        """Where the model stands by its answer (N,): by its rule, or while doubt is less than a half."""
        if self.rule is not None:
            return self.rule.accept(prediction)
        return (prediction.uncertainty < HALF) & ~prediction.is_vacuous

    def with_rule(self, rule: AbstentionRule | None) -> TrainedModel:
        """The same model with another rule."""
        return replace(self, rule=rule)

    def save(self, path: str | Path) -> None:
        """Write one .safetensors file; an old one stays whole until the new one is."""
        header = {
            "format": FORMAT,
            "method": method_to_dict(self.method),
            "network": None if self.network is None else spec_to_dict(self.network),
            "classes": list(self.classes),
            "standardize": asdict(self.standardize),
            "input_shape": list(self.input_shape),
            "rule": None if self.rule is None else self.rule.to_dict(),
            "training": dict(self.training),
            "versions": {name: importlib.metadata.version(name) for name in VERSIONS_OF},
        }
        write_tensors(Path(path), self.module.state_dict(), header)

    @classmethod
    def load(cls, path: str | Path, network: nn.Module | None = None) -> TrainedModel:
        """Read a file that `save` wrote. network: the module, where it was the user's own."""
        tensors, header = read_tensors(Path(path))
        if header.get("format") != FORMAT:
            raise ModelFileError(
                f"{path} has format {header.get('format')!r}, this version of nescio reads {FORMAT}"
            )
        try:
            model = cls._from_header(header, network)
            kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
            model.module.to(kinds.pop() if len(kinds) == 1 else None)
            model.module.load_state_dict(tensors)
        except KeyError as error:
            raise ModelFileError(f"{path} does not fit together: its header lacks {error}") from error
        except (NescioError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(f"{path} does not fit together: {reason}") from error
        model.module.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        return model

    @classmethod
    def _from_header(cls, header: Mapping[str, Any], module: nn.Module | None) -> TrainedModel:
        network = None if header["network"] is None else spec_from_dict(header["network"])
        method = method_from_dict(header["method"])
        classes = tuple(str(one) for one in header["classes"])
        if len(set(classes)) != len(classes):
            raise InputError("two classes have the same name")
        if network is not None and network.num_classes != len(classes):
            raise InputError(f"{len(classes)} classes, but a network for {network.num_classes}")
        if module is None:
            if network is None:
                raise InputError("the network was the user's own: give it, load(path, network=...)")
            module = method.build(network)
        else:
            module = method.check_module(module)
        rule = None if header["rule"] is None else AbstentionRule.from_dict(header["rule"])
        standardize = Standardize(**header["standardize"])
        shape = tuple(int(size) for size in header["input_shape"])
        if network is not None and network.input_shape != shape:
            raise InputError(f"inputs {shape}, but a network for {network.input_shape}")
        if len(standardize.mean) != shape[0]:
            raise InputError(f"standardize is for {len(standardize.mean)} channels, inputs have {shape[0]}")
        if not isinstance(header["training"], dict):
            raise InputError(f"training must be a table, got {type(header['training']).__name__}")
        return cls(module, method, classes, standardize, shape, network, rule, header["training"])

    def export_program(self, path: str | Path) -> None:
        """Write a torch.export program: raw inputs (N, ...) in float32 to named tensors, any N."""
        content = io.BytesIO()
        torch.export.save(self._exported(), content)
        write_atomically(Path(path), content.getvalue())

    def export_onnx(self, path: str | Path) -> None:
        """Write an ONNX file: raw inputs (N, ...) in float32 to probabilities, belief, uncertainty."""
        try:
            import onnxscript  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("onnx", "onnxscript") from error
        program = torch.onnx.export(
            self._exported(),
            input_names=["inputs"],
            output_names=list(self._export_module().names),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        proto = program.model_proto
        _name_batch(proto.graph)
        write_atomically(Path(path), proto.SerializeToString())

    def _export_module(self) -> _Exported:
        return _Exported(self.module, self.method, self.standardize)

    def _exported(self) -> torch.export.ExportedProgram:
        if self.method.is_stochastic:
            exportable = [name for name in METHODS if not METHODS.get(name).is_stochastic]
            raise InputError(
                f"{self.method.name} draws at random in every prediction, which an exported program can't; "
                f"these can be exported: {', '.join(exportable)}"
            )
        batch = torch.export.Dim("batch")
        example = torch.zeros(2, *self.input_shape, device=next(self.module.parameters()).device)
        with torch.no_grad():
            return torch.export.export(self._export_module().eval(), (example,), dynamic_shapes=({0: batch},))

    def _require_inputs(self, inputs: Tensor) -> None:
        if not isinstance(inputs, Tensor) or inputs.ndim != 1 + len(self.input_shape) or len(inputs) == 0:
            got = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
            raise InputError(f"inputs must be one or more of shape (N, {self._shape_text}), got {got}")
        if tuple(inputs.shape[1:]) != self.input_shape:
            raise InputError(f"inputs must be (N, {self._shape_text}), got {tuple(inputs.shape)}")
        if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
            raise InputError("inputs must be finite, got NaN or infinity")

    @property
    def _shape_text(self) -> str:
        return ", ".join(str(size) for size in self.input_shape)


def _name_batch(graph: Any) -> None:
    """Call the axis of samples "batch" in an ONNX graph, instead of by a generated name."""
    generated = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert generated
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param == generated:
                axis.dim_param = "batch"


def raw_inputs(data: Dataset | Table) -> Tensor:
    """What a network is fed from: images (N, C, H, W) or features (N, F)."""
    return data.images if isinstance(data, Dataset) else data.features


def require_classes(data: Dataset | Table) -> None:
    """Samples of two classes or more."""
    present = int((data.labels.bincount() > 0).sum())
    if present < 2:
        raise DataError(f"{data.name} has samples of {present} class; a classifier needs two or more")


def samples_of(data: Dataset | Table, classes: Sequence[str]) -> Samples:
    """For the training loop, with labels that count these classes."""
    return Samples(raw_inputs(data), labels_among(classes, data))


def labels_among(classes: Sequence[str], data: Dataset | Table) -> Tensor:
    """The labels of a data set (N,) as places among these classes."""
    unknown = [name for name in data.classes if name not in classes]
    if unknown:
        raise DataError(f"{data.name} has classes that the model never saw: {', '.join(unknown[:5])}")
    return torch.tensor([classes.index(name) for name in data.classes])[data.labels]


def digest_of(data: Dataset | Table) -> str:
    """What tells a data set from any other."""
    return digest({"inputs": raw_inputs(data), "labels": data.labels})


def default_network(data: Dataset | Table) -> EncoderSpec:
    """The paper's LeNet for images, a perceptron for rows of numbers."""
    return make_encoder(None, tuple(raw_inputs(data).shape[1:]), len(data.classes))


def require_network(module: nn.Module, spec: EncoderSpec | None, example: Tensor, num_classes: int) -> None:
    """A network that takes inputs like the example (1, ...) and gives logits for so many classes."""
    if spec is not None and spec.input_shape != tuple(example.shape[1:]):
        raise InputError(f"network takes inputs {spec.input_shape}, the data has {tuple(example.shape[1:])}")
    like = next(module.parameters())
    was_training = module.training
    try:
        with torch.no_grad():
            logits = module.eval()(example.to(like.device, like.dtype))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"network can't take inputs (N, {_sizes(example)}): {reason}") from error
    finally:
        module.train(was_training)
    if tuple(logits.shape) != (1, num_classes):
        raise InputError(
            f"network must give logits (N, {num_classes}), one for each class, got {('N', *logits.shape[1:])}"
        )


def _sizes(inputs: Tensor) -> str:
    return ", ".join(str(size) for size in inputs.shape[1:])


def concatenate(parts: Sequence[Prediction]) -> Prediction:
    """One prediction from those of several batches."""
    opinions = [part for part in parts if isinstance(part, Opinion)]
    if len(opinions) == len(parts):
        labels = torch.cat([part.labels for part in opinions])
        return Opinion(torch.cat([part.evidence for part in opinions]), labels)
    return Categorical(torch.cat([part.probabilities for part in parts]))


class _Exported(nn.Module):
    """From raw inputs to named tensors."""

    def __init__(self, module: nn.Module, method: Method, standardize: Standardize) -> None:
        super().__init__()
        self.module, self.method, self.standardize = module, method, standardize

    @property
    def names(self) -> tuple[str, ...]:
        """Of the outputs."""
        evidential = isinstance(self.method.interpret(torch.zeros(1, 2)), Opinion)
        return ("probabilities", "belief", "uncertainty") if evidential else ("probabilities", "uncertainty")

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Probabilities (N, K), belief (N, K) where the method has it, uncertainty (N,)."""
        dtype = next(self.module.parameters()).dtype
        unused = torch.Generator()  # what is exported does not draw
        prediction = self.method.predict(self.module, self.standardize(inputs).to(dtype), unused)
        return tuple(getattr(prediction, name) for name in self.names)
