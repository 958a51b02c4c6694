package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// The wall clock is as far from the machine's as a file says, at the start and after each signal. The log says when it
// has moved.
func init() {
	moves := make(chan os.Signal, 1)
	signal.Notify(moves, syscall.SIGUSR2)
	moveClock()
	go func() {
		for range moves {
			moveClock()
		}
	}()
}

func moveClock() {
	text, err := os.ReadFile(os.Getenv("CLOCK_FILE") + os.Getenv("PQ_NODE"))
	if errors.Is(err, fs.ErrNotExist) {
		return // nobody has set it yet
	}
	if err != nil {
		panic(err)
	}
	by, number, _ := strings.Cut(string(text), " ")
	d, err := time.ParseDuration(by)
	if err != nil {
		panic(err)
	}
	time.Moved.Store(int64(d))
	fmt.Fprintf(os.Stderr, "{\"msg\":\"the wall clock is %s ahead\",\"clock\":\"%s\"}\n", d, number)
}
