package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/gateway"
)

// httpStopLimit bounds the wait for requests under way when the server stops.
const httpStopLimit = time.Second

// routes are the pages that pqd serves. Health checks work under any host name.
func routes(h *health.Health, metrics http.Handler, names settings.HostNames) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(h.Live, h.Page))
	mux.HandleFunc("GET /readyz", answer(h.Ready, h.ReadyPage))
	mux.Handle("GET /metrics", names.Guard(metrics))
	return mux
}

// answer turns a state into 200 or 503, with the reason in words.
func answer(state func() error, fields func() map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		code, page := http.StatusOK, fields()
		page["status"] = "ok"
		if err := state(); err != nil {
			code, page["status"], page["error"] = http.StatusServiceUnavailable, "unavailable", err.Error()
		}
		WriteJSON(w, code, page)
	}
}

// WriteJSON answers with a code and a body.
func WriteJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(body) // the client went away
}

// Server serves HTTP until it is stopped.
type Server struct {
	server    *http.Server
	listener  net.Listener
	encrypted bool
	failed    chan error
}

// startHTTP serves HTTP, or HTTPS if there is a certificate.
func startHTTP(where settings.Address, cert *webCertificate, handler http.Handler, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", where.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("PQ_HTTP=%s: another program, perhaps another pqd, listens there: choose another address with PQ_HTTP: %w", where, err)
	}
	if err != nil {
		return nil, fmt.Errorf("PQ_HTTP=%s: %w", where, err)
	}
	listener = gateway.Limit(listener) // of connections, before anything is decrypted
	if cert != nil {
		listener = tls.NewListener(listener, cert.config())
	}
	w := &Server{
		listener:  listener,
		encrypted: cert != nil,
		failed:    make(chan error, 1),
		server: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       gateway.ReadLimit,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    1 << 16,
			ConnContext:       gateway.ConnContext,

			DisableGeneralOptionsHandler: true, // it would answer OPTIONS * for any host, and without a token
			ErrorLog:                     stdlog.New(httpProblems{log}, "", 0),
		},
	}
	go func() {
		if err := w.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			w.failed <- fmt.Errorf("serve HTTP: %w", err)
		}
	}()
	return w, nil
}

// Failed gets one error when the server ends without being stopped.
func (w *Server) Failed() <-chan error { return w.failed }

// URL is the address for clients.
func (w *Server) URL() string { return settings.Scheme(w.encrypted) + w.listener.Addr().String() }

// httpProblems logs the problems of the server of net/http as attributes. As messages they would never repeat,
// since they have addresses of clients, and the limit for repeated messages would not hold.
type httpProblems struct{ log *slog.Logger }

// Write implements io.Writer.
func (p httpProblems) Write(text []byte) (int, error) {
	problem := strings.TrimSpace(string(text))
	if strings.HasPrefix(problem, "http: TLS handshake error") {
		p.log.Debug("TLS handshake with a client of PQ_HTTP failed", "error", problem)
	} else {
		p.log.Warn("HTTP server error", "error", problem)
	}
	return len(text), nil
}

// stop lets requests under way end, for a moment.
func (w *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), httpStopLimit)
	defer cancel()
	if err := w.server.Shutdown(ctx); err != nil {
		return w.server.Close() // a slow reader must not delay the stop
	}
	return nil
}

// The rates of the profiles of blocking and of locks. They cost a percent of processor time
// or less.
const (
	blockRate   = 10 * time.Microsecond
	mutexSample = 10
)

// serveProfiles adds the pages that go tool pprof reads, except the page that shows the command line.
func serveProfiles(mux *http.ServeMux, guard func(http.HandlerFunc) http.Handler) {
	runtime.SetBlockProfileRate(int(blockRate))
	runtime.SetMutexProfileFraction(mutexSample)
	mux.Handle("GET /debug/pprof/", guard(pprof.Index))
	mux.Handle("GET /debug/pprof/profile", guard(pprof.Profile))
	mux.Handle("GET /debug/pprof/trace", guard(pprof.Trace))
}
