"""One of several processes."""

import signal
import time

from tests.serve.helpers import get, post, process


def test_several_processes_count_together(files):
    with process(*files, "--workers", 2) as (server, port):
        assert [post(port)[0] for _ in range(6)] == [200] * 6
        # A process counts once its answer is out: the last one may just be doing so.
        end, counted = time.monotonic() + 30, 0.0
        while counted != 6 and time.monotonic() < end:
            text = get(port, "/metrics")
            counted = float(text.split('requests_total{path="/v1/opinions",status="200"} ')[1].split()[0])
        assert counted == 6
        assert "nescio_waiting 0.0" in text
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0
