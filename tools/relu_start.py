"""Which start of the weights serves EDL as printed best, by held-out training images of MNIST.

python tools/relu_start.py [--epochs 20] [--schedule cosine] [NAME...]      all candidates without any name

ReLU evidence loses a class for good where its outputs start out of reach. A line of JSON for each candidate:
accuracy on the 5,000 held-out images by raw outputs and strictly (no evidence counts as wrong), and by raw
outputs after each epoch. Some minutes a candidate.
"""

import argparse
import json
from typing import Any

import torch

from nescio import EDL, LeNetSpec, TrainedModel, TrainingSettings, metrics
from nescio.data import load

HELD_OUT = 5000
SPLIT_SEED = 0  # as the studies split
CANDIDATES: dict[str, dict[str, Any]] = {
    "torch, biases 1": {"output_bias": 1.0},
    "notebook": {"initialisation": "notebook"},
    "glorot": {"initialisation": "glorot"},
    "notebook, dropout": {"initialisation": "notebook", "dropout": 0.5},
}


def train(
    settings: TrainingSettings,
    output_bias: float = 0.0,
    initialisation: str = "torch",
    dropout: float = 0.0,
) -> tuple[dict[str, float], list[float]]:
    """Scores on the held-out images, and their accuracy by raw outputs after each epoch."""
    data = load("mnist")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(SPLIT_SEED))
    held_out = data.take(order[:HELD_OUT].sort().values)
    train_data = data.take(order[HELD_OUT:].sort().values)
    curve: list[float] = []
    model = TrainedModel.train(
        train_data,
        # Equation 5, as printed: the library's default is another risk by now.
        EDL(risk="squared_error", evidence="relu", divergence_weight=1.0, output_bias=output_bias),
        LeNetSpec(dropout=dropout, initialisation=initialisation),
        settings,
        held_out=held_out,
        report=lambda row: curve.append(round(row["held_out_accuracy"], 4)),
    )
    return metrics.summary(model.predict(held_out.images), held_out.labels), curve


def main() -> None:
    """Train the candidates that are named on the command line, or all."""
    parser = argparse.ArgumentParser(description="Compare starts of the weights for EDL as printed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CANDIDATES))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--schedule", choices=("cosine", "constant"), default="cosine")
    asked = parser.parse_args()
    settings = TrainingSettings(epochs=asked.epochs, schedule=asked.schedule, precision="float32")
    for name in asked.names or CANDIDATES:
        scores, curve = train(settings, **CANDIDATES[name])
        row = {"start": name, "raw": scores["raw_accuracy"], "strict": scores["accuracy"], "curve": curve}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
