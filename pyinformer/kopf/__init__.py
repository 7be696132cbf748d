"""kopf on pyinformer: kopf's watch streams run on reflectors, under unchanged handlers.

One line at the top of the file of handlers is all:

    import pyinformer.kopf

    pyinformer.kopf.install()

Needs the extra `pyinformer[kopf]`. Only this package imports kopf.
"""

from pyinformer.kopf._installation import install, uninstall
from pyinformer.kopf._listers import Informers
from pyinformer.kopf._operators import lister

__all__ = ["Informers", "install", "lister", "uninstall"]
