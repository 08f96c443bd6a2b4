"""What is counted."""

import os
import subprocess
import sys

from tests.serve.helpers import pair, pictures

from nescio.serve.app import create_app


def test_metrics(ask):
    app = create_app(pair())
    ask("POST", "/v1/opinions", app=app, json={"inputs": pictures(3).tolist()})
    ask("POST", "/v1/opinions", app=app, json={"inputs": []})
    ask("GET", "/some/path/of/an/attacker", app=app)
    text = ask("GET", "/metrics", app=app).text
    assert 'nescio_requests_total{path="/v1/opinions",status="200"} 1.0' in text
    assert 'nescio_requests_total{path="/v1/opinions",status="422"} 1.0' in text
    assert 'nescio_requests_total{path="other",status="404"} 1.0' in text
    assert 'nescio_batch_size_sum{model="edl"} 3.0' in text
    assert "attacker" not in text
    counted = [line for line in text.splitlines() if line.startswith('nescio_opinions_total{accepted="')]
    assert sum(float(line.split()[-1]) for line in counted) == 6


def test_what_a_dead_process_had_waiting_is_forgotten(tmp_path):
    script = """
import os, sys
from nescio.serve._metrics import Metrics, remove_dead_processes
if os.fork() == 0:
    Metrics().set_waiting(5)
    os._exit(0)
os.wait()
metrics = Metrics()
metrics.set_waiting(2)
print(metrics.text().decode().split("nescio_waiting ")[-1].split()[0])
remove_dead_processes()
print(metrics.text().decode().split("nescio_waiting ")[-1].split()[0])
"""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ended.stdout.split() == ["7.0", "2.0"], ended.stderr
