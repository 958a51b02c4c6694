package gateway

import (
	_ "embed"
	"net/http"
)

// openAPI describes all routes.
//
//go:embed openapi.yaml
var openAPI []byte

func serveOpenAPI(_ *Gateway, w http.ResponseWriter, _ *http.Request, _ *input) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the client went away
}
