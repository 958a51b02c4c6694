package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// goTest runs one go test, until ctx ends, and returns how much processor time it and all below it took.
func goTest(ctx context.Context, args, env []string, limit time.Duration, r *recorder) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = r.out
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	followed := make(chan seconds, 1)
	go func() { followed <- follow(cmd.Process.Pid, ended) }()
	go watch(cmd.Process.Pid, limit, r, ended)
	defer context.AfterFunc(ctx, func() {
		end(cmd.Process.Pid)
		out.Close() // what go test leaves may hold it
	})()
	reader := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else { // go itself says something
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err != nil {
			break
		}
	}
	close(ended)
	r.seconds = <-followed
	err = cmd.Wait()
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// flags of go test, among those that the Makefile gives, that take their value as an argument of its own.
var valued = []string{"-p", "-parallel", "-timeout", "-tags", "-run", "-skip", "-count", "-cpu", "-vet"}

func takesValue(arg string) bool { return slices.Contains(valued, arg) }

// isChoice reports whether a flag says which tests run, or how many beside each other.
func isChoice(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains([]string{"-run", "-skip", "-count", "-p"}, name)
}

func isPackage(arg string) bool { return strings.HasPrefix(arg, "./") || arg == "." }

// folders are the folders of packages, by their import paths.
func folders(packages []string) (map[string]string, error) {
	out, err := exec.Command("go", append([]string{"list", "-e", "-f", "{{.ImportPath}}\t{{.Dir}}"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			found[name] = dir
		}
	}
	return found, nil
}
