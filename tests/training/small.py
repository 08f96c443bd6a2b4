"""Small trainings for the tests."""

import torch

from nescio.data import StoredArray
from nescio.data._npy_rows import RowReader
from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import EDL, Softmax
from nescio.training import Samples, TrainingSettings, fit

METHODS = [EDL(), Softmax(weight_decay=1e-4)]


def blobs(n=240, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    centers = 4 * torch.randn(classes, 5, generator=torch.Generator().manual_seed(9))
    return Samples(centers[labels] + torch.randn(n, 5, generator=generator), labels)


def trained(
    method=METHODS[0],
    samples=None,
    spec=None,
    run=None,
    held_out=None,
    report=None,
    seed_of_module=0,
    **settings,
):
    samples = samples or blobs()
    spec = spec or MLPSpec(5, 3, hidden=(16,), dropout=0.2)
    torch.manual_seed(seed_of_module)
    module = method.build(spec)
    chosen = TrainingSettings(**{"epochs": 4, "batch_size": 32, "learning_rate": 1e-2, **settings})
    preprocess = Preprocess.fit(samples.read())
    history = fit(method, module, preprocess, samples, chosen, run=run, held_out=held_out, report=report)
    return module, history


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


LENET = LeNetSpec(1, 20, 20, 2, filters=(4, 4), hidden=8)


def squares(count, weighted=False):
    """Images with and without a square in the middle."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    images = torch.randint(60, (count, 1, 20, 20), generator=generator, dtype=torch.uint8)
    images[labels == 1, :, 5:15, 5:15] += 150
    weight = torch.rand(count, generator=generator) if weighted else None
    return Samples(images, labels, weight)


class CountedRows(RowReader):
    """Rows as they lie on a disk, which count what is read of them."""

    def __init__(self, inputs):
        self._inputs = inputs
        self.shape = tuple(inputs.shape)
        self.dtype = inputs.dtype
        self.counts = []  # how many rows, for each read

    def read(self, positions):
        self.counts.append(len(positions))
        return self._inputs[torch.tensor(positions)]


def stored(samples):
    """The same samples on the disk, and what counts the rows that are read."""
    rows = CountedRows(samples.inputs)
    return Samples(StoredArray(rows), samples.labels, samples.weights), rows
