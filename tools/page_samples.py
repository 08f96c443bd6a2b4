"""Write the sample pictures of the page: digits that the bundled networks were not trained on, and letters.

python tools/page_samples.py src/nescio/serve/page/samples.json

Of each class the picture nearest to the mean of its class is taken: a typical one, chosen without asking a
model. The digits are of the test split of MNIST: the embedded ones are all in its training split. D and I
are left out, because they are a 0 and a 1 to the eye as well.
"""

import base64
import json
import sys
from pathlib import Path

from torch import Tensor

from nescio import data

DIGITS = "0123456789"
LETTERS = "ABCEFGHJ"


def typical(images: Tensor) -> Tensor:
    """The one of (N, 1, H, W) that is nearest to their mean, (H, W)."""
    flat = images.flatten(1).float()
    nearest = (flat - flat.mean(0)).square().sum(1).argmin()
    return images[nearest, 0]


def pictures(source: data.Dataset, names: str) -> list[dict[str, str]]:
    """Each name with its pixels, one byte each, row by row, in base64."""
    found = []
    for name in names:
        picture = typical(source.images[source.labels == source.classes.index(name)])
        pixels = base64.b64encode(picture.numpy().tobytes()).decode()
        found.append({"name": name, "pixels": pixels})
    return found


def main(path: Path) -> None:
    """Write the file."""
    groups = {
        "digits": pictures(data.load("mnist", "test"), DIGITS),
        "letters": pictures(data.load("letters", "test"), LETTERS),
    }
    path.write_text(json.dumps({"size": 28, "groups": groups}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
