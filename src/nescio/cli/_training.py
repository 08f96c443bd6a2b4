"""The options of `nescio train` that say how to train, and the TrainingSettings that they make."""

from __future__ import annotations

from typing import Annotated

import typer

from nescio.errors import InputError

OPTIMISER = "Optimiser"
CLASSES = "Classes of unequal size"
AUGMENTATION = "Augmentation of images"
HARDWARE = "Where it runs"

Epochs = Annotated[
    int | None, typer.Option(help="Passes over the training data. Default: by the size of the data.")
]
BatchSize = Annotated[
    int | None, typer.Option(help="Samples of a batch. Default: 16 to 256, by the size of the data.")
]
LearningRate = Annotated[
    float | None,
    typer.Option(help="The greatest, before the schedule lowers it. Default: 0.001, for tables 0.003."),
]
Schedule = Annotated[str, typer.Option(help="Of the learning rate: cosine or constant.")]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Watch a tenth of the training data; stop after so many epochs without gain on it, "
        "and keep the best."
    ),
]
Posthoc = Annotated[
    str,
    typer.Option(
        help="What is fitted after the training, on a tenth of the training data that is set aside, or, of "
        "less than 400 samples, on all of them: temperature, trust, all or none."
    ),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        help="Where the metrics of every epoch go beside metrics.jsonl: tensorboard, csv, mlflow or wandb; "
        "may be repeated."
    ),
]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.")]

Optimizer = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="One of torch.optim: adam, adamw, sgd, ... Default: adam; adamw to fine-tune, "
        "and for rows with most methods.",
    ),
]
WeightDecay = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="Default: 0, or 0.01 to fine-tune; with adamw for rows 1, and of over 1,000 samples "
        "1,000 / samples, with most methods.",
    ),
]
Warmup = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="Share of the training in which the learning rate grows. Default: 0, or 0.1 to fine-tune.",
    ),
]
ClipNorm = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="The greatest norm of a step's gradient; 0 for any. Default: 0, or 1 to fine-tune.",
    ),
]
Accumulate = Annotated[
    int, typer.Option(rich_help_panel=OPTIMISER, help="Batches that make one step, to save memory.")
]
Ema = Annotated[
    float,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="Average the weights, and keep so much of the average at each step, such as 0.999; 0 for none.",
    ),
]
EncoderRate = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=OPTIMISER,
        help="Times the learning rate, for all but the head. Default: 1, or 0.1 to fine-tune.",
    ),
]
FreezeEpochs = Annotated[
    int, typer.Option(rich_help_panel=OPTIMISER, help="At first, train only the head for so many epochs.")
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=CLASSES,
        help="How much a sample counts: balanced, or a number for each class, such as 1,5,2.",
    ),
]
Sampler = Annotated[
    str,
    typer.Option(rich_help_panel=CLASSES, help="shuffled, or balanced: as many of every class in an epoch."),
]
Shift = Annotated[int, typer.Option(rich_help_panel=AUGMENTATION, help="Move by up to so many pixels.")]
Flip = Annotated[bool, typer.Option(rich_help_panel=AUGMENTATION, help="Mirror by chance.")]
Augment = Annotated[
    str,
    typer.Option(
        rich_help_panel=AUGMENTATION,
        help="none, light (parts of photos, mirrored by chance) or strong (colours and distortions too).",
    ),
]
Mixup = Annotated[
    float,
    typer.Option(rich_help_panel=AUGMENTATION, help="Mix pairs of images and their labels, such as 0.2."),
]
Device = Annotated[str, typer.Option(rich_help_panel=HARDWARE, help="auto, cpu, cuda or mps.")]
Precision = Annotated[str, typer.Option(rich_help_panel=HARDWARE, help="auto, float32, bfloat16 or float64.")]


def parse_class_weight(text: str | None) -> str | list[float] | None:
    """What --class-weight means: "balanced", or numbers between commas."""
    if text is None or text == "balanced":
        return text
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"--class-weight must be balanced, or a number for each class such as 1,5,2, got {text!r}"
        ) from error
