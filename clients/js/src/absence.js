// When workers get nothing because nothing answers.
import { code, errorOf, mayRepeat, PQError } from "./errors.js";

/** What a consumer says when its pops are refused, or have no connection, for some time: once, and again only after an answer. */
export class Absence {
  /** @type {PQError | undefined} why the last pop got no answer */
  #why;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #told = false;
  /** How many pops are with a bridge, as far as is known. */
  #asked = 0;
  #disconnected;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {(err: PQError) => void} tell
   */
  constructor({ name, client: { mailbox, patience } }, tell) {
    this.mailbox = mailbox;
    this.after = patience.absence;
    this.tell = tell;
    this.#disconnected = () => this.#begin(errorOf({ op: "pop", queue: name, code: code.unavailable, text: "there is no connection to NATS" }));
    mailbox.disconnected.add(this.#disconnected);
    if (!mailbox.connected) this.#disconnected();
  }

  /** A pop was sent. @returns {() => void} to be called when it is refused, or answered */
  asked() {
    this.#asked++;
    return () => void this.#asked--;
  }

  /** A pop was refused. @param {PQError} err */
  refused(err) {
    if (mayRepeat(err, false)) this.#begin(err);
    else this.answered();
  }

  /** A bridge answers. */
  answered() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#told = false;
  }

  /** @param {PQError} err */
  #begin(err) {
    this.#why = err;
    if (!this.#told) this.#timer ??= setTimeout(() => this.#late(), this.after);
  }

  #late() {
    this.#timer = undefined;
    // Without a bridge a pop is refused at once.
    if (this.#why && !(this.#asked > 0 && this.mailbox.connected)) this.#tell(this.#why);
  }

  /** A pop has ended without an item. It says whether that is told. @param {unknown} err */
  ended(err) {
    const why = err instanceof PQError && err.cause instanceof PQError ? err.cause : err; // of the last of its attempts
    if (this.#told || !(why instanceof PQError) || !mayRepeat(why, false)) return this.#told;
    this.answered();
    this.#tell(why);
    return true;
  }

  /** @param {PQError} err */
  #tell(err) {
    this.#told = true;
    this.tell(err);
  }

  /** Nobody asks any more. */
  over() {
    clearTimeout(this.#timer);
    this.mailbox.disconnected.delete(this.#disconnected);
  }
}
