// Lanes: calls of one kind on one queue that are under way at the same time go in one message.
//
// What they guarantee: a lone call sends its own message, at once. No call waits for an answer while fewer than
// mostUnderWay messages of its lane are under way: it waits until the program has nothing else to do, since callers that
// one answer has woken call again together. Calls leave in their order. Each keeps its result, its error and its deadline; one
// that ends before it left was not done. The calls of a message that is too large, or that the user may not send, go alone.
import { Bell, Deadline } from "./bell.js";
import { ended } from "./call.js";
import { code, errorOf, inDoubt, isDenial, mayRepeat, PQError } from "./errors.js";
import { whenIdle } from "./idle.js";

/** With fewer messages under way a call that finds nobody waiting goes alone. */
const lone = 2;

const mostUnderWay = 16;

/** The bytes of a message: so many, and this part of the server's max_payload. */
const mostBytes = 256 << 10;
const part = 4;

/** @typedef {import("./call.js").Call} Call */

/**
 * What became of a call in a bundle. apart: nothing, it is to go alone. final: repeated for long enough.
 * @typedef {{value?: any, error?: unknown, apart?: boolean, final?: boolean}} Outcome
 */

/**
 * A kind of calls.
 * @typedef {object} Kind
 * @property {number} answer the most bytes of the answer for each call
 * @property {(call: any) => number} size of a call in a bundle, in bytes; Infinity: it goes alone
 * @property {(call: any) => void} plain prepares a call for a message of its own
 * @property {(calls: [any, ...any[]]) => Call} bundle
 * @property {(m: import("./message.js").Message, bundle: Call, calls: any[]) => Outcome[]} read
 * @property {(client: import("./client.js").Client, bundle: Call) => boolean} denied the server does not let a bundle pass; whether it may let others
 */

/**
 * A message under way with several calls.
 * @typedef {{bundle: Call, deadline: Longest, here: number}} Group
 */

/**
 * @typedef {{call: Call, deadline: Deadline, bell: Bell, group?: Group, outcome?: Outcome}} Place
 */

/** The latest deadline of some calls; it is over when all of them have left. */
class Longest extends Deadline {
  /** @type {unknown} why the last one left */
  gone;

  get left() {
    return this.gone ? 0 : super.left;
  }

  get cause() {
    return this.gone ?? super.cause;
  }
}

class Lane {
  /** Calls that have not left. @type {Place[]} */
  #waiting = [];
  #underWay = 0;
  #leaving = false;

  /**
   * @param {Lanes} lanes
   * @param {Kind} kind
   * @param {string} key
   */
  constructor(lanes, kind, key) {
    this.lanes = lanes;
    this.kind = kind;
    this.key = key;
  }

  /** Whether the next call goes alone. */
  get lone() {
    return this.#underWay < lone && this.#waiting.length === 0 && !this.lanes.woken;
  }

  /** @param {Call} call that begins a message */
  begun(call) {
    this.#underWay++;
    call.landed = () => {
      call.landed = undefined;
      this.#underWay--;
      if (!this.#leaving) this.#leave();
    };
  }

  /**
   * Sends a call with others.
   * @param {Call} call
   * @param {Deadline} deadline
   * @returns {Promise<Outcome>}
   */
  async join(call, deadline) {
    /** @type {Place} */
    const place = { call, deadline, bell: new Bell() };
    this.#waiting.push(place);
    this.#begin();
    while (!place.outcome && !deadline.over) await place.bell.wait(deadline.left, deadline.signal);
    const { outcome, group } = place;
    if (outcome) return outcome;
    place.outcome = {}; // nobody waits for it
    if (!group) {
      this.#waiting.splice(this.#waiting.indexOf(place), 1);
      return { error: ended(call, undefined, deadline.cause) };
    }
    if (group.bundle !== call) took(call, group.bundle);
    if (--group.here === 0) {
      group.deadline.gone = deadline.cause;
      group.bundle.bell.ring();
    }
    return { error: ended(call, group.bundle.refusal, deadline.cause) };
  }

  #begin() {
    if (this.#leaving || this.#underWay >= mostUnderWay || this.#waiting.length === 0) return;
    this.#leaving = true;
    whenIdle(() => {
      this.#leaving = false;
      this.#leave();
    });
  }

  /**
   * Sends the calls that wait, as far as they fit into one message. The rest begins the next one. While nothing can be sent, each
   * waits for itself, since it may end before.
   */
  #leave() {
    if (!this.lanes.client.mailbox.admitted) {
      for (const place of this.#waiting.splice(0)) answer(place, { apart: true });
    } else if (this.#waiting.length > 0) {
      this.#send(this.#waiting.splice(0, this.#fitting()));
    }
    if (this.#underWay === 0 && this.#waiting.length === 0) this.lanes.drop(this);
    this.#begin();
  }

  #fitting() {
    const { max, client } = this.lanes;
    const payload = client.connection.info?.max_payload ?? Infinity;
    const most = Math.min(max, Math.floor(payload / this.kind.answer));
    let bytes = 0;
    for (const [i, { call }] of this.#waiting.entries()) {
      bytes += this.kind.size(call);
      if (i > 0 && (i >= most || bytes > Math.min(mostBytes, payload / part))) return i;
      if (bytes === Infinity) return 1;
    }
    return this.#waiting.length;
  }

  /** @param {Place[]} places */
  #send(places) {
    const { client } = this.lanes;
    const calls = places.map(({ call }) => call);
    const deadline = new Longest(Math.max(...places.map((place) => place.deadline.left)));
    const single = calls.length === 1 ? calls[0] : undefined;
    if (single) this.kind.plain(single);
    const bundle = single ?? this.kind.bundle(/** @type {[Call, ...Call[]]} */ (calls));
    const group = { bundle, deadline, here: places.length };
    for (const place of places) place.group = group;
    this.begun(bundle);
    void bundle.send(client, deadline).then(
      (m) => (single ? [{ value: m }] : this.#read(m, bundle, calls)),
      (err) => {
        const outcome = single ? { error: err, final: true } : this.#failed(err, bundle);
        return calls.map((call) => ({ ...outcome, error: errorFor(call, outcome.error) }));
      },
    ).then((outcomes) => {
      if (!single) this.lanes.wake();
      for (const [i, place] of places.entries()) {
        if (place.outcome) continue; // it has left
        const outcome = outcomes[i] ?? {};
        if (!single) took(place.call, bundle, outcome.error);
        answer(place, outcome);
      }
    });
  }

  /**
   * @param {import("./message.js").Message} m
   * @param {Call} bundle
   * @param {Call[]} calls
   * @returns {Outcome[]}
   */
  #read(m, bundle, calls) {
    try {
      return this.kind.read(m, bundle, calls);
    } catch (error) {
      return calls.map(() => ({ error }));
    }
  }

