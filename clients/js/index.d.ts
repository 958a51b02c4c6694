import type { MsgHdrs, NatsConnection } from "@nats-io/nats-core";

/** An integer of 64 bits: a number, or a bigint where a number is not exact. */
export type Integer = number | bigint;

/** Milliseconds, or a text such as `"30s"` or `"1h30m"`. */
export type Duration = number | string;

/** What every request has. */
export interface CallOptions {
  /**
   * How long the request may take, with all its repetitions; the client's `timeout` if not given. A
   * waiting pop has that on top of its `wait`.
   */
  timeout?: Duration;
  /** Ends the request early. If it was sent, its result is unknown then. */
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** Of the bridge's subjects; `"pq"` if not given. */
  prefix?: string;
  /**
   * The bridge's own prefix, if the account imports the bridge's subjects under another one. Items
   * have ack subjects with the bridge's prefix; the client replaces it by its own.
   */
  bridgePrefix?: string;
  /** Of a request that has none; 10 seconds if not given. */
  timeout?: Duration;
  /**
   * How long to repeat a request that was refused, or that no bridge has received. Without it the
   * client repeats until the timeout, which bridges restarts. An interactive program may prefer an
   * early error.
   */
  retryFor?: Duration;
  /** After which time to repeat a request without an answer, at first; 400 ms if not given. */
  askAgainAfter?: Duration;
  /** How many pushes may wait for their answers; further pushes wait. 4096 if not given. */
  maxInFlight?: number;

  /**
   * How many calls go in one message at most, 1 to 1000; 1: each has its own. The default is 1000. Pushes, settlements and the pops of a
   * consumer's workers that are under way at the same time go together. Each keeps its result, its error and its deadline.
   */
  maxBundle?: number;
  /**
   * Of reply subjects; that of the connection if not given. Where the NATS server does not permit the user to
   * subscribe there, requests are not sent, and fail with a {@link ForbiddenError} that says so.
   */
  inboxPrefix?: string;
}

/**
 * Speaks to the bridges behind a NATS connection. One is enough for a connection, and the caller
 * closes the connection.
 *
 * A bridge refuses a request, and does nothing, if it is busy, restarts, or its store cannot commit.
 * The client repeats such a request. It repeats an unanswered request only if doing it twice is like
 * doing it once: every push has an id for that, a pop has one with `repeatable` or `popId`, and reads
 * need none. While there is no connection requests wait.
 */
export class Client {
  constructor(connection: NatsConnection, options?: ClientOptions);
  readonly connection: NatsConnection;
  /** The queue with this name, which need not exist: the first push makes it. The types are those of {@link Queue}. */
  queue<Data = any, Returned = any>(name: string): Queue<Data, Returned>;
  /** An item that can only be settled, from the `ackSubject` of its lease. */
  attach(ackSubject: string): Item;
  /** Waits until all pushes that were sent are answered, whatever the answers. */
  flush(options?: CallOptions): Promise<void>;
  /** The names of all queues, or of those that begin with the prefix, in order. */
  queues(options?: CallOptions & { prefix?: string }): AsyncGenerator<string, void, undefined>;
  /** What one of the bridges reports about itself. */
  system(options?: CallOptions): Promise<System>;
  /** What went through the answering bridge in the last hour, all queues together, and what went wrong. */
  history(options?: CallOptions): Promise<History>;
  /** The pqd that keep a replicated store together, the active one first; {@link BadRequestError} if the store is no such. */
  cluster(options?: CallOptions): Promise<Cluster>;
  /** The active pqd hands over to the node with this name, or to one that follows. */
  stepDown(options?: CallOptions & { node?: string }): Promise<{ node: string; successor: string; epoch: Integer }>;
  /** A node that runs takes the place of one that is lost for good, by their names. */
  replaceNode(options: CallOptions & { old: string; new: string }): Promise<{ old: string; new: string; replicas: string[] }>;
}

export interface ItemOptions {
  /** Low ones are first at the end `"min"`. Without it the item gets the queue's default. */
  priority?: Integer;
  /** Headers that stay with the item. */
  headers?: Record<string, string | readonly string[]> | MsgHdrs;
  /** Whose item it is. The queue's configuration says what follows. */
  key?: string;
  /** The share of its key where keys take turns, 1 to 1000. Without it the push changes nothing. */
  weight?: number;
  /** A value that one item of the queue has at a time. */
  unique?: string;
  /** `"leased"`: the item has its unique value only until it is leased first. */
  uniqueUntil?: "leased";
  /** What the push does if an item has the unique value; `"keep"` if not given. */
  onConflict?: "keep" | "replace" | "raise";
  /**
   * Of all pushes with this id within the queue's `dedup_window` only the first one adds an item.
   * Without it the client makes a random one, so that a repetition after a lost answer is no second
   * item.
   */
  msgId?: string;
  /**
   * Push without an id. Then the client does not repeat a push without an answer, which fails with
   * {@link UnknownResultError}.
   */
  withoutMsgId?: boolean;
  /** The item is not ready before this time has passed. */
  delay?: Duration;
  /** The item is not ready before this time, by the bridge's clock. */
  notBefore?: Date;
  /** The item expires unless it is popped within this time. */
  ttl?: Duration;
  /**
   * The queue keeps what becomes of the item for this time at least, up to 168h; it rounds up to 1m, 10m, 1h, 6h, 24h or 168h. Without it
   * the queue keeps nothing.
   */
  resultTtl?: Duration;
  /** How much each delivery takes of the `cost_rate` of the queue and of its key, 1 to 1,000,000; 1 if not given. It may be a guess: see `spent`. */
  cost?: number;
}

export interface PushOptions extends ItemOptions, CallOptions {}

export interface PushAndWaitOptions extends PushOptions {
  /** For how long to wait for the end of the item, at most; any time, in several requests. A `timeout` is of the push, and on top of this. */
  wait: Duration;
  /**
   * Cancel the item when nobody waits for it any longer: `wait` is over, or `signal` aborts. The error is an {@link ItemCancelledError} then,
   * unless the item has just ended: its result counts. A program that dies cancels nothing; `ttl` is for that.
   */
  cancelOnHangUp?: boolean;
}

export interface ResultOptions extends CallOptions {
  /** For how long to wait for the end of the item; any time, in several requests. Without it there is no wait. */
  wait?: Duration;
}

export interface AckOptions<Returned = any> extends CallOptions {
  /**
   * What the work has brought, for whoever has pushed the item and asked for its result; as large as a payload. If nobody has, or the
   * queue has no room for it, it is dropped: the item is done all the same.
   */
  result?: Payload<Returned>;
}

