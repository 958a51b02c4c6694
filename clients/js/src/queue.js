// A queue with a name. index.d.ts says what its functions do.
import { bulk } from "./bulk.js";
import { Call } from "./call.js";
import { cancel } from "./cancel.js";
import { pop } from "./confirm.js";
import { consume } from "./consume.js";
import { shown } from "./duration.js";
import { unreadable } from "./errors.js";
import { count, priorityText } from "./integer.js";
import { Item } from "./item.js";
import { exact, writeJSON } from "./json.js";
import { key, keys, setKey } from "./keys.js";
import { deleteLink, links, setLink } from "./links.js";
import { list } from "./list.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag } from "./options.js";
import { push, pushed, pushMany } from "./push.js";
import { pushAndWait, result } from "./result.js";
import { revoke } from "./revoke.js";
import { resumeSchedule, runSchedule, schedule, schedules, scheduleTimes, setSchedule } from "./schedules.js";
import { ackMany } from "./settlements.js";
import { resumeSource, setSource, sources } from "./sources.js";
import { checkID, checkQueue, deadLetter } from "./subjects.js";
import { take } from "./take.js";

export class Queue {
  /**
   * @param {import("./client.js").Client} client
   * @param {string} name
   */
  constructor(client, name) {
    checkQueue(name);
    this.client = client;
    this.name = name;
  }

  /** @param {string} verb with what follows it */
  subject(verb) {
    return this.client.grammar.subject(this.name, verb);
  }

  /**
   * @param {import("../index.js").Payload} payload
   * @param {import("../index.js").PushOptions} [options]
   */
  async push(payload, options) {
    return push(this.client, this.name, payload, options);
  }

  /**
   * @param {readonly import("../index.js").NewItem[]} items
   * @param {import("../index.js").CallOptions} [options]
   */
  async pushMany(items, options) {
    return pushMany(this.client, this.name, items, options);
  }

  /**
   * @param {import("../index.js").Payload} payload
   * @param {import("../index.js").PushAndWaitOptions} options
   */
  async pushAndWait(payload, options) {
    return pushAndWait(this, payload, options);
  }

  /**
   * @param {string} id
   * @param {import("../index.js").ResultOptions} [options]
   */
  async result(id, options) {
    return result(this, id, options);
  }

