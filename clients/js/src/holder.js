// Who leases items: what a holder calls itself.
import { nameOf } from "./push.js";

/** @param {unknown} name */
export const holderOf = (name) => nameOf(name, "holder");

/** What a consumer calls itself: <host>-<process id>; undefined in a browser, which has neither. */
export const ownName = (() => {
  const { process } = /** @type {{process?: {pid?: number, env?: Record<string, string>, getBuiltinModule?: (name: string) => any}}} */ (globalThis);
  if (!process?.pid) return undefined;
  const host = process.getBuiltinModule?.("node:os").hostname() ?? process.env?.HOSTNAME ?? "unknown";
  return `${String(host).replace(/[^!-~]/g, "").slice(0, 100) || "unknown"}-${process.pid}`;
})();
