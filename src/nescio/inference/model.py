"""TrainedModel: a network with all that is needed to use it, in memory and as one file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio._checks import require_whole
from nescio.data import (
    Dataset,
    ImagePreprocess,
    LabelledData,
    Preprocess,
    RowPreprocess,
    Source,
    StoredArray,
    Table,
    TableSchema,
    Texts,
)
from nescio.data._labels import require_two_classes
from nescio.data.sources._pictures import PictureSource
from nescio.encoders import EncoderSpec
from nescio.errors import DataError, InputError, NescioWarning
from nescio.inference._calibration import (
    CALIBRATED_ON,
    calibrate,
    require_wanted,
    rows_set_aside,
    summary_of,
)
from nescio.inference._choice import Choice, choose_network
from nescio.inference._frozen import (
    FrozenEncoder,
    OnEncoding,
    evenly_scaled,
    head_spec,
    load_pretrained,
)
from nescio.inference._layers import (
    NetworkOutputs,
    outputs_of,
    predict_at_layer,
    prepared_parts,
    require_finite_inputs,
    require_inputs,
)
from nescio.inference._model_file import model_path, read_model, write_model
from nescio.inference._networks import new_module, require_network
from nescio.inference._seen import SeenSamples
from nescio.inference._train import (
    EncodedData,
    as_method,
    calibrated_after_training,
    check_data,
    digest_of,
    is_calibrated_on,
    labels_among,
    resolved_settings,
    samples_of,
    split_off,
    train_network,
    warn_of_odd_calibration,
    with_seen,
)
from nescio.inference.export import export_onnx, export_program
from nescio.inference.records import Inputs, Record, predict_records
from nescio.methods import Method
from nescio.methods.base import concatenate
from nescio.opinions.categorical import Prediction
from nescio.posthoc._certificates import USUAL_LIMITS
from nescio.posthoc.abstention import AbstentionRule
from nescio.posthoc.conformal import ConformalSets
from nescio.posthoc.state import Posthoc, WithPValues
from nescio.training import Samples, TrainingSettings, as_input
from nescio.training.loggers import Logger, make_loggers
from nescio.training.settings import settings_for_part

DEFAULT_MAX_UNCERTAINTY = USUAL_LIMITS["uncertainty"]  # of an answer that a model without a rule stands by


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained network, its method, classes and preprocessing, and a rule for when to abstain.

    Made by `train` or `load`.

    Args:
        module: The network, from preprocessed inputs (N, ...) to logits (N, K).
        method: How it was trained, and how its outputs are read.
        classes: The names of the K classes.
        preprocess: How raw inputs are prepared for the network.
        network: The spec that the module was built from; None for a module of the user's own, which must then
            be given again when the file is loaded.
        rule: When to say "I do not know"; None for an uncertainty of a half or more.
        training: A summary of how it was trained, plain data.
        encoder: A pretrained encoder that stays as it is, where the module is a head on its features.
        sets: Which classes an input may be of, with a promise how often the true one is among them; None for
            no such sets.
        seen: Digests of what it was trained on, so that no promise is made from it; None for models from
            before there were any.
        posthoc: What becomes of a prediction before it is said: temperature and trust; None for nothing.
        calibrated_on: Digests of what `calibrated` fitted temperature and trust to, so that no promise is
            made from it; None for nothing, and for models from before there were any.

    Example:
        >>> import nescio
        >>> rows = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(20, 1)
        >>> table = nescio.data.Table(rows, torch.arange(40) % 2, ("up", "down"), "forty rows")
        >>> settings = nescio.TrainingSettings(epochs=30, batch_size=8, learning_rate=0.01)
        >>> model = TrainedModel.train(table, settings=settings)
        >>> model.predict(rows[:2]).labels
        tensor([0, 1])
        >>> model.records(rows[:1])[0]["best"]
        'up'
    """

    module: nn.Module
    method: Method
    classes: tuple[str, ...]
    preprocess: Preprocess
    network: EncoderSpec | None = None
    rule: AbstentionRule | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    encoder: FrozenEncoder | None = None
    sets: ConformalSets | None = None
    seen: SeenSamples | None = None
    posthoc: Posthoc | None = None
    calibrated_on: SeenSamples | None = None

    @classmethod
    def train(
        cls,
        data: LabelledData | Source,
        method: Method | str | None = None,
        network: EncoderSpec | str | nn.Module | None = None,
        settings: TrainingSettings | None = None,
        *,
        fine_tune: bool = False,
        held_out: LabelledData | Source | None = None,
        run_dir: str | Path | None = None,
        report: Callable[[dict[str, float]], None] | None = None,
        on_encoding: OnEncoding | None = None,
        posthoc: str = "none",
        log: str | Logger | Sequence[str | Logger] | None = None,
    ) -> TrainedModel:
        """Train on labelled data. Everything that is trained is trained through this.

        Args:
            data: Images, rows or texts with labels, in memory or from a source.
            method: A method with its settings, or the name of one for its usual settings. Default: EDL.
            network: A spec, the name of an encoder, or a module of your own from inputs (N, ...) to logits
                (N, K). Default: by the data, a LeNet for small grey images, a head on a pretrained encoder
                for photos and for texts, a perceptron for rows.
            settings: How to train; what they leave open is chosen by the size of the data, see
                `TrainingSettings.resolved`.
            fine_tune: Whether all of a pretrained encoder is trained on from its weights. Default: it stays
                as it is, its features are computed once, and a head on them is trained.
            held_out: Labelled data to watch: its loss and accuracy are among the metrics of every epoch.
            run_dir: A folder for progress and checkpoints; called again with it, a training goes on.
            report: A function that is called with the metrics of every epoch.
            on_encoding: A function that is called while features are computed, with how many are done, and
                how many there are.
            posthoc: What is fitted after the training: "temperature", "trust", "all" or "none". For it a
                tenth of the data, at most 5,000 samples, is set aside and not trained on, or what the data
                calls its validation part. Of less than 400 samples without one nothing is: trust is measured
                on the training data themselves, and the temperature is fitted to what five more networks,
                each trained on four fifths, say of the rest, both from 25 samples on. With `fine_tune` or a
                module of your own, which are not trained again, a temperature needs 250 samples. What was
                done is in `training["posthoc"]`.
            log: Where the metrics of every epoch go beside metrics.jsonl of `run_dir`: "tensorboard", "csv",
                "mlflow", "wandb", a logger of `nescio.training.loggers`, or several of them.

        Returns:
            The trained model, without a rule.

        Raises:
            DataError: If the data has no labels, less than two classes, or does not fit `held_out`.
            InputError: If method, network and settings do not fit the data.
            MissingExtraError: If the package of a logger is not installed.
            TrainingError: If the training can't go on, or `run_dir` holds another one.
        """
        require_wanted(posthoc)
        loggers = make_loggers(log)
        if loggers and run_dir is None:
            raise InputError("log needs run_dir, the folder that the metrics are kept in, got None")
        settings = settings or TrainingSettings()
        if isinstance(data, Source) and not isinstance(data, PictureSource):
            data = data.labelled()
        if isinstance(data, PictureSource) and data.labels is not None:  # before all pictures are decoded
            require_two_classes(data.name, data.labels.indices, data.labels.classes)
        choice = choose_network(data, network, fine_tune)
        if isinstance(data, PictureSource):
            data = data.labelled(choice.preprocess)
        # A module of the user's own has trained weights by then, and pretrained ones cost much to train.
        is_repeatable = not fine_tune and not isinstance(choice.network, nn.Module)
        set_aside = rows_set_aside(data, posthoc, settings.seed, is_repeatable)
        count = len(data)
        if set_aside is not None:
            count -= int(set_aside.sum())
        method = as_method(method)
        settings = resolved_settings(settings, data, count, method, choice, fine_tune)
        check_data(data, settings, choice.is_frozen)
        encoded = None
        known: LabelledData = data
        watched = held_out
        untrained = partial(_untrained_model_for, method=method, choice=choice, seed=settings.seed)
        if choice.is_frozen:
            encoded = EncodedData.of(data, held_out, choice, on_encoding)
            known, watched = encoded.train, encoded.held_out
            untrained = partial(_untrained_head, method=method, encoder=encoded.spec, seed=settings.seed)
        training, calibration = split_off(known, set_aside)
        trained = train_network(
            untrained(training),
            training,
            settings,
            watched,
            run_dir,
            report,
            encoder=None if encoded is None else encoded.spec,
            log=loggers,
            posthoc=posthoc,
        )

        def trained_again(rows: Tensor) -> TrainedModel:
            part = training.take(rows)
            stops_by = watched if settings.patience is not None else None
            of_part = settings_for_part(settings, len(training), len(part))
            return train_network(untrained(part), part, of_part, stops_by, None, None)

        trained = calibrated_after_training(
            trained,
            training,
            calibration,
            posthoc,
            is_encoded=choice.is_frozen,
            retraining=trained_again if is_repeatable else None,
        )
        if encoded is not None:
            encoder = FrozenEncoder(encoded.spec, encoded.module, trained.preprocess)
            trained = replace(trained, preprocess=encoded.preprocess, encoder=encoder)
        return with_seen(trained, data, held_out)

    def calibrated(
        self,
        training: LabelledData | Source,
        held_out: LabelledData | Source,
        posthoc: str = "all",
        *,
        kind: str | None = None,
        seed: int = 0,
    ) -> TrainedModel:
        """Return the same model with a temperature and a trust that are fitted to held-out data.

        Args:
            training: What the model was trained on; a sample of it is read, for the trust.
            held_out: Labelled data that the model was not trained on, of its own classes and not among
                `training`: 25 inputs or more for a temperature, 50 or more for trust. With fewer, trust is
                measured on the training data themselves, where that can be done (`Trust.cross_fit`).
            posthoc: "all", "temperature" or "trust"; "none" takes both away. Of "all", what can't be fitted
                is left out with a warning.
            kind: The kind of distance, "gaussians" or "neighbours"; None for Gaussians, or neighbours where
                trust is measured on the training data.
            seed: Seed of what is drawn from the training data.

        Returns:
            The model, without rule and sets: what they promise was for what the model said before.

        Raises:
            DataError: If the data does not fit the model, or what was asked for can't be fitted to it.
            InputError: If an argument is not what it must be.
        """
        require_wanted(posthoc)
        if posthoc == "none":
            return self.with_posthoc(None)
        if isinstance(training, Source):
            training = training.labelled(self.preprocess)
        if isinstance(held_out, Source):
            held_out = held_out.labelled(self.preprocess)
        samples = samples_of(self, held_out)
        training_samples = samples_of(self, training)
        if self.seen is not None:
            _require_unseen(self.seen, samples, "samples that the model was not trained on")
        if posthoc != "temperature":  # which needs no training data
            trained_on = SeenSamples.of(training_samples.inputs)
            _require_unseen(trained_on, samples, "other samples than those of training")
        calibration = calibrate(
            self,
            training_samples,
            samples,
            posthoc,
            kind=kind,
            is_encoded=self.encoder is not None,
            groups=training.groups,
            held_out_groups=held_out.groups,
            seed=seed,
        )
        had = () if self.posthoc is None else self.posthoc.parts()
        for name, reason in calibration.skipped.items():
            if calibration.posthoc is None or posthoc != "all":
                raise DataError(f"{name} can't be fitted: {reason}")
            if name in had:
                raise DataError(f"{name} can't be fitted: {reason}. The model keeps the {name} that it has")
            warnings.warn(f"{name} was not fitted: {reason}", NescioWarning, stacklevel=2)
        assert calibration.posthoc is not None
        for name in had:
            if name not in calibration.posthoc.parts():
                message = f"the {name} that the model had was taken away; posthoc all fits both anew"
                warnings.warn(message, NescioWarning, stacklevel=2)
        warn_of_odd_calibration(self, calibration.posthoc, training_samples, samples)
        fitted = self.with_posthoc(calibration.posthoc)
        described = {**fitted.training, "posthoc": summary_of(calibration, samples, posthoc)}
        calibrated_on = None
        if not calibration.is_by_training_alone:
            described[CALIBRATED_ON] = digest_of(samples)
            calibrated_on = SeenSamples.of(samples.inputs)
            if calibrated_on.chance == 0:  # of few samples that says little; those of training are more
                calibrated_on = SeenSamples.of(samples.inputs, training_samples.inputs)
        return replace(fitted, training=described, calibrated_on=calibrated_on)

    def with_posthoc(self, posthoc: Posthoc | None) -> TrainedModel:
        """Return the same model with another temperature and trust, or with none, without rule and sets.

        Args:
            posthoc: What becomes of a prediction before it is said.

        Returns:
            The model. A warning names what was taken away: its promise was for what was said before.

        Raises:
            InputError: If it has a trust that was fitted to arrays, not to a layer of a network.
        """
        if posthoc is not None and posthoc.trust is not None and posthoc.trust.layer is None:
            raise InputError(
                "posthoc must have a trust that names a layer of the network, got one that was fitted to "
                "arrays; `calibrated` fits one to the model"
            )
        for had, promise in (
            ("rule that the model had was", self.rule),
            ("sets that the model had were", self.sets),
        ):
            if promise is not None:
                warnings.warn(
                    f"the {had} taken away: the promise was for what the model said before; make it again",
                    NescioWarning,
                    stacklevel=2,
                )
        training = dict(self.training)
        for said_of_the_former in ("posthoc", CALIBRATED_ON):
            training.pop(said_of_the_former, None)
        return replace(self, posthoc=posthoc, rule=None, sets=None, training=training, calibrated_on=None)

    def was_calibrated_on(self, data: LabelledData) -> bool:
        """Say whether `calibrated` fitted temperature and trust to these data, or to a part of them.

        It does where more than a twentieth of them is surely among what it was given: no promise made from
        such data would hold. What `train` set aside is in `seen`.

        Args:
            data: Data of the model's classes, in any order.

        Returns:
            Whether it was. Of a model from before there were digests, whether it was to exactly these.

        Raises:
            DataError: If the model was calibrated, and the data has a class that it never saw.
        """
        if CALIBRATED_ON not in self.training:
            return False
        return is_calibrated_on(self, samples_of(self, data))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one raw input, without the batch axis."""
        return self.preprocess.input_shape

    def labels_of(self, data: LabelledData) -> Tensor:
        """Translate the labels of a data set to this model's class indices.

        Args:
            data: A data set whose classes the model knows.

        Returns:
            int64 (N,).

        Raises:
            DataError: If the data has a class that the model never saw.
        """
        return labels_among(self.classes, data)

    def predict(
        self,
        inputs: Tensor | StoredArray,
        *,
        batch_size: int = 1024,
        generator: torch.Generator | None = None,
        independent: bool = False,
    ) -> Prediction:
        """Predict raw inputs, in batches.

        Args:
            inputs: Raw inputs (N, *input_shape) like the training data: bytes of pictures, or numbers; in
                memory, or on the disk.
            batch_size: How many inputs are on the device at a time, at most; of large ones fewer.
            generator: The source of randomness of a stochastic method; without one it draws the same every
                time.
            independent: Whether what is said of an input must not depend on those beside it. A stochastic
                method then uses the same draws for every input; else it may draw anew for each input
                (dropout) or each batch, as for the paper's results. For other methods it is the same.

        Returns:
            An Opinion of a method with evidence, else a Categorical.

        Raises:
            InputError: If the inputs have another shape, or values that are not finite.
        """
        said = self.predict_with_p_values(
            inputs, batch_size=batch_size, generator=generator, independent=independent
        )
        return said.prediction

    def predict_with_p_values(
        self,
        inputs: Tensor | StoredArray,
        *,
        batch_size: int = 1024,
        generator: torch.Generator | None = None,
        independent: bool = False,
    ) -> WithPValues:
        """Predict raw inputs, and say how usual they are.

        Of inputs like those that were set aside from the training, at most a share a has a p-value of a or
        less, on average, for every a; see `nescio.posthoc.Trust`.

        Args:
            inputs: Raw inputs (N, *input_shape), as for `predict`.
            batch_size: How many inputs are on the device at a time, at most; of large ones fewer.
            generator: The source of randomness of a stochastic method.
            independent: Whether what is said of an input must not depend on those beside it.

        Returns:
            The prediction, and p-values (N,) where the model has trust.

        Raises:
            InputError: If the inputs have another shape, or values that are not finite.
        """
        require_inputs(inputs, self.input_shape)
        require_whole("batch_size", batch_size)
        generator = generator or torch.Generator().manual_seed(0)
        state = generator.get_state()
        predictions = []
        p_values = []
        with torch.inference_mode():
            for prepared in prepared_parts(self, inputs, batch_size, require_finite_inputs):
                if independent:
                    generator.set_state(state)
                    said = self.predict_prepared(prepared, self.method.predict_each, generator)
                else:
                    said = self.predict_prepared(prepared, self.method.predict, generator)
                predictions.append(said.prediction)
                if said.p_values is not None:
                    p_values.append(said.p_values)
        return WithPValues(concatenate(predictions), torch.cat(p_values) if p_values else None)

    def outputs(self, inputs: Tensor | StoredArray) -> NetworkOutputs:
        """What the network makes of raw inputs before that is read as a prediction.

        It is what the OOD scores of `nescio.posthoc.scores` take. Of several networks it is that of the
        first, of a method that draws from one pass.

        Args:
            inputs: Raw inputs (N, *input_shape), as for `predict`.

        Returns:
            Features (N, F), which the head takes, and logits (N, K).

        Raises:
            InputError: If the inputs have another shape, or values that are not finite, or the network has no
                features below a head.

        Example:
            >>> import nescio
            >>> from nescio.posthoc.scores import KNNScore, energy_score
            >>> rows = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(20, 1)
            >>> table = nescio.data.Table(rows, torch.arange(40) % 2, ("up", "down"), "forty rows")
            >>> model = TrainedModel.train(table, "softmax", settings=nescio.TrainingSettings(epochs=2))
            >>> known, new = model.outputs(rows), model.outputs(rows[:3])
            >>> energy_score(new.logits).shape, KNNScore.fit(known.features)(new.features).shape
            (torch.Size([3]), torch.Size([3]))
        """
        require_inputs(inputs, self.input_shape)
        return outputs_of(self, inputs)

    def predict_prepared(
        self,
        prepared: Tensor,
        predict: Callable[[nn.Module, Tensor, torch.Generator], Prediction],
        generator: torch.Generator,
    ) -> WithPValues:
        """What is finally said of inputs as the network takes them: the one place for it, also in exports.

        Args:
            prepared: Inputs (N, ...) as the network takes them.
            predict: The function of the method that predicts.
            generator: The source of randomness of a stochastic method.

        Returns:
            The prediction, and p-values (N,) where the model has trust.
        """

        def method_says() -> Prediction:
            return predict(self.module, prepared, generator)

        if self.posthoc is None:
            return WithPValues(method_says(), None)
        if self.posthoc.trust is None:
            return self.posthoc.apply(method_says())
        layer = self.posthoc.trust.layer
        assert layer is not None
        prediction, features = predict_at_layer(self.method, self.module, layer, prepared, method_says)
        return self.posthoc.apply(prediction, features)

    def records(self, inputs: Inputs) -> list[Record]:
        """Predict inputs of any kind, as the records that the command line, files and the service give.

        Args:
            inputs: Paths (pictures, texts, folders, .npz and .npy files, tables), a source, or tensors.

        Returns:
            A dict for each input, see `nescio.inference.records`; one that can't be read has an error.

        Raises:
            InputError: If there is no file at a path.
        """
        return predict_records(self, inputs)

    def accepts(self, prediction: Prediction) -> Tensor:
        """Say where the model stands by its answer: by its rule, or while the uncertainty is below a half.

        Args:
            prediction: The prediction of N inputs, made by `predict`.

        Returns:
            bool (N,).
        """
        if self.rule is not None:
            return self.rule.accept(prediction)
        return (prediction.uncertainty < DEFAULT_MAX_UNCERTAINTY) & ~prediction.is_vacuous

    def with_rule(self, rule: AbstentionRule | None) -> TrainedModel:
        """Return the same model with another rule, or with none.

        Args:
            rule: A rule made from held-out data by `AbstentionRule.for_error` or `for_coverage`.
        """
        return replace(self, rule=rule)

    def with_sets(self, sets: ConformalSets | None) -> TrainedModel:
        """Return the same model with conformal sets of classes, or with none.

        Args:
            sets: Sets made from held-out data by `ConformalSets.fit`.

        Raises:
            InputError: If they were made for another number of classes.
        """
        if sets is not None and sets.num_classes != len(self.classes):
            raise InputError(
                f"sets must be of the model's {len(self.classes)} classes, got sets of {sets.num_classes}"
            )
        return replace(self, sets=sets)

    def save(self, path: str | Path) -> None:
        """Write one .safetensors file; an old one stays whole until the new one is.

        Args:
            path: The file to write; its folder is made where there is none.
        """
        write_model(Path(path), self)

    @classmethod
    def load(
        cls,
        path: str | Path,
        network: nn.Module | None = None,
        method: Method | type[Method] | None = None,
    ) -> TrainedModel:
        """Read a file that `save` wrote. Nothing is ever unpickled.

        Args:
            path: The file, or the folder of a run that has one.
            network: The module, where it was the user's own.
            method: The method, where it was the user's own and is not registered: the class, which gets the
                settings of the file, or a method as it is.

        Raises:
            ModelFileError: If there is no such file, or it is damaged, something else, or needs what is not
                given; the message says which.
        """
        parts = read_model(model_path(path), network, method)
        return cls(**parts._asdict())

    def export_program(self, path: str | Path) -> None:
        """Write a torch.export program that takes prepared inputs, see `nescio.inference.export`.

        Args:
            path: The file to write, .pt2.
        """
        export_program(self, path)

    def export_onnx(self, path: str | Path) -> None:
        """Write an ONNX file that takes prepared inputs, see `nescio.inference.export`.

        Args:
            path: The file to write, .onnx.
        """
        export_onnx(self, path)


def untrained_model(
    inputs: Tensor | StoredArray,
    classes: Sequence[str],
    method: Method | str | None = None,
    network: EncoderSpec | str | nn.Module | None = None,
    *,
    seed: int = 0,
    weights: Tensor | None = None,
    schema: TableSchema | None = None,
    preprocess: Preprocess | None = None,
) -> TrainedModel:
    """Build a model that is still to be trained: the one place where networks are built for data.

    Args:
        inputs: Raw inputs (N, ...), from which the preprocessing is taken.
        classes: The names of the classes.
        method: A method with its settings, or the name of one for its usual settings. Default: EDL.
        network: A spec, the name of an encoder, or a module of your own from inputs (N, ...) to logits
            (N, K). Default: the paper's LeNet for images, a perceptron for rows.
        seed: The seed of the initial weights.
        weights: How much each input counts for the preprocessing, (N,); None for all alike.
        schema: How the columns of a table became the numbers of rows, see RowPreprocess.
        preprocess: The preprocessing, where a pretrained encoder says it; its weights are loaded then.
            Default: fitted to the inputs.

    Raises:
        InputError: If method, network and inputs do not fit together.

    Example:
        >>> model = untrained_model(torch.zeros(4, 3), ("a", "b"), network="mlp")
        >>> model.predict(torch.zeros(2, 3)).probabilities.shape
        torch.Size([2, 2])
    """
    method = as_method(method)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module, spec = new_module(method, network, tuple(inputs.shape[1:]), len(classes))
    if preprocess is None:
        preprocess = Preprocess.fit(inputs, weights, schema)
    elif spec is not None:
        for encoder in method.encoders(module):
            load_pretrained(spec, encoder)
    require_network(module, spec, as_input(inputs[:1], preprocess), len(classes))
    return TrainedModel(module, method, tuple(classes), preprocess, spec)


def _untrained_model_for(
    data: LabelledData, method: Method | str | None, choice: Choice, seed: int
) -> TrainedModel:
    """Build a model for a data set; the model keeps how the data was brought to its form."""
    network = choice.network
    if choice.spec is not None:
        network = replace(choice.spec, num_classes=len(data.classes))  # type: ignore[type-var]
    schema = data.schema if isinstance(data, Table) else None
    if choice.preprocess is not None:
        inputs = choice.preprocess.inputs_of(data)
    elif isinstance(data, Texts):
        raise InputError(f"{data.name} holds texts, which need an encoder for texts, like minilm")
    else:
        inputs = data.inputs
    model = untrained_model(
        inputs,
        data.classes,
        method,
        network,
        seed=seed,
        schema=schema,
        preprocess=choice.preprocess,
    )
    if isinstance(data, Dataset) and isinstance(model.preprocess, ImagePreprocess):
        return replace(model, preprocess=replace(model.preprocess, resize=data.resize))
    return model


def _untrained_head(features: Table, method: Method, encoder: EncoderSpec, seed: int) -> TrainedModel:
    """Build a head on what a frozen encoder gives."""
    head = head_spec(encoder, len(features.classes))
    model = untrained_model(features.inputs, features.classes, method, head, seed=seed)
    assert isinstance(model.preprocess, RowPreprocess)
    return replace(model, preprocess=evenly_scaled(model.preprocess))


def _require_unseen(seen: SeenSamples, held_out: Samples, expected: str) -> None:
    """Refuse held-out samples that were trained on: a model is surer of them, and they lie too near."""
    if seen.are_seen(held_out.inputs):
        raise DataError(
            f"held_out must be {expected}, got {seen.share_of(held_out.inputs):.0%} that are among them"
        )
