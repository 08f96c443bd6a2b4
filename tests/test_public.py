import subprocess
import sys

import nescio

PUBLIC = [
    "AbstentionRule",
    "Categorical",
    "ConformalSets",
    "DAEDL",
    "DataError",
    "Dropout",
    "EDL",
    "EDLDistilled",
    "EDLEnsemble",
    "Ensemble",
    "EvidentialClassifier",
    "EvidentialLoss",
    "FEDL",
    "FFGU",
    "FFLU",
    "FetchError",
    "IEDL",
    "IEDLLoss",
    "InputError",
    "LeNetSpec",
    "MLPSpec",
    "MNFG",
    "MissingExtraError",
    "ModelFileError",
    "NatPN",
    "NescioError",
    "NescioWarning",
    "NotFiniteError",
    "Opinion",
    "Posthoc",
    "RED",
    "REDL",
    "REDLoss",
    "ReEDL",
    "Softmax",
    "Temperature",
    "TrainedModel",
    "TrainingError",
    "TrainingSettings",
    "Trust",
    "data",
    "from_softmax",
    "functional",
    "fuse",
    "make_method",
    "metrics",
    "plots",
    "register_encoder",
    "register_method",
]


def test_the_public_list():
    assert sorted(nescio.__all__) == PUBLIC
    assert dir(nescio) == PUBLIC


def test_every_public_name_can_be_had():
    assert all(getattr(nescio, name) is not None for name in PUBLIC)


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(nescio, "softmax")


def test_importing_the_package_and_the_command_line_leaves_torch_alone():
    code = "import sys, nescio.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
