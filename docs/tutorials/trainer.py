# %% [markdown]
# # The Trainer of transformers
#
# You train models of Hugging Face with their Trainer. Two lines make the model say "I do not know": a loss and a callback. The
# questions are those of CLINC150 again, and all of MiniLM is trained, not a head alone.

# %% tags=["parameters"]
num_intents = 8
start = "minilm"  # "small": a model of two layers, from its configuration
epochs = 2

# %%
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, logging

from nescio import AbstentionRule, EvidentialLoss, data, metrics
from nescio.integrations import transformers as nescio_hf

logging.set_verbosity_error()
_ = torch.manual_seed(0)

# %% [markdown]
# ## Questions, as the Trainer reads them
#
# `pip install 'nescio[hf]'` brings transformers. Model and tokenizer are what you have; here they come with the weights that
# nescio fetches and checks. A quarter of the questions is held out for what is fitted after the training.

# %%
train, held_out = data.split(data.load("clinc150", "train"), 0.25, seed=0)
train = train.only(train.classes[:num_intents])
held_out = held_out.only(train.classes)
test = data.load("clinc150", "test").only(train.classes)
out_of_scope = data.load("clinc150-oos", "test")
tokenizer = nescio_hf.minilm_tokenizer(max_length=40)


def rows_of(questions):
    ids = tokenizer(list(questions.texts), truncation=True)["input_ids"]
    return [{"input_ids": row, "labels": int(y)} for row, y in zip(ids, questions.labels, strict=True)]


print(
    f"{len(train)} questions of {len(train.classes)} intents, {len(held_out)} held out, {len(test)} for the test"
)

# %%
if start == "minilm":
    model = nescio_hf.minilm_classifier(num_labels=num_intents)
else:
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=len(tokenizer), num_labels=num_intents, **size)
    )

# %% [markdown]
# ## Two lines
#
# `compute_loss_func` takes the loss, and the callback tells it how far the training is: the weight of the divergence grows with
# the epochs. Accumulated batches, several processes, adapters of PEFT and checkpoints work as with any other loss.

# %%
loss = nescio_hf.TrainerLoss(EvidentialLoss(num_classes=num_intents))
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="trainer",
        num_train_epochs=epochs,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        per_device_eval_batch_size=64,
        learning_rate=5e-4 if start == "minilm" else 2e-3,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,  # there is no accelerator here
    ),
    train_dataset=rows_of(train),
    processing_class=tokenizer,  # pads each batch to its longest question
    compute_loss_func=loss,  # the first line
    callbacks=[nescio_hf.AnnealingCallback(loss)],  # the second
)
_ = trainer.train()

# %% [markdown]
# ## Opinions
#
# What `trainer.predict` gives becomes opinions. A temperature is fitted to the held-out questions, and a rule that answers the
# surest 95% of such questions. A promise about errors (`AbstentionRule.for_error`) would be kept here by answering all of which u is
# below a half: it is about questions of known intents, and the model makes few errors among these.

# %%
held_out_output = trainer.predict(rows_of(held_out))
posthoc = nescio_hf.fit_posthoc(held_out_output, loss)


def opinions_of(output):
    return posthoc.apply(nescio_hf.opinions(output, loss)).prediction


rule = AbstentionRule.for_coverage(opinions_of(held_out_output), held_out.labels, 0.95)
known = opinions_of(trainer.predict(rows_of(test)))
unknown = opinions_of(trainer.predict(rows_of(out_of_scope)))
print(posthoc.temperature.describe())
print(rule.describe())
known


# %%
def show(texts, opinions):
    for text, opinion in zip(texts, opinions, strict=True):
        best = train.classes[int(opinion.labels)]
        answer = best if bool(rule.accept(opinion)) else "I do not know"
        print(f"{text!r}: {answer} (best {best}, u {float(opinion.uncertainty):.2f})")


show(test.texts[:2], known[:2])
show(out_of_scope.texts[:3], unknown[:3])

# %% [markdown]
# ## How well it knows what it does not know

# %%
accepted = rule.accept(known)
right = known.labels == test.labels
print(f"accuracy: {metrics.accuracy(known, test.labels):.3f}")
print(f"answered: {accepted.double().mean():.1%}, of these right: {right[accepted].double().mean():.1%}")
print(f"out of scope, answered all the same: {rule.accept(unknown).double().mean():.1%}")
found = metrics.detection(known.uncertainty, unknown.uncertainty)
print(f"AUROC of {len(unknown)} questions out of scope, by their uncertainty: {found.auroc:.3f}")

# %% [markdown]
# Does the Trainer learn what the training of nescio itself would? Step by step, yes:
# [decision 31](../decisions/0031-the-loss-of-a-step.md) has the losses of both, on the same batches of CLINC150.
# [Integrations](../integrations.md) has trust by the features of the model, Lightning, torchmetrics and the hub.
# [The page on texts](text.py) trains a head on the same encoder, which takes seconds and no transformers.
