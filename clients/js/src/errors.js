// Errors of requests. Each class is what one code of the protocol means; the texts are the
// bridge's own.
import { text } from "./message.js";

/** The codes of answers that the client looks at. */
export const code = Object.freeze({
  badRequest: 400,
  forbidden: 403,
  notFound: 404,
  timeout: 408,
  conflict: 409,
  leaseLost: 410,
  tooLarge: 413,
  busy: 429,
  internal: 500,
  unavailable: 503,
  unknownResult: 504,
  damaged: 506,
});

/** The reason of a lease that is lost because its item was cancelled, and the outcome of the item. */
export const cancelled = "cancelled";

export class PQError extends Error {
  /**
   * @param {{op: string, queue?: string, code: number, reason?: string, text: string, progress?: string, item?: number, cause?: unknown}} about
   */
  constructor(about) {
    const on = about.queue ? `${about.op} ${about.queue}` : about.op;
    super(`${on}: ${about.text} (${about.code})`, about.cause === undefined ? undefined : { cause: about.cause });
    this.name = "PQError";
    this.op = about.op;
    this.queue = about.queue ?? "";
    this.code = about.code;
    this.reason = about.reason ?? "";
    this.text = about.text;
    this.progress = about.progress ?? "";
    this.item = about.item;
    /** @type {import("../index.js").BulkResult | undefined} */
    this.bulk = undefined;
  }
}

// Names are written out, because bundlers change those of classes.
export class BadRequestError extends PQError {
  name = "BadRequestError";
}
export class ForbiddenError extends PQError {
  name = "ForbiddenError";
}
export class EmptyError extends PQError {
  name = "EmptyError";
}
export class NotFoundError extends PQError {
  name = "NotFoundError";
}
export class ConflictError extends PQError {
  name = "ConflictError";
}
export class LeaseLostError extends PQError {
  name = "LeaseLostError";
}

/** Somebody has cancelled the item. */
export class ItemCancelledError extends LeaseLostError {
  name = "ItemCancelledError";

  /**
   * @param {ConstructorParameters<typeof PQError>[0]} about
   * @param {string} [why] without it the text says so
   */
  constructor(about, why) {
    super(about);
    this.why = why ?? about.text.split(/cancelled: (.*)/s)[1] ?? "";
  }
}
export class TooLargeError extends PQError {
  name = "TooLargeError";
}
export class BusyError extends PQError {
  name = "BusyError";
}
export class InternalError extends PQError {
  name = "InternalError";
}
export class UnavailableError extends PQError {
  name = "UnavailableError";
}
export class UnknownResultError extends PQError {
  name = "UnknownResultError";
}
export class DamagedError extends PQError {
  name = "DamagedError";
}

/** An item whose result was asked for has not ended. */
export class NoResultYetError extends PQError {
  name = "NoResultYetError";

  /** @param {{id: string, why: PQError, cause?: unknown}} about why: there is no result; cause: nor is it known whether there is one */
  constructor({ id, why: { op, queue, code, reason, progress }, cause }) {
    super({ op, queue, code, reason, progress, text: `job ${id} goes on: ask again with result`, cause });
    this.id = id;
  }
}

/** The item has no lease, so there is nothing to settle. */
export class NotLeasedError extends Error {
  constructor() {
    super("the item was popped without a lease: expected one that was popped with the option lease");
    this.name = "NotLeasedError";
  }
}

/** The same object has settled its lease before. */
export class SettledError extends Error {
  constructor() {
    super("the item was settled already");
    this.name = "SettledError";
  }
}

/** @type {Map<number, typeof PQError>} */
const classes = new Map([
  [code.badRequest, BadRequestError],
  [code.forbidden, ForbiddenError],
  [code.timeout, EmptyError],
  [code.leaseLost, LeaseLostError],
  [code.tooLarge, TooLargeError],
  [code.busy, BusyError],
  [code.unavailable, UnavailableError],
  [code.unknownResult, UnknownResultError],
  [code.damaged, DamagedError],
]);

/** The operations that look for an item: 404 says that there is none to take. */
const looks = new Set(["pop", "peek", "ackNext"]);

/**
 * The error of a code, in the class that it means.
 * @param {ConstructorParameters<typeof PQError>[0]} about
 * @returns {PQError}
 */