/** How an item ended. `"done"`: it was acknowledged, or popped without a lease. `"handed_over"`: another push acknowledged it, or a link took it. */
export type Outcome = "done" | "dead" | "handed_over" | "expired" | "removed" | "cancelled" | "evicted";

/** What became of an item whose push asked for that, by its `resultTtl`. */
export interface Result<Returned = any> {
  readonly outcome: Outcome;
  /** What its handler has returned, or its holder said with the acknowledgement; empty: nothing. */
  readonly body: Uint8Array;
  /** The holder said something, and the queue had no room for it. */
  readonly dropped: boolean;
  readonly finishedAt: Date;
  readonly deliveries: number;
  /** Why it is dead or cancelled, `""` otherwise. */
  readonly reason: string;
  /** Of a dead item: what it failed of last, or why it is dead. */
  readonly cause: string;
  /** Of a dead item: the queue that has it now. */
  readonly deadLetter: string;
  /** Of an item that was handed over: the queue that has it now, or `link:<name>`. */
  readonly next: string;
  /** Its id in either. */
  readonly nextId: string;

  /** The body as text. */
  string(): string;
  /** The body as JSON. A text that a handler has returned is none: `string` reads it. */
  json(): Returned;
}

/**
 * What an item has: a text, bytes, or a value that {@link Item.json} gives again. With a type it is a value of that; a text only if that is
 * a text, and bytes only if that is bytes.
 */
export type Payload<Data = any> = { json: Data } | (unknown extends Data ? string | Uint8Array : Extract<Data, string | Uint8Array>);

export interface NewItem<Data = any> extends ItemOptions {
  payload: Payload<Data>;
}

export interface Pushed {
  id: string;
  /** Its place in the order of pushes. */
  seq: Integer;
  priority: Integer;
  /**
   * The push added no item: `id` and `seq` are those of the item with its message id, or with its
   * unique value. After a lost answer the client cannot tell whether its first attempt has added the
   * item, and says false; `msgId` is for programs that have to know.
   */
  duplicate: boolean;
  /** The queue was full, and this was its least urgent item. */
  evicted: boolean;
}

export interface PeekOptions extends CallOptions {
  /** The end of the queue; `"min"`, the most urgent one, if not given. */
  end?: "min" | "max";
  /** Only items with priorities from here on. */
  min?: Integer;
  /** Only items with priorities up to here. */
  max?: Integer;
  /**
   * How long to wait for an item; any time, in several requests. Without it there is no wait. Who stops
   * waiting, by `signal` or `timeout`, takes no item along.
   *
   * For that a pop without a lease takes what is there, and then waits for a lease of 30 seconds, which the client
   * acknowledges before it returns the item. A user that may pop and not acknowledge pops in one step, as with
   * `popId`: then an item that the bridge hands out while the wait ends is lost. So is, in any case, one that is under
   * way when the very first request is cut off.
   */
  wait?: Duration;
}

export interface PeekManyOptions extends PeekOptions {
  /** Bounds the bytes of payloads and headers; one item always fits. */
  maxBytes?: number;
}

export interface PopOptions extends PeekOptions {
  /**
   * Lease the items for this long: they return unless they are settled in time. Without it the
   * queue's configuration decides; by default popped items are gone.
   */
  lease?: Duration;
  /**
   * Who leases the items: a text of 1 to 128 bytes without control characters, and without white
   * space at its ends. It tells one worker from another, and proves nothing.
   */
  holder?: string;
  /**
   * Give the pop a random id, so that the client can repeat it when its answer is lost. A pop
   * without a lease then happens exactly once, unless the program ends. One with a lease fails with
   * {@link LeaseLostError} if another consumer has had its item meanwhile.
   */
  repeatable?: boolean;
  /**
   * Give the pop an id: within the queue's `dedup_window` repeated pops with this id return the same
   * items, in any program. After one that was repeated and found nothing, further ones find nothing
   * either.
   */
  popId?: string;
}

export interface PopManyOptions extends PopOptions, PeekManyOptions {}

export interface NakOptions extends CallOptions {
  /** The item is ready again only after this time. Without it the queue's `backoff` decides; at once if it has none. */
  delay?: Duration;
  /** Why, for the record of the attempt. Up to 1 KiB of it are sent. */
  reason?: string;
}

export interface NextOptions extends CallOptions {
  /** How long to wait for the next item, up to 110 seconds; 10 at most where pqd cannot know who still waits. */
  wait?: Duration;
  /** Of the next item; as long as that of this one if not given. */
  lease?: Duration;
  /** Of the next item; that of this one if not given. */
  holder?: string;
  min?: Integer;
  max?: Integer;
}

/** Why and when an item came to a dead-letter queue, and from which queue. */
export interface Death {
  reason: string;
  origin: string;
  originId: string;
  /** When it died. */
  at: Date | undefined;
  /** How often it had been delivered. */
  deliveries: number;
  /** How many of these deliveries ended by themselves, because nobody settled or extended their leases. */
  interruptions: number;
}

/** A lease of an item that ended without success. */
export interface Attempt {
  /** Goes on when the item becomes a dead letter and is requeued. */
  n: number;
  /** Undefined if it is not known. */
  start: Date | undefined;
  end: Date;
  holder: string;
  outcome: "nak" | "expired" | "back" | "revoked" | "terminated";
  reason: string;
}

/**
 * An item as a bridge answered it. Settle a leased item: with `ack`, `nak`, `term`, `ackNext` or
 * `handOver`. Until then `extend` or `hold` keep the lease. The types are those of its {@link Queue}.
 */
export interface Item<Data = any, Returned = any> {
  /** The name of its queue. */
  readonly queue: string;
  readonly id: string;
  readonly priority: Integer;
  /** `""`: none. */
  readonly key: string;
  /** The payload. */
  readonly data: Uint8Array;
  /** As it was pushed, without a prototype. */
  readonly headers: Record<string, string[]>;
  /** How often it was leased, this time included. More than 1: somebody may have begun with it. */
  readonly deliveries: number;
  /** How many of its leases ended by a `nak`. */
  readonly failures: number;
  /** How many of its leases ran out: nobody said how the work went. */
  readonly interruptions: number;
  /** How many of its leases ended with nothing wrong with it: given back, taken away, or received by nobody. */
  readonly returns: number;
  readonly pushed: Date | undefined;
  /** Ready items behind it. */
  readonly pending: number;
  /**
   * Grows with every lease of the item. A system that the work writes to can refuse a fence lower
   * than one that it has seen.
   */
  readonly fence: Integer;
  /**
   * Grows with every lease of all items of the key. Only items of keys have it of which one item at a
   * time is leased, as under `key_order`; otherwise it is 0.
   */
  readonly keyFence: Integer;
  /** When the lease runs out, by the bridge's clock. An extension changes it. */
  readonly leaseExpires: Date | undefined;
  /** How long a leased item stays away if a plain `nak` gives it back now, in milliseconds; 0: the queue has no backoff. */
  readonly backoff: number;
  /**
   * What the last holder that said anything has said of how far it is, with `report`: a worker goes on from there. `""` if none has, or the
   * item leaves no room for it in a message.
   */
  readonly progress: string;
  readonly progressAt: Date | undefined;
  /** The schedule that has pushed the item, `""` if none has, and the time for which it did. */
  readonly schedule: string;
  readonly scheduledAt: Date | undefined;
  /** The message of a stream of which a source has made it; undefined if none has. */
  readonly source: ItemSource | undefined;
  /** Of items of a dead-letter queue. */
  readonly dead: Death | undefined;

