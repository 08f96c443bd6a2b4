# %% [markdown]
# # Many classes, and classes of unequal size
#
# With 64 classes and more, evidential training as printed in the paper gets stuck. The cause is one weight, and there
# is a rule for it. The second half is about rare classes: what doubt says of them, and what helps.

# %% tags=["parameters"]
num_classes = 100
epochs = 20

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import nescio
from nescio import metrics

# %% [markdown]
# ## Data with a knob for the number of classes
#
# Each class is a cloud of points around a centre of its own in 64 dimensions, near enough to one another that no
# classifier is perfect.

# %%
generator = torch.Generator().manual_seed(0)
centres = torch.randn(num_classes, 64, generator=generator)


def sample(counts):
    labels = torch.arange(num_classes).repeat_interleave(counts)
    return centres[labels] + 1.6 * torch.randn(len(labels), 64, generator=generator), labels


x, y = sample(torch.full((num_classes,), 30))
x_test, y_test = sample(torch.full((num_classes,), 10))
x_ood = 1.9 * torch.randn(1000, 64, generator=generator)  # of no class


def train(loss, x, y, epochs=epochs):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, num_classes))
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for epoch in range(epochs):
        batches = torch.randperm(len(x)).split(128)
        for step, index in enumerate(batches):
            optimizer.zero_grad()
            loss(network(x[index]), y[index], epoch=epoch + step / len(batches)).backward()
            optimizer.step()
    with torch.no_grad():
        return loss.opinion(network(x_test)), loss.opinion(network(x_ood))


# %% [markdown]
# ## The weight of the divergence
#
# The loss has two parts: a risk, which wants evidence for the true class, and a divergence, which takes evidence from
# all wrong ones. With K classes the second is a sum over K - 1 of them. With the paper's squared error and weight 1 it
# is the stronger from the start, and the network finds that no evidence at all is the cheapest; the cross-entropy of the default
# holds out longer, at the price of doubt about everything. The library's rule, `divergence_weight="auto"`, is
# 0.1 min(1, (10 / K)^2.5): the default, and the same in `EvidentialLoss` and `nescio train`.

# %%
losses = {
    "the paper's, weight 1": nescio.EvidentialLoss.paper(num_classes),
    "default, weight 1": nescio.EvidentialLoss(num_classes, divergence_weight=1.0),
    "default, weight auto": nescio.EvidentialLoss(num_classes),
}
print(f"auto is {nescio.functional.default_divergence_weight(num_classes):.2g} for {num_classes} classes")
opinions = {}
for name, loss in losses.items():
    opinion, ood = train(loss, x, y)
    opinions[name] = opinion
    auroc = metrics.detection(opinion.uncertainty, ood.uncertainty).auroc
    print(f"{name}: accuracy {metrics.raw_accuracy(opinion, y_test):.3f}, ", end="")
    print(f"mean u {opinion.uncertainty.mean():.2f}, AUROC of points of no class {auroc:.3f}")

# %% [markdown]
# `raw_accuracy` takes the greatest output even where there is no evidence at all; else a network that has learned to
# say nothing would be judged by class 0.
#
# ## Classes of unequal size
#
# Now the largest class has 80 samples and the rarest 4; the test has as many of each. Three trainings: as it is, with
# `class_weight`, and the sampler that shows every class as often (`TrainingSettings(sampler="balanced")`, here by
# hand).

# %%
counts = torch.logspace(1.9, 0.6, num_classes).round().long()
x_few, y_few = sample(counts)
weights = 1 / counts.double()
weights = (weights / weights.mean()).float()
repeated = torch.multinomial(1 / counts[y_few].double(), len(y_few), replacement=True)

trained = {
    "as it is": train(nescio.EvidentialLoss(num_classes), x_few, y_few),
    "class_weight": train(nescio.EvidentialLoss(num_classes, class_weight=weights), x_few, y_few),
    "balanced sampler": train(nescio.EvidentialLoss(num_classes), x_few[repeated], y_few[repeated]),
}
rare = y_test >= num_classes // 2  # the rarer half
for name, (opinion, _) in trained.items():
    is_right = (opinion.labels == y_test).double()
    print(
        f"{name}: accuracy {is_right[~rare].mean():.3f} of common, {is_right[rare].mean():.3f} of rare classes; ",
        end="",
    )
    print(f"mean u {opinion.uncertainty[~rare].mean():.2f} and {opinion.uncertainty[rare].mean():.2f}")

# %% [markdown]
# ## What doubt says of rare classes
#
# Rarely seen is not the same as uncertain: u is a score that the network learned to give, not a count of samples
# ([limits](../limits.md)). A look at it class by class shows whether the two go together in your model:

# %%
opinion, _ = trained["as it is"]
figure, panels = plt.subplots(1, 2, figsize=(8.5, 2.9), layout="constrained")
by_class = metrics.class_measures(opinion, y_test)
panels[0].scatter(counts, by_class.recall, s=10, color="#0072b2")
panels[0].set(
    xscale="log", xlabel="training samples of the class", ylabel="recall", title="Recall by class size"
)
panels[1].scatter(counts, by_class.mean_uncertainty, s=10, color="#d55e00")
panels[1].set(
    xscale="log", xlabel="training samples of the class", ylabel="mean u", title="Uncertainty by class size"
)
# %% [markdown]
# ## A promise for every class
#
# Conformal sets are right on average, and that average is made by the common classes. With `by_class=True` each class
# is covered alike, if there are enough held-out samples of each: 19 for 95%. With fewer the fit is refused, and says
# how many are missing.

# %%
try:
    nescio.ConformalSets.fit(opinion, y_test, coverage=0.95, by_class=True)
except nescio.DataError as error:
    print(str(error)[:160])

# %% [markdown]
# On the command line: `nescio train DATA --class-weight balanced` or `--sampler balanced`. The loss stays exact and fast
# for thousands of classes ([how](../maths.md#why-not-evaluate-them-as-printed)).
