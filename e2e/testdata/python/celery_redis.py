"""Tasks of Celery on Redis, for tests of pq import: celery_redis.py <port of Redis> <port of NATS> <what>

send <n>: n plain tasks and some others, of which a process that is gone holds one
work: starts a worker on pqd, which writes the arguments of its tasks"""

import os
import sys

import pqbridge.kombu  # noqa: F401
from celery import Celery

redis, nats, what = sys.argv[1:4]
app = Celery("tasks", broker=f"redis://127.0.0.1:{redis}/0" if what == "send" else f"pq://127.0.0.1:{nats}")


@app.task(name="say", ignore_result=True)
def say(text: str) -> None:
    os.write(1, f"said {text}\n".encode())  # print goes to the log


if what == "send":
    held = app.send_task("say", ["held"], ignore_result=True)
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        assert channel.basic_get("celery", no_ack=False) is not None
        connection.default_channel.do_restore = False
        with app.pool.acquire(block=True) as producers:
            for n in range(int(sys.argv[4])):
                app.send_task("say", [f"plain {n}"], ignore_result=True, connection=producers)
            app.send_task("say", ["low"], priority=9, ignore_result=True, connection=producers)
            app.send_task("say", ["later"], countdown=3600, ignore_result=True, connection=producers)
            app.send_task("say", ["gone"], expires=-1, ignore_result=True, connection=producers)
        os._exit(0)
else:
    app.worker_main(["worker", "--pool", "solo", "--without-gossip", "--without-mingle", "--loglevel", "warning"])
