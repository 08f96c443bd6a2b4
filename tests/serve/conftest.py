"""A real server in a process of its own, for the tests that need one."""

import asyncio
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
import uvicorn
from tests.serve.helpers import PICTURE, START, pair, untrained

from nescio.methods import EDL, Softmax
from nescio.serve.app import create_app

WIDE = {"width": 1280, "height": 900}


@contextmanager
def _serving_here(models, limits=None, port=0):
    """In a thread of this process, which is there sooner than another and knows the tests' own encoders."""
    config = uvicorn.Config(
        create_app(models, limits), port=port, log_level="error", lifespan="on", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serving_here():
    """The service for models in memory, until the block ends; gives its address."""
    return _serving_here


@pytest.fixture
def serve():
    """Starts the service for models in memory and gives its address; it ends after the pages of `visit`.

    A page may still ask for something when a test is done: to find nobody there would be a complaint.
    """
    with ExitStack() as servers:

        def call(models, limits=None, port=0):
            return servers.enter_context(_serving_here(models, limits, port))

        yield call


@pytest.fixture(scope="session")
def address():
    """The bundled pair, served by `nescio serve`."""
    with subprocess.Popen([*START, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert " at http://" in line, line
            yield line.split(" at ")[1].split()[0]
        finally:
            process.terminate()


@pytest.fixture
def expect():
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)
    return expect


@pytest.fixture
def visit(browser, address, expect, serve):  # serve: set up before it, and so ended after it
    """Opens the page; at the end nothing may have been complained of, and nobody else asked."""
    contexts, complaints, requests = [], [], []

    def call(at=address, viewport=WIDE, **settings):
        context = browser.new_context(viewport=viewport, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append((at, request.url)))
        page.goto(at)
        return page

    call.complaints = complaints
    yield call
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for at, url in requests if not url.startswith(f"{at}/")} == set()


@pytest.fixture
def ask():
    """One request to an application, by default with the pair."""

    def call(method, path, *, app=None, **content):
        async def exchange():
            transport = httpx.ASGITransport(app or create_app(pair()), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, **content)

        # In a thread of its own: where a browser is open, Playwright has a loop in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, exchange()).result()

    return call


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    untrained(PICTURE, EDL()).save(folder / "small.safetensors")
    untrained(PICTURE, Softmax()).save(folder / "soft.safetensors")
    return [folder / "small.safetensors", folder / "soft.safetensors"]
