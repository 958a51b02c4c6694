package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A software bill of materials in CycloneDX's format, from what the Go toolchain
// has written into the program itself. Neither a time nor a serial number is in
// it, so that it can be made again.

const billSuffix = ".cdx.json"

type bill struct {
	Format      string `json:"bomFormat"`
	SpecVersion string `json:"specVersion"`
	Version     int    `json:"version"`
	Metadata    struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func writeBill(program, version, file string) error {
	sum, err := checksum(file)
	if err != nil {
		return err
	}
	b, err := newBill(file)
	if err != nil {
		return err
	}
	main := &b.Metadata.Component
	main.Name, main.Version = program, version
	main.PURL = fmt.Sprintf("pkg:golang/github.com/pqbridge/pqbridge@v%s#cmd/%s", version, program)
	main.Ref = main.PURL
	main.Hashes = []hash{{"SHA-256", sum}}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file+billSuffix, append(text, '\n'), 0o644)
}

// newBill lists the modules in a program, and Go's own library.
func newBill(file string) (*bill, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return billOf(info), nil
}

func billOf(info *buildinfo.BuildInfo) *bill {
	b := &bill{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	b.Metadata.Component = component{Type: "application", Licenses: make([]license, 1)}
	b.Metadata.Component.Licenses[0].License.ID = "Apache-2.0"
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "-tags":
			b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:build:" + setting.Key, setting.Value})
		}
	}
	// Package URLs of modules have versions with v, that of Go's library without.
	b.Components = append(b.Components, module("std", strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go"), ""))
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.Components = append(b.Components, module(dep.Path, dep.Version, dep.Sum))
	}
	return b
}

func module(path, version, sum string) component {
	c := component{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}
	c.Ref = c.PURL
	if sum != "" { // a hash of the module's files, which go.sum and the checksum database have too
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}
