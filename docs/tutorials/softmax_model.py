# %% [markdown]
# # A trained softmax model
#
# You have a network that was trained with softmax, and no wish to start again. Without any retraining it can get
# honest probabilities, sets of classes with a promise, and a sense for inputs that are unlike its training data.
# With a few epochs more it becomes evidential.

# %% tags=["parameters"]
epochs = 5
more_epochs = 6

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import nescio
from nescio import Categorical, ConformalSets, Temperature, Trust

# %% [markdown]
# ## The model that you have
#
# Here it is a small one for handwritten digits. `letters` are the letters A to J in many fonts: nothing that it
# knows. A part of the digits is held out: whatever is fitted after training must not be fitted to data that the
# network has learned by heart.

# %%
digits, test = nescio.data.load("digits"), nescio.data.load("digits", "test")
letters = nescio.data.load("letters", "test")
rest, held_out = nescio.data.split(digits, 0.25, seed=0)


def prepared(data):
    return data.images / 255


def train(network, loss, epochs):
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    x, y = prepared(rest), rest.labels
    for epoch in range(epochs):
        batches = torch.randperm(len(x)).split(128)
        for step, index in enumerate(batches):
            optimizer.zero_grad()
            loss(network(x[index]), y[index], epoch + step / len(batches)).backward()
            optimizer.step()


torch.manual_seed(0)
body = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU())
softmax = nn.Sequential(body, nn.Linear(128, 10))
train(softmax, lambda logits, labels, _: cross_entropy(logits, labels), epochs)

# %% [markdown]
# What it says, as a `Categorical`: probabilities without beliefs. Its uncertainty is the entropy, as a share of
# the greatest.


# %%
def says(data):
    with torch.no_grad():
        return Categorical(softmax(prepared(data)).softmax(1))


known, ood = says(test), says(letters)
print(f"accuracy: {nescio.metrics.accuracy(known, test.labels):.3f}")
print(f"letters that it is more than 90% sure of: {(ood.max_probability() > 0.9).double().mean():.0%}")
print(f"AUROC of letters: {nescio.metrics.detection(known.uncertainty, ood.uncertainty).auroc:.3f}")

# %% [markdown]
# ## 1. Temperature: honest probabilities
#
# One number, fitted to the held-out digits. The answers stay the same; what changes is how sure they are said to
# be.

# %%
temperature = Temperature.fit(says(held_out), held_out.labels)
for name, said in (("before", known), ("after", temperature.apply(known))):
    error = nescio.metrics.expected_calibration_error(said, test.labels)
    likelihood = nescio.metrics.negative_log_likelihood(said, test.labels)
    print(f"{name}: calibration error {error:.1%}, NLL {likelihood:.3f}")
temperature.describe()

# %% [markdown]
# ## 2. Conformal sets: which classes it may be
#
# The set holds the true class for 99% of inputs like the held-out ones, whatever the network is worth. A good
# network has small sets; where it is not sure, the set says which classes are left.

# %%
sets = ConformalSets.fit(temperature.apply(says(held_out)), held_out.labels, coverage=0.99)
members = sets.contains(temperature.apply(known))
is_covered = members.gather(1, test.labels[:, None])[:, 0]
print(sets.describe())
print(f"new digits: the true class is in {is_covered.double().mean():.1%} of the sets, ", end="")
print(f"{members.sum(1).double().mean():.2f} classes on average")

# %% [markdown]
# ## 3. Trust: is this like anything it has seen?
#
# Softmax has no answer to that. The features below its head do: `Trust` measures how far an input lies from the
# training data, and calls its p-value the share of held-out inputs that are at least as far. The probabilities are
# then discounted: what is far from everything is answered "I do not know".


# %%
def features(data):
    with torch.no_grad():
        return body(prepared(data))


trust = Trust.fit(features(rest), features(held_out), labels=rest.labels)
p_digits, p_letters = trust.p_values(features(test)), trust.p_values(features(letters))
print(f"p-value at most 1%: {(p_digits <= 0.01).double().mean():.1%} of new digits, ", end="")
print(f"{(p_letters <= 0.01).double().mean():.1%} of letters")

posthoc = nescio.Posthoc(temperature=temperature, trust=trust)
known_now = posthoc.apply(known, features(test)).prediction
ood_now = posthoc.apply(ood, features(letters)).prediction
print(f"AUROC of letters: {nescio.metrics.detection(known_now.uncertainty, ood_now.uncertainty).auroc:.3f}")

# %% [markdown]
# ## 4. Or: a few epochs more, and it is evidential
#
# `from_softmax` makes an evidential network of it with the same answers. It moves the head's bias so that the
# evidence starts at a sound size. A few epochs with the evidential loss follow. The risk and the weight are the
# paper's: what teaches the most doubt in a short time.

# %%
evidential = nescio.from_softmax(softmax, sample=prepared(rest)[:1000])
loss = nescio.EvidentialLoss(risk="squared_error", divergence_weight=1.0, annealing_epochs=3)
train(evidential, lambda logits, labels, epoch: loss(logits, labels, epoch=epoch), more_epochs)

with torch.no_grad():
    opinion = loss.opinion(evidential(prepared(test)))
    of_letters = loss.opinion(evidential(prepared(letters)))
print(f"accuracy: {nescio.metrics.accuracy(opinion, test.labels):.3f}")
print(f"AUROC of letters: {nescio.metrics.detection(opinion.uncertainty, of_letters.uncertainty).auroc:.3f}")

# %% [markdown]
# What is gained is an opinion: a belief for every class, and a mass of its own for what is not known. That alone does not
# make the letters stand out, as the AUROC says: nothing in a loss on digits forces a network to doubt letters
# ([limits](../limits.md)). Trust does, and it can be fitted to this network in the same way.
#
# All three, on digits that it knows and letters that it does not:

# %%
figure, panels = plt.subplots(1, 3, figsize=(9, 2.7), sharey=True, layout="constrained")
compared = [
    ("softmax", known, ood),
    ("with temperature and trust", known_now, ood_now),
    ("a few epochs more, evidential", opinion, of_letters),
]
for axes, (name, of_digits, of_others) in zip(panels, compared, strict=True):
    axes.hist(
        of_digits.uncertainty, bins=20, range=(0, 1), density=True, alpha=0.8, color="#0072b2", label="digits"
    )
    axes.hist(
        of_others.uncertainty,
        bins=20,
        range=(0, 1),
        density=True,
        alpha=0.7,
        color="#d55e00",
        label="letters",
    )
    axes.set(title=name, xlabel="uncertainty", yticks=[], xlim=(0, 1))
panels[0].legend(frameon=False)

# %% [markdown]
# ## Which of them?
#
# | you want | take | retraining |
# |---|---|---|
# | probabilities that can be believed | temperature | none |
# | a list of candidates that holds the right one 99 times in 100 | conformal sets | none |
# | to notice what is unlike the training data | trust | none |
# | a belief for every class and one number for "I do not know", from one pass | `from_softmax`, or train with `EvidentialLoss` | a few epochs |
#
# With a network whose layers are hidden in one module, `nescio.encoders.with_features` says where the features come
# out. [Guarantees](../guarantees.md) has the exact promises.
