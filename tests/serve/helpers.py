"""Small models and pictures for the tests of the service."""

import http.client
import io
import json
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import torch
from PIL import Image

from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax

CLASSES = ("cat", "dog", "owl")
PICTURE = LeNetSpec(1, 16, 16, num_classes=3, filters=(4, 4), hidden=8)
COLOUR = LeNetSpec(3, 16, 20, num_classes=3, filters=(4, 4), hidden=8)
ROWS = MLPSpec(4, 3, hidden=(8,))


def untrained(spec, method):
    """A model with the weights that it starts from, always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = method.build(spec).eval()
    channels = spec.input_shape[0]
    is_image = len(spec.input_shape) == 3
    scale = 64.0 if is_image else 1.0
    fields = {"input_shape": spec.input_shape, "mean": (0.0,) * channels, "scale": (scale,) * channels}
    if is_image:
        fields["pixel_range"] = (0.0, 255.0)
    preprocess = Preprocess.from_dict(fields)
    return TrainedModel(module, method, CLASSES, preprocess, spec)


def pair():
    """The same pictures for both: one evidential, one softmax."""
    return {"edl": untrained(PICTURE, EDL()), "softmax": untrained(PICTURE, Softmax())}


def pictures(count, seed=0):
    """Random pictures (count, 16, 16), uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 16, 16), dtype=torch.uint8, generator=generator)


def encoded(picture, kind="PNG"):
    """The bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(picture.numpy()).save(file, kind)
    return file.getvalue()


def reason(response):
    """The one line of a refusal, which never tells of files or code."""
    assert list(response.json()) == ["error"]
    line = response.json()["error"]
    assert len(line.splitlines()) == 1
    assert not any(word in line for word in ("Traceback", "/src", ".py", "object at 0x"))
    return line


START = [sys.executable, "-c", "from nescio.cli.app import main; main()", "serve"]
ONE = json.dumps({"inputs": pictures(1).tolist()}).encode()  # the body of a request


@contextmanager
def process(*words):
    """`nescio serve` and its port, once it listens."""
    command = [*START, *map(str, words), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            assert line.startswith("Serving small, soft at http://127.0.0.1:"), server.stderr.read()
            yield server, urlsplit(line.split(" at ")[1].split()[0]).port
        finally:
            server.kill()


def post(port, body=ONE, path="/v1/opinions"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()
