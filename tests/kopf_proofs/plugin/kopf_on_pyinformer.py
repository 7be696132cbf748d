"""A plugin for pytest that installs the line before kopf's tests are imported."""

import pyinformer.kopf

pyinformer.kopf.install()
