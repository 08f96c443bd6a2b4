"""The Trainer of transformers learns what our own loop learns; what it predicts becomes opinions."""

import copy
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tools.trainer_losses import (
    NO_DROPOUT,
    SETTINGS,
    Handover,
    collate,
    loop_losses,
    losses_side_by_side,
    trainer_losses,
)
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.trainer_utils import PredictionOutput

from nescio import AbstentionRule, ConformalSets, EvidentialLoss, InputError, metrics
from nescio.data.preprocess import TextPreprocess
from nescio.errors import NescioWarning, TrainingError
from nescio.integrations.transformers import (
    AnnealingCallback,
    TrainerLoss,
    fit_posthoc,
    labels_of,
    opinions,
    predict_with_features,
)
from nescio.training import Samples

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
CLASSES = 3
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def questions(count, seed=0, first=5):
    """Ids of tokens (N, 8) with empty places behind the end: the tokens of a class are its own, mostly."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    ids = first + 4 * labels[:, None] + torch.randint(0, 5, (count, 8), generator=generator)
    lengths = torch.randint(3, 9, (count, 1), generator=generator)
    return torch.where(torch.arange(8) < lengths, ids, 0), labels


def rows_of(ids, labels):
    return [{"input_ids": row, "labels": label} for row, label in zip(ids, labels, strict=True)]


def tiny_model(kind=BertForSequenceClassification):
    torch.manual_seed(0)
    config = BertConfig(**TINY, **NO_DROPOUT, vocab_size=40, max_position_embeddings=16, num_labels=CLASSES)
    return kind(config)


def arguments(folder, **options):
    chosen = {"num_train_epochs": 2, "per_device_train_batch_size": 8, "learning_rate": 0.01, **options}
    return TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        **{"save_strategy": "no", "logging_strategy": "no", **chosen},
    )


def make_trainer(folder, model, loss, count=60, callbacks=(), **options):
    return Trainer(
        model=model,
        args=arguments(folder, **options),
        train_dataset=rows_of(*questions(count)),
        data_collator=collate,
        compute_loss_func=loss,
        callbacks=[AnnealingCallback(loss), *callbacks],
    )


@pytest.mark.parametrize(("count", "accumulate"), [(50, 4), (32, 1)])
def test_every_step_has_the_loss_of_our_own_loop(tmp_path, count, accumulate):
    """Of 50 samples the last batch has 2 and the last step 3 batches; two epochs, annealed."""
    settings = replace(SETTINGS, batch_size=4, accumulate=accumulate, learning_rate=0.01, precision="float64")
    samples = Samples(*questions(count))
    preprocess = TextPreprocess('{"model": {}}', max_length=8)
    model = tiny_model()
    ours = loop_losses(copy.deepcopy(model), samples, preprocess, settings)
    theirs = trainer_losses(model, samples, settings, CLASSES, str(tmp_path))
    batches = -(-count // 4)
    assert len(ours) == len(theirs) == 2 * -(-batches // accumulate)
    assert ours[0] - ours[-1] > 0.1  # something was learned
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-9)


def test_every_step_from_the_same_weights_has_the_same_loss_in_float32(tmp_path):
    settings = replace(SETTINGS, batch_size=4, learning_rate=0.01)
    samples = Samples(*questions(50))
    preprocess = TextPreprocess('{"model": {}}', max_length=8)
    handover = Handover()
    ours, theirs = losses_side_by_side(
        tiny_model(), samples, preprocess, settings, CLASSES, handover, str(tmp_path)
    )
    assert len(ours) == 8
    assert ours[0] - ours[-1] > 0.1
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-6)
    assert handover.count == 8
    assert handover.largest_difference < 1e-5  # on some processors none at all


def batch_of(count):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, CLASSES, generator=generator), torch.arange(count) % CLASSES


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 4.0, 0.5])])
def test_how_a_step_is_cut_into_batches_changes_nothing(weight):
    loss = TrainerLoss(EvidentialLoss(CLASSES, class_weight=weight, annealing_epochs=0))
    logits, labels = batch_of(10)
    labels[3] = -100  # which the Trainer does not count
    whole = loss(SequenceClassifierOutput(logits=logits), labels, num_items_in_batch=torch.tensor(9))
    parts = []
    for part in (slice(0, 7), slice(7, 10)):
        parts.append(loss((logits[part],), labels[part], num_items_in_batch=torch.tensor(9)))
    torch.testing.assert_close(sum(parts), whole)
    each = EvidentialLoss(CLASSES, class_weight=weight, annealing_epochs=0, reduction="none")(logits, labels)
    torch.testing.assert_close(whole, each.sum() / 9)
    assert loss.loss.reduction == "mean"  # as it was given
    alone = loss({"logits": logits}, labels)
    torch.testing.assert_close(alone, whole)


def test_soft_labels_are_counted_as_samples():
    loss = TrainerLoss(EvidentialLoss(CLASSES, annealing_epochs=0))
    logits, _ = batch_of(4)
    labels = torch.full((4, CLASSES), 1 / CLASSES)
    expected = EvidentialLoss(CLASSES, annealing_epochs=0)(logits, labels)
    torch.testing.assert_close(loss((logits,), labels, num_items_in_batch=labels.numel()), expected)
    torch.testing.assert_close(loss((logits,), labels), expected)


class Epochs(list):
    """What the loss was told, before each batch."""

    def watch(self, loss):
        told = loss.set_epoch

        def set_epoch(epoch, last_epoch):
            self.append((round(epoch, 6), last_epoch))
            told(epoch, last_epoch)

        loss.set_epoch = set_epoch


def test_annealing_goes_on_from_a_checkpoint(tmp_path):
    loss = TrainerLoss(EvidentialLoss(CLASSES))
    told = Epochs()
    told.watch(loss)
    options = {"gradient_accumulation_steps": 2, "save_strategy": "epoch", "save_only_model": False}
    make_trainer(tmp_path, tiny_model(), loss, 32, num_train_epochs=1, **options).train()
    assert told == [(0.0, 1.0), (0.25, 1.0), (0.5, 1.0), (0.75, 1.0)]
    told.clear()
    again = make_trainer(tmp_path, tiny_model(), loss, 32, num_train_epochs=2, **options)
    again.train(resume_from_checkpoint=True)
    assert told == [(1.0, 2.0), (1.25, 2.0), (1.5, 2.0), (1.75, 2.0)]


def test_label_smoothing_that_would_be_ignored_is_refused(tmp_path):
    loss = TrainerLoss(EvidentialLoss(CLASSES))
    trainer = make_trainer(tmp_path, tiny_model(), loss, label_smoothing_factor=0.1)
    with pytest.raises(
        InputError, match=r"label_smoothing_factor must be 0, .*, got 0\.1; give the data set soft"
    ):
        trainer.train()


class Stream(torch.utils.data.IterableDataset):
    """32 questions, of which nobody knows how many they are."""

    def __iter__(self):
        return iter(rows_of(*questions(32)))


@pytest.mark.parametrize(("annealing_epochs", "warned"), [(10, 1), (0.5, 0), (0, 0)])
def test_a_stream_is_one_epoch_from_the_first_to_the_last_step(tmp_path, annealing_epochs, warned):
    loss = TrainerLoss(EvidentialLoss(CLASSES, annealing_epochs=annealing_epochs))
    told = Epochs()
    told.watch(loss)
    trainer = Trainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=4, gradient_accumulation_steps=2),
        train_dataset=Stream(),  # it ends after 2 steps, and begins again
        data_collator=collate,
        compute_loss_func=loss,
        callbacks=[AnnealingCallback(loss)],
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer.train()
    messages = [str(warning.message) for warning in said if warning.category is NescioWarning]
    expected = (
        "train_dataset has no length, so all of the training counts as one epoch, and annealing_epochs is "
        "10: the divergence grows to 0.1 of its weight; give the loss annealing_epochs from 0 to 1"
    )
    assert messages == [expected] * warned
    assert told == [(place / 8, 1.0) for place in range(8)]
    logits, labels = batch_of(6)
    with torch.no_grad():
        last = loss.loss(logits, labels, epoch=1.0)
        torch.testing.assert_close(loss((logits,), labels), last)


def test_an_evaluation_has_the_loss_of_the_end():
    loss = TrainerLoss(EvidentialLoss(CLASSES))
    logits, labels = batch_of(6)
    with pytest.raises(TrainingError, match=r"give the Trainer callbacks=\[AnnealingCallback\(loss\)\]"):
        loss((logits,), labels)
    loss.set_epoch(1.5, last_epoch=8)
    plain = EvidentialLoss(CLASSES)
    torch.testing.assert_close(loss((logits,), labels), plain(logits, labels, epoch=1.5))
    with torch.no_grad():
        torch.testing.assert_close(loss((logits,), labels), plain(logits, labels, epoch=8.0))
        never_trained = TrainerLoss(EvidentialLoss(CLASSES))
        torch.testing.assert_close(never_trained((logits,), labels), plain(logits, labels, epoch=10.0))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    loss = TrainerLoss(EvidentialLoss(CLASSES, evidence="softplus"))
    trainer = make_trainer(tmp_path_factory.mktemp("trained"), tiny_model(), loss, 120, num_train_epochs=4)
    trainer.train()
    return trainer, loss


def test_predictions_become_opinions_and_post_hoc_tools_take_them(trained):
    trainer, loss = trained
    ids, labels = questions(90, seed=1)
    output = trainer.predict(rows_of(ids, labels))
    opinion = opinions(output, loss)
    with torch.no_grad():
        logits = trainer.model(**collate(rows_of(ids, labels))).logits
    torch.testing.assert_close(opinion.evidence, torch.nn.functional.softplus(logits), rtol=1e-4, atol=1e-5)
    assert torch.equal(labels_of(output), labels)
    assert metrics.accuracy(opinion, labels) > 0.8
    with torch.no_grad():
        expected = float(loss.loss(logits, labels, epoch=4.0))
    assert output.metrics["test_loss"] == pytest.approx(expected, abs=1e-5)

    posthoc = fit_posthoc(output, loss)
    said = posthoc.apply(opinion).prediction
    before = metrics.negative_log_likelihood(opinion, labels)
    assert metrics.negative_log_likelihood(said, labels) <= before
    sets = ConformalSets.fit(said, labels, coverage=0.9)
    contained = sets.contains(said).gather(1, labels[:, None])
    assert float(contained.float().mean()) >= 0.9
    rule = AbstentionRule.for_coverage(said, labels, 0.5)
    assert float(rule.accept(said).float().mean()) >= 0.5


def test_trust_by_the_features_below_the_head(trained):
    trainer, loss = trained
    known = predict_with_features(trainer, rows_of(*questions(120)))
    held_out = predict_with_features(trainer, rows_of(*questions(90, seed=1)))
    with torch.no_grad():
        logits = trainer.model.classifier(known.features)
    np.testing.assert_allclose(known.output.predictions, logits.numpy(), atol=1e-5)
    posthoc = fit_posthoc(
        held_out.output,
        loss,
        features=held_out.features,
        train_features=known.features,
        train_labels=labels_of(known.output),
    )
    ids, labels = questions(60, seed=2, first=20)  # tokens that the training never saw
    ood = predict_with_features(trainer, rows_of(ids, labels))
    said = posthoc.apply(opinions(ood.output, loss), ood.features)
    without_trust = posthoc.temperature.apply(opinions(ood.output, loss))
    assert bool((said.prediction.uncertainty > without_trust.uncertainty).all())
    of_known = posthoc.apply(opinions(held_out.output, loss), held_out.features)
    assert float(said.p_values.mean()) < 0.2 < float(of_known.p_values.mean())
    with pytest.raises(InputError, match="features and train_features go together"):
        fit_posthoc(held_out.output, loss, features=held_out.features)
    with pytest.raises(InputError, match="features must be of the 90 inputs of output, got 120"):
        fit_posthoc(held_out.output, loss, features=known.features, train_features=known.features)
    with pytest.raises(
        InputError, match=r"layer must be a module of the model, like \['classifier'\], got 'head'"
    ):
        predict_with_features(trainer, [], layer="head")
    with pytest.raises(InputError, match="trainer must run in one process"):
        predict_with_features(SimpleNamespace(args=SimpleNamespace(world_size=2)), [])


def test_a_layer_that_is_not_given_a_row_for_each_input(trained):
    trainer, _ = trained
    head = torch.nn.Linear(4, CLASSES)

    def predict(dataset):
        head(dataset.repeat(2, 1))
        return PredictionOutput((np.zeros((len(dataset), CLASSES)), np.zeros(2)), None, {})

    twice = SimpleNamespace(
        model=torch.nn.ModuleDict({"classifier": head}), args=trainer.args, predict=predict
    )
    with pytest.raises(
        InputError, match="the layer classifier must be given a row for each of 5 inputs, got 10"
    ):
        predict_with_features(twice, torch.zeros(5, 4))
    twice.predict = lambda dataset: head(dataset[:, None])
    with pytest.raises(
        InputError, match=r"the layer classifier must be given features \(N, F\), got .*5, 1, 4"
    ):
        predict_with_features(twice, torch.zeros(5, 4))
    twice.predict = lambda dataset: None
    with pytest.raises(
        InputError, match=r"the layer classifier must be given features \(N, F\), got nothing"
    ):
        predict_with_features(twice, torch.zeros(5, 4))


def test_adapters_of_peft(tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    base = tiny_model()
    before = copy.deepcopy(base.state_dict())
    config = LoraConfig(
        task_type="SEQ_CLS", r=4, target_modules=["query", "value"], modules_to_save=["classifier"]
    )
    model = get_peft_model(base, config)
    loss = TrainerLoss(EvidentialLoss(CLASSES))
    trainer = make_trainer(tmp_path, model, loss, 60, num_train_epochs=2, gradient_accumulation_steps=2)
    trainer.train()
    rows = rows_of(*questions(30, seed=1))
    predicted = predict_with_features(trainer, rows)
    head = model.base_model.model.classifier.modules_to_save["default"]
    with torch.no_grad():
        np.testing.assert_allclose(predicted.output.predictions, head(predicted.features).numpy(), atol=1e-5)
    assert not torch.equal(head.weight, before["classifier.weight"])
    model.save_pretrained(tmp_path / "adapter")
    again = PeftModel.from_pretrained(tiny_model(), tmp_path / "adapter").eval()
    with torch.no_grad():
        logits = again(**collate(rows)).logits
    torch.testing.assert_close(loss.opinion(logits).evidence, opinions(predicted.output, loss).evidence)


def test_tokens_are_labelled_too():
    loss = TrainerLoss(EvidentialLoss(CLASSES, annealing_epochs=0))
    ids, _ = questions(4)
    labels = torch.where(ids > 0, ids % CLASSES, -100)
    outputs = tiny_model(BertForTokenClassification)(input_ids=ids, attention_mask=(ids > 0).long())
    found = loss(outputs, labels, num_items_in_batch=(labels != -100).sum())
    rows = outputs.logits.reshape(-1, CLASSES)[labels.reshape(-1) != -100]
    expected = EvidentialLoss(CLASSES, annealing_epochs=0)(rows, labels[labels != -100])
    torch.testing.assert_close(found, expected)
    output = PredictionOutput((outputs.logits.detach().numpy(), np.zeros(3)), labels.numpy(), {})
    assert opinions(output, loss).uncertainty.shape == (4, 8)


def test_what_does_not_fit_is_refused():
    loss = TrainerLoss(EvidentialLoss(CLASSES, annealing_epochs=0))
    with pytest.raises(InputError, match="loss must be an EvidentialLoss, got CrossEntropyLoss"):
        TrainerLoss(torch.nn.CrossEntropyLoss())
    with pytest.raises(InputError, match="ignore_index of the loss must be -100"):
        TrainerLoss(EvidentialLoss(ignore_index=-1))
    with pytest.raises(InputError, match="loss must be a TrainerLoss, got EvidentialLoss"):
        AnnealingCallback(EvidentialLoss())
    with pytest.raises(InputError, match="labels must be given"):
        loss((torch.zeros(2, CLASSES),), None)
    with pytest.raises(InputError, match="the model must give logits, got dict"):
        loss({"hidden": torch.zeros(2)}, torch.zeros(2).long())
    with pytest.raises(InputError, match=r"output must be what trainer.predict returned"):
        opinions("output")
    with pytest.raises(InputError, match="label_ids: predict a data set that has labels"):
        labels_of(PredictionOutput(np.zeros((2, 3)), None, {}))
    with pytest.raises(InputError, match="label_ids must be class indices"):
        labels_of(PredictionOutput(np.zeros((2, 3)), np.zeros((2, 3)), {}))
