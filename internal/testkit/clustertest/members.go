package clustertest

import (
	"bytes"
	"context"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// RunMembers tests messages of members against the contract of cluster.Members. Each call of open returns another
// member of the same cluster.
func RunMembers(t *testing.T, open func(t testing.TB) cluster.Members) {
	ctx, cancel := context.WithTimeout(t.Context(), patience.Most)
	defer cancel()
	names := []string{"a", "b", "c"}
	ends := make([]cluster.Members, len(names))
	heard := make([]chan string, len(names))
	stops := make([]func(), len(names))
	for i, name := range names {
		ends[i] = open(t)
		heard[i] = make(chan string, 1000)
		var err error
		stops[i], err = ends[i].Listen(name,
			func(message []byte) { heard[i] <- string(message) },
			func(request []byte) []byte { return append([]byte(name+" got "), request...) })
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
	}

	// A broadcast may get lost, so it is repeated until all others have heard it.
	for i, want := range []string{"\x00first\xff", "second"} {
		if err := ends[i].Broadcast([]byte(want)); err != nil {
			t.Fatalf("Broadcast: %v", err)
		}
		for j := range names {
			for got := ""; i != j && got != want; {
				select {
				case got = <-heard[j]:
				case <-ctx.Done():
					t.Fatalf("member %s never heard %q", names[j], want)
				default:
					if err := ends[i].Broadcast([]byte(want)); err != nil {
						t.Fatalf("Broadcast: %v", err)
					}
					select {
					case got = <-heard[j]:
					case <-ctx.Done():
					}
				}
			}
		}
	}

	for _, from := range ends {
		for _, name := range names {
			reply, err := from.Ask(ctx, name, []byte("it"))
			if err != nil || string(reply) != name+" got it" {
				t.Fatalf("Ask(%s): %q, %v", name, reply, err)
			}
		}
	}
	large := bytes.Repeat([]byte("x"), ends[0].MaxMessage()-len("b got "))
	if reply, err := ends[0].Ask(ctx, "b", large); err != nil || len(reply) != ends[0].MaxMessage() {
		t.Errorf("Ask with the largest reply: %d bytes, %v", len(reply), err)
	}

	for _, stop := range stops {
		stop()
	}
	short, end := context.WithCancel(ctx)
	end()
	if _, err := ends[0].Ask(short, "b", nil); err == nil {
		t.Error("Ask succeeded although its context had ended and the member had stopped")
	}
}
