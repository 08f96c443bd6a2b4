"""Run experiments on a Ray cluster of two nodes and kill one of them: two_nodes.py FOLDER [PRESET].

Without a preset, some of the study in small.
"""

import json
import sys
import threading
import time
import warnings
from pathlib import Path

from tests.studies.small import DIGITS

from nescio.studies.sensoy2018.presets import plan

NAMES = ("training", "known", "fgsm", "transfer")


def experiments():
    """L2 and EDL with two seeds each; EDL needs the L2 of its seed."""
    chosen = []
    for each in DIGITS.experiments():
        if each.arm in ("l2", "edl") and each.plan.seed < 2:
            chosen.append(each.measuring(NAMES))
    return chosen


def main(folder, chosen):
    """Print how many nodes were left, and how many models were done when one was killed."""
    import ray
    from ray.cluster_utils import Cluster

    from nescio.studies.runner import _run_on_ray

    cluster = Cluster(
        initialize_head=True,
        connect=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False},
    )
    other = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    killed = []

    def kill():
        """When trainings are under way and no processor is free, one of them is on the other node."""
        while not list(folder.glob("checkpoints/*/lock")) or ray.available_resources().get("CPU"):
            time.sleep(0.02)
        killed.append(len(list(folder.glob("checkpoints/*/model.safetensors"))))
        cluster.remove_node(other, allow_graceful=False)

    watcher = threading.Thread(target=kill, daemon=True)
    watcher.start()
    _run_on_ray(chosen, folder)
    watcher.join(timeout=60)
    alive, until = 2, time.monotonic() + 60
    while alive != 1 and time.monotonic() < until:  # the head takes its time to notice
        alive = sum(node["Alive"] for node in ray.nodes())
        time.sleep(0.2)
    ray.shutdown()
    cluster.shutdown()
    sys.stdout.write(json.dumps({"alive": alive, "models_when_killed": killed}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), plan(sys.argv[2]) if len(sys.argv) > 2 else experiments())
