# %% [markdown]
# # Thresholds, conformal sets and trust: which when
#
# A model that doubts is of use when something follows from its doubt. There are three ways to act on it, each with a
# promise of its own. This page fits all three to one model, tests what they promise, and says which to take.

# %% tags=["parameters"]
epochs = 25

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from nescio import AbstentionRule, ConformalSets, TrainedModel, TrainingSettings, data, metrics

# %% [markdown]
# ## The model, and data that it has not seen
#
# The handwritten digits of scikit-learn, 64 numbers each. The model learns 0 to 7; 8 and 9 are unknown to it. The known ones
# are in three parts: to train, to choose by (held out), and to test. With `posthoc="all"` the training sets a tenth of its
# part aside and fits temperature and trust to it.

# %%
pixels, digits = load_digits(return_X_y=True)
rows, labels = torch.tensor(pixels, dtype=torch.float32), torch.tensor(digits)
is_known = labels < 8
table = data.Table(rows[is_known], labels[is_known], tuple("01234567"), "digits 0 to 7")
unknown = rows[~is_known]
rest, test = data.split(table, 0.3, seed=0)
train, held_out = data.split(rest, 0.4, seed=0)

model = TrainedModel.train(train, settings=TrainingSettings(epochs=epochs, batch_size=32), posthoc="all")
on_held_out = model.predict(held_out.inputs)
known, ood = model.predict(test.inputs), model.predict(unknown)
is_right = known.labels == test.labels
print(f"{len(train)} to train, {len(held_out)} held out, {len(test)} to test, {len(unknown)} unknown")
print(f"accuracy on new digits: {is_right.double().mean():.3f}")

# %% [markdown]
# ## 1. A threshold: answer, or "I do not know"
#
# u alone has no scale: 0.3 of one model is not 0.3 of another. So the threshold is taken from held-out data, as the
# one that answers most while at most 2% of its answers are wrong, with 95% confidence. Where that can't be had,
# it says so instead of promising.

# %%
rule = AbstentionRule.for_error(on_held_out, held_out.labels, max_error=0.02, confidence=0.95)
print(rule.describe())
accepted = rule.accept(known)
errors = 1 - is_right[accepted].double().mean()
print(f"new digits: {accepted.double().mean():.1%} answered, {errors:.2%} of the answers wrong")
print(f"unknown digits answered all the same: {rule.accept(ood).double().mean():.1%}")

# %% [markdown]
# The promise is for digits like the held-out ones. It says nothing of 8 and 9; that few of them pass is what the
# opinion gives, not the rule.
#
# What is bought, and for how much: the accuracy of the answers against the share that is answered.

# %%
curve = metrics.risk_coverage(known.uncertainty, is_right)
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.plot(100 * curve.coverage, 100 * (1 - curve.risk), color="#0072b2")
axes.axvline(
    100 * accepted.double().mean(), color="#d55e00", linestyle="--", label="the threshold of the promise"
)
axes.set(
    xlabel="answered, %",
    ylabel="right, %",
    title="Accuracy of the answers against their share",
    xlim=(0, 100),
)
axes.legend(frameon=False)
# %% [markdown]
# ## 2. Conformal sets: which classes it may be
#
# Where a list of candidates is of use, because a person or a second test decides between them, do not abstain: say
# which classes are left. The set holds the true one for 98% of inputs like the held-out ones.

# %%
sets = ConformalSets.fit(on_held_out, held_out.labels, coverage=0.98)
members = sets.contains(known)
is_covered = members.gather(1, test.labels[:, None])[:, 0]
print(sets.describe())
print(
    f"new digits: covered {is_covered.double().mean():.1%}, {members.sum(1).double().mean():.2f} classes on average"
)
sizes = members.sum(1).bincount().tolist()
print("sets by size:", {size: count for size, count in enumerate(sizes) if count})

# %% [markdown]
# The promise is an average over all inputs: easy classes may be covered more often than hard ones. With
# `by_class=True` it holds for each class, at the price of larger sets and of more held-out data.

# %%
by_class = ConformalSets.fit(on_held_out, held_out.labels, coverage=0.95, by_class=True)
inside = by_class.contains(known).gather(1, test.labels[:, None])[:, 0].double()
for digit in range(8):
    share = inside[test.labels == digit].mean()
    print(f"{digit}: {share:.1%}", end="  ")

# %% [markdown]
# ## 3. Trust: is it like anything that was seen?
#
# Thresholds and sets promise nothing for inputs of another kind. Trust does: of inputs like the known ones at most a
# share a has a p-value of a or less. So a small p-value says that the input is unusual, whatever the network
# thinks it is, and refusing all below 0.01 costs at most one known input in a hundred.

# %%
p_known = model.predict_with_p_values(test.inputs).p_values
p_ood = model.predict_with_p_values(unknown).p_values
for level in (0.01, 0.05):
    print(f"p-value at most {level}: {(p_known <= level).double().mean():.1%} of new digits, ", end="")
    print(f"{(p_ood <= level).double().mean():.1%} of letters")

figure, panels = plt.subplots(1, 2, figsize=(8.5, 2.8), layout="constrained")
for axes, of_known, of_ood, name in (
    (panels[0], known.uncertainty, ood.uncertainty, "uncertainty u, after trust"),
    (panels[1], p_known, p_ood, "p-value"),
):
    axes.hist(of_known, bins=25, range=(0, 1), density=True, alpha=0.8, color="#0072b2", label="new digits")
    axes.hist(
        of_ood, bins=25, range=(0, 1), density=True, alpha=0.7, color="#d55e00", label="8 and 9, unknown"
    )
    axes.set(xlabel=name, yticks=[], xlim=(0, 1), title=f"Known and unknown by {name.split(',')[0]}")
panels[0].legend(frameon=False)
# %% [markdown]
# ## Which when
#
# | what you do with it | take | what is promised |
# |---|---|---|
# | act on the answer, or hand the case to a person | `AbstentionRule.for_error` | at most so many errors among the answers, with a confidence |
# | answer as many as you can afford to | `AbstentionRule.for_coverage` | the share that is answered; nothing about errors |
# | let a person choose from a short list | `ConformalSets` | the true class is in the list so often, on average |
# | the same, fair to each class | `ConformalSets(by_class=True)` | the same for each class |
# | sound an alarm: this is something else | trust, its p-value | at most so many false alarms among known inputs |
# | show probabilities to people | temperature | nothing, but it is measured (ECE, NLL) |
#
# All of them live in the same model file and can be combined: sets for what is accepted, an alarm for what has a
# small p-value.

# %%
complete = model.with_rule(rule).with_sets(sets)
complete.save("digits.safetensors")
record = TrainedModel.load("digits.safetensors").records(test.inputs[:1])[0]
{key: record[key] for key in ("answer", "uncertainty", "p_value", "set")}

# %% [markdown]
# On the command line it is `nescio threshold`, `nescio sets` and `nescio calibrate`; [the guide](../guide.md) has them.
# None of these promises holds when the inputs of tomorrow are not like the held-out ones of today: measure again when
# the world changes. [Guarantees](../guarantees.md) has the exact statements.