  /**
   * What becomes of each call of a bundle that was refused, or not answered.
   * @param {unknown} err
   * @param {Call} bundle
   * @returns {Outcome}
   */
  #failed(err, bundle) {
    if (!(err instanceof PQError)) return { error: err };
    if (isDenial(err.cause) && err.cause.operation === "publish") {
      this.lanes.denied(this.kind, bundle);
      return { apart: true };
    }
    return err.code === code.tooLarge ? { apart: true } : { error: err, final: true };
  }
}

/**
 * @param {Place} place
 * @param {Outcome} outcome
 */
function answer(place, outcome) {
  place.outcome = outcome;
  place.bell.ring();
}

/**
 * The error of a bundle as that of one of its calls.
 * @param {Call} call
 * @param {unknown} err
 */
function errorFor({ op, queue }, err) {
  if (!(err instanceof PQError) || err.op === op) return err;
  const { code, reason, text, cause } = err;
  return errorOf({ op, queue, code, reason, text, cause });
}

/**
 * A call was in the attempts of a bundle.
 * @param {Call} call
 * @param {Call} bundle
 * @param {unknown} [error] that it got
 */
function took(call, bundle, error) {
  const unknown = error instanceof PQError && error.code === code.unknownResult;
  call.sent += bundle.sent;
  call.answered += unknown ? Math.min(bundle.answered, bundle.sent - 1) : bundle.answered;
}

/** The lanes of a client. An idle one is dropped. */
export class Lanes {
  /** @type {Map<string, Lane>} */
  #lanes = new Map();
  /** Whether callers were woken together just now, who may call again: nobody goes alone then. */
  woken = false;
  /** Whose calls go alone, because the user may not send their bundles. @type {Set<Kind>} */
  #apart = new Set();

  /**
   * @param {import("./client.js").Client} client
   * @param {number} max calls of a message
   */
  constructor(client, max) {
    this.client = client;
    this.max = max;
  }

  /**
   * Sends a call, alone or with others. The message of a lone call is sent before this returns.
   * @param {Kind} kind
   * @param {string} key of the lane
   * @param {Call} call
   * @param {Deadline} deadline
   * @returns {Promise<any>} the answer to its own message, or what the kind reads in that to a bundle
   */
  send(kind, key, call, deadline) {
    if (this.max === 1 || this.#apart.has(kind)) return this.#alone(kind, call, deadline);
    let lane = this.#lanes.get(key);
    if (!lane) this.#lanes.set(key, (lane = new Lane(this, kind, key)));
    if (!lane.lone) return this.#together(lane, call, deadline);
    lane.begun(call);
    return this.#alone(kind, call, deadline);
  }

  /**
   * @param {Kind} kind
   * @param {Call} call
   * @param {Deadline} deadline
   */
  #alone(kind, call, deadline) {
    kind.plain(call);
    return call.send(this.client, deadline);
  }

  /**
   * @param {Lane} lane
   * @param {Call} call
   * @param {Deadline} deadline
   */
  async #together(lane, call, deadline) {
    const { kind, key } = lane;
    const { value, error, apart, final } = await lane.join(call, deadline);
    if (value !== undefined) return value;
    if (apart) return this.#alone(kind, call, deadline);
    if (!(error instanceof PQError) || final || deadline.over || !mayRepeat(error, call.repeatable)) throw inDoubt(error, call.open);
    call.refusal = error;
    if (!call.retry.allowed(this.client.patience.retryFor) || !(await call.retry.wait(deadline, error))) throw inDoubt(error, call.open);
    return this.send(kind, key, call, deadline);
  }

  /** Several callers are answered at one time. */
  wake() {
    if (this.woken) return;
    this.woken = true;
    whenIdle(() => (this.woken = false));
  }

  /** @param {Lane} lane */
  drop(lane) {
    if (this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key);
  }

  /**
   * The user may not send the bundle, and perhaps its calls.
   * @param {Kind} kind
   * @param {Call} bundle
   */
  denied(kind, bundle) {
    if (!kind.denied(this.client, bundle)) this.#apart.add(kind);
  }
}
