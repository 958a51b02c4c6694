// What a nats.js client can count on, in node and in a browser alike. Each check
// has a queue of its own.
import { headers, nanos } from "@nats-io/nats-core";
import { JetStreamApiError, jetstream } from "@nats-io/jetstream";

// Behind the end of the test that waits for this program, which knows the machine.
const timeout = 3_600_000;

function equal(what, found, expected) {
  const [f, e] = [JSON.stringify(found), JSON.stringify(expected)];
  if (f !== e) throw new Error(`${what}: found ${f}, expected ${e}`);
}

// Queue is a queue as its clients see it, through nats.js alone.
class Queue {
  constructor(nc, name) {
    this.nc = nc;
    this.name = name;
    this.js = jetstream(nc, { timeout });
  }

  ask(verb, body = "", options = {}) {
    return this.nc.request(`pq.${this.name}.${verb}`, body, { timeout, headers: headersOf(options) });
  }

  async push(verb, body, options) {
    const ack = (await this.ask(verb, body, options)).json();
    if (ack.error) throw new Error(`push: ${JSON.stringify(ack.error)}`);
    return ack;
  }

  async pop(end, body, options) {
    const item = await this.ask(`pop.${end}`, body, options);
    if (!item.headers.get("PQ-Id")) throw new Error(`pop: no item but ${describe(item)}`);
    return item;
  }

  async batch(end, body, options) {
    const answers = await this.nc.requestMany(`pq.${this.name}.pop.${end}`, body, {
      strategy: "sentinel",
      maxWait: timeout,
      headers: headersOf(options),
    });
    const all = [];
    for await (const m of answers) all.push(m);
    return all;
  }

  settle(item, body) {
    return this.nc.request(item.reply, body, { timeout });
  }

  async info() {
    return (await this.ask("info")).json();
  }
}

function headersOf(options = {}) {
  const h = headers();
  for (const [key, value] of Object.entries(options)) h.set(key, value);
  return h;
}

const describe = (m) => JSON.stringify([m.string(), m.headers ? [...m.headers] : []]);
const status = (m) => m.headers?.get("Status") ?? "";
const code = (m) => m.headers?.get("Nats-Service-Error-Code") ?? "";
const reason = (m) => m.headers?.get("PQ-Reason") ?? "";

// lost says that a settlement did not hold because the lease was lost.
function lost(what, m, expected) {
  equal(what, [m.data.length, status(m), code(m), reason(m)], [0, "503", "410", expected]);
}

// held says that a settlement took effect.
function held(what, m) {
  equal(what, [m.data.length, status(m), code(m)], [0, "", ""]);
}

