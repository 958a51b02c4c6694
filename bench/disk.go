package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// What is asked of the disk itself: what a store that syncs cannot go below.
const (
	probeFsync     = "append and fsync"
	probeFdatasync = "fdatasync in a file of full size"
	probeName      = "disk"
	probes         = 200
	probeBytes     = 256
)

// probeDisk measures the disk that the systems have their data on.
func (r *runner) probeDisk(round int) error {
	for _, verb := range []string{probeFsync, probeFdatasync} {
		m, err := probe(filepath.Join(r.site.dir, "probe"), verb)
		if err != nil {
			return fmt.Errorf("probe the disk: %w", err)
		}
		r.results.add(probeName, 1, round, backlogUsual, []measure{m})
	}
	return nil
}

func probe(path, verb string) (m measure, err error) {
	file, err := os.Create(path)
	if err != nil {
		return m, err
	}
	defer os.Remove(path)
	defer file.Close()
	block := make([]byte, probeBytes)
	if verb == probeFdatasync {
		for range probes {
			if _, err := file.Write(block); err != nil {
				return m, err
			}
		}
		if err := file.Sync(); err != nil {
			return m, err
		}
	}
	var times []time.Duration
	start := time.Now()
	for i := range probes {
		before := time.Now()
		if _, err := file.WriteAt(block, int64(i*probeBytes)); err != nil {
			return m, err
		}
		if verb == probeFdatasync {
			err = syscall.Fdatasync(int(file.Fd()))
		} else {
			err = file.Sync()
		}
		if err != nil {
			return m, err
		}
		times = append(times, time.Since(before))
	}
	slices.Sort(times)
	return measure{Verb: verb, N: probes, Seconds: time.Since(start).Seconds(), P50: times[probes/2], P99: times[probes*99/100]}, nil
}

// inMemory says that a directory is on no disk, where a sync costs nothing and
// proves nothing.
func inMemory(dir string) (bool, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return false, err
	}
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	return int64(stat.Type) == tmpfs || int64(stat.Type) == ramfs, nil
}
