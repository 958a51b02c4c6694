// Package web serves what pqd has over HTTP: states, metrics, profiles, the console, and the HTTP interface.
//
// Guarantees:
//   - Health checks need no token and work under any host name. All other pages have a guard of host names.
//   - As soon as a tenant has a token, pages about all tenants ask for one, and a tenant gets its own metrics alone.
//   - The console and the HTTP interface have a connection of their own, with the rights of its user alone.
//   - A certificate that changes on disk is taken without a new start, and a wrong one changes nothing.
package web
