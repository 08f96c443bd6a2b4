"""Questions of CLINC150 with the Trainer of transformers: opinions, and questions that are out of scope.

    python examples/transformers_trainer.py                   # all of MiniLM is trained
    python examples/transformers_trainer.py --model small     # a small model from its configuration

Only two lines differ from any other training: `compute_loss_func` and the callback that keeps the annealing.
A tenth of the questions is held out for a temperature; then the model is asked the test questions, and 1,000
that are out of scope. Needs: pip install 'nescio[hf]'.
"""

import argparse
from typing import Any

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from nescio import EvidentialLoss, data, metrics
from nescio.integrations import transformers as nescio_hf

SMALL: Any = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}


def main() -> None:
    """Train, fit a temperature, and say what the model knows and what it does not."""
    parser = argparse.ArgumentParser(description="Train a model of transformers on CLINC150.")
    parser.add_argument("--model", choices=("minilm", "small"), default="minilm")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--out", default="trainer", help="the folder of the Trainer")
    options = parser.parse_args()

    tokenizer = nescio_hf.minilm_tokenizer(max_length=40)
    train, held_out = data.split(data.load("clinc150", "train"), 0.1, seed=0)
    num_classes = len(train.classes)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), "num_labels": num_classes})
    model = BertForSequenceClassification(config)  # type: ignore[no-untyped-call]
    if options.model == "minilm":
        model = nescio_hf.minilm_classifier(num_classes)
    loss = nescio_hf.TrainerLoss(EvidentialLoss(num_classes))
    arguments = TrainingArguments(
        output_dir=options.out,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=4,
        learning_rate=5e-4 if options.model == "minilm" else 2e-3,
        save_strategy="no",
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows_of(train, tokenizer),
        processing_class=tokenizer,  # pads each batch to its longest question
        compute_loss_func=loss,
        callbacks=[nescio_hf.AnnealingCallback(loss)],
    )
    trainer.train()

    posthoc = nescio_hf.fit_posthoc(trainer.predict(rows_of(held_out, tokenizer)), loss)
    test = trainer.predict(rows_of(data.load("clinc150", "test"), tokenizer))
    oos = trainer.predict(rows_of(data.load("clinc150-oos", "test"), tokenizer))
    known = posthoc.apply(nescio_hf.opinions(test, loss)).prediction
    unknown = posthoc.apply(nescio_hf.opinions(oos, loss)).prediction
    print(known)
    print(f"accuracy: {metrics.accuracy(known, nescio_hf.labels_of(test)):.4f}")
    auroc = metrics.detection(known.uncertainty, unknown.uncertainty).auroc
    print(f"AUROC of {len(unknown)} questions out of scope, by their uncertainty: {auroc:.4f}")


def rows_of(texts: Any, tokenizer: Any) -> Any:
    """What the Trainer reads: ids of tokens, and labels."""
    ids = tokenizer(list(texts.texts), truncation=True)["input_ids"]
    return [{"input_ids": row, "labels": int(y)} for row, y in zip(ids, texts.labels, strict=True)]


if __name__ == "__main__":
    main()
