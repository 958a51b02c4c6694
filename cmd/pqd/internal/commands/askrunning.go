package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// askRunning sends a request to the pqd that has the store of these settings open, and
// decodes its answer. It returns the status.
func askRunning(ctx context.Context, s settings.Settings, path string, request, answer any) (status int, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
	}}}
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pqd"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := client.Do(ask)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return 0, errNotRunning
	case errors.Is(err, fs.ErrPermission):
		return 0, fmt.Errorf("%w: run this as the user that pqd runs as", err)
	case err != nil:
		return 0, fmt.Errorf("ask pqd: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return 0, fmt.Errorf("ask pqd: %w", err)
	}
	return response.StatusCode, nil
}

// errNotRunning: no process has the store open.
var errNotRunning = errors.New("no pqd has the store open")
