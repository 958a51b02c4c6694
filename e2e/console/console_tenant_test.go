package console_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// With the token of a tenant the page shows its queues alone, and nothing about pqd.
func TestConsolePageOfTenant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := map[string]string{"operator": "the token of the operator", "ACME": "the token of ACME's users"}
	for name, token := range tokens {
		pqd.Write(t, filepath.Join(dir, name), token+"\n")
	}
	text, err := json.Marshal(map[string]any{"tenants": map[string]any{"ACME": map[string]string{"token": filepath.Join(dir, "ACME")}}})
	if err != nil {
		t.Fatal(err)
	}
	pqd.Write(t, filepath.Join(dir, "tenants.json"), string(text))
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin", "PQ_CONSOLE_TOKEN="+filepath.Join(dir, "operator"), "PQ_TENANTS="+filepath.Join(dir, "tenants.json"))
	pqd.Push(t, nc, "ACME.mail", 1, "a letter")
	pqd.Push(t, nc, "SALES.offers", 1, "an offer")

	b.Open(p.HTTP + "/")
	b.Take("token")
	b.Enter("token", tokens["ACME"])
	b.Click("Open")
	b.Until("its queue is shown, live", `document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody a").innerText === "mail" && document.getElementById("state").innerText === "live"`)
	b.Until("the page says whose it is, and has no health", `document.querySelector(".brand").innerText.includes("ACME") && document.querySelector("nav [data-view=health]").hidden`)
	if shown := b.Eval(`document.body.innerText`); strings.Contains(shown, "offers") || strings.Contains(shown, "SALES") {
		t.Errorf("the page shows %s", shown)
	}
	b.Open(p.HTTP + "/#/q/mail")
	b.Until("the item is there", `document.querySelector("h1").innerText === "mail" && document.querySelectorAll("tbody tr").length === 1`)
	b.Open(p.HTTP + "/#/q/SALES.offers")
	b.Sees("queue name")

	// The operator sees both, after another look at the page.
	b.Eval(`sessionStorage.clear()`)
	b.Open("about:blank")
	b.Open(p.HTTP + "/")
	b.Take("token")
	b.Enter("token", tokens["operator"])
	b.Click("Open")
	b.Sees("SALES.offers")
	b.Sees("ACME.mail")
	b.Until("the page has health", `!document.querySelector("nav [data-view=health]").hidden`)
	b.Defects()
	p.Stop(t)
}
