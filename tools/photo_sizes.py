"""To which size small photos are best brought for the frozen encoder: what a head says with a class left out.

python -m tools.photo_sizes 128 160 192 224

The photos are 4,000 of the training part of CIFAR5, 32 x 32. A head is trained five times, without one of its
classes each time, as by tools.head_choices: the unseen classes of CIFAR5, by which it is judged, are not
used. Each line is the mean over the five. docs/decisions/0018 has the numbers.
"""

import argparse
import warnings

import torch

from nescio.data import load
from nescio.encoders import EfficientNetLite0Spec
from nescio.inference._frozen import encoded_data, preprocess_for, pretrained_encoder
from tools.head_choices import mean_in_words, measure

SAMPLES = 4_000
UNITS = 64
STEPS = 400


def main() -> None:
    """Measure each of the sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    whole = load("cifar5", "train")
    drawn = torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    photos = whole.take(drawn.sort().values)
    for size in given.sizes:
        spec = EfficientNetLite0Spec(height=size, width=size, num_classes=len(photos.classes))
        features = encoded_data(spec, pretrained_encoder(spec), preprocess_for(spec, photos), photos)
        found = []
        for place in range(len(photos.classes)):
            left_out = f"{place},{len(photos.classes)}"
            found.append(measure(features, left_out, SAMPLES, UNITS, STEPS, each=False))
        print(f"{size} x {size}: {mean_in_words(found)}", flush=True)


if __name__ == "__main__":
    main()
