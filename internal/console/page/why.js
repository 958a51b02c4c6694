// Why leases of an item ended without success, and why it is dead.

const outcomes = { nak: "failed", back: "given back", expired: "its lease ran out", revoked: "taken away", terminated: "given up" };

export const outcome = (attempt) => outcomes[attempt.outcome] ?? attempt.outcome;

// delivered is how often an item was handed out, and how that ended.
export function delivered(item) {
  const ended = [[item.failures, "failed"], [item.interruptions, "interrupted"], [item.returns, "returned"]].filter(([n]) => n).map(([n, how]) => `${n} ${how}`);
  return ended.length ? `${item.deliveries} (${ended.join(", ")})` : String(item.deliveries ?? 0);
}

const told = (attempt) => attempt && (attempt.reason || outcome(attempt));

// why says it in a line: the cause of an item of a list, otherwise why it died, or what came of its
// last lease. It is empty where nothing did. It needs the attempts of the item.
export function why(item) {
  if (item.cause) return item.cause;
  const last = told(item.last_attempts?.at(-1));
  if (!item.dead) return last ?? "";
  return item.dead.reason === "max_deliveries" && last ? `max_deliveries: ${last}` : item.dead.reason;
}

// Ids and long numbers are not what failures have in common. Short ones, such as that of an
// HTTP status, may be. pq dead groups makes the same groups.
const particular = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d{4,}/gi;

// alike leaves out of a reason what is particular to one item.
export const alike = (reason) => reason.replace(particular, "#");