  /** Set by `get` only. */
  readonly state: "" | "ready" | "leased" | "delayed";
  /** Set by `get` only: leased without an end, by a link. */
  readonly held: boolean;
  /** Set by `get` only: when a delayed item becomes ready. */
  readonly notBefore: Date | undefined;
  /** Set by `get` only. */
  readonly expires: Date | undefined;
  /** Set by `get` only: what keeps the item from being handed out. */
  readonly waitsFor: string;
  /** Set by `get` only: how many ready items of its key are handed out before it, up to 10,000. */
  readonly keyAhead: number;
  /** Set by `get` with `explain` only: why the item is not handed out. */
  readonly explain?: Explain;
  /** Set by `get` only. */
  readonly unique: string;
  /** Set by `get` only. */
  readonly uniqueUntil: string;
  /** For how long the queue keeps what becomes of the item, in milliseconds; 0: not at all, since its push did not ask for that. */
  readonly resultTtl: number;
  /** How much a delivery of the item takes of the `cost_rate` of its queue and of its key, by the word of its push. */
  readonly cost: number;
  /** Set by `get` only: what the holder of the item's lease calls itself, `""` if that is not known. */
  readonly holder: string;
  /** Set by `get` only: the number of the last lease that ended without success. */
  readonly attempts: number;
  /** Set by `get` with `attempts` only: those leases that the item remembers, the oldest first. */
  readonly lastAttempts: Attempt[];

  readonly leased: boolean;
  /** Whether this object has settled its lease. */
  readonly settled: boolean;
  /** The subject that settles the lease, `""` without one. Another program can settle with `attach`. */
  readonly ackSubject: string;

  /** The payload as text. */
  string(): string;
  /** The payload as JSON. */
  json(): Data;
  /** The same for a program that knows the type better. */
  json<T>(): T;

  /** The item is done. Afterwards it is gone for good. */
  ack(options?: AckOptions<Returned>): Promise<void>;
  /** The work has failed: gives the item back, to its former place. */
  nak(options?: NakOptions): Promise<void>;
  /**
   * Gives the item back with nothing wrong with it: it is ready again at once, and the lease counts
   * neither as a failure nor as an interruption. With a reason it is an attempt; without one nobody
   * has begun with it. Up to 200 bytes of the reason are kept.
   */
  giveBack(reason?: string, options?: CallOptions): Promise<void>;
  /** Makes the item a dead letter, because trying again would not help. */
  term(reason?: string, options?: CallOptions): Promise<void>;
  /** Work in progress: the lease starts afresh, for as long as it was given. */
  extend(options?: CallOptions): Promise<void>;
  /**
   * Extends the lease as `extend` does, and says how far the work is: up to 4 KiB of text in one line, such as JSON. The item keeps the text
   * in place of the one before, until it ends. Whoever looks at it sees the text, and the next holder gets it as `progress`, so a job that is
   * interrupted goes on where it was. It resolves to false if there is no room for the text.
   */
  report(text: string, options?: CallOptions): Promise<boolean>;
  /**
   * Says what this delivery has really cost so far, 0 to 1,000,000, where the `cost` of the push was a guess. It sends nothing: what ends the
   * lease says so to the queue, which corrects what it has reserved, to either side. An extension before that, such as those of `consume`,
   * reserves more if it has to, so that the truth is not lost with the worker. A `giveBack` without a reason and a `handOver` do not say it.
   */
  spent(cost: number): void;
  /**
   * Extends the lease until `stop` is called or the item is settled. `signal` is for the work on the
   * item: it aborts when the lease is lost, with a {@link LeaseLostError} as its reason, or with the
   * signal that was given.
   */
  hold(options?: { signal?: AbortSignal }): { signal: AbortSignal; stop(): void };
  /** Acknowledges, and pops the next item in the same transaction; null if there is none. */
  ackNext(options?: NextOptions): Promise<Item<Data, Returned> | null>;
  /**
   * Pushes an item to a queue and acknowledges this one, in one transaction. The `hand_over` of this
   * item's queue has to name the other queue. After {@link UnknownResultError} call it again with the
   * same `msgId`.
   */
  handOver<Next>(to: Queue<Next>, payload: Payload<Next>, options?: PushOptions): Promise<Pushed>;
}

/** An item of a list. */
export interface Listed {
  id: string;
  priority: Integer;
  key: string;
  state: "ready" | "leased" | "delayed";
  deliveries: number;
  failures: number;
  interruptions: number;
  returns: number;
  pushed: Date;
  /** Leased without an end, by a link. */
  held: boolean;
  /** When the lease ends, or the delay. */
  due: Date | undefined;
  /** When the lease began, if that is known. */
  since: Date | undefined;
  expires: Date | undefined;
  fence: Integer;
  keyFence: Integer;
  unique: string;
  uniqueUntil: string;
  /** For how long the queue keeps what becomes of the item, in milliseconds; 0: not at all. */
  resultTtl: number;
  /** Of a delivery. */
  cost: number;
  dead: Death | undefined;
  /** Of a leased item: what its holder calls itself. */
  holder: string;
  /** What it failed of last, `""` if nobody said: the reason of its last attempt, or of its death. */
  cause: string;
  /** The number of the last lease that ended without success. */
  attempts: number;
  /** With the option `attempts`. */
  lastAttempts: Attempt[];
  /** Bytes of payload and headers. */
  size: number;
  /** Missing where the item does not fit into an answer with them; `get` has them. */
  headers: Record<string, string[]> | undefined;
  /** The payload, with the option `bodies`. Missing where it alone would not fit; `get` has it. */
  data: Uint8Array | undefined;
  /** The beginning of the payload, with the option `preview`. Missing where that is one of many large payloads of a page. */
  preview: Uint8Array | undefined;
}

