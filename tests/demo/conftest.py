import pytest

from nescio.demo._run import demo_inputs, demo_settings, run_demo


@pytest.fixture(scope="session")
def reported():
    """What the training said, epoch by epoch."""
    return []


@pytest.fixture(scope="session")
def outcome(reported):
    """A demo in small: trained too little to be good, enough to be shown."""
    inputs = demo_inputs(samples=1000)
    return run_demo(demo_settings(seed=1, epochs=6), inputs, lambda *what: reported.append(what))