  /** @param {import("../index.js").PopOptions} [options] */
  async pop(options) {
    return only(await this.#take("pop", 0, options));
  }

  /**
   * @param {number} n
   * @param {import("../index.js").PopManyOptions} [options]
   */
  async popMany(n, options) {
    return this.#take("pop", count(n, "the number of items", 1000), options);
  }

  /** @param {import("../index.js").PeekOptions} [options] */
  async peek(options) {
    return only(await this.#take("peek", 0, options));
  }

  /**
   * @param {number} n
   * @param {import("../index.js").PeekManyOptions} [options]
   */
  async peekMany(n, options) {
    return this.#take("peek", count(n, "the number of items", 1000), options);
  }

  /**
   * @param {"pop" | "peek"} op
   * @param {number} batch
   * @param {import("../index.js").PopManyOptions | undefined} options
   */
  #take(op, batch, options) {
    /** @type {import("./take.js").Reader<Item>} */
    const read = (m, term) => Item.read(this, m, op, term);
    return op === "pop" ? pop(this, batch, options, read) : take(this, op, batch, options, read);
  }

  /**
   * @param {(item: Item, signal: AbortSignal) => unknown} handler
   * @param {import("../index.js").ConsumeOptions} [options]
   */
  consume(handler, options) {
    return consume(this, handler, options);
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async info(options) {
    const info = await this.#ask("info", "info", undefined, options);
    return { ...info, config: this.#config(info.config) };
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async history(options) {
    return (await this.#ask("info", "info", writeJSON({ history: true }), options)).history;
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async config(options) {
    return this.#config(await this.#ask("config", "admin.config", undefined, options));
  }

  /**
   * @param {Partial<import("../index.js").Config>} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async configure(change, options) {
    if (typeof change !== "object" || change === null || Array.isArray(change)) {
      throw new TypeError(`the change is ${shown(change)}: expected an object such as { lease: "30s" }`);
    }
    return this.#config(await this.#ask("config", "admin.config", writeJSON({ ...change }), options, "configure"));
  }

  /** @param {any} config */
  #config(config) {
    try {
      return { ...config, priority: exact(config.priority) };
    } catch (cause) {
      throw unreadable("config", this.name, new Uint8Array(0), cause);
    }
  }

  /**
   * @param {string} id
   * @param {import("../index.js").GetOptions} [given]
   */
  async get(id, given) {
    checkID(id);
    const { attempts, explain, ...options } = checked(given, "get", ["attempts", "explain", ...callOptions]);
    const asked = { ...(flag(attempts, "attempts") && { attempts }), ...(flag(explain, "explain") && { explain }) };
    const body = Object.keys(asked).length > 0 ? bytes(writeJSON(asked)) : undefined;
    const call = new Call({ op: "get", queue: this.name, subject: this.subject(`get.${id}`), body });
    const m = await call.send(this.client, this.client.deadline(options));
    if (!m.isItem) throw unreadable("get", this.name, m.data);
    return Item.read(this, m, "get");
  }

  /** @param {import("../index.js").ListOptions} [options] */
  list(options) {
    return list(this, options);
  }

  /** @param {import("../index.js").KeysOptions} [options] */
  keys(options) {
    return keys(this, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async key(name, options) {
    return key(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").KeyChange} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async setKey(name, change, options) {
    return setKey(this, name, change, options);
  }

  /**
   * @param {readonly Item[]} items
   * @param {import("../index.js").CallOptions} [options]
   */
  async ackMany(items, options) {
    return ackMany(this, items, options);
  }

  /**
   * @param {string} id
   * @param {import("../index.js").CallOptions} [options]
   */
  async remove(id, options) {
    checkID(id);
    await this.#ask("remove", `remove.${id}`, undefined, options);
  }

  /**
   * @param {string} id
   * @param {import("../index.js").CancelOptions} [options]
   */
  async cancel(id, options) {
    return cancel(this, id, options);
  }

  /**
   * @param {string} id
   * @param {number | bigint} priority
   * @param {import("../index.js").CallOptions} [options]
   */
  async move(id, priority, options) {
    checkID(id);
    await this.#ask("move", `move.${id}.${priorityText(priority)}`, undefined, options);
  }

  /**
   * @param {string} id
   * @param {import("../index.js").RequeueOptions} [given]
   */
  async requeue(id, given) {
    checkID(id);
    const { from, ...options } = checked(given, "requeue", ["from", ...callOptions]);
    const dead = new Queue(this.client, from ?? deadLetter(this.name));
    return pushed(this.name, await dead.#ask("requeue", `requeue.${id}`, writeJSON({ to: this.name }), options));
  }

  /**
   * @param {string} id
   * @param {import("../index.js").RevokeOptions} [options]
   */
  async revoke(id, options) {
    return revoke(this, id, options);
  }

  /**
   * @param {import("../index.js").BulkVerb} verb
   * @param {import("../index.js").BulkOptions} options
   */
  async bulk(verb, options) {
    return bulk(this, verb, options);
  }

  /** @param {import("../index.js").NamesOptions} [options] */
  schedules(options) {
    return schedules.all(this, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async schedule(name, options) {
    return schedule(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").ScheduleChange} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async scheduleTimes(name, change, options) {
    return scheduleTimes(this, name, change, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").ScheduleChange} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async setSchedule(name, change, options) {
    return setSchedule(this, name, change, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async pauseSchedule(name, options) {
    return schedules.pause(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").ResumeScheduleOptions} [options]
   */
  async resumeSchedule(name, options) {
    return resumeSchedule(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async deleteSchedule(name, options) {
    await schedules.remove(this, name, undefined, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").RunScheduleOptions} [options]
   */
  async runSchedule(name, options) {
    return runSchedule(this, name, options);
  }

  /** @param {import("../index.js").NamesOptions} [options] */
  sources(options) {
    return sources.all(this, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async source(name, options) {
    return sources.show(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").SourceChange} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async setSource(name, change, options) {
    return setSource(this, name, change, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async pauseSource(name, options) {
    return sources.pause(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").ResumeSourceOptions} [options]
   */
  async resumeSource(name, options) {
    return resumeSource(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async deleteSource(name, options) {
    await sources.remove(this, name, undefined, options);
  }

  /** @param {import("../index.js").NamesOptions} [options] */
  links(options) {
    return links.all(this, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async link(name, options) {
    return links.show(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").LinkChange} change
   * @param {import("../index.js").CallOptions} [options]
   */
  async setLink(name, change, options) {
    return setLink(this, name, change, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async pauseLink(name, options) {
    return links.pause(this, name, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").CallOptions} [options]
   */
  async resumeLink(name, options) {
    return links.resume(this, name, undefined, options);
  }

  /**
   * @param {string} name
   * @param {import("../index.js").DeleteLinkOptions} [options]
   */
  async deleteLink(name, options) {
    return deleteLink(this, name, options);
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async purge(options) {
    const { purged } = await this.#ask("purge", "admin.purge", undefined, options);
    return Number(purged);
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async pause(options) {
    await this.#ask("pause", "admin.pause", undefined, options);
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async resume(options) {
    await this.#ask("resume", "admin.resume", undefined, options);
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async delete(options) {
    await this.#ask("delete", "admin.delete", undefined, options);
  }

  /**
   * @param {string} op
   * @param {string} verb
   * @param {string | undefined} body
   * @param {import("../index.js").CallOptions | undefined} options
   * @param {string} [does] the operation, where errors name another one
   */
  async #ask(op, verb, body, options, does) {
    const request = { op, does, queue: this.name, subject: this.subject(verb), body };
    return this.client.ask(request, checked(options, op, callOptions));
  }
}

/** @param {Item[]} items */
function only(items) {
  return /** @type {Item} */ (items[0]); // take never returns none
}
