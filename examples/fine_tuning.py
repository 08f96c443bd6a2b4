"""Fine-tuning: is it worth training all of a pretrained network, and not only a head on it?

    python examples/fine_tuning.py photos/ --epochs 10    # photos/apple/1.jpg, photos/pear/2.jpg, ...

Both are trained on the same photos and tested on the same fifth that was held out. Fine-tuned, the network
learns slowly below its head (AdamW, a warm-up, a tenth of the rate), from photos that are cropped, mirrored
and mixed anew in every epoch. Expect it to need far longer than the head: an accelerator helps, or a smaller
--size. It is not always worth it: with `--size 64` and 484 photos of four kinds of fruit to learn from, the
head alone named 0.917 of the others, all of the network after 10 epochs 0.851.
"""

import argparse
import time
from pathlib import Path

from nescio import TrainedModel, TrainingSettings, data, metrics
from nescio.encoders import make_encoder


def main() -> None:
    """Train a head on the frozen encoder, then all of it; test both, and save the second."""
    parser = argparse.ArgumentParser(description="Compare a head on a frozen encoder with fine-tuning.")
    parser.add_argument("folder", type=Path, help="one sub-folder for each kind")
    parser.add_argument("--epochs", type=int, default=10, help="of the fine-tuning")
    parser.add_argument("--out", type=Path, default=Path("fine-tuned.safetensors"), help="the file to write")
    parser.add_argument("--encoder", default="efficientnet-lite0", help="or hf:FOLDER")
    parser.add_argument("--size", type=int, default=160, help="height and width that photos are brought to")
    options = parser.parse_args()

    photos = data.open_source(options.folder, size=options.size, resize="crop").labelled()
    train, test = data.split(photos, 0.2, seed=0)
    print(f"{len(train)} photos of {', '.join(photos.classes)} to learn from, {len(test)} for the test")

    settings = TrainingSettings(
        epochs=options.epochs,
        batch_size=16,
        augment="light",  # "strong" changes colours and shapes too
        mixup=0.2,  # pairs of photos, and their labels alike
    )
    input_shape = (3, options.size, options.size)
    encoder = make_encoder(options.encoder, input_shape, len(photos.classes))
    start = time.perf_counter()
    frozen = TrainedModel.train(train, network=encoder)
    print(f"frozen: {accuracy_of(frozen, test):.3f} after {time.perf_counter() - start:.0f} seconds")

    start = time.perf_counter()
    tuned = TrainedModel.train(train, network=encoder, settings=settings, fine_tune=True, report=print_epoch)
    print(f"fine-tuned: {accuracy_of(tuned, test):.3f} after {time.perf_counter() - start:.0f} seconds")
    tuned.save(options.out)
    print(f"saved: {options.out}")


def accuracy_of(model: TrainedModel, test: data.Dataset | data.Table | data.Texts) -> float:
    """The share of held-out photos that a model names rightly."""
    prediction = model.predict(model.preprocess.inputs_of(test))
    return metrics.accuracy(prediction, model.labels_of(test))


def print_epoch(figures: dict[str, float]) -> None:
    """One line for each epoch, as fine-tuning takes its time."""
    print(f"epoch {figures['epoch']:.0f}: loss {figures['loss']:.3f}", flush=True)


if __name__ == "__main__":
    main()