export interface ListOptions extends CallOptions {
  /** `"ready"` if not given. */
  state?: "ready" | "leased" | "delayed";
  min?: Integer;
  max?: Integer;
  /** Only ready items of this key. */
  key?: string;
  /** Only items that this holder has leased; with the state `"leased"`. */
  holder?: string;
  /** With `lastAttempts`. */
  attempts?: boolean;
  /** Begin behind the item with this id. */
  after?: string;
  /** With payloads. */
  bodies?: boolean;
  /** How many bytes of each payload, up to 1024; not with `bodies`. */
  preview?: number;
  /** How many items of one request; 200 if not given. */
  page?: number;
}

export interface GetOptions extends CallOptions {
  /** With `lastAttempts`. */
  attempts?: boolean;
  /** With `explain`. */
  explain?: boolean;
}

export interface CancelOptions extends CallOptions {
  /** Why, for the result of the item, and for the handler that works on it. Up to 1 KiB of it are sent. */
  reason?: string;
  /** Leave an item alone that is leased: `cancel` fails with a {@link ConflictError} (`"leased"`) then. */
  spareLeased?: boolean;
}

export interface Cancelled {
  /** `"cancelled"`, or how the item had ended before. */
  outcome: Outcome;
  /** When it had; undefined: this call has ended it. */
  finishedAt: Date | undefined;
  priority: Integer;
  deliveries: number;
}

export interface RevokeOptions extends CallOptions {
  /**
   * Of the lease that ends, as `get` shows it. Without it that is whichever there is, and the client
   * does not repeat the request, which might hit the next holder.
   */
  fence?: Integer;
  /** How long the item stays away. Without it the queue's `backoff` decides. */
  delay?: Duration;
  /** Why, for the record of the attempt. */
  reason?: string;
}

/** What a bulk operation does to the items that fit. */
export type BulkVerb = "remove" | "move" | "revoke" | "requeue";

/** Which items: all that is given has to fit. The values of `header`, `reason`, `cause` and `origin` may end in `*`. */
export interface BulkWhere {
  /** `"ready"` if not given, `"leased"` of a revoke. */
  state?: "ready" | "leased" | "delayed";
  min?: Integer;
  max?: Integer;
  key?: string;
  header?: Record<string, string>;
  /** Of the death. */
  reason?: string;
  /** What they failed of last: the reason of the last attempt, or of the death. */
  cause?: string;
  /** The queue in which they died. */
  origin?: string;
  holder?: string;
  pushedBefore?: Date;
  /** Or at that time. */
  pushedAfter?: Date;
  /** At least. */
  deliveries?: number;
  /** At least. */
  interruptions?: number;
}

export interface BulkOptions extends CallOptions {
  where?: BulkWhere;
  /** Instead of `where`: all items of the state. */
  all?: boolean;
  /** Counts what would be done, and changes nothing. */
  dryRun?: boolean;
  /** Changes of one request, up to 500. */
  page?: number;
  /** Of a move. */
  priority?: Integer;
  /** Of a revoke: how long the items stay away. */
  delay?: Duration;
  /** Of a revoke, for the record of the attempts. */
  reason?: string;
  /** Of a requeue: the queue that the items go to; the name of this one without `-dead` if not given. */
  to?: string;
  /** Of a requeue: the time over which the items become ready. */
  spread?: Duration;
  /** Go on where another run ended: the `next` of its result. */
  after?: string;
}

export interface BulkResult {
  /** How many items were changed. */
  done: number;
  looked: number;
  /** A page had no answer and was repeated, so more items may have been changed than `done` says. */
  atLeast: boolean;
  /** The queue that the items go to has no room for the next one. */
  full: boolean;
  /** Where a further run goes on; `""`: this one came to its end. */
  next: string;
}

/** The message of which a source has made an item. */
export interface ItemSource {
  /** Of the source. */
  name: string;
  subject: string;
  /** In the stream. */
  seq: Integer;
  time: Date | undefined;
  /** Its `Nats-Msg-Id`, `""` if it had none. */
  msgId: string;
  /** That of an item which came by a link, `""` otherwise. */
  id: string;
}

/** What a schedule pushes. */
export interface ScheduleItem<Data = any> {
  /** Of an answer: a text if it is UTF-8, and bytes otherwise. */
  payload?: Payload<Data>;
  headers?: Record<string, string | readonly string[]> | MsgHdrs;
  priority?: Integer;
  key?: string;
  weight?: number;
  ttl?: Duration;
  /** Of a delivery; 1 if not given. */
  cost?: number;
}

/** Fields of a schedule to change. What is not given stays as it is. */
export interface ScheduleChange<Data = any> {
  /** When it fires, such as `"30 7 * * mon-fri"`, `"@every 10m"` or `"@at 2030-01-31T09:00:00Z"`. A new schedule needs one. */
  spec?: string;
  /** A name of the tz database; `"UTC"` if never given. */
  zone?: string;
  /** Replaced as a whole. */
  item?: ScheduleItem<Data>;
  /** No time before and behind these fires; null drops them. */
  start?: Date | null;
  end?: Date | null;
  /** How many times it fires in all; 0: no bound. */
  count?: number | bigint;
  /** What it does while an earlier item of it lives; `"skip"` if never given. */
  overlap?: "skip" | "one" | "replace" | "allow";
  /** How late it may fire; an hour if never given. */
  catchUp?: Duration;
  /** Of several times that are due: the last, or all; `"one"` if never given. */
  missed?: "one" | "all";
  /** A time fires later by up to this. */
  jitter?: Duration;
  paused?: boolean;
}

/** A schedule pushes its item to its queue at each time of a calendar. Durations are texts. */
export interface Schedule {
  name: string;
  spec: string;
  zone: string;
  /** Missing in lists. */
  item: ScheduleItem | undefined;
  start: Date | undefined;
  end: Date | undefined;
  count: number | bigint;
  overlap: "skip" | "one" | "replace" | "allow";
  catchUp: string;
  missed: "one" | "all";
  jitter: string;
  paused: boolean;
  /** The next time; undefined if there is none, or it is paused. */
  next: Date | undefined;
  /** When it fires for `next`, with its jitter. */
  due: Date | undefined;
  /** The last time that fired. */
  last: Date | undefined;
  /** There is no further time. */
  done: boolean;
  /** Its time has come, and the queue is full. */
  full: boolean;
  /** How many times fired, and how many passed without an item. */
  counts: { fired: number | bigint; missed: number | bigint; overlapped: number | bigint };
  /** The next ones, of `schedule` only. */
  times: Date[];
}

export interface ResumeScheduleOptions extends CallOptions {
  /** `"now"`: begin anew, also with times that have fired, as a clock that was ahead may have had it do. */
  from?: "now";
}

export interface RunScheduleOptions extends CallOptions {
  /** Of all runs with this id within the queue's `dedup_window` only the first one pushes. Without it the client does not repeat a run. */
  msgId?: string;
}

