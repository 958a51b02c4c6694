// When a program has nothing left to do but to wait.

/** What is called then, together: a connection writes once for all that is published at one time. @type {(() => void)[]} */
let calls = [];

function run() {
  const now = calls;
  calls = [];
  for (const call of now) call();
}

/**
 * Calls a function once the promise jobs that can run have run: callers woken by one message have called again then. A job would be
 * too early, because some resume several jobs later.
 * @param {() => void} call
 */
export function whenIdle(call) {
  if (calls.push(call) === 1) schedule();
}

/** @type {{nextTick?: (fn: () => void) => void} | undefined} */
const node = /** @type {any} */ (globalThis).process;
const schedule = typeof node?.nextTick === "function" ? () => void Promise.resolve().then(() => node.nextTick?.(run)) : channel();

function channel() {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = run;
  return () => port2.postMessage(null);
}
