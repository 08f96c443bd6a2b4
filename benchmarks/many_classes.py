"""Training with many classes: softmax and EDL by the library's rule, on rendered characters.

python -m benchmarks.many_classes [K ...]     (default 2 10 200 500)

40 images a class to train on, and more where the classes are few: 4,000 in all at least.
"""

import sys

import torch

from nescio.data import Dataset, _rendered
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax
from nescio.metrics import detection_summary, summary
from nescio.training import TrainingSettings

MANY, MOST_LOST = 100, 0.02  # for so many classes and more: accuracy lost to softmax at most, better AUROC
NUM_OOD = 100  # classes
LEAST = 4000
SETTINGS = TrainingSettings(epochs=20, batch_size=128)


def rendered(num_classes: int, per_class: int, seed: int) -> tuple[Dataset, torch.Tensor]:
    """Characters of so many classes, and ood images: of the classes that come after them."""
    images, labels, characters = _rendered.glyphs(num_classes + NUM_OOD, per_class, seed)
    known = labels < num_classes
    name = f"glyphs-{num_classes}"
    return Dataset(images[known], labels[known], characters[:num_classes], name), images[~known]


def main() -> None:
    """Train, print a row for each number of classes and method, and end with 1 where many classes fail."""
    kept = True
    print(f"{'K':>5} {'method':7} {'accuracy':>9} {'OOD AUROC by entropy':>21}")
    for num_classes in [int(word) for word in sys.argv[1:]] or [2, 10, 200, 500]:
        train, _ = rendered(num_classes, per_class=max(40, LEAST // num_classes), seed=0)
        test, ood_images = rendered(num_classes, per_class=10, seed=1)
        found = []
        for method in (Softmax(), EDL()):
            model = TrainedModel.train(train, method, settings=SETTINGS)
            known = model.predict(test.images)
            ood = model.predict(ood_images)
            accuracy = summary(known, test.labels)["accuracy"]
            auroc = detection_summary(known, ood)["entropy_auroc"]
            found.append((accuracy, auroc))
            print(f"{num_classes:5} {method.name:7} {accuracy:9.4f} {auroc:21.4f}", flush=True)
        (softmax, softmax_auroc), (ours, our_auroc) = found
        if num_classes >= MANY:
            kept &= ours >= softmax - MOST_LOST and our_auroc > softmax_auroc
    sys.exit(not kept)


if __name__ == "__main__":
    main()
