// The addresses of views.

export const link = (queue, query = "") => `#/q/${encodeURIComponent(queue)}${query}`;

export const itemLink = (queue, id) => `${link(queue)}/i/${encodeURIComponent(id)}`;

export const keyLink = (queue, key, query = "") => `${link(queue)}/k/${encodeURIComponent(key)}${query}`;
