"""Photos in folders: train a classifier on them that says "I do not know" where it should.

    python examples/photos.py photos/                  # photos/apple/1.jpg, photos/pear/2.jpg, ...
    python examples/photos.py photos/ --new camera/    # and what it says of other pictures

A small head is trained on features of a network that knows photos already (efficientnet-lite0, 19 MB, fetched
once). A fifth of the photos is the test; a quarter of the rest sets the threshold beyond which the model does
not answer. Expect a few minutes for a thousand photos on one core; the features are kept, so that the next
training on the same photos is faster.
"""

import argparse
from pathlib import Path

from nescio import AbstentionRule, TrainedModel, TrainingSettings, data


def main() -> None:
    """Read, split, train, choose a threshold, test, save, and predict."""
    parser = argparse.ArgumentParser(description="Train on photos, and predict others.")
    parser.add_argument("folder", type=Path, help="one sub-folder for each kind")
    parser.add_argument("--new", type=Path, help="other pictures, to be predicted")
    parser.add_argument(
        "--out", type=Path, default=Path("photos.safetensors"), help="the model file to write"
    )
    parser.add_argument("--max-error", type=float, default=0.1, help="the errors you allow among its answers")
    parser.add_argument("--encoder", default="efficientnet-lite0", help="or hf:FOLDER, or resnet18")
    parser.add_argument("--size", type=int, default=224, help="height and width that photos are brought to")
    parser.add_argument("--epochs", type=int, help="default: by the number of photos")
    options = parser.parse_args()

    photos = data.open_source(options.folder, size=options.size, resize="crop").labelled()
    rest, test = data.split(photos, 0.2, seed=0)
    train, held_out = data.split(rest, 0.25, seed=0)
    print(f"{len(train)} photos of {', '.join(photos.classes)} to learn from, {len(test)} for the test")

    settings = TrainingSettings(epochs=options.epochs)
    model = TrainedModel.train(train, network=options.encoder, settings=settings)

    # A promise: at most so many errors among its answers, 95 % sure, for photos like the held-out ones.
    prediction = model.predict(model.preprocess.inputs_of(held_out))
    rule = AbstentionRule.for_error(prediction, model.labels_of(held_out), options.max_error)
    model = model.with_rule(rule)
    print(f"the model {rule.describe()}")

    prediction = model.predict(model.preprocess.inputs_of(test))
    is_right = prediction.labels == model.labels_of(test)
    is_answered = model.accepts(prediction)
    print(f"accuracy: {is_right.double().mean():.3f}")
    print(f"answered: {is_answered.double().mean():.3f}")
    if is_answered.any():
        print(f"accuracy of the answers: {is_right[is_answered].double().mean():.3f}")

    model.save(options.out)
    print(f"saved: {options.out}")
    if options.new is not None:
        for record in model.records(options.new):
            print(f"{record['name']}: {record['error'] or record['answer']}")


if __name__ == "__main__":
    main()
