"""What differs from the paper's set-up, in words; the table of settings has the numbers of each training."""

from __future__ import annotations

from collections.abc import Sequence

from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import Comparison

# True of every preset, which a test holds them to.
ALWAYS = (
    "The convolutions are not padded (VALID), as in the code of Louizos and Welling, whose set-up the paper "
    "follows; only the arm that follows the author's notebook pads them (SAME), as that does.",
    "The author's notebook has, for MNIST, 50 epochs in batches of 1000 at a constant rate; for CIFAR5 "
    "nothing is published. Louizos and Welling average 100 draws of the weights for a prediction.",
    "EDL as this library trains it has exp evidence, not ReLU, and no weight penalty. In training half of "
    "the hidden layer is dropped, as in the author's notebook; the paper says nothing of it for EDL.",
    "EDL (as printed) has what the paper says and nothing else: ReLU evidence, equation 5, the annealed "
    "divergence, Adam; no penalty and no dropout. The paper does not say how weights start: here as torch "
    "starts them, with the biases of the outputs at 1, which was chosen on held-out training images. The "
    "learning rate falls like a cosine, as for the other methods; the paper says nothing of it.",
    "EDL (author's notebook) has the notebook's way to start weights, its padding, its penalty of 0.005 and "
    "its dropout.",
    "The three losses are compared with exp evidence and without a penalty, all else alike. The author's "
    "notebook has ReLU and a penalty of 0.005 with equation 5, exp and 0.001 with the other two.",
)


def differences(results: PaperResults) -> list[str]:
    """A sentence or two for each."""
    comparisons = results.preset_comparisons()
    return [*ALWAYS, _members(comparisons), _held_out(comparisons), _attacked(comparisons)]


def _members(comparisons: Sequence[Comparison]) -> str:
    found = []
    for comparison in comparisons:
        for experiment in comparison.experiments(1):
            members = experiment.plan.method.get("num_members")
            if members is not None:
                epochs = experiment.plan.training["epochs"]
                found.append(f"on {TITLES[comparison.name]} {members} networks of {epochs} epochs")
    return f"Deep Ensemble: {'; '.join(found)}. The paper does not say how many it has."


def _held_out(comparisons: Sequence[Comparison]) -> str:
    found = []
    for comparison in comparisons:
        counts = set()
        for experiment in comparison.experiments():
            counts.add(experiment.plan.held_out)
        said = " or ".join(map(str, sorted(counts)))
        found.append(f"on {TITLES[comparison.name]} {said}")
    return f"Training images kept apart to follow the trainings by: {'; '.join(found)}."


def _attacked(comparisons: Sequence[Comparison]) -> str:
    found = []
    for comparison in comparisons:
        counts = set()
        for experiment in comparison.experiments():
            for measurement in experiment.measurements:
                if measurement.name == "fgsm":
                    counts.add(measurement.settings()["images"])
        said = " or ".join(map(str, sorted(counts)))
        found.append(f"on {TITLES[comparison.name]} {said}")
    return f"Only some of the test images are attacked, the same for all methods: {'; '.join(found)}."
