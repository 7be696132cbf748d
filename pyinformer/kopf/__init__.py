"""kopf on pyinformer: kopf's watch streams run on reflectors, under unchanged handlers.

One line at the top of the file of handlers is all:

    import pyinformer.kopf

    pyinformer.kopf.install()

Needs the extra `pyinformer[kopf]`. Only this package imports kopf.
"""

from importlib.util import find_spec

if find_spec("kopf") is None:
    _HINT = "pyinformer.kopf needs the package kopf: pip install 'pyinformer[kopf]'"
    raise ModuleNotFoundError(_HINT, name="kopf")

from pyinformer.kopf._listers import Informers
from pyinformer.kopf._public_functions import install, lister, uninstall

__all__ = ["Informers", "install", "lister", "uninstall"]
