# %% [markdown]
# # Adding a method
#
# A method says what is minimised and how a prediction is read. One class of some forty lines is trained, saved, loaded,
# exported and served like those of the library, and is checked by the same tests.

# %% tags=["parameters"]
epochs = 25

# %%
from dataclasses import dataclass
from typing import ClassVar

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import one_hot

import nescio
from nescio import metrics
from nescio.encoders import MLPSpec
from nescio.methods import Batch, Method, mean_loss
from nescio.testing import check_method

# %% [markdown]
# ## The idea
#
# The Brier score: softmax, trained on the squared error of its probabilities instead of their cross-entropy,
#
# $$L = \sum_k (p_k - y_k)^2, \qquad p = \operatorname{softmax}(z).$$
#
# A method is a frozen dataclass of its settings. `name`, `about` and `objective` are required; a class that lacks one is
# refused when it is defined. Everything else is what most methods do, and is overridden where yours differs.


# %%
@nescio.register_method
@dataclass(frozen=True)
class Brier(Method):
    """Softmax that minimises sum_k |p_k - y_k|^power."""

    name: ClassVar[str] = "brier"
    about: ClassVar[str] = "softmax trained on the squared error of its probabilities"
    paper: ClassVar[str] = "Brier 1950, Verification of Forecasts Expressed in Terms of Probability"
    power: float = 2.0

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """The mean loss of a batch, and the logits."""
        logits = module(batch.inputs)
        logits = logits.to(
            torch.promote_types(logits.dtype, torch.float32)
        )  # a half is too coarse for a loss
        targets = one_hot(batch.labels, logits.shape[1])
        errors = (logits.softmax(1) - targets).abs().pow(self.power).sum(1)
        return mean_loss(errors, batch.weights), logits


# %% [markdown]
# ## The contract
#
# `check_method` runs what every method of the library is held to: predictions are distributions, the loss is finite and has
# gradients, weights count like repetition, it learns something easy, and it is the same after saving and loading. Silence
# means that all of it holds.

# %%
check_method(Brier(), MLPSpec(5, 2, hidden=(8,)))

# %% [markdown]
# A method that breaks it is told what is wrong:


# %%
@dataclass(frozen=True)
class Careless(Brier):
    """Computes in single precision whatever comes."""

    name: ClassVar[str] = "careless"

    def objective(self, module, batch, epoch, num_train):
        """Also where the network is in float64."""
        loss, logits = super().objective(module, batch, epoch, num_train)
        return loss.float(), logits


nescio.register_method(Careless)
try:
    check_method(Careless(), MLPSpec(5, 2, hidden=(8,)))
except AssertionError as error:
    print(error)

# %% [markdown]
# ## Use it
#
# By its name or as an object, wherever a method can be named in this process: `EvidentialClassifier(method="brier")`, or here.

# %%
pixels, digits = load_digits(return_X_y=True)
table = nescio.data.Table(
    torch.tensor(pixels, dtype=torch.float32), torch.tensor(digits), tuple("0123456789"), "digits"
)
train, test = nescio.data.split(table, 0.25, seed=0)
settings = nescio.TrainingSettings(
    epochs=epochs, batch_size=64, optimizer="adam"
)  # without weight decay, for all alike
for method in (Brier(), nescio.Softmax(), nescio.EDL()):
    model = nescio.TrainedModel.train(train, method, settings=settings)
    said = model.predict(test.inputs)
    error = metrics.expected_calibration_error(said, test.labels)
    print(f"{method.name}: accuracy {metrics.accuracy(said, test.labels):.3f}, calibration error {error:.1%}")

# %% [markdown]
# ## From a package of your own
#
# Nothing in nescio has to be changed: an entry point makes it known wherever both are installed, to
# `nescio train DATA --method brier --set power=1.5` too.
#
# ```toml
# [project.entry-points."nescio.methods"]
# brier = "my_package.brier:Brier"
# ```
#
# Where it gives opinions, override `interpret`, which reads logits `(N, K)` as a prediction; where it predicts by several
# passes, `predict`; where it fits something after the training, `fit_second_stage`. [Working on it](../../CONTRIBUTING.md)
# has the table of what to override when. Encoders, sources and measures of doubt are added in the same way.
