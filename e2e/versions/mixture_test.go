package versions_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// mixture is users of some queues, who use all that both programs can do.
type mixture struct {
	journal *journal
	users   []*user
	keepers []*keeper
	stop    chan struct{}
	ended   sync.WaitGroup
}

// newMixture has users begin. dial connects with who serves.
func newMixture(t testing.TB, random *rand.Rand, fields map[string]bool, slack time.Duration, dial func(...nats.Option) (*nats.Conn, error)) *mixture {
	const queues, each = 3, 3
	m := &mixture{journal: newJournal(slack), stop: make(chan struct{})}
	for q := range queues {
		queue := fmt.Sprint("mixed-", q)
		for n := range each {
			name := fmt.Sprint("user-", q, "-", n)
			u := &user{
				Worker: &testenv.Worker{
					TB: t, ID: n, Queue: queue, Dial: dial, Random: rand.New(rand.NewPCG(random.Uint64(), 0)),
					Loses: true, Vanishes: true, Attempt: testenv.Attempt(),
				},
				random: rand.New(rand.NewPCG(random.Uint64(), 0)), journal: m.journal, queue: queue, name: name,
			}
			u.Connect()
			m.users = append(m.users, u)
			if n == 0 {
				k := &keeper{user: u, fields: fields, weights: make(map[string]int)}
				k.configure(map[string]string{"hand_over": `"*"`})
				m.keepers = append(m.keepers, k)
			}
		}
	}
	for i, u := range m.users {
		m.ended.Go(func() {
			for steps := 1; ; steps++ {
				select {
				case <-m.stop:
					u.finish()
					return
				default:
				}
				if u.step(); i%each == 0 && steps%10 == 0 {
					m.keepers[i/each].mind()
				}
			}
		})
	}
	return m
}

// end has the users end, and returns what they saw that cannot be, and how many items they pushed.
func (m *mixture) end() (findings []string, items int) {
	close(m.stop)
	m.ended.Wait()
	for _, k := range m.keepers {
		k.Loses = false
		k.end()
	}
	for _, u := range m.users {
		u.Close()
	}
	return m.journal.judge(), len(m.journal.items)
}
