"""Data: one catalog, value objects for images and tables, and one function to load by name.

What is public stands in `__init__.pyi`, and is loaded when first used: the catalog can be looked at without
waiting for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
