package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// showFlaky prints the list of the tests that were flaky. Whoever mends one takes it out.
func showFlaky(out io.Writer, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			fmt.Fprintf(out, "*** WAS FLAKY, mend it before other work: %s ***\n", strings.TrimSpace(line))
		}
	}
}

// noteFlaky adds tests to the list that are not in it.
func noteFlaky(file string, flaky []failure, now time.Time) error {
	if len(flaky) == 0 {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	commit := "-"
	if out, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	for _, f := range flaky {
		if !strings.Contains(string(text), f.String()+": ") {
			text = fmt.Appendf(text, "%s %s %s: %s\n", now.Format(time.DateOnly), commit, f.String(), firstMessage(f.text))
		}
	}
	return os.WriteFile(file, text, 0o666)
}

// firstMessage is the first line that a test printed by its t.Error and the like.
func firstMessage(text string) string {
	for line := range strings.Lines(text) {
		if m := message.FindStringSubmatch(line); m != nil && !seed.MatchString(line) {
			return strings.TrimSpace(m[1])
		}
	}
	return "no text"
}
