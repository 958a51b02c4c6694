"""The driver of nats-py for clients/cases_test.go: python driver.py nats://127.0.0.1:4222"""

import asyncio
import sys
from urllib.parse import quote, unquote, unquote_to_bytes

import nats
import nats.errors
import nats.js.errors


def show(*words):
    print("\t".join(quote(word, safe="") for word in words), flush=True)


def show_error(err):
    if isinstance(err, nats.errors.NoRespondersError):
        show("error", "no responders", "0", "0", str(err))
    elif isinstance(err, (nats.errors.TimeoutError, asyncio.TimeoutError)):
        show("error", "timeout", "0", "0", str(err))
    elif isinstance(err, nats.js.errors.APIError):
        show("error", "refused", str(err.code), str(err.err_code), str(err))
    else:
        show("error", "other", "0", "0", repr(err))


class Driver:
    def __init__(self, nc):
        self.nc = nc
        self.item = None  # the last message with a reply subject

    def show(self, m):
        if m.reply:
            self.item = m
        words = ["message", m.data, m.reply]
        for name, value in (m.headers or {}).items():
            words += [name, value]
        show(*words)

    async def do(self, what, subject, body, timeout, headers):
        match what:
            case "publish":
                ack = await self.nc.jetstream().publish(subject, body, timeout, headers=headers)
                show("stored", ack.stream, str(ack.seq), "true" if ack.duplicate else "false")
            case "request":
                self.show(await self.nc.request(subject, body, timeout, headers=headers))
            case "many":
                inbox = self.nc.new_inbox()
                sub = await self.nc.subscribe(inbox)
                await self.nc.publish(subject, body, inbox, headers)
                status = None
                while status is None:
                    m = await sub.next_msg(timeout)
                    self.show(m)
                    status = (m.headers or {}).get("Status")
                await sub.unsubscribe()
            case "send":
                await self.nc.publish(subject, body, headers=headers)
            case "respond":
                await self.item.respond(body)
            case "ack":
                await self.item.ack()
            case "ack sync":
                await self.item.ack_sync(timeout)
            case "nak":
                await self.item.nak()
            case "term":
                await self.item.term()
            case "in progress":
                await self.item.in_progress()
            case _:
                raise ValueError(what)


async def main():
    nc = await nats.connect(sys.argv[1])
    driver = Driver(nc)
    while line := await asyncio.to_thread(sys.stdin.readline):
        words = line.rstrip("\n").split("\t")
        what, subject, _, milliseconds, *names = map(unquote, words)
        headers = dict(zip(names[::2], names[1::2])) or None
        try:
            if len(headers or {}) < len(names) / 2:
                raise ValueError("headers are a dict with one value each")
            await driver.do(what, subject, unquote_to_bytes(words[2]), int(milliseconds) / 1000, headers)
        except Exception as err:
            show_error(err)
        print(".", flush=True)
    await nc.close()


asyncio.run(main())
