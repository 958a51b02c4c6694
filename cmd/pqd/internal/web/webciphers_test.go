package web

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"
)

// A client of TLS 1.2 gets a suite that encrypts and authenticates at once, or none.
func TestWebCiphers(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.TLS = new(webCertificate).config()
	server.TLS.GetCertificate = nil // the server has one
	server.StartTLS()
	defer server.Close()
	for suite, taken := range map[uint16]bool{
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:       true,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: true,
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA:          false,
		tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA:          false,
	} {
		c, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
		if (err == nil) != taken {
			t.Errorf("%s: %v", tls.CipherSuiteName(suite), err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}
