// Package testenv provides the fixtures of tests: NATS servers, all store engines, stores,
// bridges, and pqd as a real process.
//
// All servers listen on free ports of 127.0.0.1 and stop when the test ends. Then testenv
// checks each store for damage, so every test with a store also tests its rows.
package testenv
