package web

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// webCertificate is the certificate of PQ_HTTP. When its files change, the next connections get the new
// certificate. Files that do not belong together, such as during a replacement, change nothing.
type webCertificate struct {
	cert, key settings.ExistingFile
	log       *slog.Logger
	pair      atomic.Pointer[tls.Certificate] // in use

	mu     sync.Mutex // held while the files are read
	texts  [2][]byte  // of the files, when they were read last
	looked time.Time
}

// certificateEvery is the time between looks at the files.
const certificateEvery = time.Second

// newWebCertificate returns nil if PQ_HTTP has none.
func newWebCertificate(s settings.Settings, log *slog.Logger) (*webCertificate, error) {
	if s.WebCert == "" {
		return nil, nil
	}
	c := &webCertificate{cert: s.WebCert, key: s.WebKey, log: log}
	_, err := c.read()
	return c, err
}

// read takes the pair in the files if they have changed.
func (c *webCertificate) read() (changed bool, err error) {
	cert, certErr := os.ReadFile(string(c.cert))
	key, keyErr := os.ReadFile(string(c.key))
	if err := errors.Join(certErr, keyErr); err != nil {
		return false, settings.BadPair("PQ_HTTP_CERT", c.cert, "PQ_HTTP_KEY", c.key, err)
	}
	if c.pair.Load() != nil && bytes.Equal(cert, c.texts[0]) && bytes.Equal(key, c.texts[1]) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, settings.BadPair("PQ_HTTP_CERT", c.cert, "PQ_HTTP_KEY", c.key, err)
	}
	c.texts = [2][]byte{cert, key}
	c.pair.Store(&pair)
	return true, nil
}

// get is the certificate for a connection. One connection at a time looks at the files, so
// that a file system that hangs does not keep the others waiting.
func (c *webCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		if now := time.Now(); now.Sub(c.looked) >= certificateEvery {
			c.looked = now
			switch changed, err := c.read(); {
			case err != nil:
				c.log.Error("reading the certificate of PQ_HTTP again failed: the old one still holds", "error", err)
			case changed:
				c.log.Info("took the new certificate of PQ_HTTP", "file", c.cert, "ends", c.pair.Load().Leaf.NotAfter)
			}
		}
	}
	return c.pair.Load(), nil
}

// webCiphers are the suites of TLS 1.2 that encrypt and authenticate at once. All suites of TLS 1.3 do.
var webCiphers = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// config is the TLS configuration of PQ_HTTP. Each request has a connection, as without TLS: the limits of an
// address count connections, and HTTP/2 would put many requests into one.
func (c *webCertificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: webCiphers, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}
