package clients_test

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/testenv"
)

// What the client's page says of its installation, of TypeScript and of browsers is typed as it stands, in an empty
// directory beside the repository, with other ports. The client is still there when npm has installed something else.
func TestJavaScriptClientInstall(t *testing.T) {
	nightly.Only(t, "it installs packages, and runs a type checker and a bundler")
	t.Parallel()
	node := nodejs.Need(t)
	npm, err := tools.Find("npm")
	if err != nil {
		t.Skip("NOT TESTED: THE INSTALLATION OF THE JAVASCRIPT CLIENT: there is no npm")
	}
	registry := npmRegistry(t, node.Packages)
	for _, name := range []string{"typescript", "@types/node", "esbuild"} {
		if answer, err := http.Get(registry.URL + "/" + url.PathEscape(name)); err != nil || answer.StatusCode != http.StatusOK {
			t.Skipf("NOT TESTED: THE INSTALLATION OF THE JAVASCRIPT CLIENT: %s is not installed: run npm ci in e2e/testdata/js", name)
		}
	}
	beside := t.TempDir()
	if err := os.Symlink(absolute(t, "../.."), filepath.Join(beside, "pqbridge")); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(beside, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(jsClient, "README.md")
	sh, conf := testenv.Blocks(t, page, "sh"), testenv.Blocks(t, page, "conf")
	if len(sh) != 4 || len(conf) != 1 {
		t.Fatalf("%s has %d blocks of commands and %d configurations, expected four and one", page, len(sh), len(conf))
	}
	p, socket := browserDaemon(t, conf[0].Text)
	ports := strings.NewReplacer("nats://127.0.0.1:4222", p.URL, "ws://127.0.0.1:8080", socket)
	shell := func(commands string) *exec.Cmd {
		cmd := p.Command(t, "/bin/bash", "-ec", ports.Replace(commands))
		cmd.Dir = project
		cmd.Env = append(cmd.Environ(), "PATH="+filepath.Dir(node.Path)+":"+filepath.Dir(npm)+":"+os.Getenv("PATH"), "NATS_URL="+p.URL,
			"npm_config_registry="+registry.URL, "npm_config_cache="+filepath.Join(beside, "cache"), "npm_config_ignore_scripts=true",
			"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		return cmd
	}
	do := func(commands string) string {
		t.Helper()
		out, err := shell(commands).CombinedOutput()
		if err != nil {
			t.Fatalf("%s%v\n%s", commands, err, out)
		}
		return string(out)
	}
	do(sh[0].Text)
	do("npm install @nats-io/jetstream") // anything else
	do(sh[3].Text)
	for i, name := range []string{"the worker in TypeScript", "its bundle"} {
		browser := shell("exec node --experimental-websocket --no-warnings public/page.js") // without the flag from Node 22 on
		if id, _ := interrupted(t, browser); !regexp.MustCompile(`^\S{10,}$`).MatchString(id) {
			t.Errorf("the page for browsers printed %q, expected the id of an item", id)
		}
		worker := shell(strings.Replace(sh[1+i].Text, "node dist", "exec node dist", 1)) // which the interrupt reaches
		if done, err := interrupted(t, worker, "cat.png"); done != "cat.png" || err != nil {
			t.Errorf("%s printed %q, and ended with %v", name, done, err)
		}
	}
	p.Stop(t)
}

// interrupted starts a program, interrupts it when it has printed a line, the one if there is one to wait for, and returns that
// line and how the program ended.
func interrupted(t *testing.T, cmd *exec.Cmd, awaited ...string) (line string, err error) {
	t.Helper()
	cmd.Stderr = t.Output()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if line == "" && (len(awaited) == 0 || slices.Contains(awaited, lines.Text())) {
			line = lines.Text()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	return line, cmd.Wait()
}

// browserDaemon is a pqd with a NATS server as configured, on other ports, and the address of its WebSocket listener.
func browserDaemon(t *testing.T, config string) (p *testenv.Process, socket string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, file, regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(config, "127.0.0.1:-1"))
	p = testenv.Daemon(t, "PQ_NATS_CONFIG="+file, "PQ_LISTEN=", "PQ_LOG_LEVEL=debug")
	p.AwaitLog(t, "Listening for websocket clients on ")
	server := regexp.MustCompile(`websocket clients on (ws://127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Log())
	if server == nil {
		t.Fatal("pqd does not say where it listens for websocket clients")
	}
	return p, server[1]
}

// npmRegistry is a registry of the packages in a directory, in one version each.
func npmRegistry(t *testing.T, packages string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) {
		var one map[string]any
		file, err := os.ReadFile(filepath.Join(packages, r.PathValue("name"), "package.json"))
		if err == nil {
			err = json.Unmarshal(file, &one)
		}
		if err != nil {
			http.NotFound(w, r)
			return
		}
		version := fmt.Sprint(one["version"])
		one["dist"] = map[string]string{"tarball": server.URL + "/packed/" + url.PathEscape(r.PathValue("name"))}
		found := map[string]any{"name": one["name"], "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: one}}
		if err := json.NewEncoder(w).Encode(found); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /packed/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := packInto(w, filepath.Join(packages, r.PathValue("name"))); err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
	})
	return server
}

// packInto packs a package as npm does.
func packInto(w io.Writer, dir string) error {
	packer, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	files := tar.NewWriter(packer)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := files.WriteHeader(&tar.Header{Name: "package/" + filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = files.Write(content)
		return err
	})
	return errors.Join(err, files.Close(), packer.Close())
}
