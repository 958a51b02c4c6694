// Package egress keeps what the active node would refuse unread off the routes between the embedded NATS servers.
//
// Clients may push more at a follower than its routes carry, or than the active node reads. A server holds all of it
// for its routes, so the requests of others would wait behind it, and the route's pings, too: without an answer to
// them the servers close the route. While the active node refuses large messages unread, or much waits for a route,
// a filter on that route replaces the content of large requests by the mark with which the active node's own filter
// does it. The active node then refuses them as if they had reached it whole. Requests keep their order.
//
// nats-server has no exported way to see what it sends on a route, so the package links to two methods of it, and puts
// the filter where a route has its connection (attach.go). If nats-server has changed there, routes have no filter. The
// build tag noegress leaves all of that out.
package egress
