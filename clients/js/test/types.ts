// Compiled, not run: what programs in TypeScript may write and may not, and that the declarations
// say what the modules have.
import type { NatsConnection } from "@nats-io/nats-core";
import * as declared from "pqbridge";
import * as declaredOfNode from "pqbridge/node";
import * as written from "../src/index.js";
import * as writtenOfNode from "../src/node.js";

export const same: typeof declared = written;
export const names: keyof typeof declared = "" as keyof typeof written;
export const sameOfNode: typeof declaredOfNode = writtenOfNode;
export const namesOfNode: keyof typeof declaredOfNode = "" as keyof typeof writtenOfNode;

export async function program(nc: NatsConnection): Promise<void> {
  const client = new declared.Client(nc, { prefix: "pq", timeout: "5s" });
  const jobs: declared.Queue = client.queue("jobs");
  const { id, duplicate }: { id: string; duplicate: boolean } = await jobs.push("x", { priority: 5n, headers: { A: ["b", "c"] } });
  await jobs.push({ json: { resize: "cat.png" } }, { priority: 1 });
  // @ts-expect-error the value is missing
  await jobs.push({});
  await jobs.pushMany([{ payload: new Uint8Array(1), priority: 1, delay: "1m" }]);
  const item: declared.Item = await jobs.pop({ lease: 30_000, wait: "20s", repeatable: true });
  if (item.priority < 5 && !duplicate) await item.nak({ delay: 1000 });
  const next: declared.Item | null = await item.ackNext();
  await next?.handOver(client.queue("mail"), item.data, { msgId: id });
  for await (const { data } of jobs.list({ bodies: true })) data?.length;
  const errors: (Error | null)[] = await jobs.ackMany([item]);
  for await (const { key, tokens, settings } of jobs.keys({ after: "a" })) if (!errors[0] && tokens === 0) await jobs.setKey(key, { limit: settings.limit ?? null, rate: "10/1s" });
  const [first] = (await client.cluster()).members;
  if (first?.role === "active") await client.stepDown({ node: "b" });
  const replaced = await client.replaceNode({ old: "a", new: "b" });
  replaced.replicas.join(",");
  const consumer = jobs.consume(async (one, signal) => void (await fetch(one.string(), { signal })), { concurrency: 4 });
  await consumer.drain({ grace: "10s" });
  try {
    await jobs.configure({ ties: "oldest", max_length: 10 });
  } catch (err) {
    if (err instanceof declared.BusyError && err.reason === "full") throw new declared.RetryAfter("5s", err);
  }

  const { lastAttempts, backoff }: declared.Item = await jobs.get(id, { attempts: true });
  if (lastAttempts.some((a) => a.outcome === "expired") && backoff > 0) await jobs.revoke(id, { fence: item.fence, delay: "1m", reason: "it hangs" });
  for await (const { holder, attempts } of jobs.list({ state: "leased", holder: "w7" })) if (attempts > 3) console.log(holder);
  const { next: at, item: pushes }: declared.Schedule = await jobs.setSchedule("daily", { spec: "@daily", item: { payload: "x", priority: 5n }, end: null });
  const times: Date[] = await jobs.scheduleTimes("daily", { jitter: "5m", item: pushes ?? {} });
  for await (const { name, counts } of jobs.schedules()) if (counts.missed > 0 && times[0] !== at) await jobs.resumeSchedule(name, { from: "now" });
  const { lag, map }: declared.Source = await jobs.setSource("orders", { remote: "hub", stream: "ORDERS", start: { seq: 2n ** 60n }, map: { priority: { header: "Prio", default: 9 }, key: { token: 2 } } });
  for await (const { name, state } of jobs.sources()) if (state === "stopped" && lag > 0 && map.key) await jobs.resumeSource(name, { skip: true });
  const { held, since }: declared.Link = await jobs.setLink("hub", { to: "d9b1c2" });
  for await (const { name, state } of jobs.links({ after: "a" })) if (state === "paused" && held > 0 && since) console.log((await jobs.deleteLink(name, { force: true })).toFixed());
  await jobs.setSource("edge", { remote: "edge7", queue: "edge7.orders", link: "hub" });

  const { outcome, nextId }: declared.Result = await jobs.pushAndWait({ json: 1 }, { wait: "30s", priority: 1 });
  if (outcome === "dead") console.log((await jobs.result(nextId, { wait: 1000 })).string());
  await item.ack({ result: { json: 1 }, timeout: "5s" });
  await jobs.push("x", { cost: 60 });
  const said: void = item.spent(item.cost - 1);
  // @ts-expect-error a cost that is no number
  item.spent("60");
  // @ts-expect-error it is the program's to say with spent
  item.cost = 1;
  const { costRate, costTokens = 0, settings: own, waitsFor } = await jobs.key("ann");
  if (costTokens < 0 && waitsFor === "key_cost_rate" && !own.costRate) await jobs.setKey("ann", { costRate: costRate === "" ? null : "1440/1s" });
  await jobs.configure({ cost_rate: "1440/1s", key_cost_rate: "" });
  await jobs.setSchedule("hourly", { spec: "@hourly", item: { payload: "x", cost: 5 } });
  await jobs.setSource("orders", { map: { cost: { header: "Tokens", default: 1 } } });
  for await (const { cost } of jobs.list()) console.log(cost.toFixed(), said);
  const ended: declared.Cancelled = await jobs.cancel(id, { reason: "enough", spareLeased: true, timeout: "5s" });
  if (ended.outcome === "cancelled" && ended.finishedAt) console.log(ended.finishedAt.getTime(), ended.priority, ended.deliveries);
  try {
    await jobs.pushAndWait("x", { wait: "30s", cancelOnHangUp: true });
  } catch (err) {
    if (err instanceof declared.ItemCancelledError) console.log(err.why.length, err.reason);
    // @ts-expect-error other lost leases do not say why
    if (err instanceof declared.LeaseLostError) console.log(err.why);
  }

  // @ts-expect-error for how long to wait is missing
  await jobs.pushAndWait("x", { priority: 1 });
  // @ts-expect-error a misspelled option
  await jobs.push("x", { priorty: 1 });
  // @ts-expect-error a priority that is no integer
  await jobs.push("x", { priority: "1" });
  // @ts-expect-error a payload of another type
  await jobs.push({ a: 1 });
  // @ts-expect-error a peek leases nothing
  await jobs.peek({ lease: 1000 });
  // @ts-expect-error a key has no order of its own
  await jobs.setKey("ann", { order: true });
  const { done, next: rest }: declared.BulkResult = await client.queue("jobs-dead").bulk("requeue", { where: { reason: "timeout*", cause: "timeout*", pushedBefore: new Date() }, to: "jobs", spread: "10m" });
  if (done > 0) await jobs.bulk("remove", { all: true, after: rest, dryRun: true });

  // @ts-expect-error only who waits for a result hangs up
  await jobs.push("x", { cancelOnHangUp: true });
  // @ts-expect-error an item is cancelled, whatever its lease
  await jobs.cancel(id, { fence: 1 });
  // @ts-expect-error a filter that does not exist
  await jobs.bulk("remove", { where: { colour: "red" } });
  // @ts-expect-error a schedule begins anew from now, or not at all
  await jobs.resumeSchedule("daily", { from: "then" });
  // @ts-expect-error what a schedule has counted does not change
  await jobs.setSchedule("daily", { counts: {} });
  // @ts-expect-error items of a source have no such field
  await jobs.setSource("orders", { map: { colour: "red" } });
  // @ts-expect-error a link goes on where it was
  await jobs.resumeLink("hub", { accept: true });
  // @ts-expect-error no such end
  await jobs.pop({ end: "middle" });
  // @ts-expect-error queues and items come from a client
  new declared.Item();
  // @ts-expect-error null is no item
  await next.ack();
}

