// Package testenv provides what tests stand on: NATS servers, every store
// engine there is, stores, bridges, and pqd as a real process.
//
// Whatever a test gets here listens on 127.0.0.1 only, on ports that were free,
// and is taken down when the test ends. A store is checked for damage then, so
// that every test that uses one also tests its rows.
package testenv
