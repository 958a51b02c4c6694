package batch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

var (
	errPoison = errors.New("this request cannot be done")
	errStore  = errors.New("nothing can be done")
)

// transactions serve numbers. Some make every transaction fail that they are part of.
type transactions struct {
	poison map[int]bool
	blind  bool // nobody knows which request made a transaction fail
	most   int  // requests that one transaction serves; 0: any number
	down   int  // transactions from this one on fail as a whole; 0: none

	tried    int
	answered []int
	failed   map[int]error
	empty    bool // it was called without requests
}

func (t *transactions) Try(requests []int) (int, error) {
	t.tried++
	t.empty = t.empty || len(requests) == 0
	if t.down > 0 && t.tried >= t.down {
		return 0, errStore
	}
	if t.most > 0 {
		requests = requests[:min(t.most, len(requests))]
	}
	for i, r := range requests {
		if t.poison[r] && t.blind {
			return len(requests), errPoison
		}
		if t.poison[r] {
			return i, errPoison
		}
	}
	return len(requests), nil
}

func (t *transactions) Common(err error) bool { return errors.Is(err, errStore) }

func (t *transactions) Answer(requests []int, err error) {
	t.empty = t.empty || len(requests) == 0
	for _, r := range requests {
		t.answered = append(t.answered, r)
		t.failed[r] = err
	}
}

// Each request is answered once, in order, and only requests that cannot be done fail. A
// known culprit costs three transactions; an unknown one is found by halving the batch.
func TestRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := 1 + random.IntN(64)
		tx := &transactions{poison: make(map[int]bool), blind: random.IntN(2) == 0, failed: make(map[int]error)}
		if random.IntN(3) == 0 {
			tx.most = 1 + random.IntN(8)
		}
		for range random.IntN(4) {
			tx.poison[random.IntN(n)] = true
		}
		requests := make([]int, n)
		for i := range requests {
			requests[i] = i
		}
		batch.Run(requests, tx)
		where := fmt.Sprintf("seed %d: %d requests, %+v", seed, n, tx)
		if !slices.Equal(tx.answered, requests) || tx.empty {
			t.Fatalf("%s: not each once and in order", where)
		}
		for r, err := range tx.failed {
			if (err != nil) != tx.poison[r] {
				t.Fatalf("%s: request %d ended with %v", where, r, err)
			}
		}
		most := 1 + 3*len(tx.poison)
		if tx.blind {
			most = 1 + 8*len(tx.poison) // 6 halves, it alone, the rest
		}
		if tx.most > 0 {
			most += n/tx.most + len(tx.poison)
		}
		if tx.tried > most {
			t.Fatalf("%s: %d transactions, expected %d at most", where, tx.tried, most)
		}
	}
}

// A failure that no request causes is not searched for among the requests, and affects
// one transaction only.
func TestRunOutage(t *testing.T) {
	t.Parallel()
	tx := &transactions{down: 1, failed: make(map[int]error)}
	batch.Run([]int{0, 1, 2, 3}, tx)
	if tx.tried != 1 || len(tx.answered) != 4 || !errors.Is(tx.failed[3], errStore) {
		t.Errorf("%+v", tx)
	}
	tx = &transactions{down: 3, poison: map[int]bool{2: true}, failed: make(map[int]error)}
	batch.Run([]int{0, 1, 2, 3}, tx) // fails, serves two, and then the store is away
	if tx.failed[1] != nil || !errors.Is(tx.failed[2], errStore) || !errors.Is(tx.failed[3], errStore) || tx.tried != 4 {
		t.Errorf("%+v", tx)
	}
}
