// The numbers of a queue: how they are shown, sorted and added up.

import { bytes, count, rate, span } from "./format.js";

// nextAge is the age of the next item, or, where none is handed out, of the oldest one that is ready.
export const nextAge = (q) => q.oldest || q.oldest_of_all || 0;

// restless numbers change all the time; sum is whether a sum of them says anything.
export const columns = [
  { key: "ready", label: "Ready", value: (q) => q.ready, show: (q) => count(q.ready), sum: true },
  { key: "leased", label: "Leased", value: (q) => q.leased, show: (q) => count(q.leased), sum: true },
  { key: "delayed", label: "Delayed", value: (q) => q.delayed, show: (q) => count(q.delayed), sum: true },
  { key: "dead", label: "Dead", value: (q) => q.dead ?? 0, show: (q) => (q.dead == null ? "–" : count(q.dead)), sum: true },
  { key: "oldest", label: "Age of the next", value: nextAge, show: (q) => (nextAge(q) ? span(nextAge(q)) : "–"), restless: true },
  { key: "in", label: "In per second", value: (q) => q.rates.push, show: (q) => rate(q.rates.push), restless: true, sum: true },
  { key: "out", label: "Out per second", value: (q) => q.rates.pop, show: (q) => rate(q.rates.pop), restless: true, sum: true },
  { key: "waiting", label: "Waiting pops", value: (q) => q.waiting, show: (q) => count(q.waiting), sum: true },
  { key: "bytes", label: "Size", value: (q) => q.bytes, show: (q) => bytes(q.bytes), sum: true },
];

// sorted returns queues by a column, the largest first, and those alike by name.
export const sorted = (list, by) => [...list].sort((a, b) => Number(by.value(b)) - Number(by.value(a)) || (a.queue < b.queue ? -1 : 1));

// sums adds queues up, to what other queues had together.
export function sums(list, before) {
  const all = before ?? { ready: 0, leased: 0, delayed: 0, dead: 0, waiting: 0, bytes: 0, rates: { push: 0, pop: 0 } };
  for (const q of list) {
    for (const name of ["ready", "leased", "delayed", "dead", "waiting", "bytes"]) all[name] += Number(q[name] ?? 0);
    for (const name of ["push", "pop"]) all.rates[name] += q.rates[name];
  }
  return all;
}
