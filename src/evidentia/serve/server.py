"""The server process: address, models, signals."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from evidentia.serve.app import create_app
from evidentia.serve.served import load_models


def run(paths: list[Path], host: str, port: int, workers: int) -> None:
    """Serve until told to stop."""
    uvicorn.run(create_app(load_models(paths)), host=host, port=port)
