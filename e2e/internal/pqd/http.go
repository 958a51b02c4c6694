package pqd

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// Ask sends a request and returns its status and body. A header is a name and a value.
func Ask(t testing.TB, method, url, body string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	client := http.Client{Timeout: testenv.Patience()}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// Get reads a page.
func Get(t testing.TB, url string) (code int, body string) {
	t.Helper()
	return Ask(t, http.MethodGet, url, "")
}

// Metric is a number of the page of metrics.
func Metric(t testing.TB, page, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		text, is := strings.CutPrefix(line, name+" ")
		if !is {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return value
	}
	t.Fatalf("no %s at /metrics", name)
	return 0
}
