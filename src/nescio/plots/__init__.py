"""Figures in one look: displays of predictions and opinions, and the style that they share.

A display works as scikit-learn's do: `from_predictions` or `from_opinions` makes and draws it, on axes that
are given (`ax=`), where it adds no title and no legend, or on a figure of its own. Afterwards it has `ax_`
and `figure_`. Figures are made with matplotlib, which comes with the extra `demo`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
