# %% [markdown]
# # Serving and scaling
#
# From a table to a service that answers over HTTP, or says "I do not know". Then the same model for a million rows, on one
# machine or many.

# %% tags=["parameters"]
epochs = 20

# %%
import json
import re
import subprocess
import urllib.request
from pathlib import Path

from sklearn.datasets import load_wine

from nescio import TrainedModel, TrainingSettings, data

# %% [markdown]
# ## A model file
#
# 178 wines of three growers, by 13 measurements. They are written to a file, as yours would be.

# %%
wines = load_wine()
names = [name.replace("/", "_") for name in wines.feature_names]
lines = [",".join([*names, "grower"])]
for row, grower in zip(wines.data, wines.target, strict=True):
    lines.append(",".join([*map(str, row), "ABC"[grower]]))
Path("wines.csv").write_text("\n".join(lines) + "\n")

table = data.open_source("wines.csv", label="grower")
model = TrainedModel.train(table, settings=TrainingSettings(epochs=epochs, batch_size=16))
model.save("wines.safetensors")
print(f"{Path('wines.safetensors').stat().st_size / 1000:.0f} kB: weights, classes, how columns are read")

# %% [markdown]
# ## The service
#
# `nescio serve wines.safetensors` (`pip install 'nescio[serve]'`) listens at port 8000 of this machine. Here it is started
# from Python, at a free port, which its first line names.

# %%
command = ["nescio", "serve", "wines.safetensors", "--port", "0"]
service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
address = re.search(r"http://[\w.:]+", service.stdout.readline())[0]


def ask(path, body=None):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, content, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


model_of_service = json.loads(ask("/v1/models"))["models"][0]
{key: model_of_service[key] for key in ("name", "kind", "classes")}

# %% [markdown]
# Rows go by the names of their columns. The first is a wine of the table, the second is not: it has ten times as much of
# everything.

# %%
usual = dict(zip(names, wines.data[0].tolist(), strict=True))
strange = {name: 10 * value for name, value in usual.items()}
answer = json.loads(ask("/v1/opinions", {"inputs": [usual, strange, {"alcohol": 13.0}]}))
for opinion in answer["results"][0]["opinions"]:
    print(opinion["answer"], opinion["uncertainty"], opinion["error"])

# %% [markdown]
# The third lacks columns: it has an error of its own, and the others are answered. The strange wine may well get a sure
# answer: a network that was shown wines alone is not forced to doubt what is none. That is what trust is for, which
# `nescio train` and `posthoc="all"` fit where there are 25 samples and more
# ([which when](which_doubt.py)).
#
# ## What a deployment needs
#
# Health, readiness and counters for Prometheus are there. Requests that are asked at the same time share a forward pass;
# what is too much is refused with a number that says why, before it costs memory ([the service](../service.md) has all
# limits).

# %%
print(ask("/healthz"), ask("/readyz"))
for line in ask("/metrics").splitlines():
    if line.startswith("nescio_opinions_total"):
        print(line)

# %%
service.terminate()  # what was accepted is finished first
service.communicate(timeout=60)
service.returncode

# %% [markdown]
# More processes: `nescio serve wines.safetensors --workers 4`. In an application of your own, `nescio.serve.create_app` is
# an ASGI application to be mounted or run by uvicorn.
#
# ## Many inputs at once
#
# `predict --out` writes a table of records in parts: stopped and started again, it goes on. What can't be read has its error
# in its row.

# %%
# !nescio predict wines.safetensors wines.csv --out opinions.csv
# !head -3 opinions.csv | cut -c1-110

# %% [markdown]
# With `pip install 'nescio[cluster]'`, `--on ray` makes the parts on all machines of a Ray cluster, which must see the same
# files; `.parquet` instead of `.csv` is smaller and faster to read. `torchrun --no-python --nproc-per-node 2 nescio train ...`
# trains on several processes. `nescio export wines.safetensors --onnx wines.onnx` (`pip install 'nescio[onnx]'`) writes a
# model that needs neither nescio nor torch: from the numbers of a row to probabilities, belief and uncertainty; it prints
# which numbers in which order.
