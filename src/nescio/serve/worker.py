"""The application in one of several processes.

This module imports next to nothing: a process answers its parent's calls only once it is unpickled, and with
torch to import first it would be taken for hung.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nescio.serve.app import Application


def worker_app(paths: list[Path], workers: int) -> Application:
    """With the models of these files; the processes share the cores."""
    import torch

    from nescio.serve.app import create_app
    from nescio.serve.metrics import forget_the_dead
    from nescio.serve.served import load_models

    forget_the_dead()  # this one may be in place of another
    torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    return create_app(load_models(paths))
