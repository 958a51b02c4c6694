"""What ends a program in order: SIGTERM, which Docker, Kubernetes and systemd send, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_told: list[Callable[[], object]] = []
_former: dict[int, Any] = {}


@contextmanager
def on_stop(tell: Callable[[], object]) -> Generator[None, None, None]:
    """Calls a function at each of these signals while the block runs; several blocks may run at a time. It is
    called in the main thread, wherever that is."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread hears of SIGTERM: expected run there, or consume and stop")
    if not _told:
        for one in _SIGNALS:
            _former[one] = signal.signal(one, _stop)
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)
        if not _told:
            for one in _SIGNALS:
                signal.signal(one, _former.pop(one) or signal.SIG_DFL)


def _stop(signum: int, frame: object) -> None:
    for tell in list(_told):
        tell()
