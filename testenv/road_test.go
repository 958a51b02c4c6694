package testenv

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// Packets take as long as the way, and a lost one for as long as TCP waits before it sends it again, each time twice as long.
func TestWays(t *testing.T) {
	t.Parallel()
	const seed, packets, way = 7, 10_000, 100 * time.Millisecond
	w := &Ways{random: rand.New(rand.NewPCG(seed, 0))}
	if took := w.takes(); took != 0 {
		t.Errorf("on a way of no length a packet takes %s", took)
	}
	w.Delay(way)
	w.Lose(0.02)
	times := make(map[time.Duration]int)
	for range packets {
		times[w.takes()]++
	}
	if lost := packets - times[way]; lost < packets/100 || lost > packets/33 {
		t.Errorf("%d of %d packets are lost, expected one of fifty", lost, packets)
	}
	delete(times, way)
	for took := range times {
		if again := (took-way)/resendAfter + 1; again&(again-1) != 0 {
			t.Errorf("a lost packet takes %s", took)
		}
	}
}

// A road delivers everything in its order, however long each part takes.
func TestRoadKeepsTheOrder(t *testing.T) {
	t.Parallel()
	far, server := net.Pipe()
	l := newRelay(far)
	l.ways = &Ways{random: rand.New(rand.NewPCG(7, 0))}
	l.ways.Lose(0.02)
	r := l.road(far)
	var sent bytes.Buffer
	got := make(chan []byte)
	go func() {
		all, err := io.ReadAll(server)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	for n := range 100 {
		part := bytes.Repeat([]byte{byte(n)}, n)
		sent.Write(part)
		if _, err := r.Write(part); err != nil {
			t.Fatal(err)
		}
		clear(part) // a reader uses its buffer again
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	l.cut(false)
	if all := <-got; !bytes.Equal(all, sent.Bytes()) {
		t.Errorf("%d bytes arrived, expected the %d that were sent", len(all), sent.Len())
	}
}
