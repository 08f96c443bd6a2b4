# %% [markdown]
# # Your own training loop
#
# You have a PyTorch classifier and a loop. Two lines change: the loss, and how the outputs are read. After
# that the network says for every input how much it believes in each class, and how much it does not know.

# %% tags=["parameters"]
epochs = 30

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio

# %% [markdown]
# ## The data
#
# 1,797 handwritten digits of 8 x 8 pixels come with scikit-learn. The network learns 0 to 7; 8 and 9 are held
# back. They are what it can't know.

# %%
pixels, digits = load_digits(return_X_y=True)
images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
labels = torch.tensor(digits)
known = (labels < 8).nonzero()[:, 0]
unknown = (labels >= 8).nonzero()[:, 0]

torch.manual_seed(0)
known = known[torch.randperm(len(known))]
train, test = known[:1100], known[1100:]
loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=64, shuffle=True)
len(train), len(test), len(unknown)

# %% [markdown]
# ## The loop
#
# The network is like any other: from inputs to logits, without a softmax at its end. `EvidentialLoss` takes the
# place of `nn.CrossEntropyLoss`. It wants to know how far the training is, in epochs and parts of them: the term
# that takes evidence from wrong classes grows over the first ten (`annealing_epochs`).

# %%
network = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 8))
loss = nescio.EvidentialLoss(num_classes=8)  # was: nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)

for epoch in range(epochs):
    total = 0.0
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        value = loss(network(x), y, epoch=epoch + step / len(loader))
        value.backward()
        optimizer.step()
        total += value.item() / len(loader)
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {total:.3f}")

# %% [markdown]
# ## Opinions
#
# `loss.opinion` reads the outputs as they were trained: `exp` makes evidence of them, the evidence a Dirichlet
# distribution, and that an opinion. Beliefs and uncertainty sum to 1.

# %%
with torch.no_grad():
    opinion = loss.opinion(network(images[test]))  # was: network(images).softmax(1)
    of_unknown = loss.opinion(network(images[unknown]))

print(f"accuracy on digits held out: {nescio.metrics.accuracy(opinion, labels[test]):.3f}")
print(f"median uncertainty: {opinion.uncertainty.median():.2f} of known digits, ", end="")
print(f"{of_unknown.uncertainty.median():.2f} of unknown ones")
opinion[0]

# %% [markdown]
# What it says of one digit that it knows and of one that it does not:

# %%
figure, rows = plt.subplots(2, 2, figsize=(7, 4.2), width_ratios=[1, 2.4], layout="constrained")
examples = [
    ("known", images[test[0]], opinion[0]),
    ("unknown", images[unknown[3]], of_unknown[3]),
]
for (left, right), (kind, image, said) in zip(rows, examples, strict=True):
    left.imshow(image[0], cmap="gray_r")
    left.set_title(f"a digit that is {kind}")
    left.axis("off")
    right.bar(range(8), said.belief, color="#0072b2")
    right.bar(8.5, said.uncertainty, color="#d55e00")
    right.set(ylim=(0, 1), ylabel="belief", xticks=[*range(8), 8.5])
    right.set_xticklabels([*"01234567", "I do not\nknow"])

# %% [markdown]
# ## How well does u tell them apart?
#
# The AUROC is the chance that an unknown digit is more uncertain than a known one. Nobody told the network
# about 8 and 9.

# %%
found = nescio.metrics.detection(opinion.uncertainty, of_unknown.uncertainty)
print(f"AUROC {found.auroc:.3f}; known digits lost when 95% of the unknown are found: {found.fpr95:.0%}")

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.hist(opinion.uncertainty, bins=25, range=(0, 1), alpha=0.8, color="#0072b2", label="0 to 7, known")
axes.hist(of_unknown.uncertainty, bins=25, range=(0, 1), alpha=0.7, color="#d55e00", label="8 and 9, unknown")
axes.set(xlabel="uncertainty u", ylabel="digits", title="Uncertainty of known and unknown digits")
axes.legend(frameon=False)

# %% [markdown]
# ## Good to know
#
# - **Classes of unequal weight, samples that do not count, soft labels**: `class_weight`, `ignore_index` and
#   targets `(N, K)` work as in torch.
# - **Mixed precision, `torch.compile`, any device**: the loss computes in float32 at least, and gives no NaN
#   for finite logits.
# - **The paper's loss** is `EvidentialLoss.paper()`; the default is as accurate as cross-entropy, and
#   [decision 22](../decisions/0022-the-default-loss.md) has the measurements.
# - **A loop that is not yours**: `TrainedModel.train(data.from_torch(loader), network=network)` trains any module
#   on any `DataLoader` and gives a model file, thresholds and a service on top.
#
# Next: [a threshold to act on](which_doubt.py), or [what u is not](../limits.md).
