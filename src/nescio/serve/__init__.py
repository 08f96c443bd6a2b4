"""The service: opinions over HTTP, and the page where one can watch a network doubt.

What is public stands in `__init__.pyi`, and is loaded when first used: a worker process must answer its
parent before it has imported torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
