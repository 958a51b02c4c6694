package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// traceFlushLimit bounds the wait for the collector when pqd stops. Losing spans is better
// than a slow stop.
const traceFlushLimit = time.Second

// startTracing returns a tracer if the standard variables name a collector, and nil
// otherwise. The OpenTelemetry packages read the other OTEL_* variables themselves.
func startTracing(ctx context.Context, log *slog.Logger) (tracer trace.Tracer, stop func(), err error) {
	none := func() {}
	if !tracingWanted() {
		return nil, none, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			return nil, none, settings.Usagef("%s=%q: expected http/protobuf, the only one that pqd speaks; collectors take it on port 4318", name, protocol)
		}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("exporting traces failed", "error", err) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, none, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	// Later attributes win, so a name from the environment replaces pqd's.
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "pqd"), attribute.String("service.version", version())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, none, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlushLimit)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("exporting the last traces failed", "error", err) // a collector that is away is no failure of pqd
		}
	}
	return provider.Tracer("github.com/pqbridge/pqbridge/bridge", trace.WithInstrumentationVersion(version())), stop, nil
}

func tracingWanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}
