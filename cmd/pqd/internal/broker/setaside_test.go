package broker

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// filesOfGroup is what the server keeps of a group.
var filesOfGroup = map[string]string{
	"tav.idx": "term and vote", "peers.idx": "members", "commit.idx": "commit", "meta.inf": "stream", "meta.sum": "sum",
	"msgs/1.blk": "entries", "msgs/index.db": "index", "snapshots/snap.1.5": "damaged",
}

// damagedNode is a node in a directory whose group of streams is damaged.
func damagedNode(t *testing.T, dir string) (settings.Settings, *server.Options) {
	t.Helper()
	o := &server.Options{StoreDir: filepath.Join(dir, "nats"), SystemAccount: server.DEFAULT_SYSTEM_ACCOUNT}
	for name, content := range filesOfGroup {
		path := filepath.Join(groupsOf(o), MetaGroup, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteString(content); err == nil {
			err = f.Sync()
		}
		if closed := f.Close(); err != nil || closed != nil {
			t.Fatal(err, closed)
		}
	}
	var s settings.Settings
	setTo(&s.Data, dir)
	return s, o
}

// setTo sets a text, whatever its type is called.
func setTo[T ~string](text *T, to string) { *text = T(to) }

// filesIn are the files in a directory and below it.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// judgeGroup says what is wrong with the files of a group when setting it aside was cut off.
func judgeGroup(t *testing.T, when string, found map[string]string) {
	t.Helper()
	for _, name := range keptOfGroup {
		if found[name] != filesOfGroup[name] {
			t.Errorf("%s: %s has %q, expected %q: the node may vote twice in a term", when, name, found[name], filesOfGroup[name])
		}
	}
	if found["snapshots/snap.1.5"] == "" && len(found) > len(keptOfGroup) {
		t.Errorf("%s: %v: the server begins with a part of the group", when, found)
	}
}

// Of a group that is set aside, the term, the vote and the members stay as they are: they are never away, not even for a
// moment. All else is set aside.
func TestTermAndVoteStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, o := damagedNode(t, dir)
	group := filepath.Join(groupsOf(o), MetaGroup)
	stat := func(name string) os.FileInfo {
		info, err := os.Stat(filepath.Join(group, name))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := make(map[string]os.FileInfo)
	for _, name := range keptOfGroup {
		before[name] = stat(name)
	}
	if err := setAside(s, o, MetaGroup, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	aside := maps.Clone(filesOfGroup)
	for _, name := range keptOfGroup {
		if !os.SameFile(before[name], stat(name)) {
			t.Errorf("%s is another file now", name)
		}
		delete(aside, name)
	}
	left := filesIn(t, group)
	if judgeGroup(t, "set aside", left); len(left) != len(keptOfGroup) {
		t.Errorf("%v is left, expected %v", left, keptOfGroup)
	}
	if found := filesIn(t, filepath.Join(dir, "damaged-1-"+MetaGroup)); !maps.Equal(found, aside) {
		t.Errorf("set aside %v, expected %v", found, aside)
	}
}

// After a crash behind any step the next start sets aside what the server still refuses, and nothing is lost.
func TestSettingAsideGoesOn(t *testing.T) {
	t.Parallel()
	for n := range len(stepsAside("", "")) + 1 {
		dir := t.TempDir()
		s, o := damagedNode(t, dir)
		group := filepath.Join(groupsOf(o), MetaGroup)
		for _, step := range stepsAside(group, filepath.Join(dir, "damaged-1-"+MetaGroup))[:n] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		left := filesIn(t, group)
		judgeGroup(t, fmt.Sprintf("after %d steps", n), left)
		if left["snapshots/snap.1.5"] != "" {
			if err := setAside(s, o, MetaGroup, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("after %d steps: %v", n, err)
			}
		}
		all := filesIn(t, group)
		if len(all) != len(keptOfGroup) {
			t.Errorf("after %d steps and a start %v is left, expected %v", n, all, keptOfGroup)
		}
		aside, err := filepath.Glob(filepath.Join(dir, "damaged-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range aside {
			maps.Copy(all, filesIn(t, to))
		}
		if !maps.Equal(all, filesOfGroup) {
			t.Errorf("after %d steps and a start there is %v, expected %v", n, all, filesOfGroup)
		}
	}
}

// A node's part of a group is spared only while another node leads it and each other one
// has all that is committed: with three nodes one, with five all three besides the leader.
func TestWhatOthersCanSpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster string // the first node is this one
		leader  string
		has     []Replica
		want    bool
	}{
		"both others have all":      {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", false}, {"c", true}}, true},
		"one lags":                  {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", true}, {"c", false}}, false},
		"one is not known":          {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", true}}, false},
		"no leader":                 {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "", []Replica{{"b", true}, {"c", true}}, false},
		"this one leads":            {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "a", []Replica{{"b", true}, {"c", true}}, false},
		"all of five":               {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []Replica{{"b", true}, {"c", true}, {"d", true}}, true},
		"a majority of five is not": {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []Replica{{"b", true}, {"c", true}}, false},
	} {
		s := settings.Settings{Node: "a"}
		if err := s.Cluster.Decode(c.cluster); err != nil {
			t.Fatal(err)
		}
		if got := Spared(&s, c.leader, c.has); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
