package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// installed are folders that hold what others wrote, or what was built.
var installed = []string{"node_modules", ".venv", "target", "bin", "__pycache__"}

// prepare builds the programs under test once for all packages, in the way of the tests, and returns the variable that
// names them. Its value has a checksum: so go test does not take a result from its cache that is one of other programs.
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
	sum, err := checksum(append([]string{dir}, s.beside...))
	if err != nil {
		return nil, err
	}
	return []string{"PQ_TEST_PROGRAMS=" + dir + string(os.PathListSeparator) + sum}, nil
}

// build has the programs in a folder. One that is as it was keeps its time, by which go test knows it, too.
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
		was, _ := checksum([]string{to}) // there may be none
		is, err := checksum([]string{from})
		if err == nil && is != was {
			err = os.Rename(from, to)
		}
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(made)
}

// checksum is that of the files below folders.
func checksum(dirs []string) (string, error) {
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != dir && slices.Contains(installed, entry.Name()):
				return fs.SkipDir
			case !entry.Type().IsRegular():
				return nil
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			return add(h, name, path)
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func add(h hash.Hash, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		fmt.Fprintf(h, "%s %d\n", name, info.Size())
		_, err = io.Copy(h, f)
	}
	return err
}
