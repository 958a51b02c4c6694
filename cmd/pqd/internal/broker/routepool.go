package broker

import (
	"hash/fnv"

	"github.com/nats-io/nats-server/v2/server"
)

// A server has several connections to each other one, and an account always uses the same of them. What the nodes say to each
// other, in the account of the log, should not stand behind what clients send. nats-server can also give an account routes of its own, but then nodes of
// earlier versions, which do not, would not hear of the log any more.

// mostRoutes is how many connections a server has to each other one, at most.
const mostRoutes = 8

// routePool is the number of connections with which an account has one for itself, or shares it with the fewest of the others.
func routePool(account string, others []*server.Account) (size int) {
	names := map[string]bool{server.DEFAULT_GLOBAL_ACCOUNT: true}
	for _, a := range others {
		names[a.Name] = true
	}
	delete(names, account)
	fewest := len(names) + 1
	for n := server.DEFAULT_ROUTE_POOL_SIZE; n <= mostRoutes && fewest > 0; n++ {
		beside := 0
		for name := range names {
			if routeOf(name, n) == routeOf(account, n) {
				beside++
			}
		}
		if beside < fewest {
			size, fewest = n, beside
		}
	}
	return size
}

// routeOf is the connection that an account uses, of so many: nats-server does not export how it chooses.
func routeOf(account string, of int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(account)) // it never fails
	return int(h.Sum32() % uint32(of))
}
