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
# The handwritten digits of scikit-learn, 64 numbers each. The model learns 0 to 7. Two kinds of inputs are unknown to
# it: 8 and 9, which look much like the others, and negatives, white on black, which do not. The known digits are in three parts: to train, to choose by (held out), and to test. With `posthoc="all"` the training sets a tenth of its
# part aside and fits temperature and trust to it.

# %%
pixels, digits = load_digits(return_X_y=True)
rows, labels = torch.tensor(pixels, dtype=torch.float32), torch.tensor(digits)
is_known = labels < 8
table = data.Table(rows[is_known], labels[is_known], tuple("01234567"), "digits 0 to 7")
unknown = {"8 and 9": rows[~is_known], "negatives": 16 - rows[is_known][:300]}
rest, test = data.split(table, 0.2, seed=0)
train, held_out = data.split(rest, 0.3, seed=0)

model = TrainedModel.train(train, settings=TrainingSettings(epochs=epochs, batch_size=32), posthoc="all")
on_held_out = model.predict(held_out.inputs)
known = model.predict(test.inputs)
is_right = known.labels == test.labels
print(f"{len(train)} to train, {len(held_out)} held out, {len(test)} to test")
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
for name, inputs in unknown.items():
    print(f"{name}, answered all the same: {rule.accept(model.predict(inputs)).double().mean():.1%}")

# %% [markdown]
# The promise is for digits like the held-out ones. It says nothing of unknown ones; how few of them pass is what the
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
# which classes are left. The set holds the true one for 99% of inputs like the held-out ones.

# %%
sets = ConformalSets.fit(on_held_out, held_out.labels, coverage=0.99)
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
p_unknown = {name: model.predict_with_p_values(inputs).p_values for name, inputs in unknown.items()}
for level in (0.02, 0.05):
    print(f"p-value at most {level}: {(p_known <= level).double().mean():.1%} of new digits", end="")
    for name, p_values in p_unknown.items():
        print(f", {(p_values <= level).double().mean():.1%} of {name}", end="")
    print()

figure, panels = plt.subplots(1, 2, figsize=(8.5, 2.8), layout="constrained")
colours = {"8 and 9": "#d55e00", "negatives": "#009e73"}
panels[0].hist(known.uncertainty, bins=20, range=(0, 1), density=True, color="#0072b2", label="known")
panels[1].hist(p_known, bins=20, range=(0, 1), density=True, color="#0072b2", label="known")
for name, inputs in unknown.items():
    style = {"bins": 20, "range": (0, 1), "density": True, "histtype": "step", "linewidth": 2}
    panels[0].hist(model.predict(inputs).uncertainty, color=colours[name], label=name, **style)
    panels[1].hist(p_unknown[name], color=colours[name], label=name, **style)
panels[0].set(xlabel="uncertainty u, with trust", yticks=[], title="Known and unknown by uncertainty")
panels[1].set(xlabel="p-value", yticks=[], title="Known and unknown by p-value")
panels[0].legend(frameon=False)

# %% [markdown]
# Negatives lie far from everything: all have the smallest p-value that there can be. 8 and 9 lie nearer, and a part of them passes:
# trust notices what is unlike, not what looks alike. That the share of new digits is not exactly the level is chance: a tenth of the
# training data, some eighty digits, sets the scale, and the promise is an average over such draws. With a thousand it is close.

# %% [markdown]
# ## Which when
#
# | what you do with it | take | what is promised |
# |---|---|---|
# | act on the answer, or hand the case to a person | `AbstentionRule.for_error` | at most so many errors among the answers, with a confidence |
# | answer as many as you can afford to | `AbstentionRule.for_coverage` | the share that is answered; nothing about errors |
# | let a person choose from a short list | `ConformalSets` | the true class is in the list so often, on average |
# | the same, fair to each class | `ConformalSets.fit(..., by_class=True)` | the same for each class |
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
