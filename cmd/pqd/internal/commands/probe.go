package commands

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// probeLimit is how long a pqd may take to say whether it is ready.
const probeLimit = 3 * time.Second

// Probe asks the pqd that runs with these settings on this machine whether it is ready.
func Probe(ctx context.Context, s settings.Settings) error {
	url, err := s.HTTP.Own(s.WebCert != "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		// The certificate has names for other machines. The probe sends nothing and trusts nobody: a process that
		// has this address on this machine has taken the place of pqd anyway.
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var page struct{ Error string }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || page.Error == "" {
		return fmt.Errorf("%s answers %s: expected pqd's /readyz", url, answer.Status)
	}
	return fmt.Errorf("not ready: %s", page.Error)
}
