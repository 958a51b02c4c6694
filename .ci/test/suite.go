package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// suite is a run that a line at its end is about.
type suite struct {
	name  string
	most  time.Duration // for all of it; 0: no limit
	whole bool          // a package that was not tested is a failure
}

// show prints the line, and returns how many packages were not tested to their end.
func (s suite) show(out io.Writer, groups [][]string, sum *summary, flaky int) (left int, err error) {
	packages, err := packagesOf(groups)
	if err != nil {
		return 0, err
	}
	failed := ""
	if len(sum.red) > 0 {
		failed = fmt.Sprintf(", %d FAILED", len(sum.red))
	}
	var missing []string
	for _, name := range packages {
		if !slices.Contains(sum.done, name) {
			missing = append(missing, strings.TrimPrefix(name, module))
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "%s: STOPPED AFTER %s: %s NOT TESTED%s\n", s.name, inWords(s.most), listed(missing), failed)
		return len(missing), nil
	}
	fmt.Fprintf(out, "%s: %d tests of %d packages%s\n", s.name, sum.passed+flaky+len(sum.red), len(packages), failed)
	return 0, nil
}

// packagesOf are the packages that groups test, in their order.
func packagesOf(groups [][]string) (all []string, err error) {
	for _, args := range groups {
		for _, arg := range args {
			if !isPackage(arg) {
				continue
			}
			found, err := folders([]string{arg})
			if err != nil {
				return nil, err
			}
			for _, name := range slices.Sorted(maps.Keys(found)) {
				if !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
		}
	}
	return all, nil
}

// inWords is a time without the seconds that it does not have.
func inWords(d time.Duration) string {
	if d > 0 && d%time.Minute == 0 {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

// listed are words with commas, and an "and" before the last one.
func listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
