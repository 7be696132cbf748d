"""The command `demo`: informers follow a small simulated cluster and are compared with it."""

from pyinformer.cli.demo._demo_command import demo

__all__ = ["demo"]
