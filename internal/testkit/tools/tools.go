// Package tools finds the programs of others that tests run: interpreters, browsers, servers.
//
// go test remembers the result of a package, and knows nothing of what such a program is, nor of the scripts and packages
// that it reads. So the gate has a variable with a checksum of these for each tool, and Find reads it: a result is not
// remembered for another tool.
package tools

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// tool is a program of others, or some that come together.
type tool struct {
	variable string
	programs []string
	folders  []string // of this repository, with what it reads
	packages []string // folders that .ci/run installs
}

var all = []tool{
	{"PQ_TEST_NODE", []string{"node", "npm"}, []string{"clients/js", "e2e/testdata", "examples"}, []string{"e2e/testdata/js/node_modules"}},
	{"PQ_TEST_PYTHON", []string{"python3"}, []string{"clients/python", "e2e/testdata", "examples"}, []string{"e2e/testdata/python/.venv"}},
	{"PQ_TEST_NATS", []string{"nats"}, nil, []string{"e2e/testdata/clients/bin"}},
	{"PQ_TEST_BROWSER", []string{"chromium", "chromium-headless-shell", "google-chrome"}, nil, nil},
	{"PQ_TEST_REDIS", []string{"redis-server"}, nil, nil},
}

// Find finds a program: in a folder, if it is there, else in the PATH.
func Find(name string, folder ...string) (path string, err error) {
	for _, t := range all {
		if slices.Contains(t.programs, name) {
			os.Getenv(t.variable) // go test notes that the result depends on it
		}
	}
	for _, f := range folder {
		if path, err := exec.LookPath(filepath.Join(f, name)); err == nil {
			return filepath.Abs(path)
		}
	}
	return exec.LookPath(name)
}

// Variables are those of all tools, for a go test in the root of the repository.
func Variables() ([]string, error) {
	var variables []string
	for _, t := range all {
		h := sha256.New()
		for _, name := range t.programs {
			if err := addProgram(h, name); err != nil {
				return nil, err
			}
		}
		for _, folder := range t.folders {
			if err := addFolder(h, folder, installed); err != nil {
				return nil, err
			}
		}
		for _, folder := range t.packages {
			if err := addFolder(h, folder, caches); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		variables = append(variables, t.variable+"="+short(h))
	}
	return variables, nil
}

// Checksum is that of the files of a folder, without what was installed or built there.
func Checksum(folder string) (string, error) {
	h := sha256.New()
	err := addFolder(h, folder, installed)
	return short(h), err
}

// first and span are when the times of TimeOf begin, and in how many seconds they lie.
const (
	first = 946_684_800 // the year 2000
	span  = 600_000_000
)

// TimeOf is a time of change for a file with this content. Another content has another time, but for one chance in 2^58.
// It lies in the past: go test remembers nothing of a file that was changed just now.
func TimeOf(content []byte) time.Time {
	sum := sha256.Sum256(content)
	return time.Unix(first+int64(binary.BigEndian.Uint64(sum[:8])%span), int64(binary.BigEndian.Uint64(sum[8:16])%1e9))
}

func short(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil))[:16] }

// addProgram adds which file a program is: another version has another size, or another time.
func addProgram(h hash.Hash, name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil // it is not there
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil {
		fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
	}
	return err
}

var (
	// installed are folders with files that others wrote, or that were built.
	installed = []string{"node_modules", ".venv", "target", "bin", "__pycache__"}
	// caches are folders that an interpreter writes.
	caches = []string{"__pycache__"}
)

// addFolder adds the names, modes and contents of all files of a folder, but for folders of some names.
func addFolder(h hash.Hash, folder string, without []string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && slices.Contains(without, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, info.Mode(), info.Size())
		_, err = io.Copy(h, file)
		return err
	})
}
