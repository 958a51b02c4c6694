// The addresses of views.

// go shows a view, also the one that is shown, again.
export function go(hash) {
  if (hash === location.hash) dispatchEvent(new Event("hashchange"));
  else location.hash = hash;
}

export const link = (queue, query = "") => `#/q/${encodeURIComponent(queue)}${query}`;

// holderLink is that of the leases of a holder.
export const holderLink = (queue, holder) => link(queue, `?${new URLSearchParams({ tab: "leased", holder })}`);

// scheduleLink is that of one schedule, or without a name that to make one.
export const scheduleLink = (queue, name) => `${link(queue)}/s${name ? `/${encodeURIComponent(name)}` : ""}`;

export const itemLink = (queue, id) => `${link(queue)}/i/${encodeURIComponent(id)}`;

export const keyLink = (queue, key, query = "") => `${link(queue)}/k/${encodeURIComponent(key)}${query}`;
