"""The joint distribution of any table, with an exact likelihood, by boosted trees.

The public names are in ``__init__.pyi`` and imported when they are first used: ``lbarn --help`` needs neither NumPy nor
scikit-learn.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
