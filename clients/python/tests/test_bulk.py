"""Operations on all items that fit."""

from __future__ import annotations

from datetime import datetime, timezone

from pqbridge import BadRequestError, ForbiddenError, NewItem
from world import Answer, TestCase, failure

AT = datetime(2099, 1, 31, 9, tzinfo=timezone.utc)


class Bulk(TestCase):
    async def test_operations(self) -> None:
        q = self.queue()
        dead = self.client.queue(q.name + "-dead")
        await q.push_many([NewItem(str(n), priority=n, headers={"Season": "autumn"}) for n in range(7)])
        dry = await q.bulk("move", {"header": {"Season": "aut*"}, "max": 4}, priority=9, dry_run=True, page=2)
        self.assertEqual((dry.done, dry.next, dry.full, dry.at_least), (5, "", False, False))
        moved = await q.bulk("move", {"header": {"Season": "aut*"}, "max": 4, "pushed_before": AT}, priority=9, page=2)
        self.assertEqual((moved.done, [i.priority async for i in q.list()]), (5, [5, 6, 9, 9, 9, 9, 9]))
        await q.pop_many(3, lease="1h", holder="bob")
        self.assertEqual((await q.bulk("revoke", {"holder": "bob"}, delay=0, reason="bob is ill")).done, 3)
        for item in await q.pop_many(3, lease="1h"):
            await item.term("timeout of it")
        self.assertEqual([i.cause async for i in dead.list()], ["timeout of it"] * 3)
        await q.configure({"max_length": 6})
        stopped = await dead.bulk("requeue", {"cause": "timeout*", "min": 0}, to=q.name, spread="1s")
        self.assertEqual((stopped.done, stopped.full, bool(stopped.next)), (2, True, True))
        await q.configure({"max_length": 0})
        self.assertEqual((await dead.bulk("requeue", {"cause": "timeout*", "min": 0}, after=stopped.next)).done, 1)
        self.assertEqual((await dead.bulk("remove", all=True)).done, 0)
        err = await self.fails(q.bulk("remove", {}), BadRequestError, 400)
        self.assertEqual(err.bulk.done, 0)
        await self.fails(q.bulk("push", all=True), ValueError)  # type: ignore[arg-type]

    async def test_a_page_without_an_answer(self) -> None:
        answers = ['{"done":0,"looked":0,"next":"a"}', "", '{"done":2,"looked":5,"next":"b"}']
        f = await self.fake(lambda verb, n, m: failure(403) if n > len(answers) else Answer(body=answers[n - 1]) if answers[n - 1] else None)
        err = await self.fails(f.client.queue("jobs").bulk("remove", all=True), ForbiddenError, 403)
        self.assertEqual([(b.get("after"), b.get("limit")) for b in f.bodies], [(None, 0), ("a", None), ("a", None), ("b", None)])
        self.assertEqual((err.bulk.done, err.bulk.looked, err.bulk.next, err.bulk.at_least), (2, 5, "b", True))
