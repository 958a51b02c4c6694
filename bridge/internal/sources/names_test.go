package sources

import (
	"math/rand/v2"
	"testing"
)

// No two sources have one consumer, whatever the names of the sources, of their queues and of their tenants are.
func TestConsumersAreDistinct(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	word := func() string { // of few characters, so that the parts of many pairs together are alike
		text := make([]byte, 1+random.IntN(4))
		for i := range text {
			text[i] = "a-"[random.IntN(2)]
		}
		return string(text)
	}
	sources, consumers := make(map[[2]string]bool), make(map[string][2]string)
	for len(sources) < 1000 {
		queue := "q" + word()
		if random.IntN(2) == 0 {
			queue = "t" + word() + "." + queue
		}
		source := [2]string{queue, word()}
		if sources[source] {
			continue
		}
		sources[source] = true
		name := Consumer("0a", source[0], source[1])
		if other, is := consumers[name]; is {
			t.Errorf("seed %d: %v and %v have the consumer %s", seed, source, other, name)
		}
		consumers[name] = source
	}
}
