package broker

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/disk"
)

var flagMount = flag.Bool("pq.mount", false, "mount a file system with FUSE")

// Whenever the power fails while a group is set aside, its term and vote are where the server reads them, and as long as
// anything else of the group is there, so is the damaged snapshot, with which the server does not begin to replicate. No file
// is lost.
func TestPowerCutWhileSettingAside(t *testing.T) {
	t.Parallel()
	if !*flagMount {
		t.Skip("no -pq.mount: it needs /dev/fuse, and root or fusermount3")
	}
	d := disk.Mount(t, func() time.Duration { return 0 })
	s, o := damagedNode(t, d.Dir)
	for _, dir := range directories(t, d.Dir) {
		if err := syncDirectory(dir); err != nil {
			t.Fatal(err)
		}
	}
	before := len(d.Events())
	if err := setAside(s, o, MetaGroup, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	group, err := filepath.Rel(d.Dir, filepath.Join(groupsOf(o), MetaGroup))
	if err != nil {
		t.Fatal(err)
	}
	const seed = 1
	random, cuts := rand.New(rand.NewPCG(seed, seed)), 0
	for _, order := range []disk.Order{disk.Strict, disk.Journaled} {
		events := d.Events()
		replay := disk.NewReplay(events, order)
		for n := range events {
			e, _ := replay.Next()
			if n+1 < before {
				continue
			}
			trees := []disk.Tree{replay.Safe()}
			for range 20 {
				trees = append(trees, replay.Part(random))
			}
			for _, tree := range trees {
				cuts++
				found, aside := filesBelow(tree, group), filesBelow(tree, "damaged-1-"+MetaGroup)
				when := fmt.Sprintf("%d %s %s", n, e.Kind, e.Path)
				judgeGroup(t, when, found)
				if n == len(events)-1 && len(found) != len(keptOfGroup) {
					t.Errorf("%v is left at the end, expected %v", found, keptOfGroup)
				}
				if maps.Copy(aside, found); !maps.Equal(aside, filesOfGroup) {
					t.Errorf("%s: there is %v, expected %v", when, aside, filesOfGroup)
				}
			}
		}
	}
	t.Logf("%d power cuts", cuts)
}

// filesBelow are the files in a directory of a tree and below it.
func filesBelow(tree disk.Tree, dir string) map[string]string {
	found := make(map[string]string)
	for name, content := range tree {
		if own, is := strings.CutPrefix(name, dir+"/"); is && content != nil {
			found[own] = string(content)
		}
	}
	return found
}

// directories are a directory and all below it.
func directories(t *testing.T, top string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
