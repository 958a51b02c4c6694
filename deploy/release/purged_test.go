package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Once a package is removed systemd forgets its unit. An upgrade has its own reload, when the new
// unit is there.
func TestRemovedUnitIsForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argument         string
		reloads, unlinks bool
	}{
		{"remove", true, false},
		{"purge", true, true},
		{"0", true, false},
		{"upgrade", false, false},
		{"1", false, false},
	} {
		root := t.TempDir()
		link := filepath.Join(root, "etc/systemd/system/multi-user.target.wants/pqd.service")
		for _, dir := range []string{"bin", "run/systemd/system", filepath.Dir(link[len(root):])} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		called := filepath.Join(root, "called")
		for file, content := range map[string]string{link: "", filepath.Join(root, "bin/systemctl"): "#!/bin/sh\necho \"$*\" >>" + called + "\n"} {
			if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		script := strings.NewReplacer(" /run/systemd/", " "+root+"/run/systemd/", " /etc/systemd/", " "+root+"/etc/systemd/").Replace(string(purgedScript))
		cmd := exec.Command("sh", "-c", script, "postremove", c.argument)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.argument, err, out)
		}
		calls, _ := os.ReadFile(called) // it is not there without a call
		if (string(calls) == "daemon-reload\n") != c.reloads || !c.reloads && len(calls) > 0 {
			t.Errorf("%s: systemctl was called with %q", c.argument, calls)
		}
		if _, err := os.Stat(link); (err != nil) != c.unlinks {
			t.Errorf("%s: the link of the unit: %v", c.argument, err)
		}
	}
}