export interface NamesOptions extends CallOptions {
  /** Begin behind this name. */
  after?: string;
  /** How many of one request; 100 if not given, and at most. */
  page?: number;
}

/** The value of a header of a message, or of a token of its subject. */
export interface SourceValue {
  header?: string;
  /** From 1. */
  token?: number;
  /** Of messages without it. */
  default?: string | Integer;
}

/** What items of a source have, by the protocol's names: a constant, or a value of the message. */
export type SourceMap = Partial<Record<"priority" | "key" | "weight" | "delay" | "not_before" | "ttl" | "unique" | "on_conflict" | "cost", string | Integer | SourceValue>>;

/** Fields of a source to change. What is not given stays as it is. */
export interface SourceChange {
  /** A name in the `PQ_REMOTES` of pqd. A new source needs one, and it stays, as do `stream` or `queue` and `link`, and `mode`. */
  remote?: string;
  stream?: string;
  /** Instead of a stream: a queue of another store, with the prefix of its pqd, and the link there. */
  queue?: string;
  link?: string;
  /** `"take"` acknowledges the messages; `"copy"` if never given. */
  mode?: "copy" | "take";
  /** Subjects; all of the stream if empty. */
  filter?: readonly string[];
  /** `"first"` if never given. */
  start?: "first" | "new" | { seq: Integer } | { time: Date };
  /** Replaced as a whole. */
  map?: SourceMap;
  /** How many messages, or items, are pushed at a time, at most; 512 if never given. */
  batch?: number;
  paused?: boolean;
}

/** A source feeds its queue from a JetStream stream, or from a queue of another store by a link of that. */
export interface Source {
  name: string;
  remote: string;
  /** `""` of a link, as is `mode`; `start` is undefined then. */
  stream: string;
  /** `""` of a stream, as is `link`. */
  queue: string;
  link: string;
  mode: "copy" | "take" | "";
  filter: string[];
  start: "first" | "new" | { seq: Integer } | { time: Date } | undefined;
  /** Constants are texts. */
  map: SourceMap;
  batch: number;
  paused: boolean;
  state: "running" | "starting" | "paused" | "blocked" | "failing" | "no_runner" | "stopped";
  /** Why it is so, `""` if there is nothing to say. */
  reason: string;
  since: Date | undefined;
  /** The last message that it is done with, or batch of a link, and the time of that. */
  seq: Integer;
  time: Date | undefined;
  /** The last message of the stream, and how many are missing to it; of a link how many items are ready there. */
  last: Integer;
  lag: Integer;
  /** The bridge that runs it. */
  runner: string;
  counts: { delivered: Integer; skipped: Integer; poisoned: Integer };
}

/** How a source goes on that has stopped: at most one of these. Without any only a pause ends. */
export interface ResumeSourceOptions extends CallOptions {
  /** With this message. What was pushed already comes again. */
  fromSeq?: Integer;
  fromTime?: Date;
  /** Behind the poisoned message. */
  skip?: boolean;
  /** With the stream as it is now, or the giver's number. */
  accept?: boolean;
}

/** Fields of a link to change. What is not given stays as it is. */
export interface LinkChange {
  /** The store id of the taker, as `system` of its client shows it. A new link needs one, and it stays. */
  to?: string;
  paused?: boolean;
}

/** A link gives the items of its queue to another store. */
export interface Link {
  name: string;
  to: string;
  paused: boolean;
  state: "starting" | "running" | "paused";
  /** Number of the last batch; 0: there was none. */
  batch: Integer;
  /** Items of it that the taker has not confirmed. */
  held: number;
  /** When it was made. */
  since: Date | undefined;
  /** Items that the taker has confirmed. */
  given: Integer;
}

export interface DeleteLinkOptions extends CallOptions {
  /** What the link holds returns to its places, although the taker may have it. */
  force?: boolean;
}

export interface KeysOptions extends CallOptions {
  /** Begin behind this key, which need not be there. */
  after?: string;
  /** How many keys of one request; 100 if not given, and at most. */
  page?: number;
}

/** What an administrator has set for a key. What is missing goes by the queue, or by the pushes. */
export interface KeySettings {
  /** How many of its items are leased at a time; 0: no limit. */
  limit?: number;
  /** How many deliveries it gets in a time, such as `"100/1m"`; `""`: no bound. */
  rate?: string;
  /** Its share where keys take turns, 1 to 1000. */
  weight?: number;
  /** Its items are not handed out. */
  paused?: boolean;
  /** How much cost it gets in a time, such as `"1440/1s"`; `""`: no bound. */
  costRate?: string;
}

/** Settings to change; null drops one. */
export type KeyChange = { [name in keyof KeySettings]?: KeySettings[name] | null };

/** What is known of a key. */
export interface KeyInfo {
  key: string;
  /** Ready items; `more`: it has more than were counted. */
  ready: number;
  more: boolean;
  leased: number;
  /** What holds for it: its settings, or those of the queue. A limit of 0 and a rate of `""` are none. */
  limit: number;
  rate: string;
  weight: number;
  /** How many deliveries its rate allows now, if it has one. */
  tokens?: number;
  /** How much cost it gets in a time; `""`: no bound. */
  costRate: string;
  /** How much cost that allows now, if it has one; negative: what the key owes. */
  costTokens?: number;
  /** Why its first item is not handed out; `""`: nothing keeps it. */
  waitsFor: "" | "pause" | "key_order" | "key_limit" | "key_rate" | "key_cost_rate" | "rate";
  /** After which time its rates allow the next delivery, if that has to wait. */
  retry: string;
  settings: KeySettings;
}

/** One pqd of those that keep a store together. */
export interface Member {
  node: string;
  role: "active" | "follower" | "candidate" | "stopped" | "silent";
  version: string;
  epoch: Integer;
  /** The last entry of the log that its copy has, and has on disk; how many it lacks. */
  entry: Integer;
  synced: Integer;
  lag: Integer;
  /** Seconds ago. */
  heard: number;
  reason: string;
}

export interface Cluster {
  node: string;
  store: string;
  members: Member[];
  log: { first: Integer; last: Integer; bytes: Integer; max_bytes: Integer };
}

export interface RequeueOptions extends CallOptions {
  /** The queue with the dead letter; `<queue>-dead` if not given. */
  from?: string;
}

