"""cubby: a box for every AI agent, a shell and files of its own.

    import cubby
    with cubby.Box(thread="demo") as box:
        print(box.run("id").stdout)

cubby.aio has the same for asyncio.
"""
from ._core import Exit, Output, Result
from ._sync import Box, Client, Process, Pty, Sandbox, Session, Stream
from ._wire import Answer
from .errors import *  # noqa: F403
from .errors import CubbyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import aio, types

__version__ = "0.1.0"
__all__ = ["Answer", "Box", "Client", "CubbyError", "Exit", "Output", "Process", "Pty", "Result", "Sandbox", "Session",
           "Stream", "aio"]


def __getattr__(name):  # aio and types cost time to import, and not everybody wants them
    if name in ("aio", "types"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