interface Order {
  pizza: string;
  at?: Date;
}
interface Receipt {
  total: number;
}

// A queue with types takes and gives nothing else.
export async function typed(nc: NatsConnection): Promise<void> {
  const client = new declared.Client(nc);
  const orders = client.queue<Order, Receipt>("orders");
  await orders.push({ json: { pizza: "Napoli" } }, { priority: 1 });
  await orders.pushMany([{ payload: { json: { pizza: "Napoli" } }, key: "ann" }]);
  await orders.setSchedule("daily", { spec: "@daily", item: { payload: { json: { pizza: "Napoli" } } } });
  const { total }: Receipt = (await orders.pushAndWait({ json: { pizza: "Napoli" } }, { wait: "30s" })).json();
  const item = await orders.pop({ lease: "30s" });
  const { pizza }: Order = item.json();
  const other: { total: number } = item.json<{ total: number }>();
  const known: Receipt = (await orders.result(item.id)).json();
  await item.ack({ result: { json: { total: total + other.total + known.total + pizza.length } } });

  orders.consume((one) => ({ total: one.json().pizza.length }));
  orders.consume(async (one) => ({ total: one.json().pizza.length }));
  orders.consume(async (one, signal) => (signal.aborted ? undefined : { total: one.deliveries }));
  orders.consume((one) => one.ack({ result: { json: { total: 1 } } }));
  orders.consume(() => {});
  orders.consume(async () => {
    throw new declared.GiveUp("closed");
  });
  const handler: declared.Handler<Order, Receipt> = async () => ({ total: 1 });
  orders.consume(handler);

  // @ts-expect-error an order has a pizza
  await orders.push({ json: { pasta: "Napoli" } });
  // @ts-expect-error an order is no text
  await orders.push("Napoli");
  // @ts-expect-error nor is it bytes
  await orders.pushMany([{ payload: new Uint8Array(1) }]);
  // @ts-expect-error a pizza is a text
  await orders.pushAndWait({ json: { pizza: 1 } }, { wait: "30s" });
  // @ts-expect-error what a schedule pushes is an order, too
  await orders.setSchedule("daily", { item: { payload: { json: { pasta: "Napoli" } } } });
  // @ts-expect-error an order is no number
  const wrong: number = item.json();
  // @ts-expect-error nor has it a total
  item.json().total;
  // @ts-expect-error a receipt has no pizza
  (await orders.result(item.id)).json().pizza;
  // @ts-expect-error a handler gets orders
  orders.consume((one) => ({ total: one.json().price }));
  // @ts-expect-error a handler returns receipts
  orders.consume(() => 12);
  // @ts-expect-error and so does one that takes its time
  orders.consume(async () => ({ total: "12" }));
  // @ts-expect-error an acknowledgement has them, too
  await item.ack({ result: "12" });
  // @ts-expect-error a handler of other items
  orders.consume((one: declared.Item<Receipt, Receipt>) => one.json());
  // @ts-expect-error the next one is an order, and may be missing
  (await item.ackNext()).json();

  // An order goes to queues of orders, and to those without types.
  await item.handOver(client.queue<Order>("kitchen"), { json: item.json() });
  await item.handOver(client.queue("archive"), item.data);
  // @ts-expect-error and not to one of receipts
  await item.handOver(client.queue<Receipt>("receipts"), { json: item.json() });
  const plain: declared.Queue = orders;
  await plain.push("Napoli");

  // Texts and bytes are payloads of queues that have them.
  const texts = client.queue<string, Uint8Array>("texts");
  await texts.push("x");
  await texts.push({ json: "x" });
  texts.consume(() => new Uint8Array(1));
  // @ts-expect-error a text is no bytes
  await texts.push(new Uint8Array(1));
  const mixed = client.queue<Order | Uint8Array>("mixed");
  await mixed.push(new Uint8Array(1));
  await mixed.push({ json: { pizza: "Napoli" } });
  await passOn(orders, { pizza: wrong.toFixed() });
}

