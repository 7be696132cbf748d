"""What a fence around user code lets pass.

A fence catches whatever a handler, an index function or another function of the program raises:
test tools and extension modules raise exceptions that are not an Exception, and code may raise
GeneratorExit or CancelledError by itself. In a call that does not wait, none of these concerns more
than the call. In code that waits, `tasks.ends_task` recognizes what ends the task.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import Final

ENDS_PROGRAM: Final = (KeyboardInterrupt, SystemExit)
"""Pass every fence, since they are meant for the whole program."""
