import subprocess
import sys

from nescio._fetch.weights import WEIGHTS


def test_what_there_is():
    assert list(WEIGHTS) == ["efficientnet-lite0", "minilm"]
    for name, weights in WEIGHTS.items():
        assert weights.name == name
        assert weights.licence == "Apache-2.0"
        assert [origin.needs_network for origin in weights.origins] == [True, True]


def test_the_list_needs_no_torch():
    code = "import sys, nescio._fetch.weights; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