/** A program that does not know the type, and keeps it. */
async function passOn<T>(queue: declared.Queue<T>, value: T): Promise<T> {
  await queue.push({ json: value });
  return (await queue.pop()).json();
}

// Without types everything fits, as before there were any.
export async function untyped(client: declared.Client): Promise<void> {
  const jobs = client.queue("jobs");
  jobs.consume((item) => item.json().anything);
  jobs.consume(async (item) => item.string().length);
  jobs.consume(() => null);
  const unknown: (item: declared.Item, signal: AbortSignal) => unknown = () => 1;
  jobs.consume(unknown);
  const job: { resize?: string } = (await jobs.pop()).json();
  const text: string = (await jobs.pushAndWait(new Uint8Array(1), { wait: 1 })).json();
  const payload: declared.Payload = Math.random() > 0.5 ? text : { json: job };
  await jobs.push(payload);
  try {
    await jobs.result("i");
  } catch (err) {
    if (err instanceof declared.NoResultYetError) await jobs.result(err.id, { wait: err.code });
    // @ts-expect-error other errors have no id
    if (err instanceof declared.NotFoundError) await jobs.result(err.id);
  }
  // @ts-expect-error errors come from requests
  new declared.NoResultYetError("i");
}

export async function ofNode(): Promise<declared.Client> {
  // @ts-expect-error a misspelled option
  await declaredOfNode.connect({ server: "nats://127.0.0.1:4222" });
  return new declared.Client(await declaredOfNode.connect({ name: "worker", servers: ["nats://127.0.0.1:4222"] }));
}
