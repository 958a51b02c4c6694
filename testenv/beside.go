package testenv

import (
	"flag"
	"testing"
)

// beside is how many tests of a package run at the same time. Most of their time they wait for servers, disks and clocks.
const beside = "8"

// RunBeside runs the tests of a package that wait more than they compute: as many at once as the gate runs, also on a machine with
// fewer processors, unless -parallel says how many.
func RunBeside(m *testing.M) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", beside); err != nil {
			panic(err) // there is no such flag any more
		}
	}
	return m.Run()
}