export function errorOf(about) {
  if (about.code === code.notFound) return looks.has(about.op) ? new EmptyError(about) : new NotFoundError(about);
  // Without a reason too many pops wait, or the bridge stops.
  if (about.code === code.conflict) return about.reason ? new ConflictError(about) : new BusyError(about);
  if (about.code === code.leaseLost && about.reason === cancelled) return new ItemCancelledError(about);
  return new (classes.get(about.code) ?? InternalError)(about);
}

/**
 * The error in an answer, undefined if the answer is none.
 * @param {import("./message.js").Message} m
 * @param {string} op
 * @param {string} queue
 * @returns {PQError | undefined}
 */
export function refusalIn(m, op, queue) {
  const number = m.get("Nats-Service-Error-Code");
  if (/^[1-9]\d{0,5}$/.test(number)) {
    return errorOf({
      op,
      queue,
      code: Number(number),
      reason: m.get("PQ-Reason"),
      text: m.get("Nats-Service-Error"),
      progress: m.get("PQ-Progress"),
      item: itemOf(m),
    });
  }
  if (m.noResponders) return errorOf({ op, queue, code: code.unavailable, text: noBridge });
  return undefined;
}

/** The text of an error of a request that no bridge has received. */
export const noBridge = "no bridge is there";

/**
 * Which item of a bundle an error is about, undefined if it is about all.
 * @param {import("./message.js").Message} m
 * @returns {number | undefined}
 */
function itemOf(m) {
  if (m.data.length === 0) return undefined;
  try {
    const item = JSON.parse(text(m.data))?.error?.item;
    return Number.isSafeInteger(item) ? item : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The error of an answer that the protocol does not have: another program listens on the
 * subject, or the responder speaks another version. What became of the request is unknown.
 * @param {string} op
 * @param {string} queue
 * @param {Uint8Array} body
 * @param {unknown} [cause]
 * @returns {PQError}
 */
export function unreadable(op, queue, body, cause = new Error("fields are missing")) {
  const start = JSON.stringify(text(body.subarray(0, 60)));
  const why = cause instanceof Error ? cause.message : String(cause);
  return errorOf({ op, queue, code: code.unknownResult, text: `the answer ${start} cannot be read: ${why}`, cause });
}

/**
 * Whether a request may be sent again after this error: nothing was done, or doing it twice is
 * like doing it once.
 * @param {PQError} e
 * @param {boolean} repeatable
 */
export function mayRepeat(e, repeatable) {
  switch (e.code) {
    case code.busy:
    case code.unavailable:
      return e.cause === undefined;
    case code.conflict:
      return e.reason === ""; // otherwise trying again does not help
    case code.unknownResult:
      return repeatable && e.cause === undefined;
  }
  return false;
}

const aboutAnotherItem = new Set(["occupied", "leased", "another_key"]);
/** @type {Set<number>} */
const mayBeDoneLater = new Set([code.forbidden, code.conflict, code.busy, code.unavailable, code.damaged]);

/**
 * The error of a request that is given up. If an earlier attempt is open, a refusal to do it now
 * does not say that it will not be done: another bridge may have that attempt.
 * @param {unknown} err
 * @param {boolean} open
 * @returns {unknown}
 */
export function inDoubt(err, open) {
  if (!open || !(err instanceof PQError) || !mayBeDoneLater.has(err.code) || aboutAnotherItem.has(err.reason)) return err;
  return errorOf({
    op: err.op,
    queue: err.queue,
    code: code.unknownResult,
    text: `an attempt was not answered, and the last one was refused: ${err.text} (${err.code})`,
    cause: err,
  });
}

/**
 * Whether the NATS server does not permit something.
 * @param {unknown} cause
 * @returns {cause is import("@nats-io/nats-core").PermissionViolationError}
 */
export const isDenial = (cause) => cause instanceof Error && cause.name === "PermissionViolationError";

/**
 * What the NATS server does not permit.
 * @param {import("@nats-io/nats-core").PermissionViolationError} cause
 * @param {string} subject of the request
 */
export const deniedText = (cause, subject) =>
  cause.operation === "subscription"
    ? `the NATS server does not permit this user to subscribe to ${cause.subject}, where answers arrive: expected an inboxPrefix, of connect or of Client, that it permits, such as "_INBOX.<user>"`
    : `the NATS server does not permit this user to publish to ${subject}`;

/**
 * The error of a request that the NATS server does not permit, or whose answer it does not.
 * @param {{op: string, queue: string, subject: string}} request
 * @param {import("@nats-io/nats-core").PermissionViolationError} cause
 */
export const denial = ({ op, queue, subject }, cause) => errorOf({ op, queue, code: code.forbidden, text: deniedText(cause, subject), cause });
