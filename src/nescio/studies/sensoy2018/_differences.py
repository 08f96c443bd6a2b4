"""What differs from the paper's set-up, in words; the table of settings has the numbers of each training."""

from __future__ import annotations

from collections.abc import Sequence

from nescio.studies.sensoy2018._arms import SOURCE, label
from nescio.studies.sensoy2018._measurements import Transfer
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
    found = [*ALWAYS, _members(comparisons), _held_out(comparisons), _attacked(comparisons)]
    return found + _other_precisions(comparisons) + _other_sources(comparisons)


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
    found = [f"on {TITLES[each.name]} {each.held_out}" for each in comparisons]
    return f"Training images kept apart to follow the trainings by: {'; '.join(found)}."


def _attacked(comparisons: Sequence[Comparison]) -> str:
    found = [f"on {TITLES[each.name]} {each.evaluation.attacked}" for each in comparisons]
    return f"Only some of the test images are attacked, the same for all methods: {'; '.join(found)}."


def _other_precisions(comparisons: Sequence[Comparison]) -> list[str]:
    """Arms that are trained in another precision than the others of their data set."""
    found = []
    for comparison in comparisons:
        usual = comparison.training["precision"]
        for experiment in comparison.experiments(1):
            precision = experiment.plan.training["precision"]
            if precision != usual:
                arm = f"{label(experiment.arm)} on {TITLES[comparison.name]}"
                found.append(f"{arm} is trained in {precision}, the others in {usual}")
    if not found:
        return []
    return [f"{'; '.join(found)}: this saves time, weights and steps are float32 all the same."]


def _other_sources(comparisons: Sequence[Comparison]) -> list[str]:
    """Arms that were shown the attacked images of another L2 network than that of the table."""
    found = []
    for comparison in comparisons:
        experiments = comparison.experiments(1)
        own = next((each.plan for each in experiments if each.arm == SOURCE), None)
        for experiment in experiments:
            for measurement in experiment.measurements:
                if isinstance(measurement, Transfer) and measurement.source != own:
                    epochs = measurement.source.training["epochs"]
                    found.append(f"{label(experiment.arm)} on {TITLES[comparison.name]} ({epochs} epochs)")
    if not found:
        return []
    return [
        "Images that were attacked on L2 are those of an L2 network with other settings than in the table, "
        f"for {', '.join(found)}."
    ]
