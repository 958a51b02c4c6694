"""What the transport knows of Celery, if the program uses it."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta, timezone, tzinfo
from typing import Any

from . import kombu_spent
from .kombu_message import Message

# The name of the queue in which a program gets its results.
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _app() -> Any:
    celery = sys.modules.get("celery")
    return celery.current_app if celery else None


def zone() -> tzinfo:
    """Of times without one."""
    app = _app()
    found: tzinfo = app.timezone if app else timezone.utc
    return found


def queues() -> set[str]:
    """The queues that the program's settings name."""
    app = _app()
    return set(app.amqp.queues) if app else set()


def is_reply_queue(queue: str) -> bool:
    """Whether a queue has the name of one in which a program gets its results."""
    return _app() is not None and _UUID.fullmatch(queue) is not None


def is_result(queue: str, message: Message) -> bool:
    """Whether a message has a result for the program of the queue."""
    return is_reply_queue(queue) and "task" not in (message.get("headers") or {}) and bool(message["properties"].get("correlation_id"))


def result_expires() -> float | None:
    """How many seconds results last, None: for ever."""
    lasts = _app().conf.result_expires
    return lasts.total_seconds() if isinstance(lasts, timedelta) else float(lasts) if lasts else None


def is_fanned_out(queue: str) -> bool:
    """Whether a queue is one of remote control or of events, which never have items."""
    app = _app()
    return queue.endswith(".pidbox") or queue.startswith((app.conf.event_queue_prefix if app else "celeryev") + ".")


def revoked(control: Message) -> list[str]:
    """The ids of the tasks that a message to the workers revokes."""
    try:
        order = json.loads(control["body"])
        if order["method"] != "revoke":
            return []
        ids = order["arguments"]["task_id"]
    except (KeyError, TypeError, ValueError):
        return []
    return [ids] if isinstance(ids, str) else list(ids or ())


def mark_revoked(task: str, message: Message) -> None:
    """Who waits for the result learns that there will be none."""
    app = _app()
    if app is None:
        return
    from celery.app.task import Context

    properties = message["properties"]
    request = Context(message.get("headers") or {}, reply_to=properties.get("reply_to"), correlation_id=properties.get("correlation_id"))
    app.backend.mark_as_revoked(task, "revoked", request=request, store_result=True)


def prepare() -> None:
    """A worker takes one task for each of its processes, unless a setting says otherwise: a task that waits in
    a worker waits for that worker, whatever is more urgent. Its tasks can say what they have cost."""
    try:
        from celery.signals import worker_init
    except ImportError:
        return
    worker_init.connect(_begin, weak=False)


def _begin(sender: Any, **kwargs: Any) -> None:
    """Only of this transport: other brokers keep their default."""
    conf = sender.app.conf
    if not _is_ours(conf):
        return
    kombu_spent.begin()
    if not conf.value_set_for("worker_prefetch_multiplier") and not _on_command_line("prefetch_multiplier"):
        sender.prefetch_multiplier = 1


def _is_ours(conf: Any) -> bool:
    urls = conf.broker_read_url or ""
    return str(urls[0] if isinstance(urls, (list, tuple)) else urls).startswith(("pq://", "pqs://"))


def spent(cost: int) -> None:
    """Says in a task with acks_late what this delivery has really cost so far, 0 to 1,000,000, where the header PQ-Cost of its
    message was a guess: see pqbridge.Item.spent. In a task that is called as a function, or of another broker, it does nothing."""
    app = _app()
    task = app.current_task if app else None
    kombu_spent.tell(task, cost, task is not None and _is_ours(task.app.conf))


def _on_command_line(option: str) -> bool:
    """Celery hands over its own default as if it had been given."""
    import click

    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE
