package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// credentials makes the content of a file that a NATS server without users accepts.
func credentials(t *testing.T) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("-----BEGIN NATS USER JWT-----\nanything\n------END NATS USER JWT------\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", seed)
}

// A context may refer to the nsc command for credentials and server, by a field or by a
// URL.
func TestContextAsksNSC(t *testing.T) {
	t.Parallel()
	b := testenv.Bridge(t, bridge.Options{})
	dir := homeWith(t, "", map[string]string{
		"field":   `{"nsc": "nsc://operator/account/user"}`,
		"creds":   `{"creds": "nsc://operator/account/user"}`,
		"unknown": `{"nsc": "nsc://operator/account/other"}`,
	})
	program := fmt.Sprintf("#!/bin/sh\ntest \"$*\" = 'generate profile nsc://operator/account/user' || exit 1\n"+
		"echo '{\"user_creds\": \"%s/user.creds\", \"operator\": {\"service\": [\"%s\"]}}'\n", dir, b.NATS.URL())
	for name, text := range map[string]string{"nsc": program, "user.creds": credentials(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, expected := range map[string]string{
		"field": "no queues", "creds": "no queues", "unknown": "nsc generate profile nsc://operator/account/other: exit status 1",
	} {
		cmd := exec.CommandContext(t.Context(), self, "ls", "--context", name)
		cmd.Env = []string{asPQ + "=1", "HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH"), "NATS_TIMEOUT=" + testenv.Patience().String()}
		text, err := cmd.CombinedOutput()
		if !errors.As(err, new(*exec.ExitError)) || !strings.Contains(string(text), expected) {
			t.Errorf("context %s: %v: %s, expected %s", name, err, text, expected)
		}
	}
}

// socks starts a SOCKS5 proxy and returns its address and how many connections it
// has passed on.
func socks(t *testing.T) (address string, passed *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	passed = new(atomic.Int64)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				if server, err := openProxied(client); err == nil {
					passed.Add(1)
					go func() {
						defer server.Close()
						_, _ = io.Copy(server, client) // until either end closes
					}()
					_, _ = io.Copy(client, server)
				}
			}()
		}
	}()
	return listener.Addr().String(), passed
}

// openProxied reads a SOCKS5 request for an IPv4 address and connects to it.
func openProxied(client net.Conn) (net.Conn, error) {
	greeting, request := make([]byte, 3), make([]byte, 10)
	if _, err := io.ReadFull(client, greeting); err != nil || !bytes.Equal(greeting, []byte{5, 1, 0}) {
		return nil, fmt.Errorf("found the greeting %x: %w", greeting, err)
	}
	if _, err := client.Write([]byte{5, 0}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(client, request); err != nil || !bytes.Equal(request[:4], []byte{5, 1, 0, 1}) {
		return nil, fmt.Errorf("found the request %x: %w", request, err)
	}
	server, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: request[4:8], Port: int(request[8])<<8 | int(request[9])})
	if err != nil {
		return nil, err
	}
	_, err = client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return server, err
}

func TestContextNamesProxy(t *testing.T) {
	t.Parallel()
	b := testenv.Bridge(t, bridge.Options{})
	address, passed := socks(t)
	dir := homeWith(t, "proxied", map[string]string{
		"proxied": `{"url": "` + b.NATS.URL() + `", "socks_proxy": "socks5://` + address + `"}`,
	})
	code, text := pq(t, []string{"HOME=" + dir, "NATS_TIMEOUT=" + testenv.Patience().String()}, "ls")
	if code != session.ExitNothing || passed.Load() == 0 {
		t.Errorf("exit code %d after %d connections through the proxy: %s", code, passed.Load(), text)
	}
}
