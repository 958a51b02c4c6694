// What became of an item.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { Deadline } from "./bell.js";
import { cancel } from "./cancel.js";
import { duration, durationText } from "./duration.js";
import { BusyError, cancelled, code, ItemCancelledError, NoResultYetError, PQError, UnavailableError, UnknownResultError, unreadable } from "./errors.js";
import { small, time } from "./itemdata.js";
import { text } from "./message.js";
import { callOptions, checked, flag } from "./options.js";
import { itemOptions, push } from "./push.js";
import { checkID } from "./subjects.js";
import { Taking } from "./take.js";

/** For how long the queue keeps the result that pushAndWait waits for. */
const keptFor = 600_000;

class Result {
  /**
   * Reads an answer that is a result.
   * @param {string} queue
   * @param {import("./message.js").Message} m
   */
  constructor(queue, m) {
    this.outcome = /** @type {import("../index.js").Outcome} */ (m.get("PQ-Outcome"));
    this.body = m.data;
    this.dropped = m.get("PQ-Result") === "dropped";
    this.reason = m.get("PQ-Dead-Reason") || m.get("PQ-Cancel-Reason");
    this.cause = m.get("PQ-Dead-Cause") || m.get("PQ-Dead-Reason");
    this.deadLetter = m.get("PQ-Dead-Letter");
    this.next = m.get("PQ-Next");
    this.nextId = m.get("PQ-Next-Id");
    try {
      this.finishedAt = time(m.get("PQ-Finished-At"));
      this.deliveries = small(m.get("PQ-Deliveries"));
    } catch (cause) {
      throw unreadable("result", queue, m.data, cause);
    }
  }

  string() {
    return text(this.body);
  }

  json() {
    return JSON.parse(this.string());
  }
}

/**
 * A request for a result under way. It changes nothing, so it is asked again until there is an answer.
 * @extends {Taking<Result>}
 */
class Asking extends Taking {
  longest = 10_000; // a bridge that dies meanwhile costs no more than that, and unlike a pop it takes nothing along

  /** @param {number} expires */
  written(expires) {
    const headers = natsHeaders();
    if (expires > 0) headers.set("PQ-Wait", durationText(expires));
    return { headers: expires > 0 ? headers : undefined, body: new Uint8Array(0) };
  }

  /** @param {import("./message.js").Message} m */
  found(m) {
    return m.headers.has("PQ-Outcome");
  }
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} id
 * @param {import("../index.js").ResultOptions | undefined} given
 * @returns {Promise<Result>}
 */
export async function result(queue, id, given) {
  checkID(id);
  const options = checked(given, "result", ["wait", ...callOptions]);
  const asking = new Asking(queue, "result", queue.subject(`result.${id}`), 0, options, (m) => new Result(queue.name, m));
  try {
    return /** @type {[Result]} */ (await asking.run())[0];
  } catch (err) {
    throw err instanceof PQError && (err.code === code.timeout || err.reason === "pending") ? new NoResultYetError({ id, why: err }) : err;
  }
}

/**
 * Whether an error says nothing of the item. Behind a push that was done it is not even true that nothing was done.
 * @param {unknown} err
 */
const saysNothing = (err) => err instanceof UnknownResultError || err instanceof UnavailableError || err instanceof BusyError;

/**
 * @param {import("./queue.js").Queue} queue
 * @param {unknown} payload
 * @param {import("../index.js").PushAndWaitOptions} given
 */
export async function pushAndWait(queue, payload, given) {
  const { wait, cancelOnHangUp, ...options } = checked(given, "pushAndWait", ["wait", "cancelOnHangUp", ...itemOptions, ...callOptions]);
  const hangsUp = flag(cancelOnHangUp, "cancelOnHangUp");
  const lasts = duration(wait, "wait");
  const { timeout, signal, resultTtl = keptFor } = options;
  // Who may cancel the item has to know its id, so the push is answered first, whatever the signal says by then.
  if (hangsUp) signal?.throwIfAborted();
  const { id } = await push(queue.client, queue.name, payload, { ...options, resultTtl, signal: hangsUp ? undefined : signal });
  try {
    return await result(queue, id, { wait: lasts, signal, timeout: timeout === undefined ? undefined : duration(timeout, "timeout") + lasts });
  } catch (err) {
    if (hangsUp && signal?.aborted) return hangUp(queue, id, signal.reason);
    const late = err instanceof PQError && saysNothing(err) && !signal?.aborted ? new NoResultYetError({ id, why: err, cause: err }) : err;
    if (hangsUp && late instanceof NoResultYetError) return hangUp(queue, id, late, `no result after ${typeof wait === "number" ? `${wait} ms` : wait}`);
    throw late;
  }
}

/**
 * Cancels an item whose caller does not wait for it any longer. If the item has just ended, its result counts.
 * @param {import("./queue.js").Queue} queue
 * @param {string} id
 * @param {unknown} cause why the wait has ended
 * @param {string} [why] in words
 * @returns {Promise<Result>}
 */
async function hangUp(queue, id, cause, why = cause instanceof Error ? cause.message : String(cause)) {
  const deadline = new Deadline(queue.client.patience.timeout);
  const reason = `the caller has hung up: ${why}`;
  try {
    const { outcome } = await cancel(queue, id, { reason });
    if (outcome !== cancelled) return await result(queue, id, { timeout: Math.max(deadline.left, 1) });
  } catch (err) {
    throw err instanceof PQError && saysNothing(err) ? new NoResultYetError({ id, why: err, cause: err }) : err;
  }
  const text = `item ${id} is cancelled, because the wait for it has ended: ${why}`;
  throw new ItemCancelledError({ op: "cancel", queue: queue.name, code: code.leaseLost, reason: cancelled, text, cause }, reason);
}
