"""EvidentialClassifier with scikit-learn's habits."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nescio as ev
from nescio.data import load
from nescio.encoders import Ability, EfficientNetLite0Spec, MLPSpec
from nescio.inference._calibration import calibrate
from nescio.integrations import sklearn as sklearn_integration
from nescio.integrations.sklearn import predict_opinion
from nescio.methods import METHODS, make_method
from nescio.training import fit


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([ev.EvidentialClassifier(epochs=60, risk="squared_error")])
def test_scikit_learn_checks(estimator, check):
    """The squared error, which flattens out: repeated and weighted samples must agree to 1e-7 after Adam."""
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return train_test_split(X, names, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def fitted(iris):
    X, _, y, _ = iris
    return ev.EvidentialClassifier(random_state=0).fit(X, y)


def test_labels_of_any_kind(fitted, iris):
    _, X, _, y = iris
    assert fitted.score(X, y) > 0.9
    assert set(fitted.predict(X)) <= {"setosa", "versicolor", "virginica"}
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1)


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_the_model_goes_on_without_the_estimator(fitted, iris, tmp_path):
    import onnxruntime

    _, X, _, _ = iris
    expected = fitted.predict_proba(X)
    fitted.model_.save(tmp_path / "m.safetensors")
    again = ev.TrainedModel.load(tmp_path / "m.safetensors")
    for rows in (torch.from_numpy(X), torch.from_numpy(X).float()):
        np.testing.assert_allclose(again.predict(rows).probabilities.numpy(), expected, atol=1e-5)
    again.export_onnx(tmp_path / "m.onnx")
    again.export_program(tmp_path / "m.pt2")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    inputs = X.astype(np.float32)
    from_onnx = session.run(["probabilities"], {session.get_inputs()[0].name: inputs})[0]
    np.testing.assert_allclose(from_onnx, expected, atol=1e-5)
    from_program = torch.export.load(tmp_path / "m.pt2").module()(torch.from_numpy(inputs))[0]
    np.testing.assert_allclose(from_program.detach().numpy(), expected, atol=1e-5)


def test_opinions(fitted, iris):
    _, X, _, _ = iris
    opinion = fitted.predict_opinion(X)
    assert isinstance(opinion, ev.Opinion)
    torch.testing.assert_close(opinion.belief.sum(1) + opinion.uncertainty, torch.ones(len(X)).double())


def test_reject_marks_what_it_does_not_know(fitted, iris):
    _, X, _, _ = iris
    marked = fitted.predict(X, reject=True)
    unknown = np.array([label is None for label in marked])
    doubt = fitted.predict_opinion(X).uncertainty.numpy() >= 0.5
    np.testing.assert_array_equal(unknown, doubt)
    np.testing.assert_array_equal(marked[~unknown], fitted.predict(X)[~unknown])


def test_a_rule_with_a_promise():
    X, y = make_blobs(3000, centers=3, cluster_std=1.5, random_state=0)
    classifier = ev.EvidentialClassifier(epochs=30, random_state=0).fit(X[:1000], y[:1000])
    rule = classifier.set_abstention(X[1000:2500], y[1000:2500], max_error=0.1, confidence=0.9)
    marked = classifier.predict(X[2500:], reject=True)
    kept = np.array([label is not None for label in marked])
    assert rule.met
    assert kept.mean() > 0.1
    assert (marked[kept] == y[2500:][kept]).mean() > 0.88
    by_entropy = classifier.set_abstention(X[1000:2500], y[1000:2500], 0.1, measure="entropy")
    assert (by_entropy.measure, by_entropy.max_error) == ("entropy", 0.1)
    assert classifier.model_.rule == by_entropy
    with pytest.raises(ev.InputError, match="known classes"):
        classifier.set_abstention(X[:5], np.array([0, 1, 2, 3, 4]), 0.1)


def test_no_rule_is_made_from_training_data():
    X, y = make_blobs(900, centers=3, random_state=0)
    classifier = ev.EvidentialClassifier(epochs=5, random_state=0).fit(X[:600], y[:600])
    expected = "X must hold held-out samples, as no promise .*, got {} that the classifier was trained on"
    with pytest.raises(ev.InputError, match=expected.format("100%")):
        classifier.set_abstention(X[:600].astype(np.float32), y[:600], max_error=0.3)
    with pytest.raises(ev.InputError, match=expected.format("50%")):
        classifier.set_abstention(X[300:], y[300:], max_error=0.3)
    assert classifier.model_.rule is None
    assert classifier.set_abstention(X[600:], y[600:], max_error=0.3).held_out == 300
    # More training does not make them new.
    classifier.partial_fit(X[600:750], y[600:750])
    with pytest.raises(ev.InputError, match=expected.format("100%")):
        classifier.set_abstention(X[:600], y[:600], max_error=0.3)


def test_no_rule_is_made_from_what_the_model_was_calibrated_on():
    X, y = make_blobs(900, centers=3, random_state=0)
    classifier = ev.EvidentialClassifier(epochs=5, random_state=0).fit(X[:300], y[:300])
    blobs = ev.data.Table(
        torch.from_numpy(X).float(), torch.from_numpy(y), classifier.model_.classes, "blobs"
    )
    known = blobs.take(torch.arange(300))
    held_out = blobs.take(torch.arange(300, 600))
    classifier.model_ = classifier.model_.calibrated(known, held_out)
    order = np.random.default_rng(0).permutation(np.arange(300, 600))[:200]
    with pytest.raises(ev.InputError, match="got some that temperature and trust were fitted to"):
        classifier.set_abstention(X[order], y[order], max_error=0.3)
    assert classifier.set_abstention(X[600:], y[600:], max_error=0.3).held_out == 300


def test_no_rule_is_made_from_what_partial_fit_began_with():
    X, y = make_blobs(600, centers=3, random_state=0)
    classifier = ev.EvidentialClassifier(random_state=0)
    for _ in range(3):
        classifier.partial_fit(X[:300], y[:300], classes=[0, 1, 2])
    with pytest.raises(ev.InputError, match="got 100% that the classifier was trained on"):
        classifier.set_abstention(X[:300], y[:300], max_error=0.9)
    assert classifier.set_abstention(X[300:], y[300:], max_error=0.9).held_out == 300


def test_equal_rows_are_no_sign_of_training_data():
    """Of a table with few different rows, new ones are equal to some of training."""
    X = np.random.default_rng(0).integers(0, 2, (800, 4)).astype(float)
    classifier = ev.EvidentialClassifier(epochs=2, random_state=0).fit(X[:400], X[:400, 0])
    assert classifier.set_abstention(X[400:], X[400:, 0], max_error=0.9).held_out == 400


@pytest.fixture(scope="module")
def digits():
    """Rows of 64 values, 900 of the embedded digits, to train and to test."""
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600], X[600:900], y[600:900]


def test_posthoc_fits_temperature_and_trust(digits):
    X, y, X_test, y_test = digits
    plain = ev.EvidentialClassifier(epochs=40, random_state=0).fit(X, y)
    classifier = ev.EvidentialClassifier(epochs=40, random_state=0, posthoc="all").fit(X, y)
    summary = classifier.model_.training["posthoc"]
    assert (summary["wanted"], summary["samples"], summary["skipped"]) == ("all", 60, {})
    assert set(summary["done"]) == {"temperature", "trust"}
    assert classifier.score(X_test, y_test) > 0.85
    far = 10 * np.random.default_rng(0).permuted(X_test, axis=1)  # bright noise
    assert classifier.predict_opinion(far).uncertainty.min() > 0.9
    assert plain.predict_opinion(far).uncertainty.mean() < 0.5
    assert plain.model_.posthoc is None
    assert "posthoc" not in plain.model_.training
    for inputs in (X_test, far):
        np.testing.assert_allclose(classifier.predict_proba(inputs).sum(1), 1, atol=1e-6)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X_test), classifier.predict_proba(X_test))
    copied = clone(classifier)
    assert copied.get_params()["posthoc"] == "all"
    np.testing.assert_array_equal(copied.fit(X, y).predict_proba(X_test), classifier.predict_proba(X_test))
    # What was set aside counts as trained on: trust and temperature are fitted to it.
    with pytest.raises(ev.InputError, match="got 100% that the classifier was trained on"):
        classifier.set_abstention(X, y, max_error=0.5)


def test_what_is_set_aside_is_of_every_class_alike_and_not_trained_on(digits, monkeypatch):
    X, y, _, _ = digits
    given = {}

    def noted(method, module, preprocess, samples, settings):
        given["train"] = samples
        return fit(method, module, preprocess, samples, settings)

    def calibrated(model, training, held_out, posthoc, **settings):
        given["set_aside"] = held_out
        return calibrate(model, training, held_out, posthoc, **settings)

    monkeypatch.setattr(sklearn_integration, "fit", noted)
    monkeypatch.setattr(sklearn_integration, "calibrate", calibrated)
    weight = np.where(np.arange(600) < 60, 0.0, X[:, 20] + 1)
    classifier = ev.EvidentialClassifier(epochs=1, random_state=0, posthoc="temperature")
    classifier.fit(X, y, sample_weight=weight)
    train, set_aside = given["train"], given["set_aside"]
    assert (len(train), len(set_aside)) == (486, 54)  # the 60 without weight are in neither
    assert set_aside.labels.bincount().tolist() == pytest.approx([5.4] * 10, abs=1)
    for samples in (train, set_aside):
        # Each weight is still beside its row.
        np.testing.assert_allclose(samples.weights.numpy(), samples.inputs[:, 20].numpy() + 1)
    rows = {tuple(row) for row in train.inputs.tolist()}
    assert not rows & {tuple(row) for row in set_aside.inputs.tolist()}


def test_of_few_samples_what_cannot_be_fitted_is_left_out_with_a_warning(iris):
    X, _, y, _ = iris  # 112 rows
    classifier = ev.EvidentialClassifier(epochs=5, random_state=0, posthoc="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ev.NescioWarning)
        classifier.fit(X, y)
    assert classifier.model_.posthoc.temperature is not None  # by networks trained without a part
    assert classifier.model_.posthoc.trust is not None  # measured on the training inputs
    summary = classifier.model_.training["posthoc"]
    assert (summary["samples"], list(summary["done"]), summary["skipped"]) == (
        0,
        ["trust", "temperature"],
        {},
    )
    without = ev.EvidentialClassifier(epochs=5, random_state=0).fit(X, y)
    trained = classifier.model_.with_posthoc(None).predict(torch.from_numpy(X)).probabilities
    assert torch.equal(trained, without.model_.predict(torch.from_numpy(X)).probabilities)
    with pytest.warns(ev.NescioWarning) as said:
        classifier.fit(X[:24], y[:24])
    assert [str(one.message).partition(":")[0] for one in said] == [
        "trust was not fitted",
        "temperature was not fitted",
    ]
    assert classifier.model_.posthoc is None


def test_partial_fit_takes_temperature_and_trust_away(digits):
    X, y, _, _ = digits
    classifier = ev.EvidentialClassifier(epochs=2, random_state=0, posthoc="all").fit(X, y)
    with pytest.warns(ev.NescioWarning, match="posthoc 'all' is fitted by fit, not by partial_fit"):
        classifier.partial_fit(X, y)
    assert classifier.model_.posthoc is None
    assert "posthoc" not in classifier.model_.training
    classifier.partial_fit(X, y)  # and says it once
    fresh = ev.EvidentialClassifier(random_state=0, posthoc="trust")
    with pytest.warns(ev.NescioWarning, match="posthoc 'trust' is fitted by fit, not by partial_fit"):
        fresh.partial_fit(X, y, classes=np.arange(10))


def test_a_posthoc_that_is_none_is_refused_by_fit(iris):
    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(posthoc="magic")
    expected = "posthoc must be all, temperature, trust or none, got 'magic'"
    with pytest.raises(ev.InputError, match=expected):
        classifier.fit(X, y)
    with pytest.raises(ev.InputError, match=expected):
        classifier.partial_fit(X, y, classes=np.unique(y))


def test_a_search_over_posthoc(digits):
    X, y, X_test, y_test = digits
    wanted = ["none", "temperature", "trust", "all"]
    search = GridSearchCV(
        ev.EvidentialClassifier(epochs=15, random_state=0),
        {"posthoc": wanted},
        cv=2,
        scoring="neg_log_loss",
        error_score="raise",
    )
    search.fit(X, y)
    assert list(search.cv_results_["param_posthoc"]) == wanted
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.score(X_test, y_test) > 0.8


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_a_frame_and_images_with_posthoc(tmp_path):
    frame, kinds = mixed_frame(450)
    classifier = ev.EvidentialClassifier(epochs=5, random_state=0, posthoc="all").fit(frame, kinds)
    classifier.model_.save(tmp_path / "m.safetensors")
    again = ev.TrainedModel.load(tmp_path / "m.safetensors")
    assert again.posthoc.same_as(classifier.model_.posthoc)
    assert again.training["posthoc"]["samples"] == 50
    images = load("digits").subset(450, torch.Generator().manual_seed(0))
    classifier = ev.EvidentialClassifier(epochs=1, random_state=0, posthoc="trust")
    classifier.fit(images.images.numpy(), images.labels.numpy())
    assert classifier.model_.posthoc.trust.layer is not None


def test_frames_and_tensors_are_arrays(iris):
    X, _, y, _ = iris
    arrays = ev.EvidentialClassifier(epochs=20, random_state=0).fit(X, y).predict_proba(X)
    frame = pd.DataFrame(X, columns=list("abcd"))
    tensor = torch.from_numpy(X)
    of_frame = ev.EvidentialClassifier(epochs=20, random_state=0).fit(frame, pd.Series(y))
    of_tensor = ev.EvidentialClassifier(epochs=20, random_state=0).fit(tensor, y)
    np.testing.assert_allclose(of_frame.predict_proba(frame), arrays)
    np.testing.assert_allclose(of_tensor.predict_proba(tensor), arrays)
    assert list(of_frame.feature_names_in_) == list("abcd")


def test_pipeline_grid_search_clone_and_pickle(iris):
    X, X_test, y, y_test = iris
    pipeline = make_pipeline(StandardScaler(), ev.EvidentialClassifier(epochs=40, random_state=0))
    search = GridSearchCV(pipeline, {"evidentialclassifier__evidence": ["exp", "softplus"]}, cv=2)
    search.fit(X, y)
    assert search.score(X_test, y_test) > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X_test), search.predict_proba(X_test))
    assert clone(pipeline[-1]).get_params() == pipeline[-1].get_params()


def test_a_pipeline_and_a_search_reach_opinions(iris):
    X, X_test, y, _ = iris
    pipeline = make_pipeline(StandardScaler(), ev.EvidentialClassifier(epochs=20, random_state=0)).fit(X, y)
    opinion = predict_opinion(pipeline, X_test)
    assert isinstance(opinion, ev.Opinion)
    np.testing.assert_array_equal(opinion.probabilities.numpy(), pipeline.predict_proba(X_test))
    search = GridSearchCV(pipeline, {"evidentialclassifier__evidence": ["exp"]}, cv=2).fit(X, y)
    found = predict_opinion(search, X_test).probabilities.numpy()
    np.testing.assert_array_equal(found, search.predict_proba(X_test))
    with pytest.raises(ev.InputError, match=r"a Pipeline or search with one at its end, got StandardScaler"):
        predict_opinion(make_pipeline(StandardScaler()).fit(X), X)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method(iris, method):
    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(method=method, epochs=2, random_state=0).fit(X, y)
    assert classifier.model_.method == make_method(method)
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1, atol=1e-6)
    assert set(classifier.predict(X, reject=True)) <= {None, *classifier.classes_}
    if isinstance(classifier.model_.predict(torch.from_numpy(X)), ev.Opinion):
        assert classifier.predict_opinion(X).uncertainty.shape == (len(X),)
    else:
        with pytest.raises(ev.InputError, match=f"{method} has no opinions, only probabilities"):
            classifier.predict_opinion(X)


def test_a_method_with_its_settings(iris):
    X, _, y, _ = iris
    method = ev.EDL(evidence="softplus")
    given = ev.EvidentialClassifier(method=method, epochs=2, random_state=0).fit(X, y)
    by_name = ev.EvidentialClassifier(evidence="softplus", epochs=2, random_state=0).fit(X, y)
    assert given.model_.method == by_name.model_.method == method
    np.testing.assert_array_equal(given.predict_proba(X), by_name.predict_proba(X))
    assert clone(given).get_params()["method"] == method


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"method": "magic"}, "method must be one of .*edl.*, got 'magic'"),
        ({"method": "softmax", "risk": "type2"}, "softmax.*risk"),
        ({"method": ev.EDL(), "evidence": "relu"}, "give evidence to it, not beside it"),
        ({"network": "lenet"}, "the encoder lenet takes images, got rows"),
        ({"network": "magic"}, "encoder must be one of .*mlp.*, got 'magic'"),
    ],
)
def test_names_that_do_not_fit(iris, settings, reason):
    X, _, y, _ = iris
    with pytest.raises(ev.InputError, match=reason):
        ev.EvidentialClassifier(epochs=1, **settings).fit(X, y)


def test_a_network_by_its_name(iris):
    X, _, y, _ = iris
    assert ev.EvidentialClassifier("mlp", epochs=1).fit(X, y).model_.network == MLPSpec(4, 3)


@pytest.mark.parametrize("network", ["efficientnet-lite0", EfficientNetLite0Spec(64, 64, 2), "hf:a/model"])
def test_pretrained_encoders_are_not_trained_from_the_start(network):
    X = np.zeros((4, 64, 64, 3), dtype=np.uint8)
    name = "hf:a/model" if network == "hf:a/model" else "efficientnet-lite0"
    reason = f"network must be trained from the start, like mlp or lenet, got {name}, which has pretrained"
    with pytest.raises(ev.InputError, match=reason):
        ev.EvidentialClassifier(network, epochs=1).fit(X, [0, 1, 0, 1])


def test_members_are_not_trained_in_parts(iris):
    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(method="ensemble", random_state=0)
    before = dict(vars(classifier))
    with pytest.raises(ev.InputError, match="partial_fit trains one network, and ensemble has 5; use fit"):
        classifier.partial_fit(X, y, classes=np.unique(y))
    assert vars(classifier) == before


def test_what_can_not_be_fitted_leaves_the_classifier_as_it_was(iris):
    X, X_test, y, _ = iris
    classifier = ev.EvidentialClassifier(epochs=2, random_state=0).fit(
        pd.DataFrame(X, columns=list("abcd")), y
    )
    frame = pd.DataFrame(X_test, columns=list("abcd"))
    before = dict(vars(classifier))
    expected = classifier.predict_proba(frame)
    with pytest.raises(ev.InputError, match="y must hold two or more classes"):
        classifier.fit(X[:, :2], np.full(len(X), "rosa"))
    classifier.network = MLPSpec(2, 2)
    with pytest.raises(ev.InputError, match=r"network must give logits \(N, 3\)"):
        classifier.fit(X[:, :2], y)
    assert vars(classifier) == {**before, "network": MLPSpec(2, 2)}
    np.testing.assert_array_equal(classifier.predict_proba(frame), expected)
    assert expected.shape[1] == len(classifier.classes_) == 3


def test_the_columns_of_a_frame_are_kept_in_the_model(iris):
    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(epochs=1).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert classifier.model_.preprocess.schema.names == ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def overlapping():
    return make_blobs((90, 60), centers=[[0.0, 0.0], [1.5, 0.0]], random_state=0)


def probabilities(data, sample_weight=None, **settings):
    X, y = data
    classifier = ev.EvidentialClassifier(epochs=60, random_state=0, **settings)
    return classifier.fit(X, y, sample_weight=sample_weight).predict_proba(X)


def test_the_weight_of_a_class_is_that_of_its_samples(overlapping):
    X, y = overlapping
    weighted = probabilities(overlapping, class_weight={1: 3.0})
    np.testing.assert_array_equal(weighted, probabilities(overlapping, np.where(y == 1, 3.0, 1.0)))
    repeated = np.repeat(np.arange(len(y)), np.where(y == 1, 3, 1))
    three_times = ev.EvidentialClassifier(epochs=60, random_state=0).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted, three_times.predict_proba(X), atol=1e-6)
    balanced = probabilities(overlapping, class_weight="balanced")
    usual = {0: 150 / (2 * 90), 1: 150 / (2 * 60)}
    np.testing.assert_allclose(balanced, probabilities(overlapping, class_weight=usual), atol=1e-9)


def test_a_heavy_class_is_named_more_often(overlapping):
    plain, heavy = (probabilities(overlapping, class_weight=weight) for weight in (None, {1: 10.0}))
    assert (heavy[:, 1] > plain[:, 1]).mean() > 0.95
    assert (heavy.argmax(1) == 1).sum() > (plain.argmax(1) == 1).sum()


def test_no_weight_at_all_is_refused(overlapping):
    with pytest.raises(ev.InputError, match="must leave some weight"):
        probabilities(overlapping, class_weight={0: 0.0, 1: 0.0})


def test_partial_fit_refuses_a_second_stage(iris):
    """It is fitted on all samples, and these come in parts."""

    class Shifted(ev.EDL):
        name = "shifted"
        requires = frozenset({Ability.FEATURES})
        has_second_stage = True

        def fit_second_stage(self, module, batches):
            raise AssertionError("not with some of the samples")

    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(method=Shifted())
    with pytest.raises(
        ev.InputError, match="second stage of shifted, which needs all samples at once; use fit"
    ):
        classifier.partial_fit(X, y, classes=np.unique(y))


def test_partial_fit_learns_bit_by_bit(iris):
    X, X_test, y, y_test = iris
    classifier = ev.EvidentialClassifier(random_state=0, batch_size=16)
    for _ in range(30):
        classifier.partial_fit(X, y, classes=np.unique(y))
    assert classifier.n_iter_ == 30
    assert classifier.score(X_test, y_test) > 0.85
    with pytest.raises(ev.InputError, match="classes known from the first call"):
        classifier.partial_fit(X[:2], np.array(["setosa", "rosa"]))


def test_partial_fit_asks_for_all_classes_once(iris):
    X, _, y, _ = iris
    classifier = ev.EvidentialClassifier(random_state=0)
    with pytest.raises(ev.InputError, match="classes must be given at the first call"):
        classifier.partial_fit(X, y)
    assert not hasattr(classifier, "model_")
    classifier.partial_fit(X[y == "setosa"], y[y == "setosa"], classes=["virginica", "setosa", "rosa"])
    assert list(classifier.classes_) == ["rosa", "setosa", "virginica"]
    with pytest.raises(ev.InputError, match="classes must be those of the first call"):
        classifier.partial_fit(X, y, classes=np.unique(y))
    with pytest.raises(ev.InputError, match="classes known from the first call"):
        classifier.partial_fit(X, y)


def test_partial_fit_weighs_the_first_samples(iris):
    X, _, y, _ = iris
    weight = np.where(np.arange(len(y)) < 40, 2.0, 0.0)
    few, weighed = (ev.EvidentialClassifier(random_state=0) for _ in range(2))
    few.partial_fit(X[:40], y[:40], classes=np.unique(y))
    weighed.partial_fit(X, y, classes=np.unique(y), sample_weight=weight)
    expected, found = few.model_.preprocess, weighed.model_.preprocess
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)
    np.testing.assert_allclose(weighed.predict_proba(X), few.predict_proba(X), atol=1e-9)


class Travelling(torch.nn.Linear):
    """Notes where it is brought."""

    places: list[str]

    def cpu(self):
        self.places.append("cpu")
        return super().cpu()


def test_the_network_ends_on_the_cpu(iris):
    X, _, y, _ = iris
    network = Travelling(4, 3)
    network.places = []
    classifier = ev.EvidentialClassifier(network, epochs=2, random_state=0).fit(X, y)
    assert classifier.model_.module.places == ["cpu"]
    assert classifier.partial_fit(X, y).model_.module.places == ["cpu", "cpu"]
    devices = {value.device.type for value in classifier._optimizer_state["state"][0].values()}
    assert devices == {"cpu"}


@pytest.mark.parametrize("form", ["NHW", "NCHW", "NHWC", "float"])
def test_images_get_a_lenet(form):
    digits = load("digits").only(["0", "1"])
    digits = digits.subset(200, torch.Generator().manual_seed(0))
    images = digits.images.numpy()
    X = {"NHW": images[:, 0], "NCHW": images, "NHWC": images.transpose(0, 2, 3, 1), "float": images / 255}[
        form
    ]
    classifier = ev.EvidentialClassifier(epochs=4, batch_size=32, random_state=0).fit(X, digits.labels)
    assert classifier.model_.network.kind == "lenet"
    assert classifier.score(X, digits.labels.numpy()) > 0.9


def test_the_network_given(iris):
    X, _, y, _ = iris
    module = torch.nn.Linear(4, 3)
    before = module.weight.clone()
    classifier = ev.EvidentialClassifier(torch.nn.Sequential(module), learning_rate=0.05, random_state=0)
    classifier.fit(X, y)
    assert classifier.score(X, y) > 0.8
    assert torch.equal(module.weight, before)
    spec = MLPSpec(4, 3, hidden=(7,))
    assert ev.EvidentialClassifier(spec, epochs=1).fit(X, y).model_.network == spec


@pytest.mark.parametrize(
    ("X", "y", "reason"),
    [
        (np.zeros((4, 2)), [1, 1, 1, 1], "two or more classes, got one class: 1$"),
        (np.array([[np.nan, 1], [0, 1]]), [0, 1], "NaN"),
        (np.zeros((2, 3, 3, 3, 3)), [0, 1], r"X must be \(n, features\) or images"),
        (np.zeros((2, 8, 8)), [0, 1], "too small for LeNet"),
    ],
)
def test_what_does_not_fit(X, y, reason):
    with pytest.raises(ValueError, match=reason):
        ev.EvidentialClassifier(epochs=1).fit(X, y)


def test_a_network_for_other_classes(iris):
    X, _, y, _ = iris
    for network in (MLPSpec(4, 7), torch.nn.Sequential(torch.nn.Linear(4, 5))):
        with pytest.raises(ev.InputError, match=r"network must give logits \(N, 3\)"):
            ev.EvidentialClassifier(network, epochs=1).fit(X, y)


def test_more_training_voids_the_promise(iris):
    X, _, y, _ = iris
    X, held_out, y, labels = train_test_split(X, y, random_state=0, stratify=y)
    classifier = ev.EvidentialClassifier(epochs=40, random_state=0).fit(X, y)
    classifier.set_abstention(held_out, labels, max_error=0.5)
    assert classifier.model_.rule is not None
    assert classifier.partial_fit(X, y).model_.rule is None


def test_balanced_weights_need_all_samples_at_once():
    classifier = ev.EvidentialClassifier(class_weight="balanced")
    with pytest.raises(ev.InputError, match="'balanced' needs all samples at once"):
        classifier.partial_fit(np.zeros((4, 2)), [0, 1, 0, 1], classes=[0, 1])


def test_pictures_with_four_channels():
    images = np.random.default_rng(0).integers(0, 255, (12, 20, 20, 4), dtype=np.uint8)
    classifier = ev.EvidentialClassifier(epochs=1, random_state=0).fit(images, [0, 1, 2] * 4)
    assert classifier.model_.input_shape == (4, 20, 20)


def mixed_frame(count=200):
    """Categories, dates, booleans and gaps; the colour and the day of the week decide."""
    days = pd.date_range("2024-01-01", periods=count)
    colours = np.array(["red", "blue", None], dtype=object)[np.arange(count) * 7 % 3]
    heights = np.where(np.arange(count) % 5 == 0, np.nan, np.arange(count) * 13 % 17)
    frame = pd.DataFrame({"colour": colours, "picked": days, "height": heights, "wild": days.day % 2 == 0})
    kinds = np.where((colours == "red") | (days.day_of_week >= 5), "rose", "iris")
    return frame, kinds


def test_frames_with_categories_dates_and_gaps(tmp_path):
    frame, kinds = mixed_frame()
    classifier = ev.EvidentialClassifier(epochs=100, random_state=0).fit(frame, kinds)
    assert classifier.score(frame, kinds) > 0.97
    assert classifier.n_features_in_ == 4
    assert classifier.model_.preprocess.schema.names == ("colour", "picked", "height", "wild")
    unseen = frame.head(3).assign(colour="violet")
    assert classifier.predict_opinion(unseen).uncertainty.shape == (3,)
    # The model file reads the same rows from a table.
    frame.head(20).to_csv(tmp_path / "new.csv", index=False)
    classifier.model_.save(tmp_path / "model.safetensors")
    records = ev.TrainedModel.load(tmp_path / "model.safetensors").records(tmp_path / "new.csv")
    expected = classifier.predict_proba(frame.head(20))
    np.testing.assert_allclose([record["probabilities"] for record in records], expected, rtol=1e-5)


def test_a_frame_with_categories_goes_on_with_frames():
    frame, kinds = mixed_frame(60)
    classifier = ev.EvidentialClassifier(epochs=1, random_state=0).fit(frame, kinds)
    with pytest.raises(ev.InputError, match="X must be a frame with the columns that it was fitted"):
        classifier.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame.drop(columns=["wild"]))
    numbers = ev.EvidentialClassifier(epochs=1, random_state=0).fit(frame[["wild"]], kinds)
    assert numbers.predict(frame[["wild"]]).shape == (60,)
    refitted = classifier.fit(frame[["wild"]], kinds)
    assert refitted.model_.preprocess.schema.names == ("wild",)


@pytest.mark.parametrize(
    ("gap", "kinds"),
    [(np.nan, "float, str"), (None, "NoneType, str"), (pd.NA, "NAType, str"), (7, "int, str")],
)
@pytest.mark.parametrize("columns", [["colour", "height"], ["wild"]])
def test_labels_with_gaps_are_refused(columns, gap, kinds):
    frame, labels = mixed_frame(60)
    labels = labels.astype(object)
    labels[7] = gap
    expected = f"y must hold labels of one kind, texts or numbers, without gaps, got {kinds}"
    with pytest.raises(ev.InputError, match=expected):
        ev.EvidentialClassifier(epochs=1).fit(frame[columns], labels)


def test_numbers_with_gaps_are_no_labels_of_a_mixed_frame_either():
    frame, kinds = mixed_frame(60)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        ev.EvidentialClassifier(epochs=1).fit(frame, np.where(kinds == "rose", np.nan, 1.0))


def test_frames_without_rows_are_refused():
    frame, kinds = mixed_frame(60)
    classifier = ev.EvidentialClassifier(epochs=1, random_state=0)
    with pytest.raises(ev.InputError, match=r"X must have a row or more, got a frame of shape \(0, 4\)"):
        classifier.fit(frame.head(0), kinds[:0])
    with pytest.raises(ev.InputError, match=r"X must have a row or more, got a frame of shape \(0, 4\)"):
        classifier.fit(frame, kinds).predict(frame.head(0))


def test_noisy_rows_are_overfitted_less_with_the_usual_weight_decay():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(1600, 8))
    labels = (1 / (1 + np.exp(-2 * rows[:, 0])) > generator.random(1600)).astype(int)
    losses = []
    for decay in (0.0, None):
        classifier = ev.EvidentialClassifier(weight_decay=decay, random_state=0).fit(rows[:800], labels[:800])
        losses.append(log_loss(labels[800:], classifier.predict_proba(rows[800:])))
    assert losses[1] < 0.9 * losses[0]


def test_weight_decay_that_is_chosen_counts_in_partial_fit_too():
    rows, labels = np.eye(4).repeat(5, 0), np.arange(4).repeat(5)
    sizes = []
    for decay in (None, 0.0, 100.0):
        classifier = ev.EvidentialClassifier("mlp", weight_decay=decay, random_state=0)
        classifier.partial_fit(rows, labels, classes=range(4))
        sizes.append(
            sum(float(weight.detach().abs().sum()) for weight in classifier.model_.module.parameters())
        )
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)
    assert sizes[2] < 0.8 * sizes[0]
    with pytest.raises(ev.InputError, match="weight_decay must be"):
        ev.EvidentialClassifier(weight_decay=-1.0).fit(rows, labels)
