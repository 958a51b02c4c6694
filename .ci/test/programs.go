package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// prepare builds the programs under test once for all packages, in the way of the tests, and returns the variable that
// names them, and those of tools. Their values have checksums: so go test does not remember a result of other programs.
func prepare(ctx context.Context, args []string, s settings) ([]string, error) {
	flags, kind := []string{"build", "-buildvcs=false"}, "plain"
	for i, a := range args {
		switch {
		case a == "-race":
			flags, kind = append(flags, a), kind+"-race"
		case a == "-tags" && i+1 < len(args) && args[i+1] != "":
			flags, kind = append(flags, a, args[i+1]), kind+"-"+args[i+1]
		}
	}
	dir, err := filepath.Abs(filepath.Join(s.folder, strings.NewReplacer(" ", "-", ",", "-").Replace(kind)))
	if err != nil {
		return nil, err
	}
	if err := build(ctx, flags, dir, s); err != nil {
		return nil, fmt.Errorf("building the programs under test: %w", err)
	}
	sum, err := tools.Checksum(dir)
	if err != nil {
		return nil, err
	}
	variables, err := tools.Variables()
	return append(variables, "PQ_TEST_PROGRAMS="+dir+string(os.PathListSeparator)+sum), err
}

// build has the programs in a folder. Each has a time that follows from what it is: go test knows it by that, too.
func build(ctx context.Context, flags []string, dir string, s settings) error {
	made := dir + ".new"
	cmd := exec.CommandContext(ctx, "go", append(append(flags, "-o", made+string(filepath.Separator)), s.programs...)...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	programs, err := os.ReadDir(made)
	if err != nil {
		return err
	}
	for _, program := range programs {
		from, to := filepath.Join(made, program.Name()), filepath.Join(dir, program.Name())
		sum, err := tools.Checksum(from)
		at := tools.TimeOf([]byte(sum))
		if err := errors.Join(err, os.Chtimes(from, at, at), os.Rename(from, to)); err != nil {
			return err
		}
	}
	return os.RemoveAll(made)
}
