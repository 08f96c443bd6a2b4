# %% [markdown]
# # Segmentation: an opinion for every pixel
#
# The loss takes logits `(N, K, H, W)` and gives an opinion for every pixel. Here a small network tells two patterns in drawn
# pictures, lying and standing stripes, and is then shown slanting ones, which it has never seen.

# %% tags=["parameters"]
num_train = 160
epochs = 15

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import nescio
from nescio import metrics

# %% [markdown]
# ## Pictures, drawn for it
#
# 48 x 48 pixels, two discs somewhere on noise, each with stripes of its own. Every pixel has a class: background, lying or
# standing. At the edges nobody knows for sure; these pixels get the label -100, which does not count.

# %%
SIZE = 48
CLASSES = ("background", "lying", "standing")
KINDS = (*CLASSES, "slanting")  # the last one is not for training
ROWS, COLUMNS = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
WAVES = {"lying": ROWS.float(), "standing": COLUMNS.float(), "slanting": (ROWS + COLUMNS) / 2**0.5}


def draw(kinds, generator):
    image = 0.5 + 0.05 * torch.randn(SIZE, SIZE, generator=generator)
    labels = torch.zeros(SIZE, SIZE, dtype=torch.long)
    for place, kind in enumerate(kinds):
        row = int(torch.randint(12, 36, (), generator=generator))
        column = int(torch.randint(11, 14, (), generator=generator)) + 24 * place
        radius = float(torch.randint(7, 11, (), generator=generator))
        distance = ((ROWS - row) ** 2 + (COLUMNS - column) ** 2).sqrt()
        inside = distance <= radius
        phase = 6.28 * torch.rand((), generator=generator)
        image[inside] += 0.3 * torch.sin(1.5 * WAVES[kind] + phase)[inside]
        labels[inside] = KINDS.index(kind)
        labels[(distance - radius).abs() <= 1.5] = -100
    return image[None], labels


def pictures(count, kinds, seed):
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for number in range(count):
        turned = kinds if number % 2 else kinds[::-1]
        drawn.append(draw(turned, generator))
    images, labels = zip(*drawn, strict=True)
    return torch.stack(images), torch.stack(labels)


x, y = pictures(num_train, ("lying", "standing"), seed=0)
x_test, y_test = pictures(60, ("lying", "standing"), seed=1)
x_ood, y_ood = pictures(60, ("lying", "slanting"), seed=2)

# %% [markdown]
# ## Training
#
# A small network that keeps the size of the picture. The loss is the one of every other tutorial: the class axis is 1, as
# in torch, whatever follows it.

# %%
torch.manual_seed(0)
layers = []
for inputs, outputs, dilation in ((1, 12, 1), (12, 12, 1), (12, 16, 2)):
    layers += [nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation), nn.ReLU()]
network = nn.Sequential(*layers, nn.Conv2d(16, 3, 1))
loss = nescio.EvidentialLoss(num_classes=3, ignore_index=-100, annealing_epochs=4)
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for epoch in range(epochs):
    batches = torch.randperm(len(x)).split(8)
    for step, index in enumerate(batches):
        optimizer.zero_grad()
        loss(network(x[index]), y[index], epoch=epoch + step / len(batches)).backward()
        optimizer.step()

# %% [markdown]
# ## Dense opinions
#
# The class axis of an opinion is the last, so its shape is that of the pixels: `(N, H, W)`. Metrics take it as it is;
# pixels without a label are left out by indexing.

# %%
with torch.no_grad():
    opinion = loss.opinion(network(x_test))
    of_ood = loss.opinion(network(x_ood))
counted = y_test != -100
print(opinion)
print(f"accuracy of pixels: {metrics.accuracy(opinion[counted], y_test[counted]):.4f}")
for number, name in enumerate(CLASSES):
    answered, true = opinion.labels == number, y_test == number
    overlap = (answered & true).sum() / ((answered | true) & counted).sum()
    print(f"intersection over union, {name}: {overlap:.3f}")

# %% [markdown]
# ## What it does not know
#
# Slanting stripes are neither. The answer is one of the classes all the same, and the uncertainty says how much that is worth:
# for stripes that it knows it is high along the edges only, for slanting ones inside too. Its values are small all the same: u
# ranks, and a threshold for it is taken from held-out pictures.

# %%
figure, grid = plt.subplots(2, 3, figsize=(8, 5.2), layout="constrained")
shown = [
    ("lying and standing, as in training", x_test[1], opinion[1]),
    ("lying and slanting", x_ood[1], of_ood[1]),
]
for (left, middle, right), (name, image, said) in zip(grid, shown, strict=True):
    left.imshow(image[0], cmap="gray", vmin=0, vmax=1)
    left.set_title(name, fontsize=10)
    middle.imshow(said.labels, cmap="viridis", vmin=0, vmax=2)
    middle.set_title("answer: background, lying, standing", fontsize=10)
    drawn = right.imshow(said.uncertainty, cmap="magma", vmin=0, vmax=0.15)
    right.set_title("uncertainty of each pixel", fontsize=10)
    for axes in (left, middle, right):
        axes.axis("off")
figure.colorbar(drawn, ax=grid[:, 2], shrink=0.8)
# %% [markdown]
# In numbers, over all pictures: the mean uncertainty inside of the discs.

# %%
for name, said, inside in (
    ("known stripes", opinion, y_test > 0),
    ("slanting ones", of_ood, y_ood == 3),
):
    print(f"{name}: mean uncertainty {said.uncertainty[inside].mean():.3f}")
found = metrics.detection(opinion.uncertainty[y_test > 0], of_ood.uncertainty[y_ood == 3])
print(f"AUROC of slanting pixels: {found.auroc:.3f}")

# %% [markdown]
# ## Good to know
#
# - **Soft labels**: targets may be `(N, K, H, W)`, such as the shares of several annotators.
# - **Rare classes**: `class_weight` counts pixels of a class more, as in torch.
# - **Fusing**: opinions of several networks or several views of a pixel go together by `nescio.fuse`.
# - **Not there**: `nescio train` and the service answer for whole inputs. A segmentation network is trained in a loop of
#   your own, as here.