/** The configuration of a queue, with the protocol's names. Durations are texts. */
export interface Config {
  priority: Integer;
  lease: string;
  ttl: string;
  /** After how many failures an item is dead; 0: never. */
  max_deliveries: number;
  /** After how many interruptions an item is dead; 0: never; `""`: as many as `max_deliveries`. */
  max_interruptions: "" | number;
  /** `""`: none; how it grows, or the delay of each delivery. */
  backoff: "" | { delay: string; factor?: number; max?: string; jitter?: number } | string[];
  /** How many of its last leases an item remembers that ended without success. */
  attempts: number;
  dead_letter: string;
  dead_letter_expired: boolean;
  dead_letters_from: string;
  dedup_window: string;
  dedup_limit: number;
  ties: "newest" | "oldest";
  max_length: number;
  max_bytes: number;
  overflow: "refuse" | "evict";
  key_limit: number;
  key_order: boolean;
  fair: string;
  rate: string;
  key_rate: string;
  /** How much cost the queue hands out in a time, such as `"1440/1s"`; `""`: no bound. */
  cost_rate: string;
  /** The same of each key. */
  key_cost_rate: string;
  hand_over: string;
  strict: boolean;
  /** How many bytes results may take; 0: 64 MiB. */
  result_bytes: number;
  /** For how long the queue is empty and unused before it deletes itself; 0s: it does not. */
  expire_empty: string;
}

/** Why no item of a queue, or why an item, is handed out. */
export interface Explain {
  cause: "flows" | "empty" | "paused" | "rate" | "blocked" | "band" | "leased" | "held" | "delayed" | "failing" | "no_workers" | "unknown" | "dead_letters" | "full" | "store_full" | "quota_items" | "quota_bytes";
  /** One sentence. */
  text: string;
  /** What to do, if there is anything. */
  next?: string;
  /** Why the queue takes no push now. */
  refuses?: "full" | "store_full" | "quota_items" | "quota_bytes";
  /** The key that the first ready item waits for, and what of it. */
  key?: string;
  waits_for?: "pause" | "key_order" | "key_limit" | "key_rate" | "key_cost_rate";
  /** The id of the item whose lease or delay is meant. */
  item?: string;
  holder?: string;
  /** When that lease began, and when it ends, the delay ends, or a rate allows a delivery. */
  since?: string;
  until?: string;
  /** Not all leases or delays were looked at. */
  at_least?: boolean;
  /** That holds the items. */
  link?: string;
  /** Of cause failing: how many of the first items have failed. */
  failing?: number;
  /** Of what the item failed last; the number of the attempt that is next, at until; and how many attempts it has. */
  reason?: string;
  attempt?: number;
  max_deliveries?: number;
  /** Pops that wait at the bridges that have answered, and for which bands. */
  waiting?: number;
  bands?: string[];
}

export interface Info {
  queue: string;
  /** Why no item is handed out. */
  explain: Explain;
  ready: number;
  leased: number;
  /** Leased items that links hold. */
  held?: number;
  delayed: number;
  waiting: number;
  bytes: number;
  /** Bytes of long unique values, keys, attempts and deaths. */
  overhead?: number;
  oldest: number;
  oldest_of_all?: number;
  oldest_at_least?: boolean;
  oldest_lease?: number;
  lease_at_least?: boolean;
  /** How many seconds ago the latest lease began. */
  latest_lease?: number;
  fair_ready?: boolean;
  keys_set?: number;
  /** Keys that have not all tokens of their rate. */
  keys_owing?: number;
  /** Ids of pushes and pops, of dedup_limit. */
  remembered?: number;
  /** Results that are kept, and the bytes that they take, of result_bytes. */
  results?: number;
  results_bytes?: number;
  schedules?: number;
  /** The first time that one of them has; missing of more than 64 schedules. */
  next_schedule?: string;
  rates: { push: number; pop: number; settle: number; /** Of these: attempts that failed. */ nack?: number };
  paused: boolean;
  config: Config;
}

/** What went through one bridge in steps of equal length, the oldest first. */
export interface History {
  /** Its id, as discovery has it. */
  bridge: string;
  /** Seconds. */
  step: number;
  /** Of the last step. */
  end: string;
  push: number[];
  pop: number[];
  settle: number[];
  /** Of the settled items: attempts that failed. */
  nacked: number[];
  /** Of a queue: items when each step ended; null: nobody looked. */
  ready?: (number | null)[];
  leased?: (number | null)[];
  delayed?: (number | null)[];
  /** Of all queues together: requests with an error other than 404 and 408. */
  failed?: number[];
  dead?: number[];
  leases_lost?: number[];
}

export interface System {
  version: string;
  store: string;
  store_id: string;
  prefix: string;
  limits: Record<string, number | string>;
  uptime: number;
  damage?: string[];
  /** Bytes, where the store is; with less than `min_free` it takes no new items. */
  disk?: { free: number; size: number; min_free: number; ends_only?: boolean };
  cluster?: unknown;
}

export interface ConsumeOptions {
  /** How many handlers run at a time; 1 if not given. */
  concurrency?: number;
  end?: "min" | "max";
  /**
   * The length of leases, and how long an item stays with a program that has died; 30 seconds if not
   * given. The lease is extended while the handler runs.
   */
  lease?: Duration;
  min?: Integer;
  max?: Integer;
  /**
   * Give pops ids. Then an item whose delivery was lost with a connection comes at once, and not when
   * its lease has run out. The queue remembers each id for its `dedup_window`.
   */
  repeatable?: boolean;
  /** Ends the consumer after this many items. */
  limit?: number;
  /** Ends the consumer when there is no ready item, instead of waiting. */
  stopWhenEmpty?: boolean;
  /**
   * What the leases show as their holder; `<host>-<process id>` if not given, nothing in a browser. A bridge tells the holder by
   * this name when somebody else has ended its lease, and not one that has none.
   */
  holder?: string;
  /**
   * The delay before the next delivery of a failed item, by how often it has failed, this time included. If not given, the
   * queue's `backoff`, and {@link defaultBackoff} if it has none.
   */
  backoff?: (failures: number) => Duration;
  /**
   * Gets what handlers throw, and the errors of pops and settlements, with the item if there is one; `console.error` gets them if it is not
   * given. If the queue does not exist at the beginning it gets a {@link NotFoundError} once, and the consumer waits for the first push. If
   * nothing answers it hears of that after 5 seconds, and again only when something has answered.
   */
  onError?: (err: unknown, item?: Item) => void;
  /** Drains the consumer when it aborts. */
  signal?: AbortSignal;
}

/** The workers of one `consume`. */
export interface Consumer {
  /**
   * Settles when all workers have ended. It is rejected if they cannot go on: an option is wrong, the
   * user may not pop, or the connection was closed. Where no program asks for it, `onError` gets that error.
   */
  readonly closed: Promise<void>;
  /**
   * Takes no more items, waits for the handlers and settles their items. After `grace` the signals of
   * the handlers abort. What a handler then ends with an error goes back to the queue, and so does an
   * item with which no handler has begun: neither is a failure.
   */
  drain(options?: { grace?: Duration }): Promise<void>;
}

