package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The disk is as slow as a file says, at the start and after each signal. The log says when it is, and how many syncs were
// slow since the start.
func init() {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGUSR2)
	slowDown()
	go func() {
		for range changes {
			slowDown()
		}
	}()
}

func slowDown() {
	text, err := os.ReadFile(os.Getenv("SLOWDISK_FILE") + os.Getenv("PQ_NODE"))
	if errors.Is(err, fs.ErrNotExist) {
		return // nobody has slowed it down yet
	}
	if err != nil {
		panic(err)
	}
	var least, most, number int64
	if _, err := fmt.Sscan(string(text), &least, &most, &number); err != nil {
		panic(err)
	}
	syscall.SlowLeast.Store(least)
	syscall.SlowMost.Store(most)
	fmt.Fprintf(os.Stderr, "{\"msg\":\"syncs take %s to %s longer\",\"slow\":%d,\"disk\":\"%d\"}\n",
		time.Duration(least), time.Duration(most), syscall.SlowSyncs.Load(), number)
}
