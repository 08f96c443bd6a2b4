"""Small models and pictures for the tests of the service."""

import asyncio
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import torch
from PIL import Image

from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax
from nescio.serve._access import Access
from nescio.serve._process import Server
from nescio.serve.app import Application
from nescio.serve.limits import Limits

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


def untrained_otherwise(spec, method):
    """The same, with other weights: it says something else."""
    model = untrained(spec, method)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(3.0)
    return model


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


class Asking:
    """One client that asks again and again, in a thread, by new connections or by one that is kept.

    What it was told, and what went wrong. Where it could not connect, nothing was accepted: it tries again.
    """

    def __init__(self, port, keeps_connection):
        self.uncertainties = []
        self.errors = []
        self._port = port
        self._keeps_connection = keeps_connection
        self._must_end = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._must_end.set()
        self._thread.join()

    def _ask(self):
        connection = None
        while not self._must_end.is_set():
            connection = connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                connection.connect() if connection.sock is None else None
            except ConnectionRefusedError:
                time.sleep(0.01)
                continue
            try:
                connection.request("POST", "/v1/opinions", ONE, {"content-type": "application/json"})
                response = connection.getresponse()
                answer = json.loads(response.read())
                if response.status == 200:
                    self.uncertainties.append(answer["results"][0]["opinions"][0]["uncertainty"])
                else:
                    self.errors.append((response.status, answer))
            except (OSError, http.client.HTTPException) as error:
                self.errors.append(error)
                connection.close()
            if not self._keeps_connection:
                connection.close()
        if connection is not None:
            connection.close()


@contextmanager
def process(*words, environment=None):
    """`nescio serve` and its port, once it listens; environment: what it has beside that of the tests."""
    command = [*START, *map(str, words), "--port", "0"]
    pipe = subprocess.PIPE
    whole = {**os.environ, **(environment or {})}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=whole) as server:
        try:
            line = server.stdout.readline()
            assert line.startswith("Serving small, soft at http://127.0.0.1:"), server.stderr.read()
            yield server, urlsplit(line.split(" at ")[1].split()[0]).port
        finally:
            server.kill()


def post(port, body=ONE, path="/v1/opinions"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
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


@asynccontextmanager
async def served(limits=None, access=None, router=None, access_log=False):
    """The pair, or another application, served on this event loop: the server, and its address."""
    application = Application(pair(), limits or Limits(), access or Access(), access_log=access_log)
    application.router = router or application.router
    server = Server(application)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server, listener.getsockname()
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, 60)


async def exchange(address, *parts, timeout=20):
    """All that the server says to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), timeout)
    finally:
        writer.close()


def refused(answer):
    """The status, the headers and the one line of a refusal that the server itself made."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        assert name not in headers
        headers[name] = value
    assert int(headers["content-length"]) == len(body)
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["connection"] == "close"
    return int(lines[0].split()[1]), headers, json.loads(body)["error"]