/**
 * What `consume` calls on each item. What it returns goes to whoever has pushed the item and asked for its result: bytes as they are, a text
 * as UTF-8, everything else as JSON, null included. If it returns undefined, or nobody has asked, the item is only acknowledged. `signal`
 * aborts when the lease is lost, or the grace of `drain` is over.
 */
export type Handler<Data = any, Returned = any> = (item: Item<Data, Returned>, signal: AbortSignal) => Returned | void | Promise<Returned | void>;

/**
 * A queue with a name. A program may say what the payloads of its items are as JSON, and what its handlers return. The compiler then
 * refuses other ones; nothing looks at them when the program runs. Without types everything fits.
 */
export interface Queue<Data = any, Returned = any> {
  readonly name: string;
  /** Adds an item, and returns when it is durable. Pushes are sent in the order of the calls. */
  push(payload: Payload<Data>, options?: PushOptions): Promise<Pushed>;
  /**
   * Adds up to 1000 items in one message and one transaction, in their order: all of them, or none.
   * {@link PQError.item} says which one an error is about.
   */
  pushMany(items: readonly NewItem<Data>[], options?: CallOptions): Promise<Pushed[]>;
  /**
   * Adds an item, and returns what became of it. If `wait` is over before it knows that, it fails with a {@link NoResultYetError}, which has
   * the id of the item: the item goes on, and `result` waits on. So does another call with the same `msgId`, within the queue's
   * `dedup_window`. `resultTtl` is 10 minutes unless given: within that time of the end of the item a client that was away gets the result.
   *
   * If the push fails, the error is that of `push`. After an abort of `signal` the error has no id: a program that needs it then calls `push`
   * with `resultTtl`, and `result` with the id and the signal.
   */
  pushAndWait(payload: Payload<Data>, options: PushAndWaitOptions): Promise<Result<Returned>>;
  /**
   * What became of an item, by its id. It fails with a {@link NoResultYetError} if the item has not ended, or not after `wait`; with a
   * {@link NotFoundError} if there is neither the item nor a result (reason `"unknown"`); and with a {@link ConflictError} if its push did
   * not ask for a result (`"unkept"`).
   */
  result(id: string, options?: ResultOptions): Promise<Result<Returned>>;
  /** Removes or leases the first item at an end. It fails with {@link EmptyError} if there is none; see {@link PeekOptions.wait}. */
  pop(options?: PopOptions): Promise<Item<Data, Returned>>;
  /** The same for up to n items in one message; at least one, or an error. */
  popMany(n: number, options?: PopManyOptions): Promise<Item<Data, Returned>[]>;
  /** Shows the first item at an end and leaves it there. */
  peek(options?: PeekOptions): Promise<Item<Data, Returned>>;
  peekMany(n: number, options?: PeekManyOptions): Promise<Item<Data, Returned>[]>;
  /**
   * Leases items and calls the handler on each. When the handler is done, the item is acknowledged, with what the
   * handler returned if its push asked for that: see {@link Handler}.
   * When it throws, that is a failure of the item, which is delivered again later; see {@link RetryAfter} and
   * {@link GiveUp}. It may also settle the item itself; then it does not matter what it returns.
   *
   * A returned value that JSON does not have, or that is too large, makes the item a dead letter that says so, and `onError` gets a
   * {@link GiveUp} with the cause: the work is done, and another attempt would only repeat it.
   *
   * The lease is extended while the handler runs. If it is lost all the same, the handler's signal
   * aborts, with a {@link LeaseLostError} as its reason. A bridge tells of a lease that somebody else has ended at once, if the user of the
   * connection may subscribe to the events of the queue, and otherwise with the next extension. What a handler returns after a `cancel` is
   * dropped, and `onError` gets the {@link ItemCancelledError}, also in the place of an `AbortError`. A handler that keeps the thread busy for
   * longer than the lease keeps the client from extending it.
   */
  consume(handler: Handler<Data, Returned>, options?: ConsumeOptions): Consumer;

