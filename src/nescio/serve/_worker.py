"""The application in one of several processes.

This module imports next to nothing: a process answers its parent's calls only once it is unpickled, and with
torch to import first it would be taken for hung.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import Router

    from nescio.serve.limits import Limits


def worker_app(paths: Mapping[str, Path], limits: Limits, workers: int) -> Router:
    """With the models of these files, by name; the processes share the cores."""
    import torch

    from nescio.serve._metrics import remove_dead_processes
    from nescio.serve._models import load_models
    from nescio.serve.app import create_app

    remove_dead_processes()  # this process may be in place of another
    torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    return create_app(load_models(paths), limits)
