# %% [markdown]
# # Photos
#
# A folder of photos, one sub-folder for each kind, is all that is needed: a pretrained network gives features, a head on them
# learns in seconds, and a threshold keeps its promise about errors. Photos of kinds that it was never shown are the hard part.

# %% tags=["parameters"]
encoder = "efficientnet-lite0"
size = 96
each = 300
epochs = None  # by the number of photos

# %%
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from nescio import AbstentionRule, TrainedModel, TrainingSettings, data, metrics

# %% [markdown]
# ## A folder of photos
#
# Yours will do. For this page there are small photos of CIFAR-10, written to files: four kinds to learn, and two kinds,
# frogs and horses, that nobody tells the network about.

# %%
KNOWN = ("airplane", "automobile", "cat", "ship")
UNKNOWN = ("frog", "horse")
cifar = data.load("cifar10", "test")
for kind in KNOWN + UNKNOWN:
    folder = Path("photos" if kind in KNOWN else "other", kind)
    folder.mkdir(parents=True)
    wanted = each if kind in KNOWN else each // 5
    for number, place in enumerate((cifar.labels == cifar.classes.index(kind)).nonzero()[:wanted, 0]):
        pixels = cifar.images[place].permute(1, 2, 0).byte().numpy()
        Image.fromarray(pixels).save(folder / f"{number}.png")

# %% [markdown]
# ## Train
#
# `open_source` reads a folder whatever the sizes of its pictures. A fifth is for the test; a quarter of the rest chooses the
# threshold. The network is EfficientNet-Lite0 (19 MB, fetched once); its features are computed once and kept, so that the
# next training on the same photos takes seconds.

# %%
photos = data.open_source("photos", size=size, resize="crop").labelled()
rest, test = data.split(photos, 0.2, seed=0)
train, held_out = data.split(rest, 0.25, seed=0)
model = TrainedModel.train(train, network=encoder, settings=TrainingSettings(epochs=epochs), posthoc="all")
print(model.posthoc.describe())


def answers(pictures):
    return model.predict(model.preprocess.inputs_of(pictures))


known = answers(test)
others = data.open_source("other", size=size, resize="crop").labelled()
ood = answers(others)
print(f"{len(train)} photos to learn from; accuracy on {len(test)} others: ", end="")
print(f"{metrics.accuracy(known, model.labels_of(test)):.3f}")
print(f"AUROC of frogs and horses: {metrics.detection(known.uncertainty, ood.uncertainty).auroc:.3f}")

# %% [markdown]
# ## A threshold with a promise
#
# At most one answer in ten wrong, with 95% confidence. With some two hundred held-out photos no much stricter promise can be
# made; one in a hundred needs thousands. Nothing is promised about frogs and horses: so few small photos teach little of what is
# new, and a rule that may answer nearly all of the known kinds answers those too. A rule by coverage gives some of both away.

# %%
is_right = known.labels == model.labels_of(test)
labels = model.labels_of(held_out)
for rule in (
    AbstentionRule.for_coverage(answers(held_out), labels, 0.7),
    AbstentionRule.for_error(answers(held_out), labels, max_error=0.1),
):
    model = model.with_rule(rule)
    accepted = model.accepts(known)
    print(rule.describe())
    print(f"- photos of known kinds: {accepted.double().mean():.0%} answered, ", end="")
    print(f"{is_right[accepted].double().mean():.0%} rightly")
    print(f"- frogs and horses: {model.accepts(ood).double().mean():.0%} answered all the same")

# %% [markdown]
# ## What it says

# %%
figure, grid = plt.subplots(2, 4, figsize=(8, 4.6), layout="constrained")
figure.suptitle("Photos of known kinds above, of unknown ones below")
above, below = grid
for axes, place in zip(
    above, (known.uncertainty.argsort()[:: max(1, len(test) // 4)])[:4].tolist(), strict=False
):
    record = model.records(test.images[place : place + 1])[0]
    axes.imshow(test.images[place].permute(1, 2, 0) / 255)
    axes.set_title(f"{record['answer']}\nu = {record['uncertainty']:.2f}", fontsize=10)
for axes, place in zip(below, range(0, len(others), len(others) // 4), strict=False):
    record = model.records(others.images[place : place + 1])[0]
    axes.imshow(others.images[place].permute(1, 2, 0) / 255)
    axes.set_title(f"{record['answer']}\nu = {record['uncertainty']:.2f}", fontsize=10)
for axes in grid.flat:
    axes.axis("off")

# %% [markdown]
# Most frogs and horses pass. In 32 x 32 pixels they are animals like cats, to this network too: nothing about them is unlike what it
# knows. The promise was about photos of known kinds, and it is kept; about others nothing was promised
# ([limits](../limits.md)). So measure it with photos like those that will come, `nescio evaluate run --data held-out --ood other/`, and
# where such photos are to be expected, make a kind of its own of them: a folder `photos/other`.
#
# ## The same without Python
#
# ```bash
# nescio train photos/ --out run
# nescio threshold run --data held-out --max-error 0.1
# nescio predict run new/
# nescio serve run
# ```
#
# `train` holds a fifth out, fits temperature and trust, and writes `report.html` with accuracy, the surest mistakes and the
# most doubtful photos. With more photos, or when the head alone is not good enough, `--fine-tune` trains all of the network;
# with a few hundred the head is the better start.
