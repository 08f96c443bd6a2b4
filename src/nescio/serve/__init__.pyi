from .app import create_app
from .limits import Limits

__all__ = ["Limits", "create_app"]
