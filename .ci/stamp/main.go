// Command stamp gives the files and folders of this checkout times of change that follow from what is in them.
//
//	go run ./.ci/stamp
//
// go test remembers a result for as long as the files that the tests have opened have the same size and time of change.
// A new clone has new times, so nothing would be remembered there. With these times it is, if the clone is at the same
// path and a file is the same: another content has another time, also of the same size. All times lie in the past, since
// go test remembers nothing of a file that was changed just now.
//
// A folder that git does not track, such as node_modules, has the time of its name: tests that list what is beside it see
// it, too. What is in there is the concern of package tools.
package main

import (
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("stamp: ")
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err == nil {
		err = stamp(".", strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// stamp gives the tracked files below a folder, and the folders that they are in, their times.
func stamp(root string, tracked []string) error {
	folders := map[string]bool{".": true}
	times := make(map[string]time.Time)
	for _, name := range tracked {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			continue // os.Chtimes changes what it points to
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		times[name] = tools.TimeOf(fmt.Appendf(text, "\x00%s %o", name, info.Mode()))
		for dir := filepath.Dir(name); !folders[dir]; dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	// The deepest ones first: the time of a folder follows from those of what is in it.
	inOrder := slices.SortedFunc(maps.Keys(folders), func(a, b string) int { return strings.Compare(b, a) })
	for _, dir := range slices.DeleteFunc(inOrder, func(dir string) bool { return dir == "." }) {
		if err := stampFolder(root, dir, times); err != nil {
			return err
		}
	}
	return stampFolder(root, ".", times)
}

// stampFolder gives what is in a folder its times, and then the folder itself.
func stampFolder(root, dir string, times map[string]time.Time) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	var list []byte
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		at, tracked := times[name]
		switch {
		case entry.Type()&fs.ModeSymlink != 0, !tracked && !entry.IsDir():
			continue
		case !tracked:
			at = tools.TimeOf([]byte(name))
		}
		if err := os.Chtimes(filepath.Join(root, name), at, at); err != nil {
			return err
		}
		if tracked {
			list = fmt.Appendf(list, "%s %d\n", name, at.UnixNano())
		}
	}
	times[dir] = tools.TimeOf(list)
	return os.Chtimes(filepath.Join(root, dir), times[dir], times[dir])
}
