// Package console has the pages of pqd's console, as files for browsers. They use the HTTP interface alone, and no
// other site.
//
// The pages come with a policy under which browsers run no other scripts, and turn no text into markup: the content
// of a queue cannot become part of the page.
package console

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed page
var files embed.FS

// policy allows no inline script or style, no other site, and no page around this one.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page at / and its files below /console/.
func Handler() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the directory is embedded
	}
	served := http.FileServerFS(page)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", served)
	mux.Handle("GET /console/{file}", http.StripPrefix("/console", served))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-cache", // a new pqd has a new page
		} {
			w.Header().Set(name, value)
		}
		mux.ServeHTTP(w, r)
	})
}
