"""Where the transport of kombu gets its items."""

from __future__ import annotations

import logging

from nats.aio.msg import Msg

from pqbridge import Client, Queue
from pqbridge.intake import Intake, unworked
from pqbridge.item import Item
from world import PATIENCE, Answer, TestCase, failure

LEASE = 2 * PATIENCE


class Intakes(TestCase):
    def setUp(self) -> None:
        self.got: list[Item] = []
        self.asked: list[tuple[str, bytes]] = []

    async def intake(self, q: Queue, prefetch: int, client: Client | None = None) -> Intake:
        """It consumes a queue whose requests are noted from here on."""

        async def note(m: Msg) -> None:
            verb = m.subject.split(".")[2]
            if verb != "info":
                self.asked.append((verb, m.data.split(b" ")[0] if verb == "ack" else b""))

        await (await self.connect()).connection.subscribe(f"pq.{q.name}.>", cb=note)
        intake = Intake(client or self.client, LEASE, lambda name, item: self.got.append(item))
        intake.prefetch(prefetch)
        intake.consume("it", q.name)
        return intake

    async def test_an_acknowledgement_brings_the_next(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(5)])
        intake = await self.intake(q, 1)
        for n in range(5):
            await self.until("one more is here", lambda: len(self.got) > n)
            self.assertEqual((await q.info())["leased"], 1)
            intake.settle(self.got[n].ack_subject, Item.ack)
        await self.until("it waits for more", lambda: len(self.asked) == 7)
        await intake.close()
        self.assertEqual([item.text for item in self.got], ["0", "1", "2", "3", "4"])
        self.assertEqual(self.asked, [("pop", b""), *[("ack", b"+NXT")] * 5, ("pop", b"")])

    async def test_no_more_than_the_prefetch(self) -> None:
        q = self.queue()
        await q.push_many([str(n) for n in range(20)])
        intake = await self.intake(q, 3)
        for done in range(0, 17, 2):
            await self.until("there are as many as may be", lambda: len(self.got) == done + 3)
            self.assertEqual((await q.info())["leased"], 3)
            for item in self.got[done : done + 2]:
                intake.settle(item.ack_subject, Item.ack)
        await intake.close()
        info = await q.info()
        self.assertEqual((info["ready"] + info["leased"], info["leased"]), (2, 0))

    async def test_what_it_brings_at_the_end_is_given_back(self) -> None:
        q = self.queue()
        await q.push_many(["a", "b"])
        intake = await self.intake(q, 1)
        await self.until("one is here", lambda: self.got)
        intake.settle(self.got[0].ack_subject, Item.ack)
        await intake.close()
        await self.until("the other one is back", lambda: self.asked[-1][0] == "ack" and self.asked[-1][1] == b"+BACK")
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"]), (1, 0))

    async def test_an_answer_is_lost(self) -> None:
        client, lost = await self.lossy()
        lost += ["pop", "push", "info"]
        q = self.queue(client)
        await q.push_many(["a", "b", "c"])
        intake = await self.intake(q, 1, client)
        for n in range(3):
            await self.until("one more is here", lambda: len(self.got) > n)
            intake.settle(self.got[n].ack_subject, Item.ack)
        await self.until("all are done", lambda: len(self.asked) == 6)
        await intake.close()
        self.assertEqual([(item.text, item.deliveries) for item in self.got], [("a", 1), ("b", 1), ("c", 1)])
        info = await q.info()
        self.assertEqual((info["ready"], info["leased"]), (0, 0))

    async def test_other_ends_bring_nothing(self) -> None:
        q, other = self.queue(), self.queue()
        await q.push_many(["a", "b"])
        intake = await self.intake(q, 1)
        await self.until("one is here", lambda: self.got)
        intake.settle(self.got[0].ack_subject, unworked)
        await self.until("it comes again", lambda: len(self.got) == 2)
        intake.consume("other", other.name)  # queues take turns
        intake.settle(self.got[1].ack_subject, Item.ack)
        await self.until("the next one is here", lambda: len(self.got) == 3)
        await intake.close()
        self.assertEqual([item.text for item in self.got], ["a", "a", "b"])
        self.assertEqual([word for verb, word in self.asked if verb == "ack"], [b"+BACK", b"+ACK", b"+BACK"])

    async def test_it_is_refused(self) -> None:
        refuses = {b"+NXT": failure(503), b"+ACK": Answer()}
        f = await self.fake(lambda verb, n, m: refuses[m.data.split(b" ")[0]] if ".ack." in verb else failure(408, "timeout"), timeout=0.2)
        q = f.client.queue("jobs")
        intake = Intake(f.client, LEASE, lambda name, item: self.got.append(item))
        intake.prefetch(1)
        intake.consume("it", q.name)
        item = f.client.attach(f"{f.prefix}.jobs.ack.c.t")
        intake.hold(item)
        intake.settle(item.ack_subject, Item.ack)
        await self.until("it is acknowledged by itself", lambda: any(m.data == b"+ACK" for _, m in f.requests))
        await intake.close()
        self.assertTrue(item.settled)

    async def test_who_is_told_of_a_lost_lease(self) -> None:
        for reason, told in (("gone", logging.DEBUG), ("taken", logging.WARNING)):
            for word in (Item.ack, unworked):
                f = await self.fake(lambda verb, n, m: failure(410, reason) if ".ack." in verb else failure(408, "timeout"))
                intake = Intake(f.client, LEASE, lambda name, item: self.got.append(item))
                intake.prefetch(1)
                intake.consume("it", "jobs")
                item = f.client.attach(f"{f.prefix}.jobs.ack.c.t")
                intake.hold(item)
                with self.assertLogs("pqbridge", logging.DEBUG) as log:
                    intake.settle(item.ack_subject, word)
                    await intake.close()
                self.assertEqual([record.levelno for record in log.records], [told])
