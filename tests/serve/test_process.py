"""One process that serves: other models while it runs, and restarts."""

import signal
import time

import pytest
from tests.serve.helpers import PICTURE, Asking, post, process, untrained, untrained_otherwise

from nescio.methods import EDL

OLD = untrained(PICTURE, EDL())
NEW = untrained_otherwise(PICTURE, EDL())


def uncertainty(port):
    return post(port)[1]["results"][0]["opinions"][0]["uncertainty"]


def wait_for_another(client, old):
    end = time.monotonic() + 60
    while not client.uncertainties or client.uncertainties[-1] == pytest.approx(old, rel=1e-3):
        assert time.monotonic() < end
        time.sleep(0.02)


def failed_reload(server):
    """The line in which the next one is logged."""
    line = ""
    while "were not read again" not in line:
        line = server.stderr.readline()
    return line


def test_models_are_read_again_and_a_stop_comes_without_a_lost_request(files, tmp_path):
    path = tmp_path / "small.safetensors"
    OLD.save(path)
    with process(path, files[1], "--watch") as (server, port):
        old = uncertainty(port)
        with Asking(port, keeps_connection=True) as kept, Asking(port, keeps_connection=False) as fresh:
            for number in range(5):  # by the signal
                server.send_signal(signal.SIGHUP)
                time.sleep(0.05 * number)
            NEW.save(path)  # by the change
            wait_for_another(kept, old)
            path.unlink()
            missing = failed_reload(server)
            path.write_bytes(b"no model")
            line = failed_reload(server)
            assert uncertainty(port) != pytest.approx(old, rel=1e-3)
            count = len(fresh.uncertainties)
            while len(fresh.uncertainties) == count:
                time.sleep(0.01)
            server.terminate()  # while they ask
            _, rest = server.communicate(timeout=60)
        assert kept.errors == fresh.errors == []
        assert len(kept.uncertainties) > 5
    assert f"there is no file {path}" in missing
    assert f"{path} is damaged" in line
    assert "Traceback" not in rest
    assert server.returncode == 0
