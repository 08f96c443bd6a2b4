"""The study in small: real digits, networks that train in a second."""

from tests.inference.pretrained import TinySpec

from nescio.encoders import spec_to_dict
from nescio.studies.plan import DataPart
from nescio.studies.successors._sets import SETS, StudySet

DIGITS = tuple("0123456789")
ENCODER = {**SETS["mnist"].encoder, "num_classes": 8, "filters": (4, 6), "hidden": 16}
TRAINING = {**SETS["mnist"].training, "epochs": 2, "batch_size": 64, "learning_rate": 4e-3}
PIXELS = StudySet(
    name="pixels",
    title="Digits",
    network="a small LeNet",
    known=DataPart("digits", DIGITS[:8]),
    ood={"8 and 9": DataPart("digits", DIGITS[8:])},
    encoder=ENCODER,
    dropout=0.5,
    training=TRAINING,
    calibration=200,
    arms=("softmax", "edl"),
    seeds=1,
)
TINY = spec_to_dict(TinySpec(32, 2))
FEATURES = StudySet(
    name="features",
    title="Digits by features",
    network="a frozen encoder and a small head",
    known=DataPart("digits", DIGITS[:8], TINY),
    ood={"8 and 9": DataPart("digits", DIGITS[8:], TINY), "letters": DataPart("letters", features=TINY)},
    encoder={"kind": "mlp", "in_features": TinySpec(32, 2).num_features, "num_classes": 8, "hidden": (16,)},
    dropout=0.0,
    training=TRAINING,
    calibration=200,
    arms=("edl",),
    seeds=1,
)
SMALL = {each.name: each for each in (PIXELS, FEATURES)}
