"""Neural classifiers that can say "I do not know".

What is public stands in `__init__.pyi`. It is loaded when first used, so that the command line can answer
without waiting for torch.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
