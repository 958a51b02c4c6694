// Release builds what a release consists of: pqd and pq for each platform (pq alone for
// Windows), a list of what each was made of, packages and an image of those for Linux, the
// Helm chart, the schemas of the protocol, the site of the pages, the clients for JavaScript and Python, and the checksums of all that.
//
//	go run ./deploy/release -version 1.2.3 -date 1767225600 -platforms 'linux/amd64 darwin/arm64' -o dist
//
// The same source, version, date and Go give the same bytes on any machine, in any
// directory. The binaries have the embedded store alone: FoundationDB's client
// library needs cgo, and is in the image that the Dockerfile makes.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

var programs = []string{"pqd", "pq"}

// versions are what NATS services accept: semantic versions.
var versions = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// releasing is a release that is being made.
type releasing struct {
	version string
	dir     string
	date    time.Time // of all files in packages and images
}

func main() {
	version := flag.String("version", "", "semantic version of the release, such as 1.2.3")
	dir := flag.String("o", "dist", "directory for the release; it must not exist yet, or be empty")
	date := flag.Int64("date", 0, "seconds since 1970 that all files in packages and images bear: the time of the commit")
	platforms := flag.String("platforms", runtime.GOOS+"/"+runtime.GOARCH, "systems and architectures, such as \"linux/amd64 darwin/arm64\"")
	flag.Parse()
	r := &releasing{version: strings.TrimPrefix(*version, "v"), dir: *dir, date: time.Unix(*date, 0)}
	if err := r.release(strings.Fields(*platforms)); err != nil {
		log.Fatal("release: ", err)
	}
}

func (r *releasing) release(platforms []string) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version %q: expected a semantic version such as 1.2.3", r.version)
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if entries, err := os.ReadDir(r.dir); err != nil || len(entries) > 0 {
		return fmt.Errorf("%s has %d entries: expected an empty directory (%v)", r.dir, len(entries), err)
	}
	log.Println("documents, pages for man, completions")
	shared, err := sharedFiles(r)
	if err != nil {
		return err
	}
	var files []string
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "/")
		for _, program := range programs {
			if system == "windows" && program == "pqd" {
				continue // the embedded store locks and syncs its directory as Unix does
			}
			file := r.file(program, platform)
			log.Println(file)
			if err := build(program, r.version, platform, file); err != nil {
				return err
			}
			if err := writeBill(program, r.version, file); err != nil {
				return err
			}
			files = append(files, file, file+billSuffix)
		}
		if system != "linux" {
			continue
		}
		log.Println("packages and image for", platform)
		packages, err := writePackages(r, arch, shared)
		if err != nil {
			return err
		}
		image, err := writeImage(r, arch)
		if err != nil {
			return err
		}
		files = append(append(files, packages...), image)
	}
	log.Println("chart")
	chart, err := writeChart(r)
	if err != nil {
		return err
	}
	files = append(files, chart)
	log.Println("schemas")
	schemas, err := writeSchemas(r)
	if err != nil {
		return err
	}
	files = append(files, schemas...)
	log.Println("site")
	site, err := writeSite(r)
	if err != nil {
		return err
	}
	files = append(files, site)
	log.Println("clients")
	clients, err := writeClients(r)
	if err != nil {
		return err
	}
	return writeSums(filepath.Join(r.dir, "SHA256SUMS"), append(files, clients...))
}

// file is where a program for a platform is.
func (r *releasing) file(program, platform string) string {
	suffix := ""
	if strings.HasPrefix(platform, "windows/") {
		suffix = ".exe"
	}
	return filepath.Join(r.dir, fmt.Sprintf("%s_%s_%s%s", program, r.version, strings.ReplaceAll(platform, "/", "_"), suffix))
}

// build leaves out whatever differs from one machine to the next: paths, the state
// of the checkout, what the developer's environment says.
func build(program, version, platform, file string) error {
	system, arch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.release="+version, "-o", file, "./cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s: %w", program, platform, err)
	}
	return nil
}

// writeSums writes what sha256sum --check reads.
func writeSums(to string, files []string) error {
	var sums strings.Builder
	for _, file := range slices.Sorted(slices.Values(files)) {
		sum, err := checksum(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, filepath.Base(file))
	}
	return os.WriteFile(to, []byte(sums.String()), 0o644)
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
