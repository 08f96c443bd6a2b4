# %% [markdown]
# # Text with out-of-scope questions
#
# An assistant knows some intents, and people ask it anything. It must say which intent a question has, or that it is none of
# them. The data are CLINC150, made for exactly this: 150 intents, and 1,000 questions of none.

# %% tags=["parameters"]
num_intents = 20
encoder = "minilm"
epochs = None  # by the number of questions

# %%
import matplotlib.pyplot as plt

from nescio import AbstentionRule, TrainedModel, TrainingSettings, data, metrics

# %% [markdown]
# ## Questions
#
# `nescio data fetch clinc150` brings the set (2.5 MB, CC BY 3.0) from its repository, or takes it from the folder that
# `NESCIO_DATA` names. Here 20 intents are learned, to be quick; `num_intents = 150` takes all.

# %%
train = data.load("clinc150", "train")
train = train.only(train.classes[:num_intents])
test = data.load("clinc150", "test").only(train.classes)
out_of_scope = data.load("clinc150-oos", "test")
print(f"{len(train)} questions of {len(train.classes)} intents, {len(test)} for the test, ", end="")
print(f"{len(out_of_scope)} out of scope")
for text, label in list(zip(train.texts, train.labels.tolist(), strict=True))[:: len(train) // 4][:4]:
    print(f"  {text!r} is {train.classes[label]}")

# %% [markdown]
# ## Training: a head on a sentence encoder
#
# MiniLM (all-MiniLM-L6-v2, 91 MB, fetched once) turns a question into 384 numbers and stays as it is; a small head on them is
# trained in seconds. A part of the questions is held out to choose a threshold, and with `posthoc="all"` temperature and trust
# are fitted to a tenth of the rest.

# %%
rest, held_out = data.split(train, 0.25, seed=0)
model = TrainedModel.train(rest, network=encoder, settings=TrainingSettings(epochs=epochs), posthoc="all")


def answers(questions):
    return model.predict(model.preprocess.inputs_of(questions))


known, unknown = answers(test), answers(out_of_scope)
print(f"accuracy: {metrics.accuracy(known, model.labels_of(test)):.3f}")
print(
    f"AUROC of questions out of scope: {metrics.detection(known.uncertainty, unknown.uncertainty).auroc:.3f}"
)

# %% [markdown]
# ## Known and unknown, by their uncertainty

# %%
figure, axes = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
axes.hist(
    known.uncertainty, bins=30, range=(0, 1), density=True, alpha=0.8, color="#0072b2", label="known intents"
)
axes.hist(
    unknown.uncertainty, bins=30, range=(0, 1), density=True, alpha=0.7, color="#d55e00", label="out of scope"
)
axes.set(xlabel="uncertainty", yticks=[], xlim=(0, 1), title="Questions by their uncertainty")
axes.legend(frameon=False)
# %% [markdown]
# ## A threshold without any question out of scope
#
# You seldom have examples of what you don't know. The threshold needs none: it promises at most 2% or 1% wrong answers among
# those given to questions of known intents. What becomes of the others is measured afterwards: nothing is promised about
# them, but the less is answered of the known, the less of the others too.

# %%
is_right = known.labels == model.labels_of(test)
for max_error in (0.02, 0.01):
    rule = AbstentionRule.for_error(answers(held_out), model.labels_of(held_out), max_error)
    model = model.with_rule(rule)
    accepted = model.accepts(known)
    print(rule.describe())
    print(f"- known intents: {accepted.double().mean():.1%} answered, ", end="")
    print(f"{is_right[accepted].double().mean():.1%} of them rightly")
    print(f"- out of scope: {model.accepts(unknown).double().mean():.1%} answered all the same")

# %% [markdown]
# ## Ask it

# %%
model.save("intents.safetensors")
asked = [
    test.texts[0],
    test.texts[-1],
    "who painted the ceiling over there",
    "my neighbour's cat sits on the roof again",
]
for record in TrainedModel.load("intents.safetensors").records(asked):
    print(f"{record['name']}: {record['answer']} (best {record['best']}, u {record['uncertainty']:.2f})")

# %% [markdown]
# ## Your own texts
#
# A file with a column of texts and one of labels, or a folder with a sub-folder of `.txt` files for each class:
#
# ```bash
# nescio train questions.csv --text question --label intent --out run
# nescio threshold run --data held-out --max-error 0.02
# nescio predict run "where is my parcel?"
# ```
#
# Other encoders: `--encoder hf:FOLDER_OR_ID` takes any model of transformers. All 150 intents give an accuracy of 95.7% and an
# AUROC of 0.975 (`nescio train clinc150 --out run`, then `nescio evaluate run --data clinc150 --ood clinc150-oos`).