const checks = {
  async "push as to a stream"(q) {
    const first = await q.js.publish(`pq.${q.name}.push.5`, "x", { msgID: "a", expect: { streamName: q.name } });
    equal("first", [first.stream, first.seq, first.duplicate], [q.name, 1, false]);
    const again = await q.js.publish(`pq.${q.name}.push.5`, "x", { msgID: "a" });
    equal("again", [again.stream, again.seq, again.duplicate], [q.name, 1, true]);
    const ack = await q.push("push", "y", { "PQ-Priority": "-9223372036854775808" });
    equal("plain", [ack.type, ack.stream, ack.seq], ["io.pq.v1.push_response", q.name, 2]);
    equal("ready", (await q.info()).ready, 2);
  },

  async "pop from both ends"(q) {
    for (const priority of [5, -1, 9, 5]) await q.push(`push.${priority}`, `item ${priority}`);
    equal("peek", (await q.ask("peek.min")).string(), "item -1");
    const first = await q.pop("min");
    equal("first", [first.string(), first.headers.get("PQ-Priority"), first.headers.get("PQ-Num-Pending")], ["item -1", "-1", "3"]);
    equal("no lease", [first.reply ?? "", first.headers.get("PQ-Ack")], ["", ""]);
    equal("last", (await q.pop("max")).string(), "item 9");
    equal("band", status(await q.ask("pop.min", JSON.stringify({ min: 6 }))), "404");
    equal("next", (await q.pop("min")).string(), "item 5");
  },

  async "content is unchanged"(q) {
    const payload = new Uint8Array(300_000).map((_, i) => (i * i) % 251);
    await q.nc.request(`pq.${q.name}.push`, payload, { timeout, headers: headersOf({ "X-Mine": "käse, brot" }) });
    const item = await q.pop("min");
    equal("header", item.headers.get("X-Mine"), "käse, brot");
    equal("size", item.data.length, payload.length);
    equal("bytes", item.data.every((b, i) => b === payload[i]), true);
    await q.push("push", "");
    equal("empty", (await q.pop("min")).data.length, 0);
  },

  async "lease, then acknowledge"(q) {
    await q.push("push", "x");
    const item = await q.pop("min", "", { "PQ-Lease": "1m" });
    equal("subject", item.reply, item.headers.get("PQ-Ack"));
    equal("elsewhere", [status(await q.ask("pop.min")), reason(await q.ask("pop.min"))], ["404", "leased"]);
    held("+ACK", await q.settle(item, "+ACK"));
    lost("once more", await q.settle(item, "+ACK"), "gone");
    equal("afterwards", reason(await q.ask("pop.min")), "empty");
    await q.push("push", "y");
    (await q.pop("min", JSON.stringify({ lease: nanos(60_000) }))).respond("+ACK");
    equal("respond", await emptied(q), 0);
  },

  async "give back, extend and give up"(q) {
    await q.push("push.3", "x");
    let item = await q.pop("min", "", { "PQ-Lease": "1m" });
    const more = await q.settle(item, "+WPI");
    held("+WPI", more);
    equal("longer", more.headers.get("PQ-Lease-Expires") > item.headers.get("PQ-Lease-Expires"), true);
    held("-NAK", await q.settle(item, "-NAK " + JSON.stringify({ delay: nanos(20) })));
    lost("late -NAK", await q.settle(item, "-NAK"), "returned");
    const again = await q.pop("min", "", { "PQ-Lease": "1m", "PQ-Wait": "20s" });
    equal("again", [again.headers.get("PQ-Deliveries"), again.headers.get("PQ-Fence")], ["2", "2"]);
    lost("of the first lease", await q.settle(item, "+ACK"), "taken");
    held("+TERM", await q.settle(again, "+TERM broken"));
    const dead = await new Queue(q.nc, `${q.name}-dead`).pop("min");
    const about = ["PQ-Dead-Reason", "PQ-Origin", "PQ-Origin-Id", "PQ-Priority"].map((key) => dead.headers.get(key));
    equal("dead", about, ["broken", q.name, item.headers.get("PQ-Id"), "3"]);
  },

  async "acknowledge and pop in one"(q) {
    for (const priority of [1, 2, 3]) await q.push(`push.${priority}`, `${priority}`);
    let item = await q.pop("max", "", { "PQ-Lease": "1m" });
    for (const expected of ["2", "1"]) {
      item = await q.settle(item, "+NXT");
      equal("next", item.string(), expected);
    }
    held("the last", await q.settle(item, "+ACK"));
    equal("left", (await q.info()).leased, 0);
  },

  async "batch"(q) {
    for (const priority of [4, 1, 3, 2]) await q.push(`push.${priority}`, `${priority}`);
    const first = await q.batch("min", "3");
    equal("bodies", first.map((m) => m.string()), ["1", "2", "3", ""]);
    equal("end", [status(first[3]), first[3].headers.get("Description")], ["204", "EOB"]);
    const leased = await q.batch("max", JSON.stringify({ batch: 10, lease: nanos(60_000) }));
    equal("leased", leased.map((m) => m.string()), ["4", ""]);
    leased[0].respond();
    equal("settled", await emptied(q), 0);
    const none = await q.batch("min", "3");
    equal("nothing", none.map(status), ["404"]);
  },

  async "wait"(q) {
    const order = [];
    const waiters = ["first", "second"].map((name) =>
      q.pop("min", "", { "PQ-Wait": "20s" }).then((item) => order.push(`${name} ${item.string()}`))
    );
    for (const body of ["a", "b"]) await q.push("push", body);
    await Promise.all(waiters);
    equal("served", order.sort(), ["first a", "second b"]);
    const late = await q.ask("pop.min", JSON.stringify({ expires: nanos(30) }));
    equal("in vain", [status(late), late.headers.get("Description"), code(late)], ["408", "Request Timeout", "408"]);
  },

  async "repeat a pop"(q) {
    for (const body of ["a", "b"]) await q.push("push", body);
    for (let i = 0; i < 2; i++) equal("same", (await q.pop("min", "", { "Nats-Msg-Id": "p" })).string(), "a");
    equal("another", (await q.pop("min", "", { "Nats-Msg-Id": "q" })).string(), "b");
    equal("another end", code(await q.ask("pop.max", "", { "Nats-Msg-Id": "p" })), "400");
  },

  async "look and change"(q) {
    const { id } = await q.push("push.7", "x", { "X-Mine": "1" });
    equal("get", (await q.ask(`get.${id}`)).headers.get("PQ-State"), "ready");
    equal("move", (await q.ask(`move.${id}.-7`)).json(), { id, priority: -7 });
    const { items } = (await q.ask("list", JSON.stringify({ bodies: true }))).json();
    const { priority, headers, body } = items[0];
    equal("list", [items.length, priority, headers, atob(body)], [1, -7, { "X-Mine": ["1"] }, "x"]);
    equal("config", (await q.ask("admin.config", JSON.stringify({ lease: "1m" }))).json().lease, "1m0s");
    equal("default lease", (await q.pop("min")).reply !== undefined, true);
    equal("remove", (await q.ask(`remove.${id}`)).json().id, id);
    const gone = await q.ask(`get.${id}`);
    equal("gone", [status(gone), reason(gone)], ["404", "unknown"]);
  },

  async "events"(q) {
    const events = q.nc.subscribe(`pq.${q.name}.event.expired`, { max: 1 });
    const { id } = await q.push("push.2", "x", { "PQ-TTL": "1ms" });
    for await (const m of events) {
      const { type, queue, id: which, priority } = m.json();
      equal("event", [type, queue, which, priority], ["io.pq.v1.event.expired", q.name, id, 2]);
    }
  },

  async "errors"(q) {
    for (const subject of ["push.high", "pish", "psuh.5"]) {
      try {
        await q.js.publish(`pq.${q.name}.${subject}`, "x");
        throw new Error(`${subject} was accepted`);
      } catch (err) {
        if (!(err instanceof JetStreamApiError)) throw err;
        equal(subject, [err.status, err.code], [400, 30400]);
      }
    }
    for (const [what, answer, expected] of [
      ["no such queue", await q.ask("pop.min"), ["404", "unknown"]],
      ["body", await q.ask("pop.min", "all"), ["400", ""]],
      ["header", await q.ask("pop.min", "", { "PQ-Timeout": "5s" }), ["400", ""]],
      ["subject", await q.ask("pop.middle"), ["400", ""]],
    ]) {
      const told = answer.data.length === 0 ? "" : `${answer.json().error.code}`;
      equal(what, [told, status(answer), code(answer), reason(answer)], [expected[0] === "400" ? "400" : "", expected[0], ...expected]);
      if (!answer.headers.get("Nats-Service-Error")) throw new Error(`${what}: no text`);
    }
    const forged = await q.nc.request(`pq.${q.name}.ack.x.y`, "+ACK", { timeout });
    equal("no lease", [status(forged), code(forged)], ["503", "400"]);
  },
};

// emptied waits until nothing is leased: an acknowledgement without a reply
// subject is not answered.
async function emptied(q) {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const { ready, leased } = await q.info();
    if (ready + leased === 0) break;
  }
  return (await q.info()).leased;
}

// run runs all checks on one connection, and says of each what went wrong, if
// anything.
export async function run(nc) {
  const results = [];
  for (const [name, check] of Object.entries(checks)) {
    const queue = new Queue(nc, `q${results.length}`);
    try {
      await check(queue);
      results.push({ name, error: "" });
    } catch (err) {
      results.push({ name, error: `${err.stack ?? err}` });
    }
  }
  return results;
}