  /** Counts, rates and configuration. */
  info(options?: CallOptions): Promise<Info>;
  /** What went through the answering bridge in the last hour, and how long the queue was. */
  history(options?: CallOptions): Promise<History>;
  config(options?: CallOptions): Promise<Config>;
  /** Changes the configuration, makes the queue if necessary, and returns the whole configuration. */
  configure(change: Partial<Config>, options?: CallOptions): Promise<Config>;
  /** An item by its id, whatever its state. */
  get(id: string, options?: GetOptions): Promise<Item<Data, Returned>>;
  /** The items in one state, in the order of pops from the end `"min"`. */
  list(options?: ListOptions): AsyncGenerator<Listed, void, undefined>;
  /** The keys that have ready or leased items, or settings, in the order of their bytes. */
  keys(options?: KeysOptions): AsyncGenerator<KeyInfo, void, undefined>;
  /** One key; one that nobody has used has no items. */
  key(key: string, options?: CallOptions): Promise<KeyInfo>;
  /** Changes settings of a key, makes the queue if necessary, and returns all settings of the key. */
  setKey(key: string, change: KeyChange, options?: CallOptions): Promise<KeySettings>;
  /**
   * Acknowledges items of this queue, up to 1000 in one message. For each the result has the error
   * that its `ack` would have, or null.
   */
  ackMany(items: readonly Item[], options?: CallOptions): Promise<(Error | null)[]>;
  /**
   * Ends an item for good, whether it waits or is leased, so that nobody works on it any more. Its result, if its push asked for one, has the
   * outcome `"cancelled"`, and the signal of the handler that works on it aborts at once with an {@link ItemCancelledError}. An item that had
   * ended before stays as it has ended, and the answer says how if its queue keeps that; else it fails with a {@link NotFoundError}.
   */
  cancel(id: string, options?: CancelOptions): Promise<Cancelled>;
  /** Removes an item, whatever its state. */
  remove(id: string, options?: CallOptions): Promise<void>;
  /** Gives an item another priority. */
  move(id: string, priority: Integer, options?: CallOptions): Promise<void>;
  /**
   * Takes a dead letter of this queue out of the dead-letter queue and pushes it here again, in one
   * transaction. A queue without room for it fails with a BusyError, and it stays a dead letter.
   */
  requeue(id: string, options?: RequeueOptions): Promise<Pushed>;
  /**
   * Takes the lease of an item away: its holder has lost it for good. It fails with a
   * {@link ConflictError} if the item has no lease, and with a {@link LeaseLostError} if the lease with
   * the fence has ended.
   */
  revoke(id: string, options?: RevokeOptions): Promise<void>;
  /**
   * Does something to all items that fit, page after page. Each page is one transaction, and one
   * without an answer is repeated: it does nothing twice. The operation passes over what came after it
   * began. An error that ends it early has the result so far as its `bulk`.
   */
  bulk(verb: BulkVerb, options: BulkOptions): Promise<BulkResult>;
  /** The schedules, in the order of their names, without what they push. */
  schedules(options?: NamesOptions): AsyncGenerator<Schedule, void, undefined>;
  /** A schedule with its next times. */
  schedule(name: string, options?: CallOptions): Promise<Schedule>;
  /** The next times that a schedule would have after a change. It need not exist. */
  scheduleTimes(name: string, change: ScheduleChange<Data>, options?: CallOptions): Promise<Date[]>;
  /** Changes a schedule, makes it and the queue if necessary, and returns the whole. */
  setSchedule(name: string, change: ScheduleChange<Data>, options?: CallOptions): Promise<Schedule>;
  /** Stops a schedule. Times that pass until it is resumed are no misses. */
  pauseSchedule(name: string, options?: CallOptions): Promise<Schedule>;
  resumeSchedule(name: string, options?: ResumeScheduleOptions): Promise<Schedule>;
  /** Removes a schedule. What it has pushed stays. */
  deleteSchedule(name: string, options?: CallOptions): Promise<void>;
  /** Pushes the item of a schedule now. */
  runSchedule(name: string, options?: RunScheduleOptions): Promise<Pushed>;
  /** The sources, in the order of their names. */
  sources(options?: NamesOptions): AsyncGenerator<Source, void, undefined>;
  /** A source. It takes the right to change it, unlike `sources`. */
  source(name: string, options?: CallOptions): Promise<Source>;
  /** Changes a source, makes it and the queue if necessary, and returns the whole. */
  setSource(name: string, change: SourceChange, options?: CallOptions): Promise<Source>;
  /** Stops a source, which keeps its position. */
  pauseSource(name: string, options?: CallOptions): Promise<Source>;
  /** Ends a pause, and with a choice also a stop. The client does not repeat one with a choice. */
  resumeSource(name: string, options?: ResumeSourceOptions): Promise<Source>;
  /** Removes a source. What it has pushed stays, and so does the consumer of one that takes. */
  deleteSource(name: string, options?: CallOptions): Promise<void>;
  /** The links, in the order of their names. */
  links(options?: NamesOptions): AsyncGenerator<Link, void, undefined>;
  /** A link. It takes the right to change it, unlike `links`. */
  link(name: string, options?: CallOptions): Promise<Link>;
  /** Changes a link, makes it and the queue if necessary, and returns the whole. */
  setLink(name: string, change: LinkChange, options?: CallOptions): Promise<Link>;
  /** Has a link give no further batch. */
  pauseLink(name: string, options?: CallOptions): Promise<Link>;
  resumeLink(name: string, options?: CallOptions): Promise<Link>;
  /** Removes a link, and returns how many items are back. One that holds items is removed by force alone. */
  deleteLink(name: string, options?: DeleteLinkOptions): Promise<number>;
  /** Removes all items and returns how many. */
  purge(options?: CallOptions): Promise<number>;
  /** Stops deliveries; pushes go on. */
  pause(options?: CallOptions): Promise<void>;
  resume(options?: CallOptions): Promise<void>;
  /** Deletes the queue with its items and its configuration. */
  delete(options?: CallOptions): Promise<void>;
}

/** For a handler to throw: the item is delivered again after the delay. */
export class RetryAfter extends Error {
  constructor(delay: Duration, cause?: unknown);
}

/** For a handler to throw: the item becomes a dead letter. */
export class GiveUp extends Error {
  constructor(reason: string, cause?: unknown);
}

/**
 * A second after the first failure, twice as long after each further one, 5 minutes at most, in
 * milliseconds. Each is somewhat longer or shorter.
 */
export function defaultBackoff(failures: number): number;

/**
 * The error of a request: a bridge's answer, or the reason why there was none. A failed request has
 * had no effect, except perhaps after {@link UnknownResultError}. Wrong arguments are a TypeError.
 */
export class PQError extends Error {
  protected constructor(about: never);
  /** What was asked for: push, pop, … */
  readonly op: string;
  /** On which queue, `""` if on none. */
  readonly queue: string;
  readonly code: number;
  /** Of codes 404, 409, 410 and 429. */
  readonly reason: string;
  /** What was wrong, and what was expected. */
  readonly text: string;
  /** Which item of a `pushMany` it is about, from 0. */
  readonly item: number | undefined;
  /** Of an item whose result was asked for and that goes on: how far it is, `""` if its holder has not said so. */
  readonly progress: string;
  /** How far a bulk operation came before it. */
  readonly bulk: BulkResult | undefined;
}

/** 400: a name, number, header or body is not as it should be. */
export class BadRequestError extends PQError {}
/** 403: the queue does not exist, or the user may not do that. */
export class ForbiddenError extends PQError {}
/** 404 of pops and peeks, 408: there is nothing, or nothing arrived in time. `reason` says why. */
export class EmptyError extends PQError {}
/** 404: there is no such item or no such queue. */
export class NotFoundError extends PQError {}
/** 409 with a reason: `leased`, `held`, `unkept`, `not_leased`, `another_key`, `lease_required`, `only_min`. */
export class ConflictError extends PQError {}
/** 410: the lease is no longer valid. `reason` is `gone`, `taken`, `cancelled`, `returned` or `expired`. */
export class LeaseLostError extends PQError {}
/** 410 with the reason `cancelled`: somebody has cancelled the item, or this program has, with `cancelOnHangUp`. */
export class ItemCancelledError extends LeaseLostError {
  /** What the cancel gave as its reason, `""` if nothing. */
  readonly why: string;
}
/** 413: larger than the NATS server's max_payload allows. */
export class TooLargeError extends PQError {}
/** 429, 409 without a reason: too many requests or waiting pops, or the queue is full. Nothing was done. */
export class BusyError extends PQError {}
/** 500: a defect of pqd. */
export class InternalError extends PQError {}
/** 503: no bridge answers, or its store cannot commit. Nothing was done. */
export class UnavailableError extends PQError {}
/** 504: there was no answer, so the request was done or not. */
export class UnknownResultError extends PQError {}
/** 506: the request needs data of a damaged file of the store. Nothing was done. */
export class DamagedError extends PQError {}
/**
 * 408 of a wait for a result, 404 with the reason `pending`: the item has not ended. Behind a push that was done it also takes the place of an
 * {@link UnknownResultError}, {@link UnavailableError} or {@link BusyError}, whose code it has, and which is its `cause`.
 */
export class NoResultYetError extends PQError {
  /** Of the item, for `result`. */
  readonly id: string;
}
/** The item was popped without a lease. */
export class NotLeasedError extends Error {}
/** The item was settled already, by the same object. */
export class SettledError extends Error {}
